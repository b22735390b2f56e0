"""The worlds of a session: the real one, a running game or a recorded episode, and the imagined one, a predictor's.

Frames of a real world are uint8 (H, W, 3) as recorded, whatever the predictor's view. In the imagined world a predictor
and an action give the next frame; live metrics compare it with the real one.

Shapes: m context frames, A actions, H height and W width as recorded, h height, w width and C channels of the view.
"""

from __future__ import annotations

import os
from abc import ABC, abstractmethod
from collections.abc import Sequence
from copy import copy
from dataclasses import dataclass, fields
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from acvp.data.frames import Palette
from acvp.data.objects import ObjectFinder
from acvp.data.replay import replay, replay_game
from acvp.data.store import EpisodeStore
from acvp.envs import Game, Step, make_game
from acvp.errors import UserError
from acvp.loaded import GameLike, LoadedModel, require_fit
from acvp.models import Predictor, State, imagine
from acvp.models.pixels import WRONG_BY, WrongPixels
from acvp.play.model_pool import about
from acvp.seeding import generator

Frame = NDArray[np.uint8]  # (H, W, 3)

ViewedFrame = NDArray[np.uint8]  # (h, w, C)


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

    def position(self) -> tuple[float, float] | None:
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

    def position(self) -> tuple[float, float] | None:
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


class RecordedWorld(World):
    """An episode of a dataset, which can only follow its recorded actions."""

    def __init__(self, store: EpisodeStore, episode_index: int, frame: int) -> None:
        if not 0 <= episode_index < len(store):
            raise UserError(f"episode {episode_index}: the dataset has episodes 0 to {len(store) - 1}")
        self.store, self.episode_index, self.episode = store, episode_index, store[episode_index]
        if not 0 <= frame < len(self.episode):
            raise UserError(f"frame {frame}: episode {episode_index} has frames 0 to {len(self.episode) - 1}")
        self.frame_index = frame

    @property
    def recorded_action(self) -> int | None:  # type: ignore[override]
        """The action that was taken here; None at the end."""
        actions = self.episode.actions
        return int(actions[self.frame_index]) if self.frame_index < len(actions) else None

    def history(self, count: int) -> tuple[list[Frame], list[int]]:
        """Return up to `count` frames that end here, oldest first, and the actions between them."""
        first = max(0, self.frame_index + 1 - count)
        frames = self.episode.frames(first, self.frame_index + 1)
        return list(frames), self.episode.actions[first : self.frame_index].tolist()

    def step(self, action: int) -> Step:
        """Advance by the recorded action; no other one is possible."""
        assert action == self.recorded_action, f"{action} is not the recorded action"
        reward = float(self.episode.rewards[self.frame_index])
        self.frame_index += 1
        frame = self.episode.frames(self.frame_index, self.frame_index + 1)[0]
        at_end = self.recorded_action is None
        return Step(frame, reward, at_end and self.episode.header.terminated, at_end)

    def save(self) -> Any:
        """Return the index of the frame."""
        return self.frame_index

    def restore(self, saved: Any) -> None:
        """Return to a frame."""
        self.frame_index = saved

    def take_over(self) -> LiveWorld:
        """Return the game at this frame, after replaying the episode up to it; UserError if the game differs."""
        game = replay_game(self.store)
        try:
            for _ in replay(self.episode, game, self.frame_index + 1):
                pass
        except UserError:
            game.close()
            raise
        return LiveWorld(game)


@dataclass(frozen=True, kw_only=True)
class PlayContext:
    """The game, the dataset, or both, that a predictor can be played with."""

    env_id: str
    action_meanings: tuple[str, ...]
    frame_shape: tuple[int, int, int]
    """Height, width, 3 of the game's own frames."""
    game: Game | None
    store: EpisodeStore | None
    missing: str | None = None
    """Why there is no game."""

    def recorded_start(self, context_frames: int, seed: int) -> RecordedWorld:
        """Return a recorded frame with enough frames before it, a different one for each seed."""
        assert self.store is not None, "no dataset to start from"
        long = [index for index, entry in enumerate(self.store.entries) if entry.frames >= context_frames]
        if not long:
            raise UserError(
                f"{self.store.path}: no episode has the {context_frames} frames that the predictor needs first; "
                "pass a dataset of longer ones"
            )
        rng = generator("play-start", seed)
        episode = long[int(rng.integers(len(long)))]
        frames = self.store.entries[episode].frames
        return RecordedWorld(self.store, episode, int(rng.integers(context_frames - 1, frames)))


def make_context(model: LoadedModel, store: EpisodeStore | None, current: PlayContext | None = None) -> PlayContext:
    """Return the game and the dataset that a model can be played with; UserError if there is neither.

    The game of the current context is reused if it is the model's.
    """
    env_id = about(model).env_id
    if store is not None and store.info.env_id != env_id:
        store = None  # of another model's game
    if current is not None and current.env_id == env_id:
        game, missing = current.game, current.missing
    else:
        game, missing = _make_game(env_id)
    known: GameLike
    if game is not None:
        known = game
    elif store is not None and store.frames:
        known = store.info
    else:
        raise UserError(f"{model.name}: {missing}; or pass --data with a dataset of it to start from its frames")
    cure = "it was trained on another version of the game"
    require_fit(model.name, model.predictor, known, view=model.view, source=env_id, cure=cure)
    return PlayContext(
        env_id=env_id,
        action_meanings=known.action_meanings,
        frame_shape=known.frame_shape,
        game=game,
        store=store,
        missing=missing,
    )


def _make_game(env_id: str) -> tuple[Game | None, str | None]:
    """Return the game, or None and the reason."""
    try:
        return make_game(env_id), None
    except UserError as error:
        return None, str(error)


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
        self.model, self.predictor = model, copy(model.predictor)  # which shares the weights, but not its sampling

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
        as_recorded = model.view.size is None and not model.view.gray
        exact = as_recorded and model.predictor.names_colors  # each pixel has a color of the game, the right one or not
        self._wrong_pixels = WrongPixels(palette if as_recorded else None, may_be_off=0 if exact else WRONG_BY)

    def wrong_pixels(self, imagined: ViewedFrame, real: ViewedFrame) -> int:
        """Return the number of wrong pixels of an imagined frame (h, w, C)."""
        return self._wrong_pixels.count_in_frame(imagined, real)

    def compare(self, imagined: ViewedFrame, real: ViewedFrame, position: tuple[float, float] | None) -> LiveMetrics:
        """Return the metrics of an imagined frame (h, w, C); ``position`` is the object's (row, column) as recorded."""
        difference = np.abs(imagined.astype(np.int16) - real)
        return LiveMetrics(
            wrong_pixels=self.wrong_pixels(imagined, real),
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


def share_cores() -> None:
    """Limit this thread to half of the cores: the browser needs the others to show the frames."""
    torch.set_num_threads(max(1, (os.cpu_count() or 2) // 2))


def state_tensors(state: State | None) -> dict[str, Tensor]:
    """Return the tensors of a predictor's state by name, without the outcome."""
    if state is None:
        return {}
    values = {field.name: getattr(state, field.name) for field in fields(state)}
    return {name: value for name, value in values.items() if isinstance(value, Tensor)}
