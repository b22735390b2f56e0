"""The worlds of a session: the real one, and those that predictors imagine under the same actions.

Frames of a real world are uint8 (H, W, 3) as recorded, whatever the predictor's view. In the imagined world a predictor
and an action give the next frame; live metrics compare it with the real one. Every agent step makes a new
`SessionState` from the one before it, so that rewinding is putting an old one back.

Shapes: m context frames, A actions, H height and W width as recorded, h height, w width and C channels of the view.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from copy import copy
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from acvp.data.frames import Palette
from acvp.envs import Game, Step
from acvp.loaded import LoadedModel
from acvp.models import Predictor, State, imagine
from acvp.models.pixels import WRONG_BY, ObjectFinder, WrongPixels

Frame = NDArray[np.uint8]  # (H, W, 3)
ViewedFrame = NDArray[np.uint8]  # (h, w, C)
Position = tuple[float, float]  # (row, column)

MIN_HISTORY = 32
"""Real frames kept at least, so that a predictor with a longer context can take over at once."""


class World(ABC):
    """Real frames, one for each agent step."""

    recorded_action: int | None = None
    """The next action of a recording; None where nothing is recorded."""

    @abstractmethod
    def step(self, action: int) -> Step:
        """Take one agent step."""

    @abstractmethod
    def save(self) -> Any:
        """Return what `restore` needs to return to this time; None where that is impossible."""

    @abstractmethod
    def restore(self, saved: Any) -> None:
        """Return to a saved time."""

    def position(self) -> Position | None:
        """Return (row, column) of the controlled object; None while it is unknown."""
        return None

    def saved_bytes(self, saved: Any) -> int:
        """Return the size of what `save` returned."""
        return 0


class LiveWorld(World):
    """A running game."""

    def __init__(self, game: Game) -> None:
        self.game = game

    def reset(self, seed: int) -> Frame:
        """Start an episode and return its first frame."""
        return self.game.reset(seed)

    def step(self, action: int) -> Step:
        """Take one step in the game."""
        return self.game.step(action)

    def save(self) -> Any:
        """Return the game's state; None where the game cannot save it."""
        return self.game.save() if self.game.can_save else None

    def restore(self, saved: Any) -> None:
        """Restore the game's state."""
        self.game.restore(saved)

    def position(self) -> Position | None:
        """Return the game's own position of its controlled object."""
        return self.game.controlled_position()

    def saved_bytes(self, saved: Any) -> int:
        """Return the size of the game's state."""
        return 0 if saved is None else len(saved.payload)

    def every_action(self, steps: int) -> list[Frame] | None:
        """Return the frame that each action leads to when held for some steps; None where the game cannot save."""
        if not self.game.can_save:
            return None
        plans = ([action] * steps for action in range(len(self.game.action_meanings)))
        return [future[-1].frame for future in self.game.branch(plans)]


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
    uncertainty: ViewedFrame | None = None
    """Probability that a pixel has another color than the predicted one, of 255, (h, w, 1); None: not computed."""
    expected_wrong: float | None = None
    """The sum of these probabilities: wrong pixels that the predictor expects of this step."""

    @property
    def nbytes(self) -> int:
        """Bytes of its arrays."""
        tensors = {} if self.predictor_state is None else self.predictor_state.tensors()
        return self.frame.nbytes + sum(tensor.nbytes for tensor in tensors.values())


class ImaginedWorld:
    """A world whose frames come from one predictor."""

    def __init__(self, model: LoadedModel) -> None:
        self.model, self.predictor = model, copy(model.predictor)  # which shares the weights, but not its sampling
        self.shows_uncertainty = False

    @property
    def samples(self) -> bool:
        """Whether its predictor can sample, so that a temperature makes a difference."""
        return type(self.predictor).sample is not Predictor.sample

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
        reward = termination = uncertainty = picture = None
        if state.outcome is not None:
            calibration = self.predictor.calibration
            outcome = calibration.apply(state.outcome)
            reward = int(calibration.reward_signs(outcome)[0])
            termination = float(outcome.termination[0].sigmoid())
        if self.shows_uncertainty:
            uncertainty = self.predictor.uncertainty(before.predictor_state, torch.tensor([action]), frame)
        if uncertainty is not None:  # (1, h, w)
            picture = (255 * uncertainty[0, ..., None]).round().to(torch.uint8).numpy(force=True)
        return ImaginedState(
            uncertainty=picture,
            expected_wrong=None if uncertainty is None else float(uncertainty.sum()),
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
        as_recorded = model.view.size is None and not model.view.gray
        exact = as_recorded and model.predictor.names_colors  # each pixel has a color of the game, the right one or not
        self.wrong_pixels = WrongPixels(palette if as_recorded else None, may_be_off=0 if exact else WRONG_BY)

    def compare(self, imagined: ViewedFrame, real: ViewedFrame, position: Position | None) -> LiveMetrics:
        """Return the metrics of an imagined frame (h, w, C); ``position`` is the object's (row, column) as recorded."""
        difference = np.abs(imagined.astype(np.int16) - real)
        return LiveMetrics(
            wrong_pixels=self.wrong_pixels.count_in_frame(imagined, real),
            pixels=difference.shape[0] * difference.shape[1],
            squared_error=float(np.square(difference.astype(np.int32)).mean()),
            object_found=self._object_found(imagined, real, position),
        )

    def _object_found(self, imagined: ViewedFrame, real: ViewedFrame, position: Position | None) -> bool | None:
        target = None if position is None else self._finder.target(real.astype(np.float32), position)
        if target is None:
            return None
        return bool(self._finder.distance(imagined.astype(np.float32), target) <= self._finder.near)


@dataclass(frozen=True, kw_only=True)
class SessionState:
    """Both worlds at one time."""

    frames: tuple[Frame, ...]
    """The last real frames (H, W, 3), oldest first, with which the imagined world can be resynced."""
    actions: tuple[int, ...]
    """The actions between them."""
    real: ViewedFrame | None
    """The real frame in the predictor's view; None where there is no real world."""
    imagined: ImaginedState
    other: ImaginedState | None = None
    """What the predictor beside it imagines; None where there is none."""
    other_wrong_pixels: int | None = None
    metrics: LiveMetrics | None = None
    """How the two compare; None where there is no real world."""
    lost_steps: int = 0
    """Steps in a row, up to this one, in which the controlled object was not found in the imagined frame."""
    agent_steps: int = 0
    """Steps since the start."""
    action: int | None = None
    """The action that led here."""
    score: float = 0.0
    """Sum of the real rewards since the start."""
    real_reward: int = 0
    """Sum of the signs of the real rewards since the last resync."""
    imagined_reward: int = 0
    """Sum of the signs of the predicted rewards since the last resync."""
    over: bool = False
    """Whether the real game, or the recording, has ended."""


@dataclass(frozen=True, kw_only=True)
class ActionGrid:
    """The frames that every action leads to."""

    steps: int
    """Steps for which each action is held."""
    imagined: NDArray[np.uint8]
    """(A, h, w, C)"""
    real: NDArray[np.uint8] | None
    """(A, h, w, C); None where there is no game that can save its state."""


class Worlds:
    """The real world, the imagined one, and another predictor's beside it: an action leads all to their next state."""

    def __init__(self, model: LoadedModel, frame_size: tuple[int, int], palette: Palette | None = None) -> None:
        """``frame_size`` is the (H, W) of recorded frames; ``palette`` holds their colors, where they are known."""
        self.real: World | None = None
        self.imagined = ImaginedWorld(model)
        self.other: ImaginedWorld | None = None
        self._frame_size, self._palette = frame_size, palette
        self._comparison = FrameComparison(model, frame_size, palette)
        self._other_comparison = self._comparison

    @property
    def history_length(self) -> int:
        """Number of real frames that a state keeps."""
        return max(self.imagined.predictor.context, MIN_HISTORY)

    def set_other(self, model: LoadedModel | None) -> None:
        """Let another predictor imagine beside the first one, or none."""
        self.other = None if model is None else ImaginedWorld(model)
        if model is not None:
            self._other_comparison = FrameComparison(model, self._frame_size, self._palette)

    def sample(self, temperature: float, seed: int) -> None:
        """Let the predictors draw at a temperature, from the start of their noise."""
        for world in (self.imagined, self.other):
            if world is not None:
                world.predictor.sample(temperature, seed)

    def start(self, frames: Sequence[Frame], actions: Sequence[int]) -> SessionState:
        """Return the state after real frames and the actions between them."""
        imagined = ImaginedState(frame=self.imagined.view(frames[-1]))
        return self.resync(SessionState(frames=tuple(frames), actions=tuple(actions), real=None, imagined=imagined))

    def resync(self, state: SessionState) -> SessionState:
        """Return the state with imagined worlds that start from its real frames."""
        real = None if self.real is None else self.imagined.view(state.frames[-1])
        imagined = self.imagined.resync(state.frames, state.actions)
        other = None if self.other is None else self.other.resync(state.frames, state.actions)
        state = replace(state, other=other, other_wrong_pixels=self._other_wrong(other, state.frames[-1]))
        metrics = self._compare(imagined.frame, real)
        return replace(
            state, real=real, imagined=imagined, metrics=metrics, lost_steps=0, real_reward=0, imagined_reward=0
        )

    def step(self, before: SessionState, action: int) -> SessionState:
        """Return the state that an action leads to."""
        if self.real is None:
            return self._imagined_step(before, action)
        step = self.real.step(action)
        frames = (*before.frames, step.frame)[-self.history_length :]
        actions = (*before.actions, action)[-len(frames) + 1 :]
        real = self.imagined.view(step.frame)
        waiting = before.imagined.predictor_state is None
        imagined = self.imagined.resync(frames, actions) if waiting else self.imagined.step(before.imagined, action)
        metrics = self._compare(imagined.frame, real)
        other = self._other_step(before, action, frames, actions)
        return SessionState(
            other=other,
            other_wrong_pixels=self._other_wrong(other, step.frame),
            frames=frames,
            actions=actions,
            real=real,
            imagined=imagined,
            metrics=metrics,
            lost_steps=before.lost_steps + 1 if metrics is not None and metrics.object_found is False else 0,
            agent_steps=before.agent_steps + 1,
            action=action,
            score=before.score + step.reward,
            real_reward=0 if waiting else before.real_reward + int(np.sign(step.reward)),
            imagined_reward=0 if waiting else before.imagined_reward + (imagined.reward or 0),
            over=step.terminated or step.truncated,
        )

    def every_action(self, state: SessionState, steps: int) -> ActionGrid:
        """Return the frames that each action, held for some steps, leads to in both worlds."""
        real = self.real.every_action(steps) if isinstance(self.real, LiveWorld) and not state.over else None
        return ActionGrid(
            steps=steps,
            imagined=self.imagined.every_action(state.imagined, steps),
            real=None if real is None else np.stack([self.imagined.view(frame) for frame in real]),
        )

    def _imagined_step(self, before: SessionState, action: int) -> SessionState:
        """Return the state that an action leads to where there is no real world."""
        imagined = self.imagined.step(before.imagined, action)
        return replace(
            before,
            imagined=imagined,
            other=self._other_step(before, action, before.frames, before.actions),
            agent_steps=before.agent_steps + 1,
            action=action,
            imagined_reward=before.imagined_reward + (imagined.reward or 0),
        )

    def _other_step(
        self, before: SessionState, action: int, frames: tuple[Frame, ...], actions: tuple[int, ...]
    ) -> ImaginedState | None:
        """Return what the predictor beside the first one imagines next."""
        if self.other is None or before.other is None:
            return None
        if before.other.predictor_state is None:
            return self.other.resync(frames, actions)
        return self.other.step(before.other, action)

    def _other_wrong(self, other: ImaginedState | None, frame: Frame) -> int | None:
        if other is None or self.other is None or self.real is None:
            return None
        return self._other_comparison.wrong_pixels.count_in_frame(other.frame, self.other.view(frame))

    def _compare(self, imagined: ViewedFrame, real: ViewedFrame | None) -> LiveMetrics | None:
        if real is None or self.real is None:
            return None
        return self._comparison.compare(imagined, real, self.real.position())
