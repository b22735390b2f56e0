"""DriftGame: a small deterministic game with continuous actions, for tests and for networks that learn in seconds."""

import json
from typing import Any

import gymnasium
import numpy as np
import numpy.typing as npt
from gymnasium import spaces

Frame = npt.NDArray[np.uint8]  # (SIZE, SIZE, 3)

DRIFT_ID = "acvp/Drift-v0"
DRIFT_STEPS = 100
"""Steps after which an episode of the registered game is truncated."""

SIZE, SIDE = 24, 4
"""Pixels of the frame and of the player."""
SPEED = 3.0
"""Pixels that the player moves at most in a step, along each axis."""
WALL, FLOOR, GOAL, PLAYER = (110, 110, 110), (0, 0, 0), (60, 200, 80), (240, 240, 240)
GOALS = ((4, 4), (4, 17), (17, 17), (17, 4))
"""Upper left corners of the goals, clockwise."""


class DriftGame(gymnasium.Env[Frame, npt.NDArray[np.float32]]):
    """A square that is pushed down and right by any amount, and goals to touch.

    The action is (down, right), each from −1 to 1; the player moves by that times three pixels and is stopped by the
    rim. Touching the goal gives +1, and the next corner has it. The seed chooses where everything starts; after that
    nothing is random. An episode ends after nine goals.
    """

    metadata = {"render_modes": ["rgb_array"], "render_fps": 10}  # noqa: RUF012  (Gymnasium declares it so)

    def __init__(self, render_mode: str | None = None) -> None:
        self.render_mode = render_mode
        self.observation_space = spaces.Box(0, 255, (SIZE, SIZE, 3), np.uint8)
        self.action_space = spaces.Box(-1, 1, (2,), np.float32)
        self._corner, self._goal, self._touched = np.zeros(2), 0, 0

    def get_action_meanings(self) -> list[str]:
        """Return the names of the components."""
        return ["down", "right"]

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[Frame, dict[str, Any]]:
        """Put player and goal where the seed says."""
        super().reset(seed=seed)
        self._corner = self.np_random.uniform(1, SIZE - SIDE - 1, 2)
        self._goal, self._touched = int(self.np_random.integers(len(GOALS))), 0
        return self._draw(), {}

    def step(self, action: npt.NDArray[np.float32]) -> tuple[Frame, float, bool, bool, dict[str, Any]]:
        """Move the player and see whether it touches the goal."""
        self._corner = np.clip(self._corner + SPEED * np.asarray(action, np.float64), 1, SIZE - SIDE - 1)
        touches = bool((np.abs(self._corner - GOALS[self._goal]) < SIDE).all())
        if touches:
            self._goal, self._touched = (self._goal + 1) % len(GOALS), self._touched + 1
        return self._draw(), float(touches), self._touched == 9, False, {}

    def render(self) -> Frame:
        """Return the current frame."""
        return self._draw()

    def save_state(self) -> bytes:
        """Return the whole state; the seed's generator is not part of it, for only `reset` draws from it."""
        return json.dumps([*self._corner.tolist(), self._goal, self._touched]).encode()

    def restore_state(self, state: bytes) -> Frame:
        """Return to a saved state and to its frame."""
        down, right, self._goal, self._touched = json.loads(state)
        self._corner = np.array([down, right])
        return self._draw()

    def controlled_position(self) -> tuple[float, float]:
        """Return the (row, column) in pixels of the player's center."""
        row, column = np.round(self._corner) + (SIDE - 1) / 2
        return float(row), float(column)

    def _draw(self) -> Frame:
        frame = np.full((SIZE, SIZE, 3), WALL, np.uint8)
        frame[1:-1, 1:-1] = FLOOR
        for (row, column), color in ((GOALS[self._goal], GOAL), (np.round(self._corner).astype(int), PLAYER)):
            frame[row : row + SIDE, column : column + SIDE] = color
        return frame
