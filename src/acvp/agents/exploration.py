"""How an agent explores while it learns: a strategy chooses the actions that are not greedy.

Any object with `choose` will do; informed exploration (acvp.control) is one.

Shapes: B games.
"""

from __future__ import annotations

from typing import Any, Protocol, runtime_checkable

import numpy as np
from numpy.typing import NDArray

from acvp.data.policies import MEAN_REPEATS, Actions, random_actions, sticky_random_actions
from acvp.seeding import generator


class Exploration(Protocol):
    """Chooses actions; called once for each decision of all games together."""

    def choose(self, observations: NDArray[np.uint8], greedy_actions: Actions, epsilon: float) -> Actions:
        """Return the greedy actions, each replaced by an exploring one with probability ε: one coin for each game.

        Observations are (B, 4, 84, 84), gray, oldest first.
        """


@runtime_checkable
class Resumable(Protocol):
    """A strategy that goes on exactly where a stopped run left it; one that is not begins anew."""

    def state(self) -> dict[str, NDArray[Any]]:
        """Return everything that decides what follows."""

    def restore(self, state: dict[str, NDArray[Any]]) -> None:
        """Go on from a state."""


def explore_with(dqn: Any, strategy: Exploration) -> None:
    """Let a DQN of Stable-Baselines3 that sees (B, 4, 84, 84) gray frames explore by a strategy while it learns.

    Where it would draw random actions, with its own ε and before its learning starts, the strategy chooses. The
    strategy is not saved with the DQN.
    """
    unsaved = [*dqn._excluded_save_params(), "_sample_action", "_excluded_save_params"]

    def sample_action(learning_starts: int, action_noise: Any = None, n_envs: int = 1) -> tuple[Actions, Actions]:
        greedy, _ = dqn.policy.predict(dqn._last_obs, deterministic=True)
        epsilon = 1.0 if dqn.num_timesteps < learning_starts else dqn.exploration_rate
        actions = strategy.choose(dqn._last_obs, greedy, epsilon)
        return actions, actions

    dqn._sample_action, dqn._excluded_save_params = sample_action, lambda: unsaved


class RandomExploration:
    """Every action alike, a new one at each decision: ε-greedy as in DQN."""

    def __init__(self, actions: int, seed: int) -> None:
        self._actions, self._seed, self._decisions = actions, seed, 0

    def choose(self, observations: NDArray[np.uint8], greedy_actions: Actions, epsilon: float) -> Actions:
        """Return the greedy actions, each replaced by a random one with probability ε."""
        rng = generator("exploration", self._seed, self._decisions)
        self._decisions += 1
        explores = rng.random(len(greedy_actions)) < epsilon
        return np.where(explores, random_actions(rng, self._actions, len(greedy_actions)), greedy_actions)

    def state(self) -> dict[str, NDArray[Any]]:
        """Return the number of decisions."""
        return {"decisions": np.array(self._decisions)}

    def restore(self, state: dict[str, NDArray[Any]]) -> None:
        """Go on from a number of decisions."""
        self._decisions = int(state["decisions"])


class StickyRandomExploration:
    """A random action kept for a random while (geometric), as of the policy sticky-random: gets much farther.

    A while begins so seldom that the share of exploring decisions is still ε.
    """

    def __init__(self, actions: int, seed: int, games: int) -> None:
        self._actions, self._seed, self._decisions = actions, seed, 0
        self._action, self._left = np.zeros(games, np.int64), np.zeros(games, np.int64)

    def choose(self, observations: NDArray[np.uint8], greedy_actions: Actions, epsilon: float) -> Actions:
        """Return the greedy actions, but the kept ones where a while is under way or begins."""
        count = len(greedy_actions)
        rng = generator("exploration", self._seed, self._decisions)
        self._decisions += 1
        # Of one decision before a while and MEAN_REPEATS in it on average: the coin that makes the share ε.
        coin = epsilon / (MEAN_REPEATS - epsilon * (MEAN_REPEATS - 1))
        begins = (self._left == 0) & (rng.random(count) < coin)
        drawn, repeats = sticky_random_actions(rng, self._actions, count)
        self._action = np.where(begins, drawn, self._action)
        self._left = np.where(begins, repeats, self._left)
        explores = self._left > 0
        self._left = np.maximum(self._left - 1, 0)
        return np.where(explores, self._action, greedy_actions)

    def state(self) -> dict[str, NDArray[Any]]:
        """Return the number of decisions, the kept actions, and for how long they are still kept."""
        return {"decisions": np.array(self._decisions), "action": self._action, "left": self._left}

    def restore(self, state: dict[str, NDArray[Any]]) -> None:
        """Go on from a state."""
        self._decisions = int(state["decisions"])
        self._action, self._left = state["action"], state["left"]
