"""A third-party env for the tests: every pixel tells the step, every action is echoed in the reward."""

from typing import Any

import gymnasium
import numpy as np
from gymnasium import spaces


class PixelEnv(gymnasium.Env[Any, Any]):
    """Counts its steps in the pixels of one reused buffer and pays back the action it got."""

    def __init__(self, shape: tuple[int, ...] = (6, 8, 3), actions: spaces.Space[Any] | None = None) -> None:
        self.observation_space = spaces.Box(0, 255, shape, np.uint8)
        self.action_space = actions or spaces.Discrete(3)
        self.buffer = np.zeros(shape, np.uint8)

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[Any, dict[str, Any]]:
        """Count from zero."""
        super().reset(seed=seed)
        self.buffer[...] = 0
        return self.buffer, {}

    def step(self, action: Any) -> tuple[Any, float, bool, bool, dict[str, Any]]:
        """Count one more, end after ten."""
        self.buffer += 1
        return self.buffer, float(action), bool(self.buffer.flat[0] == 10), False, {}
