"""`acvp/Imagined-v0`: a predictor as a Gymnasium env, alone or many at once.

    import acvp.control, gymnasium
    env = gymnasium.make("acvp/Imagined-v0", predictor="runs/mine", store="stores/freeway")
    envs = gymnasium.make_vec("acvp/Imagined-v0", num_envs=16, predictor="runs/mine", store="stores/freeway")

Shapes: B envs, R some of them, T given frames, H height, W width, C channels.

Plays side by side that exist in a predictor only, each begun from real frames of a store.

Shapes: B plays, R some of them, T given frames, H height, W width, C channels.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any, Literal, NamedTuple

import gymnasium
import numpy as np
import torch
from gymnasium import spaces
from gymnasium.vector import AutoresetMode, VectorEnv
from gymnasium.vector.utils import batch_space
from numpy.typing import NDArray

from acvp.agents.observations import AGENT_SIZE, FrameStack, Pixels, agent_view
from acvp.data.store import EpisodeStore
from acvp.data.windows import Window, Windows
from acvp.errors import UserError
from acvp.evaluation.config import Device
from acvp.loaded import LoadedModel, as_model, check_alike
from acvp.models import Predictor, State, pick_device, view_of
from acvp.models.load import load
from acvp.models.rollout import join_rows, select_rows

Rows = NDArray[np.int64]


class Imagined(NamedTuple):
    """What one decision in every play led to."""

    frames: Pixels
    """(B, H, W, C)"""
    rewards: NDArray[np.float64]
    """(B,): −1, 0 or 1, the likeliest sign of the reward."""
    ends: NDArray[np.bool_]
    """(B,): the end of the episode is likelier than not."""


class Start(NamedTuple):
    """Real frames that plays begin with, and where they come from."""

    frames: Pixels
    """(R, T, H, W, C), as many as the predictor needs."""
    episodes: NDArray[np.int64]
    """(R,): number of the episode in the store."""
    times: NDArray[np.int64]
    """(R,): the last of the frames, counted in the episode from 0."""


class Imagination:
    """A batch of imagined plays; each may be begun anew at any time."""

    def __init__(self, subject: LoadedModel, store: EpisodeStore, plays: int) -> None:
        check_alike([subject], store)
        self.subject, self.store, self.plays = subject, store, plays
        self._windows = Windows(store, Window(subject.predictor.context, 1), subject.view)  # never the last frame
        self._groups: list[tuple[Rows, State]] = []
        """Plays that were begun together, or have all been stepped since."""
        self._refuse_silent_predictor()

    def begin(self, rows: Rows, rng: np.random.Generator) -> Start:
        """Begin some plays from real frames drawn at random."""
        start = self._draw(len(rows), rng)
        if not len(rows):
            return start
        groups = []
        for members, state in self._groups:
            kept = np.flatnonzero(~np.isin(members, rows))
            if len(kept):
                groups.append((members[kept], select_rows(state, kept)))
        self._groups = [*groups, (rows, self._observe(start.frames))]
        return start

    @torch.inference_mode()
    def step(self, actions: NDArray[np.int64]) -> Imagined:
        """Take a decision (B,) in every play."""
        order = np.concatenate([rows for rows, _ in self._groups])
        steps = [self.subject.predictor.predict(state, self._tensor(actions[rows])) for rows, state in self._groups]
        sorting = np.argsort(order)
        state = select_rows(join_rows([state for _, state in steps]), sorting)
        self._groups = [(order[sorting], state)]
        pixels = self.subject.predictor.normalizer.to_uint8(torch.cat([frame for frame, _ in steps]))
        return Imagined(pixels.numpy(force=True)[sorting], *_outcome(state))

    @torch.inference_mode()
    def _observe(self, frames: Pixels) -> State:
        predictor = self.subject.predictor
        return predictor.observe(predictor.normalizer.to_float(self._tensor(frames)))

    def _draw(self, count: int, rng: np.random.Generator) -> Start:
        numbers = rng.integers(len(self._windows), size=count)
        places = [self._windows.locate(number) for number in numbers.tolist()]
        last = self.subject.predictor.context - 1
        return Start(
            frames=self._windows.batch(numbers).frames[:, :-1],
            episodes=np.array([self.store.entries[position].number for position, _ in places]),
            times=np.array([first + last for _, first in places]),
        )

    def _tensor(self, values: NDArray[np.uint8] | NDArray[np.int64]) -> torch.Tensor:
        return torch.from_numpy(np.ascontiguousarray(values)).to(self.subject.device)

    @torch.inference_mode()
    def _refuse_silent_predictor(self) -> None:
        frames = self._draw(1, np.random.default_rng(0)).frames
        _, state = self.subject.predictor.predict(self._observe(frames), self._tensor(np.zeros(1, np.int64)))
        if state.outcome is None:
            raise UserError(
                f"{self.subject.name} predicts frames only, and an imagined game needs rewards and terminations: "
                "train with acvp train --predict-rewards, or with --model pixel"
            )


def _outcome(state: State) -> tuple[NDArray[np.float64], NDArray[np.bool_]]:
    """Return the likeliest reward signs and ends, (B,) each."""
    if state.outcome is None:
        raise RuntimeError("the predictor gave an outcome before, and now it gives none")
    return state.outcome.reward_signs().astype(np.float64), state.outcome.terminated()


Observation = Literal["frame", "agent"]
STACK = 4
"""Frames that an agent sees at once."""
MAX_STEPS = 100
"""Decisions after which an episode is truncated unless told otherwise."""
FPS = 15
"""Decisions a second of an Atari game at its own speed."""
EnvStep = tuple[Pixels, float, bool, bool, dict[str, Any]]
VectorStep = tuple[Pixels, NDArray[np.float64], NDArray[np.bool_], NDArray[np.bool_], dict[str, Any]]


class ImaginedEpisodes:
    """What both envs share: the plays, what is seen of them, and how long they last."""

    def __init__(
        self,
        predictor: Predictor | str | Path,
        store: EpisodeStore | str | Path,
        *,
        plays: int,
        observation: Observation,
        max_steps: int,
        device: Device,
    ) -> None:
        if max_steps < 1:
            raise UserError(f"max_steps is {max_steps}: an episode has at least 1 decision")
        if observation not in ("frame", "agent"):
            raise UserError(f"observation is {observation!r}: choose frame (as predicted) or agent (4 gray 84×84)")
        store = store if isinstance(store, EpisodeStore) else EpisodeStore(store)
        self.imagination = Imagination(_subject(predictor, device), store, plays)
        self.meanings = store.info.action_meanings
        self.max_steps = max_steps
        self.frames = np.zeros((plays, *self.imagination.subject.predictor.config.frame), np.uint8)
        """The newest frame of every play, (B, H, W, C)."""
        self._stack = FrameStack(plays, STACK, AGENT_SIZE) if observation == "agent" else None
        self._elapsed = np.zeros(plays, np.int64)

    @property
    def observation_space(self) -> spaces.Space[Pixels]:
        """The space of one play's observations."""
        shape = self.frames.shape[1:] if self._stack is None else (STACK, *AGENT_SIZE)
        space: spaces.Space[Any] = spaces.Box(0, 255, shape, np.uint8)
        return space

    @property
    def observations(self) -> Pixels:
        """What is seen now: the newest frames (B, H, W, C), or the last four as an agent sees them (B, 4, 84, 84)."""
        return self.frames.copy() if self._stack is None else self._stack.frames.copy()

    def begin(self, rows: Rows, rng: np.random.Generator) -> Start:
        """Begin some plays from real frames."""
        start = self.imagination.begin(rows, rng)
        self.frames[rows] = start.frames[:, -1]
        self._elapsed[rows] = 0
        if self._stack is not None:
            self._stack.begin(agent_view(start.frames), rows)
        return start

    def step(self, actions: NDArray[np.int64]) -> tuple[NDArray[np.float64], NDArray[np.bool_], NDArray[np.bool_]]:
        """Take a decision (B,) in every play; return rewards, ends and cut-offs (B,)."""
        self.frames, rewards, ends = self.imagination.step(actions)
        self._elapsed += 1
        if self._stack is not None:
            self._stack.add(agent_view(self.frames))
        return rewards, ends, ~ends & (self._elapsed >= self.max_steps)

    def picture(self, row: int) -> Pixels:
        """Return the newest frame of a play in RGB, (H, W, 3)."""
        frame = self.frames[row]
        return np.broadcast_to(frame, (*frame.shape[:2], 3)).copy()


class ImaginedEnv(gymnasium.Env[Pixels, np.int64]):
    """A game that is played in a predictor: real frames at the start, predicted ones ever after.

    The reward is the sign that the predictor's outcome head finds likeliest, and the episode ends where its other head
    says so. ``reset`` draws a place of the store; ``info`` tells its episode and frame.
    """

    metadata = {"render_modes": ["rgb_array"], "render_fps": FPS}  # noqa: RUF012  (Gymnasium declares it so)

    def __init__(
        self,
        predictor: Predictor | str | Path,
        store: EpisodeStore | str | Path,
        *,
        observation: Observation = "frame",
        max_steps: int = MAX_STEPS,
        device: Device = "auto",
        render_mode: str | None = None,
    ) -> None:
        """Take a predictor (or its folder) with outcome heads and a store (or its folder) of its game.

        Observations are frames as predicted, (H, W, C), or with ``observation="agent"`` the last four in gray 84×84,
        (4, 84, 84); an episode is truncated after ``max_steps`` decisions.
        """
        options: dict[str, Any] = {"observation": observation, "max_steps": max_steps, "device": device}
        self._plays = ImaginedEpisodes(predictor, store, plays=1, **options)
        self.render_mode = render_mode
        self.observation_space = self._plays.observation_space
        self.action_space = spaces.Discrete(len(self._plays.meanings))

    def get_action_meanings(self) -> list[str]:
        """Return the names of the actions."""
        return list(self._plays.meanings)

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[Pixels, dict[str, Any]]:
        """Begin anew from real frames of the store."""
        super().reset(seed=seed)
        start = self._plays.begin(np.zeros(1, np.int64), self.np_random)
        return self._plays.observations[0], {"episode": int(start.episodes[0]), "frame": int(start.times[0])}

    def step(self, action: int | np.int64) -> EnvStep:
        """Imagine what an action leads to."""
        rewards, ends, cut_off = self._plays.step(np.array([action], np.int64))
        return self._plays.observations[0], float(rewards[0]), bool(ends[0]), bool(cut_off[0]), {}

    def render(self) -> Pixels:
        """Return the newest frame in RGB."""
        return self._plays.picture(0)


class ImaginedVectorEnv(VectorEnv[Pixels, NDArray[np.int64], NDArray[Any]]):
    """Imagined games side by side, predicted in one batch; one that ends begins anew in the same step.

    The last observation of an ended game is in ``info["final_obs"]``, where ``info["_final_obs"]`` is true.
    """

    metadata = {  # noqa: RUF012  (Gymnasium declares it so)
        "render_modes": ["rgb_array"], "render_fps": FPS, "autoreset_mode": AutoresetMode.SAME_STEP,
    }  # fmt: skip

    def __init__(
        self,
        num_envs: int,
        predictor: Predictor | str | Path,
        store: EpisodeStore | str | Path,
        *,
        observation: Observation = "frame",
        max_steps: int = MAX_STEPS,
        device: Device = "auto",
        render_mode: str | None = None,
    ) -> None:
        """Take what ImaginedEnv takes."""
        options: dict[str, Any] = {"observation": observation, "max_steps": max_steps, "device": device}
        self._plays = ImaginedEpisodes(predictor, store, plays=num_envs, **options)
        self.num_envs, self.render_mode = num_envs, render_mode
        self.single_observation_space = self._plays.observation_space
        self.single_action_space = spaces.Discrete(len(self._plays.meanings))
        self.observation_space = batch_space(self.single_observation_space, num_envs)
        self.action_space = batch_space(self.single_action_space, num_envs)

    def get_action_meanings(self) -> list[str]:
        """Return the names of the actions."""
        return list(self._plays.meanings)

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[Pixels, dict[str, Any]]:
        """Begin all games anew from real frames of the store."""
        super().reset(seed=seed)
        start = self._plays.begin(np.arange(self.num_envs), self.np_random)
        return self._plays.observations, {"episode": start.episodes, "frame": start.times}

    def step(self, actions: NDArray[np.int64]) -> VectorStep:
        """Imagine what the actions (B,) lead to."""
        rewards, ends, cut_off = self._plays.step(np.asarray(actions, np.int64))
        done = ends | cut_off
        if not done.any():
            return self._plays.observations, rewards, ends, cut_off, {}
        rows, final = np.flatnonzero(done), np.full(self.num_envs, None, object)
        for row, last in zip(rows, self._plays.observations[done], strict=True):
            final[row] = last
        self._plays.begin(rows, self.np_random)
        return self._plays.observations, rewards, ends, cut_off, {"final_obs": final, "_final_obs": done}

    def render(self) -> tuple[Pixels, ...]:
        """Return the newest frame of every game in RGB."""
        return tuple(self._plays.picture(row) for row in range(self.num_envs))


def _subject(predictor: Predictor | str | Path, device: Device) -> LoadedModel:
    if isinstance(predictor, Predictor):
        return LoadedModel(name="the predictor", predictor=predictor.to(pick_device(device)), view=view_of(predictor))
    return as_model(Path(predictor), load(predictor), device)
