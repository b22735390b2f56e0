"""Predictors whose state is simply the last m frames.

Shapes: B batch, N rows, T time, m frames of history, C channels, H height, W width, A actions.
"""

from abc import abstractmethod
from dataclasses import dataclass

import torch
from torch import Tensor

from acvp.models.checks import action_vectors, check_frames
from acvp.models.predictor import Predictions, Predictor, State, as_window
from acvp.models.transform import Outcome


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
