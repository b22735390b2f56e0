"""Where a predictor can be played: its game if that is installed, and recorded episodes if there are any."""

from __future__ import annotations

from dataclasses import dataclass

from acvp.data.store import EpisodeStore
from acvp.envs import Game, make_game
from acvp.errors import UserError
from acvp.evaluation.subjects import Subject
from acvp.play.cast import about
from acvp.play.worlds import RecordedWorld
from acvp.seeding import generator


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


def open_stage(subject: Subject, store: EpisodeStore | None, now: Stage | None = None) -> Stage:
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
    if game is not None:
        shape, meanings = game.frame_shape, game.action_meanings
    elif store is not None and store.frames:
        shape, meanings = store.info.frame_shape, store.info.action_meanings
    else:
        raise UserError(
            f"{subject.name}: {missing}; or pass --data with a store of it, whose frames the dream starts from"
        )
    _check_fit(subject, shape, meanings)
    return Stage(
        env_id=told.env_id, action_meanings=meanings, frame_shape=shape, game=game, store=store, missing=missing
    )


def _game(subject: Subject) -> tuple[Game | None, str | None]:
    """Return the predictor's game, or None and why not."""
    try:
        return make_game(about(subject).env_id), None
    except UserError as error:
        return None, str(error)


def _check_fit(subject: Subject, shape: tuple[int, int, int], meanings: tuple[str, ...]) -> None:
    seen = subject.view.shape(shape)
    if tuple(subject.predictor.config.frame) != seen or subject.predictor.actions != len(meanings):
        raise UserError(
            f"{subject.name} predicts frames of {_size(subject.predictor.config.frame)} under "
            f"{subject.predictor.actions} actions; {about(subject).env_id} has {_size(seen)} in view "
            f"{subject.view.name} and {len(meanings)}: it was trained on another version of the game"
        )


def _size(frame: tuple[int, ...]) -> str:
    return "×".join(map(str, frame))
