"""The one interface of every predictor, and the one loop in which predictions are fed back.

Time: frames[t] and actions[t] give frames[t+1]; oldest first; T+1 frames for T actions.
Shapes: B batch, T time, K predicted steps, C channels, H height, W width, A actions.

The objective of section 3.4 at the authors' scale.

Shapes: B batch, K predicted steps, C channels, H height, W width.

Predictors whose state is simply the last m frames.

Shapes: B batch, N rows, T time, m frames of history, C channels, H height, W width, A actions.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, ClassVar, NamedTuple, Protocol

import torch
from torch import Tensor
from torch.nn import functional

from acvp.models.artifact import About, Shareable
from acvp.models.checks import FrameError, FrameShape, action_vectors, check_frames, check_window
from acvp.models.normalizer import Normalizer
from acvp.models.registry import build, register
from acvp.models.transform import Outcome


def squared_error_loss(predicted: Tensor, target: Tensor) -> Tensor:
    """Return half the squared error summed over pixels and channels, averaged over batch and steps (equation 6).

    ``predicted`` and ``target`` are normalized frames (B, K, C, H, W).
    """
    if predicted.shape != target.shape or predicted.ndim != 5:
        raise FrameError(
            f"predicted frames {tuple(predicted.shape)} beside target frames {tuple(target.shape)}; "
            f"expected two equal shapes (B, K, C, H, W)"
        )
    rows, steps = predicted.shape[:2]
    return functional.mse_loss(predicted.float(), target, reduction="sum") / (2 * rows * steps)


class PredictorConfig(Protocol):
    """What every predictor's configuration has."""

    @property
    def actions(self) -> int: ...
    @property
    def frame(self) -> FrameShape: ...
    @property
    def context(self) -> int: ...
    @property
    def pixel_scale(self) -> float: ...


@dataclass(frozen=True, kw_only=True)
class State:
    """What a predictor carries from one step to the next: new at every step, never changed in place."""

    outcome: Outcome | None = None
    """Reward and end logits of the step that led here; None after real frames and without heads."""


class Predictions(NamedTuple):
    """The predictions of K steps."""

    frames: Tensor
    """Normalized frames as the network gave them, never clamped, (B, K, C, H, W)."""
    reward: Tensor | None = None
    """Reward logits (B, K, 3) of a predictor with outcome heads."""
    end: Tensor | None = None
    """End-of-episode logits (B, K) of a predictor with outcome heads."""
    frame_loss: Tensor | None = None
    """The frames' loss, of a predictor that has one of its own and is being trained; its ``frames`` are then empty."""


class Predictor(Shareable):
    """Predicts the next frame from the frames so far and an action: f(x_1:t, a_t) → x_t+1 (§3).

    A subclass is known by its kind, ``class MyPredictor(Predictor, kind="mine")``, and names its ``config_class``.
    """

    config_class: ClassVar[type[Any]]
    """A frozen dataclass with at least the fields of PredictorConfig."""
    config: PredictorConfig

    def __init_subclass__(cls, *, kind: str | None = None, **options: Any) -> None:
        super().__init_subclass__(**options)
        if kind is not None:
            cls.config_class.kind = kind
            register(kind, cls)

    def __init__(self, config: PredictorConfig) -> None:
        super().__init__()
        self.config = config
        self.context = config.context
        self.actions = config.actions
        self.normalizer = Normalizer(config.frame, config.pixel_scale)
        self.about: About | None = None

    @abstractmethod
    def observe(self, frames: Tensor, actions: Tensor | None = None) -> State:
        """Return the state after real frames (B, T, C, H, W), at least ``context`` of them.

        ``actions`` (B, T-1) or (B, T-1, A) are those between the frames; the paper's networks do not need them.
        """

    @abstractmethod
    def predict(self, state: State, action: Tensor) -> tuple[Tensor, State]:
        """Return the next frame (B, C, H, W) under action indices (B,) or vectors (B, A), and the state after it."""

    @abstractmethod
    def predict_all(self, state: State) -> Tensor:
        """Return the next frame under every action, (B, A, C, H, W), encoding the state once."""

    def settled(self, state: State) -> State:
        """Return a state that goes on as this one does, with no prediction left in it that is still to be read."""
        return state

    @abstractmethod
    def predict_from_real(self, frames: Tensor, actions: Tensor, predict: int) -> Predictions:
        """Return the last ``predict`` frames of a window, each predicted from the real frames before it, in one batch.

        ``frames`` (B, T+1, C, H, W) and action vectors ``actions`` (B, T, A) are already checked.
        """

    def forward(self, frames: Tensor, actions: Tensor, *, predict: int, feed_back: bool = True) -> Predictions:
        """Return predictions of the last ``predict`` frames of a training window; the targets are frames[:, -predict:].

        ``frames`` are normalized, (B, T+1, C, H, W); ``actions`` are indices (B, T) or vectors (B, T, A). With
        ``feed_back`` each prediction is input to the next (K-step training), else each step sees real frames only.
        """
        check_frames(frames, self.config.frame, self.context + predict)
        check_window(frames, actions, predict)
        vectors = action_vectors(actions, self.actions, (frames.shape[0], frames.shape[1] - 1))
        if not feed_back:
            return self.predict_from_real(frames, vectors, predict)
        seen = frames.shape[1] - predict
        state = self.observe(frames[:, :seen], vectors[:, : seen - 1])
        return unroll(self, state, vectors[:, seen - 1 :])


def build_predictor(config: PredictorConfig, generator: torch.Generator | None = None) -> Predictor:
    """Return a newly initialized predictor; without a generator, one seeded with 0 draws its weights."""
    predictor: Predictor = build(config, generator)
    return predictor


def imagine(predictor: Predictor, state: State, actions: Tensor) -> Iterator[tuple[Tensor, State]]:
    """Yield frame (B, C, H, W) and state after each action of (B, K) or (B, K, A): the only place of feeding back.

    Predictions go back in as raw floats, neither clamped nor detached.
    """
    for action in actions.unbind(1):
        frame, state = predictor.predict(state, action)
        yield frame, state


def unroll(predictor: Predictor, state: State, actions: Tensor) -> Predictions:
    """Return K predictions from a state under actions (B, K) or (B, K, A); gradients flow through all of them."""
    steps = list(imagine(predictor, state, actions))
    frames = torch.stack([frame for frame, _ in steps], 1)  # (B, K, C, H, W)
    outcomes = [state.outcome for _, state in steps if state.outcome is not None]
    if not outcomes:
        return Predictions(frames)
    return Predictions(
        frames, torch.stack([each.reward for each in outcomes], 1), torch.stack([each.end for each in outcomes], 1)
    )


def as_window(frames: Tensor, outcome: Outcome | None, rows: int) -> Predictions:
    """Return predictions made as one batch (B·K, ...) in the shape (B, K, ...)."""
    frames = frames.view(rows, -1, *frames.shape[1:])
    if outcome is None:
        return Predictions(frames)
    return Predictions(frames, outcome.reward.view(rows, -1, 3), outcome.end.view(rows, -1))


@dataclass(frozen=True, kw_only=True)
class HistoryState(State):
    """The last m frames, real or predicted."""

    frames: Tensor
    """Frames concatenated through channels, oldest first, (B, m·C, H, W)."""
    unread: Tensor | None = None
    """The last prediction, to take the oldest frame's place if another step follows, (B, C, H, W)."""


def stack_frames(frames: Tensor) -> Tensor:
    """Return a copy of frames (B, m, C, H, W) concatenated through channels, (B, m·C, H, W), channels last."""
    return torch.cat(frames.unbind(1), 1).contiguous(memory_format=torch.channels_last)


class HistoryPredictor(Predictor):
    """Predicts from the last ``context`` frames; a subclass says how in ``next_frame``."""

    @abstractmethod
    def next_frame(self, stacked: Tensor, action: Tensor) -> tuple[Tensor, Outcome | None]:
        """Return the next frame (N, C, H, W) after stacked frames (N, m·C, H, W) under action vectors (N, A)."""

    @abstractmethod
    def next_frames(self, stacked: Tensor) -> Tensor:
        """Return the next frame under every action, (N, A, C, H, W), after stacked frames (N, m·C, H, W)."""

    def observe(self, frames: Tensor, actions: Tensor | None = None) -> HistoryState:
        """Return the last m of the real frames (B, T, C, H, W) as the state."""
        check_frames(frames, self.config.frame, self.context)
        return HistoryState(frames=stack_frames(frames[:, -self.context :]))

    def predict(self, state: State, action: Tensor) -> tuple[Tensor, HistoryState]:
        """Return the next frame (B, C, H, W), and the state that has it as unread input."""
        history = _read(state)
        vectors = action_vectors(action, self.actions, (len(history),))
        frame, outcome = self.next_frame(history, vectors)
        return frame, HistoryState(frames=history, unread=frame.clone(), outcome=outcome)

    def predict_all(self, state: State) -> Tensor:
        """Return the next frame under every action, (B, A, C, H, W)."""
        return self.next_frames(_read(state))

    def settled(self, state: State) -> HistoryState:
        """Return the state whose frames are all read."""
        return HistoryState(frames=_read(state), outcome=state.outcome)

    def predict_from_real(self, frames: Tensor, actions: Tensor, predict: int) -> Predictions:
        """Return the last ``predict`` frames, each from the m real frames before it, as one batch."""
        times = frames.shape[1]
        stacked = [stack_frames(frames[:, t - self.context : t]) for t in range(times - predict, times)]
        batch = torch.stack(stacked, 1).flatten(0, 1)  # (B·K, m·C, H, W)
        predicted, outcome = self.next_frame(batch, actions[:, -predict:].flatten(0, 1))
        return as_window(predicted, outcome, len(frames))


def _read(state: State) -> Tensor:
    """Return the last m frames (B, m·C, H, W), the unread prediction among them."""
    if not isinstance(state, HistoryState):
        raise TypeError(f"the state is a {type(state).__name__}; pass one that this predictor's observe returned")
    if state.unread is None:
        return state.frames
    return torch.cat((state.frames[:, state.unread.shape[1] :], state.unread), 1)
