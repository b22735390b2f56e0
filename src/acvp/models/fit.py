"""Whether a predictor fits a game or a dataset: the one place that compares game, actions and frames."""

from __future__ import annotations

from typing import Protocol

from acvp.data.views import View, get_view
from acvp.errors import UserError
from acvp.models.predictor import Predictor


class GameLike(Protocol):
    """What a game and a dataset's ``info`` have in common."""

    @property
    def env_id(self) -> str: ...
    @property
    def frame_shape(self) -> tuple[int, int, int]: ...
    @property
    def action_meanings(self) -> tuple[str, ...]: ...


def view_of(predictor: Predictor, name: str = "this predictor") -> View:
    """Return the view in which a predictor sees frames; UserError where it does not say."""
    if predictor.about is None:
        raise UserError(f"{name} does not say which game and view it was trained on; train it with acvp train")
    return get_view(predictor.about.view)


def require_fit(
    name: str,
    predictor: Predictor,
    game: GameLike,
    *,
    view: View | None = None,
    source: str = "the game",
    cure: str = "name a predictor of this game",
) -> None:
    """Refuse a predictor of another game, or of another version of it, than ``source`` has."""
    view, about = view or view_of(predictor, name), predictor.about
    if about is not None and about.env_id != game.env_id:
        raise UserError(f"{name} predicts {about.env_id}, not {game.env_id} ({source}): {cure}")
    if predictor.actions != len(game.action_meanings):
        raise UserError(
            f"{name} knows {predictor.actions} actions, {source} has {len(game.action_meanings)} "
            f"({', '.join(game.action_meanings)}): {cure}"
        )
    shape = view.shape(game.frame_shape)
    if tuple(predictor.config.frame) != shape:
        raise UserError(
            f"{name} predicts frames {frame_size(predictor.config.frame)}, {source} has {frame_size(shape)} in view "
            f"{view.name}: {cure}"
        )


def frame_size(shape: tuple[int, ...]) -> str:
    """Return a frame's shape as text: 210×160×3."""
    return "×".join(map(str, shape))
