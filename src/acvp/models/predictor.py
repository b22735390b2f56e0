"""The interface of every predictor, and the one loop in which predictions are fed back.

A predictor of one's own implements ``observe`` and ``predict``, or, where its state is the last frames, ``next_frame``
of HistoryPredictor; everything else has a default.

Time: frames[t] and actions[t] give frames[t+1]; oldest first; T+1 frames for T actions.
Shapes: B batch, N rows, T time, K predicted steps, m frames of history, C channels, H height, W width, A actions.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass, fields
from typing import Any, ClassVar, NamedTuple, Self

import torch
from torch import Tensor

from acvp.models.artifact import About, Shareable
from acvp.models.config import ConfigError, DatasetSplit, FrameShape, PredictorConfig, Progress, build, register
from acvp.models.layers import ActionFactors, Calibration, Outcome, flag_loss, head_losses
from acvp.models.pixels import ActionScale, Normalizer, check_frames, check_window, squared_error_loss

Metrics = dict[str, Tensor]
"""Parts of a loss by name, to be logged."""


@dataclass(frozen=True, kw_only=True)
class State:
    """What a predictor carries from one step to the next: new at every step, never changed in place."""

    outcome: Outcome | None = None
    """Reward and termination logits of the step that led here; None after real frames and without heads."""

    @classmethod
    def require(cls, state: State) -> Self:
        """Return a state of this kind; TypeError if it is of another."""
        if not isinstance(state, cls):
            raise TypeError(f"the state is a {type(state).__name__}; pass one that this predictor's observe returned")
        return state

    def tensors(self) -> dict[str, Tensor]:
        """Return its tensors by name, without the outcome."""
        values = {field.name: getattr(self, field.name) for field in fields(self)}
        return {name: value for name, value in values.items() if isinstance(value, Tensor)}


class Predictions(NamedTuple):
    """The predictions of K steps."""

    frames: Tensor
    """Normalized frames as the network gave them, never clamped, (B, K, C, H, W)."""
    reward: Tensor | None = None
    """Reward logits (B, K, 3) of a predictor with heads."""
    termination: Tensor | None = None
    """Termination logits (B, K) of a predictor with heads."""
    lost_life: Tensor | None = None
    """Logits (B, K) of a lost life, of a predictor that predicts it."""


class TrainingBatch(NamedTuple):
    """Windows as a network takes them, and what a training phase asks of it."""

    frames: Tensor
    """Normalized, (B, T + 1, C, H, W)."""
    actions: Tensor
    """Indices (B, T), or continuous (B, T, A)."""
    rewards: Tensor
    """(B, T)"""
    terminations: Tensor
    """Whether an action ended the episode, (B, T)."""
    predict: int = 1
    """Number K of frames to predict, the last ones of each window."""
    teacher_forcing: bool = False
    """Whether every prediction sees real frames only; else each prediction is input to the next."""
    reward_weight: float = 1.0
    """Factor on the losses of the reward and termination heads."""
    lost_lives: Tensor | None = None
    """Whether an action lost a life, (B, T); None: not known, and not learned."""

    def rows(self, first: int, last: int) -> Self:
        """Return the batch of some of the windows."""
        return self._replace(
            frames=self.frames[first:last],
            actions=self.actions[first:last],
            rewards=self.rewards[first:last],
            terminations=self.terminations[first:last],
            lost_lives=None if self.lost_lives is None else self.lost_lives[first:last],
        )


class Predictor(Shareable):
    """Predicts the next frame from the frames so far and an action: f(x_1:t, a_t) → x_t+1 (§3).

    A subclass is known by its kind, ``class MyPredictor(Predictor, kind="mine")``, and names its ``config_class``. It
    is built as ``MyPredictor(config, generator)``, where the generator draws its weights.
    """

    config_class: ClassVar[type[Any]]
    """A frozen dataclass, subclass of PredictorConfig."""
    continuous_actions: ClassVar[bool] = False
    """Whether it can learn continuous actions: it passes action vectors through ``self.action_scale``."""
    names_colors: ClassVar[bool] = False
    """Whether every predicted pixel has a color of a palette, so that wrong pixels can be counted."""
    config: PredictorConfig

    def __init_subclass__(cls, *, kind: str | None = None, **options: Any) -> None:
        super().__init_subclass__(**options)
        if kind is not None:
            taken = vars(cls.config_class).get("kind", kind)
            if taken != kind:
                raise ConfigError(f"{cls.config_class.__name__} belongs to kind {taken!r}; give {cls.__name__} its own")
            cls.config_class.kind = kind
            register(kind, cls)

    def __init__(self, config: PredictorConfig) -> None:
        super().__init__()
        self.config = config
        self.context = config.context
        self.actions = config.actions
        self.action_scale = ActionScale(config.action_range)
        self.normalizer = Normalizer(config.frame, config.pixel_scale)
        self.about: About | None = None
        self.calibration = Calibration()
        """Of the outcomes; stored with the weights."""

    # --- Before training ----------------------------------------------------------------------------------------------

    @classmethod
    def prepare(cls, data: DatasetSplit) -> dict[str, Any]:
        """Return the fields of ``config_class`` that follow from a dataset."""
        scale = 128.0 if data.frame[2] == 1 else 255.0  # appendix B
        limits = data.train.info.action_range
        fields = {"actions": data.actions, "frame": data.frame, "pixel_scale": scale}
        return fields | {"action_range": limits} if limits else fields

    @classmethod
    def sizes(cls, preset: str, frame: FrameShape) -> dict[str, Any]:
        """Return the fields of ``config_class`` that a preset sets for frames of a shape; by default none."""
        return {}

    @classmethod
    def training_defaults(cls, preset: str, frame_shape: FrameShape) -> Mapping[str, Any]:
        """Return what this kind changes in a training preset for stored frames of a shape; by default nothing.

        Keys are fields of the training config: ``view``, ``optimizer`` (a mapping), ``phases`` (a mapping for each
        phase, of which there are then as many), ``evaluate_every``, ``windows``, ``horizons``.
        """
        return {}

    def calibrate(self, data: DatasetSplit, report: Callable[[str], None], progress: Progress) -> None:
        """Take from a dataset what is kept beside the weights, before the first update; by default the mean image only.

        The mean image is already in ``normalizer``. ``report`` prints a line; ``progress`` raises to stop.
        """

    # --- Prediction ---------------------------------------------------------------------------------------------------

    @abstractmethod
    def observe(self, frames: Tensor, actions: Tensor | None = None) -> State:
        """Return the state after real frames (B, T, C, H, W), at least ``context`` of them.

        ``actions`` (B, T-1) or (B, T-1, A) are those between the frames; the paper's networks do not need them.
        """

    @abstractmethod
    def predict(self, state: State, action: Tensor) -> tuple[Tensor, State]:
        """Return the next frame (B, C, H, W) under action indices (B,) or vectors (B, A), and the state after it."""

    def predict_all(self, state: State) -> Tensor:
        """Return the next frame under every action, (B, A, C, H, W); a subclass may encode the state once for all."""
        self.action_scale.require_numbered()
        frames = []
        for action in range(self.actions):
            with self.shared_noise():
                frames.append(self.predict(state, self._everywhere(state, action))[0])
        return torch.stack(frames, 1)

    def predict_teacher_forced(self, frames: Tensor, actions: Tensor, predict: int) -> Predictions:
        """Return the last ``predict`` frames of a window, each predicted from the real frames before it.

        ``frames`` (B, T+1, C, H, W) and action vectors ``actions`` (B, T, A) are already checked.
        """
        steps = []
        for seen in range(frames.shape[1] - predict, frames.shape[1]):
            state = self.observe(frames[:, :seen], actions[:, : seen - 1])
            steps.append(self.predict(state, actions[:, seen - 1]))
        return _joined(steps)

    def forward(self, frames: Tensor, actions: Tensor, *, predict: int, teacher_forcing: bool = False) -> Predictions:
        """Return predictions of the last ``predict`` frames of a training window; the targets are frames[:, -predict:].

        ``frames`` are normalized, (B, T+1, C, H, W); ``actions`` are indices (B, T) or vectors (B, T, A). Each
        prediction is input to the next (K-step training); with ``teacher_forcing`` each sees real frames only.
        """
        check_frames(frames, self.config.frame, self.context + predict)
        check_window(frames, actions, predict)
        vectors = self.action_scale.vectors(actions, self.actions, (frames.shape[0], frames.shape[1] - 1))
        if teacher_forcing:
            return self.predict_teacher_forced(frames, vectors, predict)
        seen = frames.shape[1] - predict
        state = self.observe(frames[:, :seen], vectors[:, : seen - 1])
        return unroll(self, state, vectors[:, seen - 1 :])

    def settled(self, state: State) -> State:
        """Return an equivalent state that holds the last prediction as input already read, with tensors of one shape.

        A state may keep its last prediction unread, since reading it costs time and another step may never come.
        """
        return state

    # --- Training and comparison --------------------------------------------------------------------------------------

    def training_frames(self, frames: Tensor, palette: Tensor | None) -> Tensor:
        """Return frames as a dataset stores them, pixels or indices of a palette, as `loss` takes them: normalized."""
        return self.normalizer.stored_to_float(frames, palette)

    def loss(self, batch: TrainingBatch) -> tuple[Tensor, Metrics]:
        """Return what training minimizes, and its parts: equation 6, plus the losses of the heads."""
        predictions: Predictions = self(
            batch.frames, batch.actions, predict=batch.predict, teacher_forcing=batch.teacher_forcing
        )
        frame_loss = squared_error_loss(predictions.frames, batch.frames[:, -batch.predict :])
        return joint_loss(frame_loss, predictions.reward, predictions.termination, batch, predictions.lost_life)

    def wrong_pixels(self, predicted: Tensor, true: Tensor) -> Tensor:
        """Return which pixels of normalized frames (..., C, H, W) differ in color, (..., H, W)."""
        return (self.normalizer.to_uint8(predicted) != self.normalizer.to_uint8(true)).any(-1)

    def action_factors(self) -> Sequence[ActionFactors]:
        """Return the factors by which ``acvp analyze`` compares actions; by default none."""
        return ()

    # --- Sampling -----------------------------------------------------------------------------------------------------

    def sample(self, temperature: float = 1.0, seed: int = 0) -> None:
        """Draw predictions from their probabilities from now on; temperature 0: the likeliest. By default no change."""

    def shared_noise(self) -> AbstractContextManager[None]:
        """Return a context that leaves the sampling noise as it found it: what is drawn inside is drawn again after."""
        return nullcontext()

    # --- Uncertainty --------------------------------------------------------------------------------------------------

    gives_uncertainty: ClassVar[bool] = False
    """Whether `uncertainty` has a probability for every pixel."""

    def uncertainty(self, state: State, action: Tensor, frame: Tensor) -> Tensor | None:
        """Return the probability that each pixel of a predicted frame (B, C, H, W) is another color, (B, H, W).

        ``state`` and ``action`` are those that it was predicted from. None: this predictor knows no probabilities.
        """
        return None

    # --- Export -------------------------------------------------------------------------------------------------------

    def traceable(self) -> Predictor:
        """Return a predictor that computes the same without branches on values, for export to ONNX."""
        return self

    def example_frames(self, rows: int, generator: torch.Generator) -> Tensor:
        """Return random uint8 frames (rows, context, H, W, C) as the predictor may see them."""
        return torch.randint(256, (rows, self.context, *self.config.frame), generator=generator, dtype=torch.uint8)

    def _everywhere(self, state: State, action: int) -> Tensor:
        """Return an action for every row of a state, as indices (B,)."""
        rows = next(len(value) for value in vars(state).values() if isinstance(value, Tensor))
        return torch.full((rows,), action, device=self.normalizer.mean.device)


def joint_loss(
    frame_loss: Tensor,
    reward: Tensor | None,
    termination: Tensor | None,
    batch: TrainingBatch,
    lost_life: Tensor | None = None,
) -> tuple[Tensor, Metrics]:
    """Return the frames' loss plus that of reward (B, K, 3), termination and lost-life logits (B, K), and the parts."""
    if reward is None or termination is None:
        return frame_loss, {}
    steps = reward.shape[1]
    of_reward, of_termination = head_losses(
        reward, termination, batch.rewards[:, -steps:], batch.terminations[:, -steps:]
    )
    of_heads = {"reward_loss": of_reward, "termination_loss": of_termination}
    total = of_reward + of_termination
    if lost_life is not None and batch.lost_lives is not None:
        of_heads["lost_life_loss"] = flag_loss(lost_life, batch.lost_lives[:, -steps:])
        total = total + of_heads["lost_life_loss"]
    parts = {"frame_loss": frame_loss} | of_heads
    return frame_loss + batch.reward_weight * total, {name: part.detach() for name, part in parts.items()}


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
    return _joined(list(imagine(predictor, state, actions)))


def _joined(steps: list[tuple[Tensor, State]]) -> Predictions:
    """Return the frames (B, C, H, W) and the outcomes of K steps as predictions."""
    frames = torch.stack([frame for frame, _ in steps], 1)  # (B, K, C, H, W)
    outcomes = [state.outcome for _, state in steps if state.outcome is not None]
    if not outcomes:
        return Predictions(frames)
    return Predictions(frames, *Outcome.of_windows(outcomes, len(frames)))


def as_window(frames: Tensor, outcome: Outcome | None, rows: int) -> Predictions:
    """Return predictions made as one batch (B·K, ...) in the shape (B, K, ...)."""
    frames = frames.view(rows, -1, *frames.shape[1:])
    if outcome is None:
        return Predictions(frames)
    return Predictions(frames, *Outcome.of_windows([outcome], rows))


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
    """Predicts from the last ``context`` frames; a subclass implements ``next_frame``."""

    @abstractmethod
    def next_frame(self, stacked: Tensor, action: Tensor) -> tuple[Tensor, Outcome | None]:
        """Return the next frame (N, C, H, W) after stacked frames (N, m·C, H, W) under action vectors (N, A)."""

    def next_frames(self, stacked: Tensor) -> Tensor:
        """Return the next frame under every action, (N, A, C, H, W), after stacked frames (N, m·C, H, W)."""
        every = torch.eye(self.actions, device=stacked.device).repeat(len(stacked), 1)  # (N·A, A)
        frames, _ = self.next_frame(stacked.repeat_interleave(self.actions, 0), every)
        return frames.view(len(stacked), self.actions, *frames.shape[1:])

    def observe(self, frames: Tensor, actions: Tensor | None = None) -> HistoryState:
        """Return the last m of the real frames (B, T, C, H, W) as the state."""
        check_frames(frames, self.config.frame, self.context)
        return HistoryState(frames=stack_frames(frames[:, -self.context :]))

    def predict(self, state: State, action: Tensor) -> tuple[Tensor, HistoryState]:
        """Return the next frame (B, C, H, W), and the state that has it as unread input."""
        history = _read(state)
        vectors = self.action_scale.vectors(action, self.actions, (len(history),))
        frame, outcome = self.next_frame(history, vectors)
        return frame, HistoryState(frames=history, unread=frame.clone(), outcome=outcome)

    def predict_all(self, state: State) -> Tensor:
        """Return the next frame under every action, (B, A, C, H, W)."""
        self.action_scale.require_numbered()
        return self.next_frames(_read(state))

    def settled(self, state: State) -> HistoryState:
        """Return the state whose frames are all read."""
        return HistoryState(frames=_read(state), outcome=state.outcome)

    def predict_teacher_forced(self, frames: Tensor, actions: Tensor, predict: int) -> Predictions:
        """Return the last ``predict`` frames, each from the m real frames before it, as one batch."""
        times = frames.shape[1]
        stacked = [stack_frames(frames[:, t - self.context : t]) for t in range(times - predict, times)]
        batch = torch.stack(stacked, 1).flatten(0, 1)  # (B·K, m·C, H, W)
        predicted, outcome = self.next_frame(batch, actions[:, -predict:].flatten(0, 1))
        return as_window(predicted, outcome, len(frames))


def _read(state: State) -> Tensor:
    """Return the last m frames (B, m·C, H, W), the unread prediction among them."""
    state = HistoryState.require(state)
    if state.unread is None:
        return state.frames
    return torch.cat((state.frames[:, state.unread.shape[1] :], state.unread), 1)
