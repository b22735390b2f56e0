"""A game that shows everything it knows, a predictor that reads it off, and an agent that looks at every pixel."""

from __future__ import annotations

import zlib
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import gymnasium
import numpy as np
import torch
from gymnasium import spaces
from numpy.typing import NDArray
from torch import Tensor

from acvp.agents.agent import AgentAbout
from acvp.data.collect import CollectConfig, collect
from acvp.data.store import EpisodeStore
from acvp.models import About, CopyLastFrameConfig, Outcome, Predictor, State
from acvp.models.predictor import Predictions

TRAIL = "acvp-tests/Trail-v0"
SIDE, CELLS, DARK = 12, 10, 40
MEANINGS = ("STAY", "ON", "BACK")

Place = tuple[int, int, int]  # cell, decision, decision at which it ends


def draw(place: Place) -> NDArray[np.uint8]:
    """The cell as a row, as bright as the decision; the end as the brightness of the last row."""
    cell, time, end = place
    frame = np.zeros((SIDE, SIDE, 3), np.uint8)
    frame[cell] = DARK + time
    frame[-1] = DARK + end
    return frame


def read(frame: NDArray[np.uint8]) -> Place:
    cell = int(frame[:CELLS, 0, 0].argmax())
    return cell, int(frame[cell, 0, 0]) - DARK, int(frame[-1, 0, 0]) - DARK


def move(place: Place, action: int) -> tuple[Place, float, bool]:
    """The next place, the reward of coming to either end of the trail, and whether the game is over."""
    cell, time, end = place
    to = min(max(cell + (0, 1, -1)[action], 0), CELLS - 1)
    arrived = to != cell and to in (0, CELLS - 1)
    reward = 0.0 if not arrived else -1.0 if to == 0 else 1.0
    return (to, time + 1, end), reward, time + 1 == end


class TrailEnv(gymnasium.Env[Any, Any]):
    """A walk along ten cells; plays have 20 to 39 decisions, by their seed."""

    def __init__(self) -> None:
        self.observation_space = spaces.Box(0, 255, (SIDE, SIDE, 3), np.uint8)
        self.action_space = spaces.Discrete(3)
        self.place: Place = (5, 0, 20)

    def get_action_meanings(self) -> list[str]:
        return list(MEANINGS)

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[Any, dict[str, Any]]:
        super().reset(seed=seed)
        self.place = (5, 0, int(self.np_random.integers(20, 40)))
        return draw(self.place), {}

    def step(self, action: Any) -> tuple[Any, float, bool, bool, dict[str, Any]]:
        self.place, reward, over = move(self.place, int(action))
        return draw(self.place), reward, over, False, {}


if TRAIL not in gymnasium.registry:
    gymnasium.register(TRAIL, entry_point="tests.control.trail:TrailEnv")


def trail_store(path: Path, frames: int = 300) -> EpisodeStore:
    return collect(CollectConfig(env_id=TRAIL, out=path, frames=frames, policy=("random",), seed=3))


@dataclass(frozen=True, kw_only=True)
class TrailState(State):
    """Where each row is, and what it has predicted."""

    places: Tensor  # (B, 3)
    predicted: Tensor | None = None  # (B,): frames since the last real one


class TrailOracle(Predictor):
    """Knows the rules of the game; without `heads` it keeps rewards and ends to itself."""

    def __init__(self, *, heads: bool = True, context: int = 3) -> None:
        super().__init__(CopyLastFrameConfig(actions=3, frame=(SIDE, SIDE, 3)))
        self.context, self.heads = context, heads
        self.normalizer.set_mean(torch.full((SIDE, SIDE, 3), 90.0))
        self.about = About(env_id=TRAIL, view="rgb", action_meanings=MEANINGS)
        self.observed = 0

    def observe(self, frames: Tensor, actions: Tensor | None = None) -> TrailState:
        assert frames.shape[1] >= self.context
        self.observed += 1
        newest = self.normalizer.to_uint8(frames[:, -1]).numpy()
        return TrailState(places=torch.tensor([read(frame) for frame in newest]))

    def predict(self, state: State, action: Tensor) -> tuple[Tensor, TrailState]:
        assert isinstance(state, TrailState)
        moved = [move(tuple(place), a) for place, a in zip(state.places.tolist(), action.tolist(), strict=True)]
        frames = torch.from_numpy(np.stack([draw(place) for place, _, _ in moved]))
        before = torch.zeros(len(moved)) if state.predicted is None else state.predicted
        after = TrailState(
            places=torch.tensor([place for place, _, _ in moved]),
            predicted=before + 1,
            outcome=self._outcome([reward for _, reward, _ in moved], [over for _, _, over in moved]),
        )
        return self.normalizer.to_float(frames), after

    def _outcome(self, rewards: list[float], ends: list[bool]) -> Outcome | None:
        if not self.heads:
            return None
        signs = torch.tensor([-1.0, 0.0, 1.0])
        logits = -(torch.tensor(rewards)[:, None] - signs).abs()
        return Outcome(reward=logits, termination=torch.tensor(ends).float() * 4 - 2)

    def predict_all(self, state: State) -> Tensor:
        assert isinstance(state, TrailState)
        rows = len(state.places)
        return torch.stack([self.predict(state, torch.full((rows,), action))[0] for action in range(3)], 1)

    def predict_teacher_forced(self, frames: Tensor, actions: Tensor, predict: int) -> Predictions:
        raise NotImplementedError


@dataclass
class HashAgent:
    """Plays by a hash of all pixels it sees: one gray level more or less and it does something else."""

    about: AgentAbout = field(default_factory=lambda: AgentAbout(env_id=TRAIL, action_meanings=MEANINGS))
    seen: list[NDArray[np.uint8]] = field(default_factory=list)

    @property
    def actions(self) -> int:
        return len(self.about.action_meanings)

    def act(self, frames: NDArray[np.uint8]) -> NDArray[np.int64]:
        self.seen.append(frames.copy())
        best: NDArray[np.int64] = self.values(frames).argmax(1)
        return best

    def values(self, frames: NDArray[np.uint8]) -> NDArray[np.float32]:
        best = [zlib.crc32(stack.tobytes()) % self.actions for stack in frames]
        values: NDArray[np.float32] = np.eye(self.actions, dtype=np.float32)[best]
        return values
