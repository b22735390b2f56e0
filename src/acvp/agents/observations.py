"""What an agent sees of a game: gray 84×84 frames, the last four of them; and what a predictor sees of it.

Shapes: B games, R some of them, T time, n frames of a stack, H height, W width, C channels.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from acvp.data.palette import PaletteEncoder
from acvp.data.views import GRAY_84, luminance, resize_area
from acvp.envs import Game
from acvp.errors import UserError
from acvp.loaded import view_of
from acvp.models import Predictor

SIDE = 84
"""Height and width of a frame in pixels: the view gray84."""
STACK = 4
"""Frames that an agent sees at once, oldest first."""
Pixels = NDArray[np.uint8]
Gray = NDArray[np.uint8]  # (84, 84)
Rows = NDArray[np.int64]
AGENT_SIZE = (SIDE, SIDE)
"""Height and width of a frame as an agent sees it."""


class Preprocessor:
    """Turns the frames of games into an agent's; faster where the emulator gives color numbers."""

    def __init__(self) -> None:
        self._encoder = PaletteEncoder()

    def apply(self, game: Game, frame: Pixels) -> Gray:
        """Return the game's current frame (H, W, 3) as an agent sees it."""
        keys = game.color_keys()
        if keys is None:
            return GRAY_84.apply(frame, None)[..., 0]
        indices = self._encoder.encode(frame, keys)
        return GRAY_84.apply(indices, self._encoder.palette)[..., 0]


class FrameStack:
    """The last n frames of B games, oldest first; the first frame of an episode stands in for those before it."""

    def __init__(self, games: int, length: int, shape: tuple[int, ...] = AGENT_SIZE) -> None:
        self.frames = np.zeros((games, length, *shape), np.uint8)
        """(B, n, ...)"""

    def begin(self, given: Pixels, rows: Rows | slice = slice(None)) -> None:
        """Start an episode in some games with the frames (R, T, ...) known so far."""
        length = self.frames.shape[1]
        given = given[:, -length:]
        before = np.repeat(given[:, :1], length - given.shape[1], axis=1)
        self.frames[rows] = np.concatenate((before, given), axis=1)

    def add(self, newest: Pixels, rows: Rows | slice = slice(None)) -> None:
        """Add the newest frame (R, ...) of some games and forget their oldest."""
        self.frames[rows, :-1] = self.frames[rows, 1:]
        self.frames[rows, -1] = newest


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
            f"this predictor sees frames in view {view.name}, and an agent's observations are {GRAY_84.name}: "
            f"train one with acvp train --view {GRAY_84.name}"
        )
    return frames
