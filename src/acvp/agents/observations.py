"""What predictors and agents see of a frame, and the last few frames of several plays.

Shapes: B plays, R some of them, T time, n frames of history, H height, W width, C channels.

What an agent sees while a game runs: gray 84×84 frames, the last four of them.

Shapes: B games, S frames of a stack, H height, W width.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from acvp.agents.network import SIDE, STACK
from acvp.data.palette import PaletteEncoder
from acvp.data.views import GRAY_84, View, get_view, luminance, resize_area
from acvp.envs import Game
from acvp.errors import UserError
from acvp.models import Predictor

Gray = NDArray[np.uint8]  # (84, 84)


class Eye:
    """Looks at the frames of one game; by the emulator's own color numbers, where there are any, faster."""

    def __init__(self) -> None:
        self._encoder = PaletteEncoder()

    def look(self, game: Game, frame: NDArray[np.uint8]) -> Gray:
        """Return the game's current frame (H, W, 3) as an agent sees it."""
        keys = game.color_keys()
        if keys is None:
            return GRAY_84.apply(frame, None)[..., 0]
        indices = self._encoder.encode(frame, keys)
        return GRAY_84.apply(indices, self._encoder.palette)[..., 0]


class Stacks:
    """The last frames of B games, uint8 (B, S, 84, 84), oldest first."""

    def __init__(self, games: int) -> None:
        self.frames = np.zeros((games, STACK, SIDE, SIDE), np.uint8)

    def begin(self, game: int, frame: Gray) -> None:
        """Begin a play: its first frame stands for those before it."""
        self.frames[game] = frame

    def push(self, game: int, frame: Gray) -> None:
        """Add a game's next frame."""
        self.frames[game, :-1] = self.frames[game, 1:]
        self.frames[game, -1] = frame


Pixels = NDArray[np.uint8]
AGENT_SIZE = (84, 84)
"""Height and width of what an agent sees."""


def agent_view(frames: Pixels) -> Pixels:
    """Return frames (..., H, W, C), real or predicted, as an agent sees them: gray (..., 84, 84)."""
    if frames.shape[-1] == 3:
        return resize_area(luminance(frames), AGENT_SIZE)
    gray = frames[..., 0]
    return gray if gray.shape[-2:] == AGENT_SIZE else resize_area(gray, AGENT_SIZE)


def view_of(predictor: Predictor) -> View:
    """Return how a predictor looks at frames."""
    if predictor.about is None:
        raise UserError("this predictor does not say of what game and view it is; train it with acvp train")
    return get_view(predictor.about.view)


def predictor_view(predictor: Predictor, frames: Pixels) -> Pixels:
    """Return real frames (..., H, W, 3), or an agent's (..., 84, 84, 1), as a predictor sees them."""
    view = view_of(predictor)
    if frames.shape[-1] == 3:
        return view.apply(frames, None)
    if view.name != GRAY_84.name:
        raise UserError(
            f"this predictor looks at frames in view {view.name}, and an agent's observations are {GRAY_84.name}: "
            f"train one with acvp train --view {GRAY_84.name}"
        )
    return frames


def refuse_other_game(name: str, predictor: Predictor, game: Game) -> None:
    """Refuse a predictor of another game than the one that is played."""
    about, wanted = predictor.about, view_of(predictor).shape(game.frame_shape)
    if about is not None and about.env_id != game.env_id:
        raise UserError(f"{name} predicts {about.env_id}, the game is {game.env_id}: name a predictor of this game")
    if predictor.actions != len(game.action_meanings):
        raise UserError(
            f"{name} knows {predictor.actions} actions, {game.env_id} has {len(game.action_meanings)} "
            f"({', '.join(game.action_meanings)}): name a predictor of this game"
        )
    if tuple(predictor.config.frame) != wanted:
        size, other = ("×".join(map(str, shape)) for shape in (predictor.config.frame, wanted))
        raise UserError(f"{name} predicts frames {size}, {game.env_id} gives {other}: name a predictor of this game")


class FrameHistory:
    """The last n frames of several plays, oldest first; a play's first frame stands in for those before it."""

    def __init__(self, plays: int, length: int, shape: tuple[int, ...]) -> None:
        self.frames = np.zeros((plays, length, *shape), np.uint8)
        """(B, n, ...)"""

    def begin(self, given: Pixels, rows: NDArray[np.int64] | slice = slice(None)) -> None:
        """Start some plays anew from their first frames (R, T, ...)."""
        length = self.frames.shape[1]
        given = given[:, -length:]
        before = np.repeat(given[:, :1], length - given.shape[1], axis=1)
        self.frames[rows] = np.concatenate((before, given), axis=1)

    def add(self, newest: Pixels) -> None:
        """Take in a frame (B, ...) of every play and forget the oldest."""
        self.frames[:, :-1] = self.frames[:, 1:]
        self.frames[:, -1] = newest

    def keep(self, rows: NDArray[np.int64]) -> None:
        """Go on with some of the plays only."""
        self.frames = self.frames[rows]
