"""Stable-Baselines3's DQN with acvp's network, frame-wise replay, exploration strategies and a budget of time.

It is a DQN like any other: `AcvpDqn(...).learn(...)` works, and so do Stable-Baselines3's callbacks.
"""

from __future__ import annotations

from collections.abc import Callable
from math import isfinite
from typing import Any

import numpy as np
import torch
from gymnasium import spaces
from numpy.typing import NDArray
from stable_baselines3 import DQN
from stable_baselines3.common.torch_layers import BaseFeaturesExtractor
from torch import Tensor

from acvp.agents.exploration import Exploration, RandomExploration
from acvp.agents.network import NetworkConfig, ValueNetwork, make_torso
from acvp.agents.replay import FrameReplay
from acvp.agents.settings import DqnSettings
from acvp.agents.vector import PlayVecEnv
from acvp.seeding import derived_seed

OPTIMISERS: dict[str, tuple[type[torch.optim.Optimizer], dict[str, Any]]] = {
    "rmsprop": (torch.optim.RMSprop, {"alpha": 0.95, "eps": 0.01}),
    "adam": (torch.optim.Adam, {"eps": 1e-4, "fused": True}),
}


class DivergedError(Exception):
    """The loss stopped being a number; what was saved before is untouched."""


class Torso(BaseFeaturesExtractor):
    """The layers below the values, as Stable-Baselines3 wants them: frames (B, 4, 84, 84) from 0 to 1."""

    def __init__(self, observation_space: spaces.Space[Any], config: NetworkConfig) -> None:
        super().__init__(observation_space, config.hidden)
        self.layers = make_torso(config)

    def forward(self, observations: Tensor) -> Tensor:
        features: Tensor = self.layers(observations)
        return features


class AcvpDqn(DQN):
    """A DQN that learns in games, with a strategy of exploration."""

    replay_buffer: FrameReplay

    def __init__(
        self,
        settings: DqnSettings,
        env: PlayVecEnv,
        *,
        seed: int,
        exploration: Exploration | None = None,
        device: torch.device | str = "auto",
    ) -> None:
        """Build networks and replay; without an `exploration` it is random."""
        optimiser, options = OPTIMISERS[settings.optimiser]
        self.settings = settings
        self.progress: Callable[[], float] | None = None
        """Tells how much of the run is done, from 0 to 1; None: what `learn` is called with decides."""
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
                "life_ends": settings.life_ends,
            },
            policy_kwargs={
                "net_arch": [],
                "features_extractor_class": Torso,
                "features_extractor_kwargs": {"config": settings.network},
                "optimizer_class": optimiser,
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
        """Return the greedy actions, or those that the strategy makes of them; one observation or several."""
        assert isinstance(observation, np.ndarray)
        greedy, state = self.policy.predict(observation, state, episode_start, deterministic=True)
        if deterministic:
            return greedy, state
        one = not self.policy.is_vectorized_observation(observation)
        batch = (observation[None], greedy[None]) if one else (observation, greedy)
        chosen = self.exploration.choose(*batch, self.exploration_rate)
        return (chosen[0] if one else chosen), state

    def _sample_action(
        self, learning_starts: int, action_noise: Any = None, n_envs: int = 1
    ) -> tuple[NDArray[Any], NDArray[Any]]:
        """Choose actions by the strategy from the first decision on: ε is what is random at the start."""
        assert self._last_obs is not None
        actions, _ = self.predict(self._last_obs)
        return actions, actions

    def _update_current_progress_remaining(self, num_timesteps: int, total_timesteps: int) -> None:
        """Note how much of the run is left: ε follows from it."""
        if self.progress is None:
            super()._update_current_progress_remaining(num_timesteps, total_timesteps)
        else:
            self._current_progress_remaining = 1.0 - self.progress()

    def train(self, gradient_steps: int, batch_size: int = 100) -> None:
        """Learn from drawn transitions; a loss that is no number stops the run."""
        super().train(gradient_steps, batch_size)
        loss = self.logger.name_to_value["train/loss"]
        if not isfinite(loss):
            raise DivergedError(f"the loss is {loss} after {self._n_updates:,} updates; try a lower learning rate")

    def network(self) -> ValueNetwork:
        """Return a copy of the value network that needs no Stable-Baselines3."""
        copy = ValueNetwork(self.settings.network, int(self.action_space.n))  # type: ignore[attr-defined]
        torso = self.q_net.features_extractor
        assert isinstance(torso, Torso)
        copy.torso.load_state_dict(torso.layers.state_dict())
        copy.head.load_state_dict(self.q_net.q_net[0].state_dict())
        return copy
