"""`acvp/Imagined-v0`: a predictor as a Gymnasium env, alone or many at once.

    env = gymnasium.make("acvp.envs:acvp/Imagined-v0", predictor="freeway", data="data/freeway")
    envs = gymnasium.make_vec("acvp.envs:acvp/Imagined-v0", num_envs=16, predictor="freeway", data="data/freeway")

An episode starts from real frames of a dataset; every later frame is predicted.

Shapes: B envs, R some of them, T given frames, H height, W width, C channels.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal, NamedTuple, get_args

import gymnasium
import numpy as np
import torch
from gymnasium import spaces
from gymnasium.vector import AutoresetMode, VectorEnv
from gymnasium.vector.utils import batch_space
from numpy.typing import NDArray

from acvp.actions import Actions, blank_actions, checked_vector
from acvp.agents.agent import AGENT_SIZE, STACK, FrameStack, Pixels, Rows, agent_view
from acvp.console import Device
from acvp.data.store import EpisodeStore
from acvp.data.windows import Window, Windows
from acvp.errors import UserError
from acvp.loaded import LoadedModel, as_model, check_alike, load, view_of
from acvp.models import Outcome, Predictor, State, pick_device
from acvp.models.layers import Calibration, Flags
from acvp.models.rollout import join_rows, select_rows
from acvp.seeding import generator


class ImaginedStep(NamedTuple):
    """What one agent step led to in every episode."""

    frames: Pixels
    """(B, H, W, C)"""
    rewards: NDArray[np.float64]
    """(B,): as ImaginationConfig.rewards says."""
    terminations: NDArray[np.bool_]
    """(B,): whether the game is over, by the predictor's threshold."""
    lost_lives: NDArray[np.bool_] | None
    """(B,): whether a life was lost, by the predictor's threshold; None: not predicted."""
    unsure: NDArray[np.bool_]
    """(B,): whether the predictor has been unsure for longer than the limit."""


Rewards = Literal["sign", "expected", "sample"]
RECENT_PART = 0.2
"""Part of a dataset, its end, that counts as recent."""


@dataclass(frozen=True, kw_only=True)
class ImaginationConfig:
    """How rewards, terminations and starts of imagined episodes are made."""

    rewards: Rewards = "sign"
    """sign: −1, 0 or 1 by the predictor's thresholds, without which it is the most likely; expected: P(positive) −
    P(negative); sample: drawn by these probabilities."""
    episodic_life: bool = False
    """Whether an episode ends at a lost life, too, as for agents that learn with episodic life."""
    calibration: Calibration | None = None
    """Correction of the predicted probabilities, and thresholds; None: those stored with the predictor."""
    recent: float = 0.0
    """Share of the starts taken from the last fifth of the dataset; the others are spread over all of it."""
    temperature: float = 0.0
    """Sampling temperature of the frames, for games of chance: 0 = argmax, 1 = sample."""
    max_entropy: float | None = None
    """Nats of uncertainty of rewards and terminations, summed over an episode, after which it is truncated."""

    def __post_init__(self) -> None:
        if self.rewards not in get_args(Rewards):
            raise UserError(f"rewards is {self.rewards!r}: choose {', '.join(get_args(Rewards))}")
        if not 0 <= self.recent <= 1:
            raise UserError(f"recent is {self.recent:g}: a share lies between 0 and 1")
        if self.temperature < 0:
            raise UserError(f"temperature is {self.temperature:g}: 0 or more")
        if self.max_entropy is not None and not self.max_entropy > 0:
            raise UserError(f"max_entropy is {self.max_entropy:g}: above 0, or None")


class Start(NamedTuple):
    """Real frames that episodes start from, and where they come from."""

    frames: Pixels
    """(R, T, H, W, C): as many as the predictor needs."""
    actions: NDArray[np.int64]
    """(R, T − 1): those between the frames."""
    episodes: NDArray[np.int64]
    """(R,): number of the episode in the dataset."""
    times: NDArray[np.int64]
    """(R,): index of the last of the frames in its episode."""


class Imagination:
    """A batch of imagined episodes; each can be restarted at any time."""

    def __init__(
        self, model: LoadedModel, store: EpisodeStore, config: ImaginationConfig | None = None, *, seed: int = 0
    ) -> None:
        """Take a model, the dataset of its starts, how to imagine, and the seed of what is sampled."""
        check_alike([model], store)
        self.model, self.store, self.config = model, store, config or ImaginationConfig()
        self._calibration = self.config.calibration or model.predictor.calibration
        self.seed(seed)
        self._entropy = np.zeros(0)
        """Nats since the start of each episode, (B,)."""
        self._windows = Windows(store, Window(model.predictor.context, 1), model.view)  # never the last frame
        self._groups: list[tuple[Rows, State]] = []
        """Episodes that started together, or have all been stepped since, and their state."""
        self._require_heads()

    def seed(self, seed: int) -> None:
        """Draw what is sampled, rewards and frames, by a seed from now on."""
        if self.config.temperature:
            self.model.predictor.sample(self.config.temperature, seed)
        self._rng = generator("imagined rewards", seed)

    def begin(self, rows: Rows, rng: np.random.Generator) -> Start:
        """Start some episodes from real frames drawn at random."""
        start = self._draw(len(rows), rng)
        if not len(rows):
            return start
        groups = []
        for members, state in self._groups:
            kept = np.flatnonzero(~np.isin(members, rows))
            if len(kept):
                groups.append((members[kept], select_rows(state, kept)))
        self._groups = [*groups, (rows, self._observe(start))]
        self._entropy = np.concatenate((self._entropy, np.zeros(max(0, int(rows.max()) + 1 - len(self._entropy)))))
        self._entropy[rows] = 0.0
        return start

    @torch.inference_mode()
    def step(self, actions: Actions) -> ImaginedStep:
        """Take an action of (B,) or (B, A) in every episode."""
        order = np.concatenate([rows for rows, _ in self._groups])
        steps = [self.model.predictor.predict(state, self._tensor(actions[rows])) for rows, state in self._groups]
        sorting = np.argsort(order)
        state = select_rows(join_rows([state for _, state in steps]), sorting)
        self._groups = [(order[sorting], state)]
        pixels = self.model.predictor.normalizer.to_uint8(torch.cat([frame for frame, _ in steps]))
        return ImaginedStep(pixels.numpy(force=True)[sorting], *self._outcome(state))

    def _outcome(self, state: State) -> tuple[NDArray[np.float64], Flags, Flags | None, Flags]:
        """Return rewards, terminations, lost lives and whether the limit of uncertainty is reached, (B,) each."""
        if state.outcome is None:
            raise RuntimeError("the predictor gave an outcome at the start, and gives none now")
        outcome = self._calibration.apply(state.outcome)
        unsure = np.zeros(len(self._entropy), np.bool_)
        if self.config.max_entropy is not None:
            self._entropy += outcome.entropy().double().numpy(force=True)
            unsure = self._entropy >= self.config.max_entropy
        ended, lost = self._calibration.terminated(outcome), self._calibration.lost_lives(outcome)
        return self._rewards(outcome), ended, lost, unsure

    def _rewards(self, outcome: Outcome) -> NDArray[np.float64]:
        """Return the rewards of an outcome, (B,)."""
        if self.config.rewards == "sign":
            return self._calibration.reward_signs(outcome).astype(np.float64)
        if self.config.rewards == "expected":
            return np.asarray(outcome.expected_rewards().double().numpy(force=True))
        cumulative = outcome.reward.double().softmax(1).cumsum(1).numpy(force=True)  # (B, 3)
        drawn = (self._rng.random((len(cumulative), 1)) > cumulative[:, :2]).sum(1)
        return np.asarray(drawn - 1, np.float64)

    @torch.inference_mode()
    def _observe(self, start: Start) -> State:
        predictor = self.model.predictor
        frames = predictor.normalizer.to_float(self._tensor(start.frames))
        return predictor.observe(frames, self._tensor(start.actions))

    def _draw(self, count: int, rng: np.random.Generator) -> Start:
        numbers = rng.integers(len(self._windows), size=count)
        if self.config.recent:
            newest = rng.integers(int(len(self._windows) * (1 - RECENT_PART)), len(self._windows), size=count)
            numbers = np.where(rng.random(count) < self.config.recent, newest, numbers)
        starts = [self._windows.locate(number) for number in numbers.tolist()]
        last, batch = self.model.predictor.context - 1, self._windows.batch(numbers)
        return Start(
            frames=batch.frames[:, :-1],
            actions=batch.actions[:, :last],
            episodes=np.array([self.store.entries[position].number for position, _ in starts]),
            times=np.array([first + last for _, first in starts]),
        )

    def _tensor(self, values: NDArray[Any]) -> torch.Tensor:
        return torch.from_numpy(np.ascontiguousarray(values)).to(self.model.device)

    @torch.inference_mode()
    def _require_heads(self) -> None:
        start = self._draw(1, np.random.default_rng(0))
        _, state = self.model.predictor.predict(
            self._observe(start), self._tensor(blank_actions(self.store.info.action_range, 1))
        )
        if state.outcome is None:
            raise UserError(
                f"{self.model.name} predicts frames only, and an imagined env needs rewards and terminations: "
                "train with acvp train --predict-rewards, or with --model pixel"
            )
        if self.config.episodic_life and state.outcome.lost_life is None:
            raise UserError(
                f"{self.model.name} does not predict lost lives, and episodic_life needs them: train one on a game "
                "with lives"
            )


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
