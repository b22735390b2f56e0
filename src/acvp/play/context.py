"""The predictors at hand: known by name, loaded when first asked for, shared by all who play.

Where a predictor can be played: its game if that is installed, and recorded episodes if there are any.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from threading import Lock

from acvp.data.store import EpisodeStore
from acvp.data.views import get_view
from acvp.envs import Game, make_game
from acvp.errors import UserError
from acvp.loaded import COPY_LAST, LoadedModel, baselines
from acvp.models import About, Predictor, require_fit
from acvp.models.fit import GameLike
from acvp.models.load import load, packaged
from acvp.play.worlds import RecordedWorld
from acvp.seeding import generator

DEFAULT = "freeway"
"""The predictor that plays where none is named."""

Loader = Callable[[], Predictor]


class Cast:
    """Predictors by name; the last one repeats the frame it saw, to judge the others by."""

    def __init__(self, loaders: Mapping[str, Loader], *, temperature: float = 0.0, seed: int = 0) -> None:
        """With a temperature, those that can draw what they predict do so, by the seed."""
        if not loaders:
            raise UserError("no predictor to play: name one with --run or --pretrained")
        self._loaders, self._temperature, self._seed = dict(loaders), temperature, seed
        self._loaded: dict[str, LoadedModel] = {}
        self._lock = Lock()
        self.first = next(iter(loaders))
        self.names = (*(name for name in loaders if name != COPY_LAST), COPY_LAST)

    def get(self, name: str) -> LoadedModel:
        """Return a predictor under its name; UserError says why it cannot be played."""
        if name not in self.names:
            raise UserError(f"no predictor is called {name[:80]!r}; there are {', '.join(self.names)}")
        with self._lock:
            if name not in self._loaded:
                self._loaded[name] = self._copy_last() if name == COPY_LAST else self._load(name)
            return self._loaded[name]

    def _load(self, name: str) -> LoadedModel:
        predictor = self._loaders[name]()
        if predictor.about is None:
            raise UserError(f"{name}: this predictor does not say of what game it is; train it with acvp train")
        predictor.sample(self._temperature, self._seed)
        return LoadedModel(name=name, predictor=predictor.eval(), view=get_view(predictor.about.view))

    def _copy_last(self) -> LoadedModel:
        like = self._loaded.get(self.first) or self._load(self.first)
        copy_last = next(each for each in baselines(like) if each.name == COPY_LAST)
        copy_last.predictor.about = like.predictor.about
        return copy_last


def gather(runs: Sequence[Path], pretrained: Sequence[str], *, temperature: float = 0.0, seed: int = 0) -> Cast:
    """Return the predictors of folders and names, the default one without either, and all that come with acvp."""
    names = pretrained if runs or pretrained else (DEFAULT,)
    loaders: dict[str, Loader] = {}
    for path in runs:
        _add(loaders, _name(path), path)
    for name in names:
        _add(loaders, name, name)
    for name in packaged():
        if name not in loaders:
            _add(loaders, name, name)
    return Cast(loaders, temperature=temperature, seed=seed)


def about(subject: LoadedModel) -> About:
    """Return what a predictor of a cast says about itself."""
    assert subject.predictor.about is not None, subject.name
    return subject.predictor.about


def _add(loaders: dict[str, Loader], name: str, place: str | Path) -> None:
    if name in loaders:
        raise UserError(f"two predictors are called {name}: give one of them another folder name")
    loaders[name] = lambda: load(place)


def _name(path: Path) -> str:
    resolved = path.resolve()
    return resolved.parent.name if resolved.name == "predictor" else resolved.name


@dataclass(frozen=True, kw_only=True)
class Stage:
    """A game, a store, or both; all fit the predictor."""

    env_id: str
    action_meanings: tuple[str, ...]
    frame_shape: tuple[int, int, int]
    """Height, width, 3 of the game's own frames."""
    game: Game | None
    store: EpisodeStore | None
    missing: str | None = None
    """Why there is no game."""

    def start(self, context: int, seed: int) -> RecordedWorld:
        """Return a recorded moment with `context` frames up to it, a different one for each seed."""
        assert self.store is not None, "no store to start from"
        long = [position for position, entry in enumerate(self.store.entries) if entry.frames >= context]
        if not long:
            raise UserError(
                f"{self.store.path}: no episode has the {context} frames that the predictor needs to begin with; "
                "pass a store of longer ones"
            )
        draw = generator("play-start", seed)
        position = long[int(draw.integers(len(long)))]
        return RecordedWorld(self.store, position, int(draw.integers(context - 1, self.store.entries[position].frames)))


def open_stage(subject: LoadedModel, store: EpisodeStore | None, now: Stage | None = None) -> Stage:
    """Return the game and the store that a predictor can be played with; UserError where there is neither.

    The game is the one on stage now where that is the predictor's.
    """
    told = about(subject)
    if store is not None and store.info.env_id != told.env_id:
        store = None  # another predictor's
    if now is not None and now.env_id == told.env_id:
        game, missing = now.game, now.missing
    else:
        game, missing = _game(subject)
    known: GameLike
    if game is not None:
        known = game
    elif store is not None and store.frames:
        known = store.info
    else:
        raise UserError(
            f"{subject.name}: {missing}; or pass --data with a store of it, whose frames the dream starts from"
        )
    require_fit(
        subject.name, subject.predictor, known, view=subject.view, source=told.env_id,
        cure="it was trained on another version of the game",
    )  # fmt: skip
    return Stage(
        env_id=told.env_id, action_meanings=known.action_meanings, frame_shape=known.frame_shape, game=game,
        store=store, missing=missing,
    )  # fmt: skip


def _game(subject: LoadedModel) -> tuple[Game | None, str | None]:
    """Return the predictor's game, or None and why not."""
    try:
        return make_game(about(subject).env_id), None
    except UserError as error:
        return None, str(error)
