"""Stable-Baselines3's DQN with acvp's network and frame-wise replay, strategies of exploration, and import of its zips.

`AcvpDqn(...).learn(...)` and Stable-Baselines3's callbacks work as usual. A zip file of Stable-Baselines3 holds pickled
Python: reading one can run any code. Any object with `choose` is a strategy; informed exploration is one.
"""

from __future__ import annotations

from collections.abc import Callable
from math import isfinite
from pathlib import Path
from typing import Any, Protocol, runtime_checkable

import numpy as np
import torch
from gymnasium import spaces
from numpy.typing import NDArray
from stable_baselines3 import DQN
from stable_baselines3.common.torch_layers import BaseFeaturesExtractor, NatureCNN
from torch import Tensor, nn

from acvp.agents.agent import NATURE, Agent, AgentAbout, AgentError, NetworkConfig, ValueNetwork, make_features
from acvp.agents.presets import DqnConfig
from acvp.agents.replay import FrameReplay
from acvp.agents.vec_env import AgentVecEnv
from acvp.data.policies import MEAN_REPEATS, Actions, random_actions, sticky_random_actions
from acvp.envs import make_game
from acvp.harness import DivergenceError
from acvp.seeding import derived_seed, generator


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


OPTIMIZERS: dict[str, tuple[type[torch.optim.Optimizer], dict[str, Any]]] = {
    "rmsprop": (torch.optim.RMSprop, {"alpha": 0.95, "eps": 0.01}),
    "adam": (torch.optim.Adam, {"eps": 1e-4, "fused": True}),
}


class FeaturesExtractor(BaseFeaturesExtractor):
    """The layers below the values: frames (B, 4, 84, 84) from 0 to 1 → features (B, hidden)."""

    def __init__(self, observation_space: spaces.Space[Any], config: NetworkConfig) -> None:
        super().__init__(observation_space, config.hidden)
        self.layers = make_features(config)

    def forward(self, observations: Tensor) -> Tensor:
        features: Tensor = self.layers(observations)
        return features


class AcvpDqn(DQN):
    """A DQN with an exploration strategy."""

    replay_buffer: FrameReplay

    def __init__(
        self,
        settings: DqnConfig,
        env: AgentVecEnv,
        *,
        seed: int,
        exploration: Exploration | None = None,
        device: torch.device | str = "auto",
    ) -> None:
        """Build networks and replay; the default exploration is random."""
        optimizer, options = OPTIMIZERS[settings.optimizer]
        self.settings = settings
        self.progress: Callable[[], float] | None = None
        """Returns the part of the run that is done, from 0 to 1; None: by the `total_timesteps` of `learn`."""
        self.exploration = exploration or RandomExploration(len(env.action_meanings), seed)
        super().__init__(
            "CnnPolicy",
            env,
            learning_rate=settings.lr,
            buffer_size=settings.replay,
            learning_starts=settings.learning_starts,
            batch_size=settings.batch_size,
            gamma=settings.discount,
            train_freq=settings.rounds_between_updates,
            gradient_steps=settings.updates_of_a_round,
            target_update_interval=settings.target_every,
            exploration_initial_eps=settings.epsilon_first,
            exploration_final_eps=settings.epsilon_last,
            exploration_fraction=settings.epsilon_share,
            replay_buffer_class=FrameReplay,
            replay_buffer_kwargs={
                "seed": seed,
                "steps": settings.return_steps,
                "discount": settings.discount,
                "episodic_life": settings.episodic_life,
            },
            policy_kwargs={
                "net_arch": [],
                "features_extractor_class": FeaturesExtractor,
                "features_extractor_kwargs": {"config": settings.network},
                "optimizer_class": optimizer,
                "optimizer_kwargs": options,
            },
            seed=derived_seed("agent's weights", seed),
            device=device,
        )
        self.exploration_rate = settings.epsilon_first

    def predict(
        self,
        observation: NDArray[np.uint8] | dict[str, NDArray[Any]],
        state: tuple[NDArray[Any], ...] | None = None,
        episode_start: NDArray[Any] | None = None,
        deterministic: bool = False,
    ) -> tuple[NDArray[Any], tuple[NDArray[Any], ...] | None]:
        """Return greedy actions, or those of the exploration strategy, for one observation or a batch."""
        assert isinstance(observation, np.ndarray)
        greedy, state = self.policy.predict(observation, state, episode_start, deterministic=True)
        if deterministic:
            return greedy, state
        single = not self.policy.is_vectorized_observation(observation)
        batch = (observation[None], greedy[None]) if single else (observation, greedy)
        chosen = self.exploration.choose(*batch, self.exploration_rate)
        return (chosen[0] if single else chosen), state

    def _sample_action(
        self, learning_starts: int, action_noise: Any = None, n_envs: int = 1
    ) -> tuple[NDArray[Any], NDArray[Any]]:
        """Choose actions by the strategy from the first agent step on: ε starts at 1."""
        assert self._last_obs is not None
        actions, _ = self.predict(self._last_obs)
        return actions, actions

    def _update_current_progress_remaining(self, num_timesteps: int, total_timesteps: int) -> None:
        """Update the part of the run that is left, which sets ε."""
        if self.progress is None:
            super()._update_current_progress_remaining(num_timesteps, total_timesteps)
        else:
            self._current_progress_remaining = 1.0 - self.progress()

    def train(self, gradient_steps: int, batch_size: int = 100) -> None:
        """Make gradient steps; a loss that is not finite stops the run."""
        super().train(gradient_steps, batch_size)
        loss = self.logger.name_to_value["train/loss"]
        if not isfinite(loss):
            raise DivergenceError(f"the loss is {loss} after {self._n_updates:,} updates")

    def start_from(self, network: ValueNetwork) -> None:
        """Take over the weights of a network of the same sizes."""
        for mine in (self.q_net, self.q_net_target):
            extractor = mine.features_extractor
            assert isinstance(extractor, FeaturesExtractor)
            extractor.layers.load_state_dict(network.features.state_dict())
            mine.q_net[0].load_state_dict(network.head.state_dict())

    def network(self) -> ValueNetwork:
        """Return a copy of the value network that needs no Stable-Baselines3."""
        copy = ValueNetwork(self.settings.network, int(self.action_space.n))  # type: ignore[attr-defined]
        extractor = self.q_net.features_extractor
        assert isinstance(extractor, FeaturesExtractor)
        copy.features.load_state_dict(extractor.layers.state_dict())
        copy.head.load_state_dict(self.q_net.q_net[0].state_dict())
        return copy


UNNEEDED: dict[str, Any] = {
    "buffer_size": 1,
    "learning_starts": 0,
    "replay_buffer_class": None,
    "replay_buffer_kwargs": {},
}
"""Not read from the zip: an agent needs no replay."""


def import_agent(source: Path, env_id: str, *, trust_pickle: bool) -> Agent:
    """Return the agent in a zip of Stable-Baselines3's DQN with CnnPolicy; only if the file is trusted."""
    if not trust_pickle:
        raise AgentError(
            f"{source}: loading a file of Stable-Baselines3 can run any code in it; if you trust its origin, add "
            "--trust-pickle"
        )
    if not source.is_file():
        raise AgentError(f"{source}: no such file; name the zip that Stable-Baselines3's save wrote")
    try:
        dqn = DQN.load(source, device="cpu", custom_objects=UNNEEDED)
    except Exception as error:  # whatever unpickling raises
        raise AgentError(f"{source}: not a DQN of Stable-Baselines3 ({type(error).__name__}: {error})") from error
    with make_game(env_id) as game:
        about = AgentAbout(
            env_id=game.env_id,
            action_meanings=game.action_meanings,
            training=f"imported from {source.name} of Stable-Baselines3, {dqn.num_timesteps:,} agent steps",
            license="unknown",
        )
    return Agent(_network(dqn, source), about)


def _network(dqn: DQN, source: Path) -> ValueNetwork:
    """Return the network of Mnih et al., 2015, with the weights of the zip."""
    extractor, head = dqn.q_net.features_extractor, dqn.q_net.q_net
    if not isinstance(extractor, NatureCNN) or len(head) != 1:
        raise AgentError(f"{source}: its network is not the one of CnnPolicy, on 4 gray frames of 84×84")
    theirs = [*(layer for layer in extractor.modules() if isinstance(layer, nn.Conv2d | nn.Linear)), head[0]]
    network = ValueNetwork(NATURE, int(dqn.action_space.n))  # type: ignore[attr-defined]
    ours = [layer for layer in network.modules() if isinstance(layer, nn.Conv2d | nn.Linear)]
    try:
        for our_layer, their_layer in zip(ours, theirs, strict=True):
            our_layer.load_state_dict(their_layer.state_dict())
    except (RuntimeError, ValueError) as error:
        raise AgentError(f"{source}: its network does not take 4 gray frames of 84×84 ({error})") from error
    return network
