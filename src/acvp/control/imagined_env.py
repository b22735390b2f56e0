"""`acvp/Imagined-v0`: a predictor as a Gymnasium env, alone or many at once.

    env = gymnasium.make("acvp.envs:acvp/Imagined-v0", predictor="freeway", data="data/freeway")
    envs = gymnasium.make_vec("acvp.envs:acvp/Imagined-v0", num_envs=16, predictor="freeway", data="data/freeway")

An episode starts from real frames of a dataset; every later frame is predicted.

Shapes: B envs, R some of them, T given frames, H height, W width, C channels.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any, Literal

import gymnasium
import numpy as np
from gymnasium import spaces
from gymnasium.vector import AutoresetMode, VectorEnv
from gymnasium.vector.utils import batch_space
from numpy.typing import NDArray

from acvp.actions import checked_vector
from acvp.agents.agent import AGENT_SIZE, STACK, FrameStack, Pixels, Rows, agent_view
from acvp.console import Device
from acvp.control.imagination import Imagination, ImaginationConfig, Start
from acvp.data.store import EpisodeStore
from acvp.errors import UserError
from acvp.loaded import LoadedModel, as_model, load, view_of
from acvp.models import Predictor, pick_device
from acvp.models.layers import Flags

Observation = Literal["frame", "agent"]
HORIZON = 100
"""Default number of agent steps after which an episode is truncated."""
FPS = 15
"""Agent steps per second of an Atari game at normal speed."""
EnvStep = tuple[Pixels, float, bool, bool, dict[str, Any]]
VectorStep = tuple[Pixels, NDArray[np.float64], NDArray[np.bool_], NDArray[np.bool_], dict[str, Any]]


class ImaginedEpisodes:
    """What both envs share: the episodes, their observations and their length."""

    def __init__(
        self,
        predictor: Predictor | str | Path,
        data: EpisodeStore | str | Path,
        *,
        episodes: int,
        observation: Observation,
        horizon: int,
        device: Device,
        imagination: ImaginationConfig | None = None,
        seed: int = 0,
    ) -> None:
        if horizon < 1:
            raise UserError(f"horizon is {horizon}: an episode has at least 1 agent step")
        if observation not in ("frame", "agent"):
            raise UserError(f"observation is {observation!r}: choose frame (as predicted) or agent (4 gray 84×84)")
        store = data if isinstance(data, EpisodeStore) else EpisodeStore(data)
        self.imagination = Imagination(_model(predictor, device), store, imagination, seed=seed)
        self.meanings, self.range = store.info.action_meanings, store.info.action_range
        self.horizon = horizon
        self.frames = np.zeros((episodes, *self.imagination.model.predictor.config.frame), np.uint8)
        """The newest frame of every episode, (B, H, W, C)."""
        self._stack = FrameStack(episodes, STACK) if observation == "agent" else None
        self._elapsed = np.zeros(episodes, np.int64)
        self.lost_lives: Flags | None = None
        """Whether the last step lost a life, (B,); None: not predicted."""

    @property
    def observation_space(self) -> spaces.Space[Pixels]:
        """The observation space of one env."""
        shape = self.frames.shape[1:] if self._stack is None else (STACK, *AGENT_SIZE)
        space: spaces.Space[Any] = spaces.Box(0, 255, shape, np.uint8)
        return space

    @property
    def action_space(self) -> spaces.Space[Any]:
        """The action space of one env: that of the game."""
        if not self.range:
            return spaces.Discrete(len(self.meanings))
        return spaces.Box(*np.array(self.range, np.float32).T, dtype=np.float32)

    @property
    def observations(self) -> Pixels:
        """The newest frames (B, H, W, C), or the last four as an agent sees them (B, 4, 84, 84)."""
        return self.frames.copy() if self._stack is None else self._stack.frames.copy()

    def begin(self, rows: Rows, rng: np.random.Generator) -> Start:
        """Start some episodes from real frames."""
        start = self.imagination.begin(rows, rng)
        self.frames[rows] = start.frames[:, -1]
        self._elapsed[rows] = 0
        if self._stack is not None:
            self._stack.begin(agent_view(start.frames), rows)
        return start

    def step(self, actions: Any) -> tuple[NDArray[np.float64], NDArray[np.bool_], NDArray[np.bool_]]:
        """Take an action of (B,) or (B, A) in every episode; return rewards, terminations and truncations (B,)."""
        if self.range:
            actions = np.stack([checked_vector(action, self.range, "the imagined env") for action in actions])
        else:
            actions = np.asarray(actions, np.int64)
        self.frames, rewards, terminated, self.lost_lives, unsure = self.imagination.step(actions)
        if self.imagination.config.episodic_life and self.lost_lives is not None:
            terminated = terminated | self.lost_lives
        self._elapsed += 1
        if self._stack is not None:
            self._stack.add(agent_view(self.frames))
        return rewards, terminated, ~terminated & (unsure | (self._elapsed >= self.horizon))

    def rgb(self, row: int) -> Pixels:
        """Return the newest frame of an episode in RGB, (H, W, 3)."""
        frame = self.frames[row]
        return np.broadcast_to(frame, (*frame.shape[:2], 3)).copy()


class ImaginedEnv(gymnasium.Env[Pixels, Any]):
    """A predictor as a Gymnasium env: real frames at the start, predicted frames from then on.

    The reward is by default a sign by the predictor's reward head, and the episode terminates where its termination
    head says so, both by the thresholds that are stored with the predictor. `reset` draws a window of the dataset;
    `info` has its episode and frame. `info` of a step has `lost_life`, of predictors that predict it.
    """

    metadata = {"render_modes": ["rgb_array"], "render_fps": FPS}  # noqa: RUF012  (Gymnasium declares it so)

    def __init__(
        self,
        predictor: Predictor | str | Path,
        data: EpisodeStore | str | Path,
        *,
        observation: Observation = "frame",
        horizon: int = HORIZON,
        device: Device = "auto",
        render_mode: str | None = None,
        imagination: ImaginationConfig | None = None,
    ) -> None:
        """Take a predictor with reward and termination heads and a dataset of its game, or their folders.

        Observations are predicted frames, (H, W, C), or with `observation="agent"` the last four in gray 84×84,
        (4, 84, 84); an episode is truncated after `horizon` agent steps. `imagination` says how rewards and starts are
        made.
        """
        options: dict[str, Any] = {"observation": observation, "horizon": horizon, "device": device}
        options["imagination"] = imagination
        self._episodes = ImaginedEpisodes(predictor, data, episodes=1, **options)
        self.render_mode = render_mode
        self.observation_space = self._episodes.observation_space
        self.action_space = self._episodes.action_space

    def get_action_meanings(self) -> list[str]:
        """Return the names of the actions."""
        return list(self._episodes.meanings)

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[Pixels, dict[str, Any]]:
        """Start an episode from real frames of the dataset."""
        super().reset(seed=seed)
        if seed is not None:
            self._episodes.imagination.seed(seed)
        start = self._episodes.begin(np.zeros(1, np.int64), self.np_random)
        return self._episodes.observations[0], {"episode": int(start.episodes[0]), "frame": int(start.times[0])}

    def step(self, action: Any) -> EnvStep:
        """Predict what an action leads to."""
        rewards, terminated, truncated = self._episodes.step([action])
        lost, info = self._episodes.lost_lives, dict[str, Any]()
        if lost is not None:
            info["lost_life"] = bool(lost[0])
        return self._episodes.observations[0], float(rewards[0]), bool(terminated[0]), bool(truncated[0]), info

    def render(self) -> Pixels:
        """Return the newest frame in RGB."""
        return self._episodes.rgb(0)


class ImaginedVectorEnv(VectorEnv[Pixels, NDArray[Any], NDArray[Any]]):
    """Imagined envs predicted in one batch; where an episode ends, the next one starts in the same step.

    The last observation of an ended episode is in `info["final_obs"]`, where `info["_final_obs"]` is true;
    `info["lost_life"]` has lost lives, of predictors that predict them.
    """

    metadata = {  # noqa: RUF012  (Gymnasium declares it so)
        "render_modes": ["rgb_array"], "render_fps": FPS, "autoreset_mode": AutoresetMode.SAME_STEP,
    }  # fmt: skip

    def __init__(
        self,
        num_envs: int,
        predictor: Predictor | str | Path,
        data: EpisodeStore | str | Path,
        *,
        observation: Observation = "frame",
        horizon: int = HORIZON,
        device: Device = "auto",
        render_mode: str | None = None,
        imagination: ImaginationConfig | None = None,
    ) -> None:
        """Take the options of ImaginedEnv."""
        options: dict[str, Any] = {"observation": observation, "horizon": horizon, "device": device}
        options["imagination"] = imagination
        self._episodes = ImaginedEpisodes(predictor, data, episodes=num_envs, **options)
        self.num_envs, self.render_mode = num_envs, render_mode
        self.single_observation_space = self._episodes.observation_space
        self.single_action_space = self._episodes.action_space
        self.observation_space = batch_space(self.single_observation_space, num_envs)
        self.action_space = batch_space(self.single_action_space, num_envs)

    def get_action_meanings(self) -> list[str]:
        """Return the names of the actions."""
        return list(self._episodes.meanings)

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[Pixels, dict[str, Any]]:
        """Start all episodes from real frames of the dataset."""
        super().reset(seed=seed)
        if seed is not None:
            self._episodes.imagination.seed(seed)
        start = self._episodes.begin(np.arange(self.num_envs), self.np_random)
        return self._episodes.observations, {"episode": start.episodes, "frame": start.times}

    def step(self, actions: NDArray[Any]) -> VectorStep:
        """Predict what the actions, (B,) or (B, A), lead to."""
        rewards, terminated, truncated = self._episodes.step(actions)
        done = terminated | truncated
        lost, info = self._episodes.lost_lives, dict[str, Any]()
        if lost is not None:
            info = {"lost_life": lost, "_lost_life": np.ones_like(lost)}
        if not done.any():
            return self._episodes.observations, rewards, terminated, truncated, info
        rows, final = np.flatnonzero(done), np.full(self.num_envs, None, object)
        for row, last in zip(rows, self._episodes.observations[done], strict=True):
            final[row] = last
        self._episodes.begin(rows, self.np_random)
        info |= {"final_obs": final, "_final_obs": done}
        return self._episodes.observations, rewards, terminated, truncated, info

    def render(self) -> tuple[Pixels, ...]:
        """Return the newest frame of every env in RGB."""
        return tuple(self._episodes.rgb(row) for row in range(self.num_envs))


def _model(predictor: Predictor | str | Path, device: Device) -> LoadedModel:
    if isinstance(predictor, Predictor):
        return LoadedModel(name="the predictor", predictor=predictor.to(pick_device(device)), view=view_of(predictor))
    return as_model(Path(predictor), load(predictor), device)
