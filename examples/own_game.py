"""Your own game: write a Gymnasium env, record it, train a predictor, predict frames."""

from pathlib import Path
from typing import Any

import gymnasium
import numpy as np
from gymnasium import spaces

import acvp


class Catch(gymnasium.Env[np.ndarray, int]):
    """A ball falls; the paddle at the bottom moves left or right to catch it."""

    observation_space = spaces.Box(0, 255, (24, 24, 3), np.uint8)
    action_space = spaces.Discrete(3)

    def get_action_meanings(self) -> list[str]:
        return ["NOOP", "LEFT", "RIGHT"]

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[np.ndarray, dict]:
        super().reset(seed=seed)
        self.paddle, self.row, self.column = 10, 0, int(self.np_random.integers(22))
        return self._frame(), {}

    def step(self, action: int) -> tuple[np.ndarray, float, bool, bool, dict]:
        self.paddle = int(np.clip(self.paddle + (0, -2, 2)[action], 0, 20))
        self.row += 1
        landed = self.row == 20
        caught = landed and -2 < self.column - self.paddle < 4
        return self._frame(), float(caught), landed, False, {}

    def _frame(self) -> np.ndarray:
        frame = np.zeros((24, 24, 3), np.uint8)
        frame[22:, self.paddle : self.paddle + 4] = (255, 255, 255)
        frame[self.row : self.row + 2, self.column : self.column + 2] = (255, 0, 0)
        return frame


gymnasium.register("Catch-v0", Catch)


def main(folder: Path = Path("own-game"), frames: int = 20_000, preset: str = "cpu") -> np.ndarray:
    dataset = acvp.collect("Catch-v0", folder / "data", frames=frames)
    predictor = acvp.train(folder / "data", folder / "run", model="pixel", preset=preset)
    episode = next(episode for episode in dataset if len(episode.actions) > predictor.context)
    real = episode.frames(0, predictor.context)
    return acvp.rollout(predictor, real, np.array([1, 1, 2]))  # (3, 24, 24, 3): left, left, right


if __name__ == "__main__":
    print(main().shape)
