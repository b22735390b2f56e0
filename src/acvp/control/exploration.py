"""Informed exploration (§4.2, algorithm 1), and random exploration beside it.

Both are strategies for an agent: ``choose`` replaces the greedy action by an exploring one with probability ε.

    from acvp.control.exploration import informed_by_model
    strategy = informed_by_model(acvp.load("runs/gray"), paper_kernel("ALE/Freeway-v5"), rng)
    actions = strategy.choose(observations, greedy_actions, epsilon)

Shapes: B plays, R some of them, A actions, L decisions looked ahead, H height, W width, C channels.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from acvp.control.memory import KernelConfig, TrajectoryMemory, least_visited
from acvp.control.sources import EmulatorSource, FutureSource, ModelSource, Rows
from acvp.control.viewing import Pixels, agent_view
from acvp.envs import Game
from acvp.models import Predictor

Actions = NDArray[np.int64]


class Exploration(Protocol):
    """A way of choosing exploring actions."""

    def see(self, frames: Pixels, begins: NDArray[np.bool_]) -> None:
        """Take in the newest frame (B, H, W, C) of every play, and which plays (B,) begin with it."""

    def explore(self, rows: Rows) -> Actions:
        """Return an exploring action (R,) for some of the plays."""

    def choose(self, observations: Pixels, greedy_actions: Actions, epsilon: float) -> Actions:
        """Return the greedy actions (B,), each replaced by an exploring one with probability ε.

        ``observations`` (B, 4, 84, 84) are gray and oldest first; call it once for each decision.
        """


class RandomExploration:
    """Every action alike."""

    def __init__(self, actions: int, rng: np.random.Generator) -> None:
        self.actions, self.rng = actions, rng

    def see(self, frames: Pixels, begins: NDArray[np.bool_]) -> None:
        """Do nothing."""

    def explore(self, rows: Rows) -> Actions:
        """Return a random action (R,) for each play."""
        return self.rng.integers(self.actions, size=len(rows))

    def choose(self, observations: Pixels, greedy_actions: Actions, epsilon: float) -> Actions:
        """Return greedy actions (B,), each replaced by a random one with probability ε."""
        return _replace(self, greedy_actions, epsilon, self.rng)


class InformedExploration:
    """The action whose future is most unlike the last frames: arg-min over actions of n_D (algorithm 1).

    Every play has a memory of its own. A future of several decisions counts with the sum over its frames.
    """

    def __init__(self, source: FutureSource, config: KernelConfig, rng: np.random.Generator) -> None:
        self.source, self.config, self.rng = source, config, rng
        self._memories: list[TrajectoryMemory] = []
        self._last: Pixels | None = None  # (B, 3, 84, 84), what the next observations begin with

    def see(self, frames: Pixels, begins: NDArray[np.bool_]) -> None:
        """Remember the newest frame (B, H, W, C) of every play."""
        if not self._memories:
            self._memories = [TrajectoryMemory(self.config) for _ in frames]
        for memory, frame in zip(self._memories, agent_view(frames), strict=True):
            memory.add(frame)
        self.source.see(frames, begins)

    def explore(self, rows: Rows) -> Actions:
        """Return the action (R,) of each play whose future has been visited least."""
        if not len(rows):
            return np.empty(0, np.int64)
        return np.array(
            [
                least_visited(self._visits(row, futures), self.rng)
                for row, futures in zip(rows.tolist(), self.source.futures(rows), strict=True)
            ]
        )

    def choose(self, observations: Pixels, greedy_actions: Actions, epsilon: float) -> Actions:
        """Return greedy actions (B,), each replaced by an informed one with probability ε."""
        begins = np.ones(len(observations), np.bool_)
        if self._last is not None:
            begins = (observations[:, :-1] != self._last).any((1, 2, 3))  # a stack that does not go on is a new play's
        self._last = observations[:, 1:].copy()
        self.see(observations[:, -1, :, :, None], begins)
        return _replace(self, greedy_actions, epsilon, self.rng)

    def _visits(self, row: int, futures: Pixels) -> NDArray[np.float64]:
        """Return n_D (A,) of the futures (A, L, 84, 84) of one play."""
        actions, steps = futures.shape[:2]
        visits = self._memories[row].visit_frequency(futures.reshape(actions * steps, *futures.shape[2:]))
        summed: NDArray[np.float64] = visits.reshape(actions, steps).sum(1)
        return summed


def informed_by_model(
    predictor: Predictor, config: KernelConfig, rng: np.random.Generator, *, look_ahead: int = 1
) -> InformedExploration:
    """Return exploration informed by a predictor; for an agent's observations it must look at gray84 frames."""
    return InformedExploration(ModelSource(predictor, look_ahead=look_ahead), config, rng)


def informed_by_emulator(
    games: Sequence[Game], config: KernelConfig, rng: np.random.Generator, *, look_ahead: int = 1
) -> InformedExploration:
    """Return exploration informed by the games themselves, one for each play, which must be the ones played."""
    return InformedExploration(EmulatorSource(games, look_ahead=look_ahead), config, rng)


def _replace(strategy: Exploration, greedy_actions: Actions, epsilon: float, rng: np.random.Generator) -> Actions:
    """Return the actions after one coin for each play."""
    actions = np.array(greedy_actions, np.int64)
    rows = np.flatnonzero(rng.random(len(actions)) < epsilon)
    actions[rows] = strategy.explore(rows)
    return actions
