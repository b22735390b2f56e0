"""What an agent sees while a game runs: gray 84×84 frames, the last four of them.

Shapes: B games, S frames of a stack, H height, W width.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from acvp.agents.network import SIDE, STACK
from acvp.data.palette import PaletteEncoder
from acvp.data.views import GRAY_84
from acvp.envs import Game

Gray = NDArray[np.uint8]  # (84, 84)


class Eye:
    """Looks at the frames of one game; by the emulator's own colour numbers, where there are any, faster."""

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
