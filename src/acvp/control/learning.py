"""What `acvp agent train` uses predictors for: informed exploration, and imagined games to learn in.

Shapes: E games.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from acvp.agents.agent import Gray, Pixels, agent_view
from acvp.agents.config import AgentTrainConfig
from acvp.agents.vec_env import AgentVecEnv, GameVecEnv, StepResult
from acvp.console import Device
from acvp.control.imagination import ImaginationConfig
from acvp.control.imagined_env import HORIZON, ImaginedEpisodes
from acvp.control.informed import InformedExploration
from acvp.control.kernel import KernelConfig, paper_kernel
from acvp.data.frames import GRAY_84
from acvp.data.store import EpisodeStore
from acvp.envs import make_game
from acvp.errors import UserError
from acvp.loaded import as_model, require_fit
from acvp.models import Predictor
from acvp.seeding import generator

NO_LIVES = -1
"""Lives at the start of an imagined game: how many are left is not known, only when one is lost."""


class ImaginedVecEnv(AgentVecEnv):
    """Imagined games in one batch, for Stable-Baselines3 and acvp's DQN: observations (E, 4, 84, 84)."""

    can_save = False

    def __init__(
        self,
        predictor: Predictor | str | Path,
        data: EpisodeStore | str | Path,
        *,
        games: int,
        seed: int,
        horizon: int = HORIZON,
        device: Device = "auto",
        imagination: ImaginationConfig | None = None,
    ) -> None:
        """Take the options of `acvp/Imagined-v0`; starts follow from the seed and the number of earlier episodes."""
        self._imagined = ImaginedEpisodes(
            predictor, data, episodes=games, observation="frame", horizon=horizon, device=device,
            imagination=imagination, seed=seed,
        )  # fmt: skip
        self._seed = seed
        info = self._imagined.imagination.store.info
        super().__init__(games, info.env_id, info.action_meanings)

    def close(self) -> None:
        """Do nothing: there is no emulator to close."""

    def _begin_all(self) -> list[tuple[Gray, int]]:
        self._imagined.begin(np.arange(self.num_envs), self._rng())
        return [(frame, NO_LIVES) for frame in self._seen()]

    def _advance(self, actions: NDArray[np.int64]) -> list[StepResult]:
        rewards, terminated, truncated = self._imagined.step(np.asarray(actions, np.int64))
        lost = self._imagined.lost_lives
        last, ended = self._seen(), terminated | truncated
        first = last
        if ended.any():
            self._imagined.begin(np.flatnonzero(ended), self._rng())
            first = self._seen()
        return [
            StepResult(
                last[game], float(rewards[game]), bool(terminated[game]), bool(truncated[game]),
                self.episodes[game].lives - bool(lost is not None and lost[game]),
                first[game] if ended[game] else None,
            )
            for game in range(self.num_envs)
        ]  # fmt: skip

    def _clipped(self, rewards: NDArray[np.float64]) -> NDArray[np.float64]:
        return rewards  # −1 to 1 already, and expected ones lie between

    def _rng(self) -> np.random.Generator:
        """Return the generator that draws the next window starts."""
        return generator("imagined games", self._seed, sum(episode.number + 1 for episode in self.episodes))

    def _seen(self) -> Pixels:
        """Return a copy of the newest frames as an agent sees them, (E, 84, 84)."""
        return agent_view(self._imagined.frames).copy()


MakeInformed = Callable[[AgentVecEnv], InformedExploration]


def informed_strategy(config: AgentTrainConfig, predictor: Predictor | None) -> MakeInformed | None:
    """Return a function that makes the strategy for given games; None: exploration is not informed."""
    if config.predictor is not None and predictor is not None:
        return _by_model(config, config.predictor, predictor)
    return _by_emulator(config) if config.exploration == "informed-emulator" else None


def _by_model(config: AgentTrainConfig, path: Path, predictor: Predictor) -> MakeInformed:
    model = as_model(path, predictor, config.device)
    with make_game(config.env_id, import_module=config.import_module) as game:
        require_fit(str(path), model.predictor, game)
    in_color = model.view.name != GRAY_84.name
    if in_color and config.emulator == "ale":
        raise UserError(
            f"{path} sees frames in {model.view.name}, ALE's vector env gives {GRAY_84.name}: choose --emulator own"
        )

    def make(env: AgentVecEnv) -> InformedExploration:
        screens = (lambda: env.screens) if in_color and isinstance(env, GameVecEnv) else None
        return InformedExploration.from_predictor(
            model.predictor,
            _kernel(config, env),
            seed=config.seed,
            look_ahead=_look_ahead(config),
            screens=screens,
        )

    return make


def _kernel(config: AgentTrainConfig, env: AgentVecEnv) -> KernelConfig:
    """Return the paper's kernel for the game, with the threshold of the config."""
    kernel = paper_kernel(env.env_id)
    return kernel if config.delta is None else replace(kernel, delta=config.delta)


def _look_ahead(config: AgentTrainConfig) -> int:
    return 1 if config.look_ahead is None else config.look_ahead


def _by_emulator(config: AgentTrainConfig) -> MakeInformed:
    def make(env: AgentVecEnv) -> InformedExploration:
        assert isinstance(env, GameVecEnv), "the config refuses informed-emulator with ALE's vector env"
        kernel, look_ahead = _kernel(config, env), _look_ahead(config)
        return InformedExploration.from_emulator(env.games, kernel, seed=config.seed, look_ahead=look_ahead)

    return make


def imagined_games(config: AgentTrainConfig, predictor: Predictor | None) -> Callable[[int], ImaginedVecEnv] | None:
    """Return a function that makes imagined games; None: the agent learns in real ones."""
    store = config.data
    if config.imagined is None or predictor is None or store is None:
        return None
    horizon = config.max_steps or HORIZON
    return lambda games: ImaginedVecEnv(
        predictor, store, games=games, seed=config.seed, horizon=horizon, device=config.device
    )
