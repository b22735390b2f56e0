"""The imagined world: a predictor and an action give the next frame; live metrics compare it with the real one.

Shapes: m context frames, A actions, H height and W width as recorded, h height, w width and C channels of the view.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from dataclasses import dataclass, fields

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from acvp.data.objects import ObjectFinder
from acvp.data.palette import Palette
from acvp.loaded import LoadedModel
from acvp.models import State, imagine
from acvp.models.pixels import WrongPixels
from acvp.play.worlds import Frame

ViewedFrame = NDArray[np.uint8]  # (h, w, C)


@dataclass(frozen=True, kw_only=True)
class ImaginedState:
    """The imagined world at one time."""

    frame: ViewedFrame
    """The predicted frame, or the real one while the predictor still needs real frames."""
    predictor_state: State | None = None
    """Input of the next prediction; None until the predictor has seen its context frames."""
    steps: int = 0
    """Predictions since the last resync with real frames."""
    reward: int | None = None
    """Sign of the predicted reward of the last step; None without a reward head."""
    termination: float | None = None
    """Predicted probability that the last step ended the episode; None without a termination head."""

    @property
    def nbytes(self) -> int:
        """Bytes of its arrays."""
        return self.frame.nbytes + sum(tensor.nbytes for tensor in state_tensors(self.predictor_state).values())


class ImaginedWorld:
    """A world whose frames come from one predictor."""

    def __init__(self, model: LoadedModel) -> None:
        self.model, self.predictor = model, model.predictor

    def view(self, frame: Frame) -> ViewedFrame:
        """Return a recorded frame (H, W, 3) in the predictor's view."""
        return self.model.view.apply(frame, None)

    @torch.inference_mode()
    def resync(self, frames: Sequence[Frame], actions: Sequence[int]) -> ImaginedState:
        """Return the state after real frames; it only shows the last one while they are fewer than the context."""
        context = self.predictor.context
        if len(frames) < context:
            return ImaginedState(frame=self.view(frames[-1]))
        viewed = self.model.view.apply(np.stack(frames[-context:]), None)  # (m, h, w, C)
        real = self.predictor.normalizer.to_float(torch.from_numpy(viewed[None]))
        between = torch.tensor([list(actions[len(actions) - context + 1 :])], dtype=torch.long)
        return ImaginedState(frame=viewed[-1], predictor_state=self.predictor.observe(real, between))

    @torch.inference_mode()
    def step(self, before: ImaginedState, action: int) -> ImaginedState:
        """Return the state after one more action."""
        assert before.predictor_state is not None, "the predictor has not seen its context frames"
        frame, state = next(imagine(self.predictor, before.predictor_state, torch.tensor([[action]])))
        reward = termination = None
        if state.outcome is not None:
            reward = int(state.outcome.reward_signs()[0])
            termination = float(state.outcome.termination[0].sigmoid())
        return ImaginedState(
            frame=self._pixels(frame)[0],
            predictor_state=state,
            steps=before.steps + 1,
            reward=reward,
            termination=termination,
        )

    @torch.inference_mode()
    def every_action(self, now: ImaginedState, steps: int) -> NDArray[np.uint8]:
        """Return the frames (A, h, w, C) that each action leads to when held for some steps; no noise is used up."""
        assert now.predictor_state is not None, "the predictor has not seen its context frames"
        if steps == 1:
            with self.predictor.shared_noise():
                return self._pixels(self.predictor.predict_all(now.predictor_state)[0])
        frames = [self._held(now.predictor_state, action, steps) for action in range(self.predictor.actions)]
        return np.concatenate(frames)

    def _held(self, state: State, action: int, steps: int) -> NDArray[np.uint8]:
        with self.predictor.shared_noise():
            *_, (frame, _) = imagine(self.predictor, state, torch.full((1, steps), action))
        return self._pixels(frame)

    def _pixels(self, frames: Tensor) -> NDArray[np.uint8]:
        pixels: NDArray[np.uint8] = self.predictor.normalizer.to_uint8(frames.nan_to_num(nan=0.0)).numpy(force=True)
        return pixels


@dataclass(frozen=True, kw_only=True)
class LiveMetrics:
    """How an imagined frame compares with the real one of the same time."""

    wrong_pixels: int
    """By the definition of evaluation (docs/metrics.md)."""
    pixels: int
    """Pixels of a frame."""
    squared_error: float
    """Mean over pixels and channels, in (pixel value)²."""
    object_found: bool | None
    """Whether the controlled object is near its real position in the imagined frame; None where that is unknown."""


class FrameComparison:
    """Computes the live metrics of one model."""

    def __init__(self, model: LoadedModel, frame_size: tuple[int, int], palette: Palette | None = None) -> None:
        """``frame_size`` is the (H, W) of recorded frames; ``palette`` holds their colors, where they are known."""
        self._finder = ObjectFinder(frame_size, model.predictor.normalizer.mean.numpy(force=True))
        self._wrong_pixels = WrongPixels(palette if model.view.size is None and not model.view.gray else None)

    def compare(self, imagined: ViewedFrame, real: ViewedFrame, position: tuple[float, float] | None) -> LiveMetrics:
        """Return the metrics of an imagined frame (h, w, C); ``position`` is the object's (row, column) as recorded."""
        difference = np.abs(imagined.astype(np.int16) - real)
        return LiveMetrics(
            wrong_pixels=self._wrong_pixels.count_in_frame(imagined, real),
            pixels=difference.shape[0] * difference.shape[1],
            squared_error=float(np.square(difference.astype(np.int32)).mean()),
            object_found=self._object_found(imagined, real, position),
        )

    def _object_found(
        self, imagined: ViewedFrame, real: ViewedFrame, position: tuple[float, float] | None
    ) -> bool | None:
        target = None if position is None else self._finder.target(real.astype(np.float32), position)
        if target is None:
            return None
        return bool(self._finder.distance(imagined.astype(np.float32), target) <= self._finder.near)


def share_cores() -> None:
    """Limit this thread to half of the cores: the browser needs the others to show the frames."""
    torch.set_num_threads(max(1, (os.cpu_count() or 2) // 2))


def state_tensors(state: State | None) -> dict[str, Tensor]:
    """Return the tensors of a predictor's state by name, without the outcome."""
    if state is None:
        return {}
    values = {field.name: getattr(state, field.name) for field in fields(state)}
    return {name: value for name, value in values.items() if isinstance(value, Tensor)}
