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
from acvp.data.views import GRAY_84, luminance, resize_area
from acvp.envs import Game
from acvp.errors import UserError
from acvp.models import Predictor, view_of

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
