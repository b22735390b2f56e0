"""ToyGame with a trigger: every move with and without it, so that actions of the same direction come in pairs."""

from __future__ import annotations

from typing import Any

import gymnasium
import numpy as np

from acvp.envs.toy import Frame, ToyGame

FIRING_TOY = "acvp-tests/FiringToy-v0"
SIZE = 16
"""Pixels of a side: 8×8 cells."""


class FiringToy(ToyGame):
    """Ten actions: those of ToyGame, then the same with the trigger pulled, which does nothing."""

    def __init__(self, render_mode: str | None = None) -> None:
        super().__init__(SIZE, render_mode)
        self._moves = len(super().get_action_meanings())
        self.action_space = gymnasium.spaces.Discrete(2 * self._moves)

    def get_action_meanings(self) -> list[str]:
        """Return names as Atari has them."""
        moves = super().get_action_meanings()
        return [*moves, *(f"{move}FIRE".removeprefix("NOOP") for move in moves)]

    def step(self, action: int | np.int64) -> tuple[Frame, float, bool, bool, dict[str, Any]]:
        """Move; the trigger changes nothing."""
        return super().step(int(action) % self._moves)


if FIRING_TOY not in gymnasium.registry:
    gymnasium.register(FIRING_TOY, entry_point="tests.analysis.games:FiringToy", max_episode_steps=200)
