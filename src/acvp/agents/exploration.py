"""Exploration strategies: they choose the actions that are not greedy while an agent learns.

Any object with `choose` is a strategy; informed exploration (acvp.control) is another one.

Shapes: B games.
"""

from __future__ import annotations

from typing import Any, Protocol, runtime_checkable

import numpy as np
from numpy.typing import NDArray

from acvp.data.policies import MEAN_REPEATS, Actions, random_actions, sticky_random_actions
from acvp.seeding import generator


class Exploration(Protocol):
    """Chooses actions; called once per agent step of all games."""

    def choose(self, observations: NDArray[np.uint8], greedy_actions: Actions, epsilon: float) -> Actions:
        """Return the greedy actions, each replaced by an exploring one with probability ε: one coin per game.

        Observations are (B, 4, 84, 84), gray, oldest first.
        """


@runtime_checkable
class Resumable(Protocol):
    """A strategy that a resumed run continues exactly; any other starts again."""

    def state(self) -> dict[str, NDArray[Any]]:
        """Return everything needed to resume exactly."""

    def restore(self, state: dict[str, NDArray[Any]]) -> None:
        """Resume from a state."""


def explore_with(dqn: Any, strategy: Exploration) -> None:
    """Make a DQN of Stable-Baselines3 that sees (B, 4, 84, 84) gray frames explore with a strategy.

    The strategy chooses where the DQN would draw random actions: with its own ε, and before its learning starts. It is
    not saved with the DQN.
    """
    excluded = [*dqn._excluded_save_params(), "_sample_action", "_excluded_save_params"]

    def sample_action(learning_starts: int, action_noise: Any = None, n_envs: int = 1) -> tuple[Actions, Actions]:
        greedy, _ = dqn.policy.predict(dqn._last_obs, deterministic=True)
        epsilon = 1.0 if dqn.num_timesteps < learning_starts else dqn.exploration_rate
        actions = strategy.choose(dqn._last_obs, greedy, epsilon)
        return actions, actions

    dqn._sample_action, dqn._excluded_save_params = sample_action, lambda: excluded


class RandomExploration:
    """A new random action at every agent step: ε-greedy as in DQN."""

    def __init__(self, actions: int, seed: int) -> None:
        self._actions, self._seed, self._steps = actions, seed, 0

    def choose(self, observations: NDArray[np.uint8], greedy_actions: Actions, epsilon: float) -> Actions:
        """Return the greedy actions, each replaced by a random one with probability ε."""
        rng = generator("exploration", self._seed, self._steps)
        self._steps += 1
        explores = rng.random(len(greedy_actions)) < epsilon
        return np.where(explores, random_actions(rng, self._actions, len(greedy_actions)), greedy_actions)

    def state(self) -> dict[str, NDArray[Any]]:
        """Return the number of agent steps."""
        return {"steps": np.array(self._steps)}

    def restore(self, state: dict[str, NDArray[Any]]) -> None:
        """Resume from a number of agent steps."""
        self._steps = int(state["steps"])


class StickyRandomExploration:
    """A random action repeated for a geometric number of agent steps, as by the policy sticky-random.

    It gets much farther than new random actions. Repeats start so rarely that the share of exploring steps is still ε.
    """

    def __init__(self, actions: int, seed: int, games: int) -> None:
        self._actions, self._seed, self._steps = actions, seed, 0
        self._action, self._left = np.zeros(games, np.int64), np.zeros(games, np.int64)

    def choose(self, observations: NDArray[np.uint8], greedy_actions: Actions, epsilon: float) -> Actions:
        """Return the greedy actions, or the repeated ones where a repeat is running or starts."""
        count = len(greedy_actions)
        rng = generator("exploration", self._seed, self._steps)
        self._steps += 1
        # One step before a repeat and MEAN_REPEATS steps in it on average: the coin that makes the share ε.
        coin = epsilon / (MEAN_REPEATS - epsilon * (MEAN_REPEATS - 1))
        begins = (self._left == 0) & (rng.random(count) < coin)
        drawn, repeats = sticky_random_actions(rng, self._actions, count)
        self._action = np.where(begins, drawn, self._action)
        self._left = np.where(begins, repeats, self._left)
        explores = self._left > 0
        self._left = np.maximum(self._left - 1, 0)
        return np.where(explores, self._action, greedy_actions)

    def state(self) -> dict[str, NDArray[Any]]:
        """Return the number of agent steps, the repeated actions, and the repeats left."""
        return {"steps": np.array(self._steps), "action": self._action, "left": self._left}

    def restore(self, state: dict[str, NDArray[Any]]) -> None:
        """Resume from a state."""
        self._steps = int(state["steps"])
        self._action, self._left = state["action"], state["left"]
