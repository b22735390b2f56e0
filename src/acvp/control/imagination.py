"""A batch of imagined episodes: they start from real frames of a dataset, and every later frame is predicted.

Shapes: B episodes, R some of them, T given frames, H height, W width, C channels.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Literal, NamedTuple, get_args

import numpy as np
import torch
from numpy.typing import NDArray

from acvp.actions import Actions
from acvp.agents.agent import Pixels, Rows
from acvp.data.store import EpisodeStore
from acvp.data.windows import Window, Windows
from acvp.errors import UserError
from acvp.loaded import LoadedModel, check_alike
from acvp.models import Outcome, State
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
        _, state = self.model.predictor.predict(self._observe(start), self._tensor(self.store.info.blank_actions(1)))
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
