"""One exploration of a game by one seed: when the first reward comes, where the controlled object goes."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from acvp.control.sources import Rows
from acvp.control.viewing import Pixels
from acvp.envs import Game, Step
from acvp.seeding import derived_seed, generator

ONLY = np.zeros(1, np.int64)
"""The row of the only play."""


class Explorer(Protocol):
    """A way of exploring, such as InformedExploration."""

    def see(self, frames: Pixels, begins: NDArray[np.bool_]) -> None:
        """Take in the newest frame (1, H, W, C), and whether a play begins with it."""

    def explore(self, rows: Rows) -> NDArray[np.int64]:
        """Return the next action (1,)."""


class RandomExplorer:
    """Every action alike."""

    def __init__(self, actions: int, *, seed: int) -> None:
        self.actions, self._rng = actions, generator("random exploration", seed)

    def see(self, frames: Pixels, begins: NDArray[np.bool_]) -> None:
        """Do nothing."""

    def explore(self, rows: Rows) -> NDArray[np.int64]:
        """Return a random action for each play."""
        return self._rng.integers(self.actions, size=len(rows))


class HeldExplorer:
    """One action throughout."""

    def __init__(self, action: int) -> None:
        self.action = action

    def see(self, frames: Pixels, begins: NDArray[np.bool_]) -> None:
        """Do nothing."""

    def explore(self, rows: Rows) -> NDArray[np.int64]:
        """Return the action for each play."""
        return np.full(len(rows), self.action, np.int64)


@dataclass(frozen=True, kw_only=True)
class Route:
    """How long an exploration goes on."""

    max_decisions: int
    """At most until the first reward."""
    map_decisions: int
    """At least, following the controlled object."""
    noops: int
    """Decisions of action 0 at the start: a number from 0 to this, by the seed."""


@dataclass
class Expedition:
    """What came of an exploration."""

    first_reward: int | None = None
    """Decisions up to and with the first reward above 0; None: none came."""
    decisions: int = 0
    positions: list[tuple[float, float] | None] = field(default_factory=list)
    """(row, column) of the controlled object after each decision, as long as it is followed; None: not known."""


class Wanderer:
    """A game that is explored across the ends of its episodes."""

    def __init__(self, game: Game, explorer: Explorer, seed: int) -> None:
        self.game, self.explorer, self.seed = game, explorer, seed
        self._episodes = 0
        self._begin()

    def step(self, action: int) -> Step:
        """Take a decision, show its frame, and begin a new episode after an end."""
        step = self.game.step(action)
        self._show(step.frame, begins=False)
        if step.terminated or step.truncated:
            self._begin()
        return step

    def _begin(self) -> None:
        self._show(self.game.reset(derived_seed("expedition", self.seed, self._episodes)), begins=True)
        self._episodes += 1

    def _show(self, frame: Pixels, *, begins: bool) -> None:
        self.explorer.see(frame[None], np.array([begins]))


def explore(
    game: Game,
    explorer: Explorer,
    route: Route,
    *,
    seed: int,
    progress: Callable[[int], None] = lambda decision: None,
) -> Expedition:
    """Explore a game from its start, at every decision (ε = 1)."""
    wanderer, found = Wanderer(game, explorer, seed), Expedition()
    for _ in range(generator("noops", seed).integers(route.noops + 1)):
        wanderer.step(0)
    while not _finished(found, route):
        step = wanderer.step(int(explorer.explore(ONLY)[0]))
        found.decisions += 1
        if step.reward > 0 and found.first_reward is None:
            found.first_reward = found.decisions
        if found.decisions <= route.map_decisions:
            found.positions.append(game.controlled_position())
        progress(found.decisions)
    return found


def _finished(found: Expedition, route: Route) -> bool:
    waiting = found.first_reward is None and found.decisions < route.max_decisions
    return not waiting and found.decisions >= route.map_decisions
