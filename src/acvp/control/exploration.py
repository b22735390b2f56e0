"""Informed exploration (§4.2, algorithm 1): a strategy for any agent that acts by ε-greedy choice.

    from acvp.control.exploration import informed_by_model
    strategy = informed_by_model(acvp.load("runs/gray"), paper_kernel("ALE/Freeway-v5"), seed=0)
    actions = strategy.choose(observations, greedy_actions, epsilon)

Shapes: B plays, R some of them, A actions, L decisions looked ahead, H height, W width, C channels.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from acvp.control.memory import KernelConfig, TrajectoryMemory, least_visited, total
from acvp.control.sources import EmulatorSource, FutureSource, ModelSource, Rows
from acvp.control.viewing import Pixels, agent_view
from acvp.envs import Game
from acvp.models import Predictor
from acvp.seeding import generator

Actions = NDArray[np.int64]


class InformedExploration:
    """The action whose future is most unlike the last frames: arg-min over actions of n_D (algorithm 1).

    Every play has a memory of its own. A future of several decisions counts with the sum over its frames. What is
    random follows from the seed and the number of decisions.
    """

    def __init__(
        self, source: FutureSource, config: KernelConfig, *, seed: int, screens: Callable[[], Pixels] | None = None
    ) -> None:
        """``screens`` gives what all games show now, (B, H, W, C), where the source needs more than an agent sees."""
        self.source, self.config, self.seed, self._screens = source, config, seed, screens
        self._memories: list[TrajectoryMemory] = []
        self._decisions = 0
        self._last: Pixels | None = None  # (B, 3, 84, 84), what observations begin with if a play goes on

    def choose(self, observations: Pixels, greedy_actions: Actions, epsilon: float) -> Actions:
        """Return greedy actions (B,), each replaced by an informed one with probability ε: one coin for each play.

        ``observations`` (B, 4, 84, 84) are gray and oldest first. Call it once for each decision.
        """
        begins = np.ones(len(observations), np.bool_)
        if self._last is not None:
            begins = (observations[:, :-1] != self._last).any((1, 2, 3))  # a stack that does not go on is a new play's
        self._last = observations[:, 1:].copy()
        self.see(self._screens() if self._screens else observations[:, -1, :, :, None], begins)
        actions = np.array(greedy_actions, np.int64)
        rng = self._rng("coins")
        rows = np.flatnonzero(rng.random(len(actions)) < epsilon)
        actions[rows] = self.explore(rows)
        return actions

    def see(self, frames: Pixels, begins: NDArray[np.bool_]) -> None:
        """Remember the newest frame (B, H, W, C) of every play; ``begins`` (B,) says which plays begin with it."""
        if not self._memories:
            self._memories = [TrajectoryMemory(self.config) for _ in frames]
        for memory, frame in zip(self._memories, agent_view(frames), strict=True):
            memory.add(frame)
        self.source.see(frames, begins)
        self._decisions += 1

    def explore(self, rows: Rows) -> Actions:
        """Return the action (R,) of each of some plays whose future has been visited least."""
        if not len(rows):
            return np.empty(0, np.int64)
        rng = self._rng("ties")
        pairs = zip(rows.tolist(), self.source.futures(rows), strict=True)
        return np.array([least_visited(self._visits(row, futures), rng) for row, futures in pairs])

    def state(self) -> dict[str, NDArray[Any]]:
        """Return everything that decides what follows, for a run that goes on later."""
        if not self._memories:
            return {}
        memories = np.stack([memory.frames for memory in self._memories])  # (B, d', N), oldest first
        last = {} if self._last is None else {"last": self._last}
        return {"decisions": np.array(self._decisions), "memories": memories} | last | self.source.state()

    def restore(self, state: dict[str, NDArray[Any]]) -> None:
        """Go on from a state."""
        if not state:
            return
        self._decisions = int(state["decisions"])
        self._last = state["last"].astype(np.uint8) if "last" in state else None
        self._memories = [TrajectoryMemory(self.config) for _ in state["memories"]]
        for memory, frames in zip(self._memories, state["memories"].astype(np.uint8), strict=True):
            for frame in frames:
                memory.add(frame)
        self.source.restore(state)

    def _visits(self, row: int, futures: Pixels) -> NDArray[np.float64]:
        """Return n_D (A,) of the futures (A, L, 84, 84) of one play."""
        actions, steps = futures.shape[:2]
        visits = self._memories[row].visit_frequency(futures.reshape(actions * steps, *futures.shape[2:]))
        return total(visits.reshape(actions, steps))

    def _rng(self, purpose: str) -> np.random.Generator:
        return generator(f"informed exploration, {purpose}", self.seed, self._decisions)


def informed_by_model(
    predictor: Predictor,
    config: KernelConfig,
    *,
    seed: int,
    look_ahead: int = 1,
    screens: Callable[[], Pixels] | None = None,
) -> InformedExploration:
    """Return exploration informed by a predictor; `choose` needs screens where it does not look at gray84 frames."""
    return InformedExploration(ModelSource(predictor, look_ahead=look_ahead), config, seed=seed, screens=screens)


def informed_by_emulator(
    games: Sequence[Game], config: KernelConfig, *, seed: int, look_ahead: int = 1
) -> InformedExploration:
    """Return exploration informed by the games themselves, one for each play, which must be the ones played."""
    return InformedExploration(EmulatorSource(games, look_ahead=look_ahead), config, seed=seed)
