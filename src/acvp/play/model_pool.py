"""The model pool: predictors by name, loaded on first use and shared by all sessions."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from threading import Lock

from acvp.artifacts import CONFIG_NAME
from acvp.data.frames import get_view
from acvp.errors import UserError
from acvp.loaded import COPY_LAST, LoadedModel, baselines, best_packaged, load, model_name, packaged
from acvp.models import About, Predictor

Loader = Callable[[], Predictor]


class ModelPool:
    """Predictors by name; the last one is the copy-last-frame baseline, as a reference for the others."""

    def __init__(
        self,
        loaders: Mapping[str, Loader],
        *,
        temperature: float = 0.0,
        seed: int = 0,
        games: Mapping[str, str] | None = None,
        folders: Mapping[str, Path] | None = None,
    ) -> None:
        """With a temperature above 0, predictors that can sample do so, from a generator with this seed.

        ``games`` has the game of each predictor whose game is known before it is loaded, ``folders`` those of packaged
        predictors.
        """
        if not loaders:
            raise UserError("no predictor to play: name one with --predictors")
        self._loaders, self.temperature, self._seed = dict(loaders), temperature, seed
        self._games, self.folders = dict(games or {}), dict(folders or {})
        self._loaded: dict[str, LoadedModel] = {}
        self._lock = Lock()
        self.first = next(iter(loaders))
        self.names = (*(name for name in loaders if name != COPY_LAST), COPY_LAST)

    def get(self, name: str, like: LoadedModel | None = None) -> LoadedModel:
        """Return the model of this name; UserError explains why it cannot be played.

        Copy-last-frame has the game and the view of ``like``, or of the first predictor.
        """
        if name not in self.names:
            raise UserError(f"no predictor is called {name[:80]!r}; there are {', '.join(self.names)}")
        with self._lock:
            return self._copy_last(like) if name == COPY_LAST else self._load(name)

    def _load(self, name: str) -> LoadedModel:
        if name in self._loaded:
            return self._loaded[name]
        predictor = self._loaders[name]()
        if predictor.about is None:
            raise UserError(f"{name}: this predictor does not name its game; train it with acvp train")
        predictor.sample(self.temperature, self._seed)
        model = LoadedModel(name=name, predictor=predictor.eval(), view=get_view(predictor.about.view))
        self._loaded[name], self._games[name] = model, predictor.about.env_id
        return model

    def game_of(self, name: str) -> str | None:
        """Return the game of a predictor, None if that is not known before it is loaded."""
        return self._games.get(name)

    def of_game(self, env_id: str) -> tuple[str, ...]:
        """Return the names of the predictors that are not known to be of another game."""
        return tuple(name for name in self.names if self._games.get(name, env_id) == env_id)

    def _copy_last(self, like: LoadedModel | None) -> LoadedModel:
        like = like or self._load(self.first)
        copy_last = next(baseline for baseline in baselines(like) if baseline.name == COPY_LAST)
        copy_last.predictor.about = like.predictor.about
        return copy_last


def make_model_pool(predictors: Sequence[str], *, temperature: float = 0.0, seed: int = 0) -> ModelPool:
    """Return the predictors of these folders and names, in this order, then all packaged ones, the best first."""
    loaders: dict[str, Loader] = {}
    games = {name: env_id for name, folder in packaged().items() if (env_id := _game_of(folder)) is not None}
    for predictor in predictors:
        named = predictor in packaged()
        _add(loaders, predictor if named else model_name(Path(predictor)), predictor if named else Path(predictor))
    for name in dict.fromkeys((*best_packaged(), *packaged())):
        if name not in loaders:
            _add(loaders, name, name)
    own = {model_name(Path(predictor)) for predictor in predictors if predictor not in packaged()}
    folders = {name: folder for name, folder in packaged().items() if name not in own}
    return ModelPool(loaders, temperature=temperature, seed=seed, games=games, folders=folders)


def _game_of(folder: Path) -> str | None:
    """Return the game of a packaged predictor by its config, without its weights."""
    known = json.loads((folder / CONFIG_NAME).read_text(encoding="utf-8")).get("about") or {}
    return known.get("env_id")


def about(model: LoadedModel) -> About:
    """Return the description of a model of the pool, which always has one."""
    assert model.predictor.about is not None, model.name
    return model.predictor.about


def _add(loaders: dict[str, Loader], name: str, source: str | Path) -> None:
    if name in loaders:
        raise UserError(f"two predictors are called {name}: rename one of the folders")
    loaders[name] = lambda: load(source)
