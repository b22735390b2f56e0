"""A predictor on its own: a moment of a dream in, the next one out.

Shapes: m frames of context, A actions, h height, w width and C channels of the view.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass, fields

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from acvp.loaded import LoadedModel
from acvp.models import State, imagine
from acvp.play.worlds import Frame

Seen = NDArray[np.uint8]  # (h, w, C)


@dataclass(frozen=True, kw_only=True)
class Dream:
    """A moment of a dream."""

    frame: Seen
    """What is shown: the prediction, or the real frame while the predictor still watches."""
    state: State | None = None
    """What goes into the next prediction; None while fewer real frames than the context were seen."""
    steps: int = 0
    """Predictions since the last real frame."""
    reward: int | None = None
    """Sign of the predicted reward of the last step; None without outcome heads."""
    end: float | None = None
    """Predicted probability that the last step ended the game; None without outcome heads."""

    @property
    def size(self) -> int:
        """Bytes that it takes."""
        return self.frame.nbytes + sum(tensor.nbytes for tensor in state_tensors(self.state).values())


class Dreamer:
    """Dreams with one predictor."""

    def __init__(self, subject: LoadedModel) -> None:
        self.subject, self.predictor = subject, subject.predictor

    def look(self, frame: Frame) -> Seen:
        """Return a recorded frame (H, W, 3) as the predictor sees it."""
        return self.subject.view.apply(frame, None)

    @torch.inference_mode()
    def ground(self, frames: Sequence[Frame], actions: Sequence[int]) -> Dream:
        """Return the dream that begins after real frames; it only watches while they are fewer than the context."""
        context = self.predictor.context
        if len(frames) < context:
            return Dream(frame=self.look(frames[-1]))
        seen = self.subject.view.apply(np.stack(frames[-context:]), None)  # (m, h, w, C)
        real = self.predictor.normalizer.to_float(torch.from_numpy(seen[None]))
        between = torch.tensor([list(actions[len(actions) - context + 1 :])], dtype=torch.long)
        return Dream(frame=seen[-1], state=self.predictor.observe(real, between))

    @torch.inference_mode()
    def step(self, dream: Dream, action: int) -> Dream:
        """Return the dream after one more action."""
        assert dream.state is not None, "a dream without ground"
        frame, state = next(imagine(self.predictor, dream.state, torch.tensor([[action]])))
        reward = end = None
        if state.outcome is not None:
            reward, end = int(state.outcome.reward_signs()[0]), float(state.outcome.termination[0].sigmoid())
        return Dream(frame=self._pixels(frame)[0], state=state, steps=dream.steps + 1, reward=reward, end=end)

    @torch.inference_mode()
    def every_action(self, dream: Dream, steps: int) -> Seen:
        """Return what every action, held for so many steps, leads to, (A, h, w, C)."""
        assert dream.state is not None, "a dream without ground"
        if steps == 1:
            with self.predictor.shared_noise():
                return self._pixels(self.predictor.predict_all(dream.state)[0])
        return np.concatenate([self._held(dream.state, action, steps) for action in range(self.predictor.actions)])

    def _held(self, state: State, action: int, steps: int) -> Seen:
        with self.predictor.shared_noise():
            *_, (frame, _) = imagine(self.predictor, state, torch.full((1, steps), action))
        return self._pixels(frame)

    def _pixels(self, frames: Tensor) -> Seen:
        pixels: Seen = self.predictor.normalizer.to_uint8(frames.nan_to_num(nan=0.0)).numpy(force=True)
        return pixels


def share_cores() -> None:
    """Let this thread compute on half of the cores at most: the browser needs the others to show what is dreamed."""
    torch.set_num_threads(max(1, (os.cpu_count() or 2) // 2))


def state_tensors(state: State | None) -> dict[str, Tensor]:
    """Return the tensors that a state carries, by name, the outcome left out."""
    if state is None:
        return {}
    values = {field.name: getattr(state, field.name) for field in fields(state)}
    return {name: value for name, value in values.items() if isinstance(value, Tensor)}
