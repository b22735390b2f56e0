"""Looking ahead at the public edge: uint8 numpy frames in, uint8 numpy frames out.

Shapes: B batch, T time, K predicted steps, C channels, H height, W width, A actions.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import fields, is_dataclass, replace
from typing import Any, NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from acvp.actions import outside
from acvp.models.config import ConfigError
from acvp.models.layers import Outcome
from acvp.models.pixels import ActionError, FrameError, InputTypeError
from acvp.models.predictor import Predictor, State, imagine


class Rollout(NamedTuple):
    """What actions lead to: frames, rewards and terminations of K steps."""

    frames: NDArray[np.uint8]
    """(K, H, W, C), or with a batch (B, K, H, W, C)."""
    rewards: NDArray[np.int64]
    """Signs of the predicted rewards, −1, 0 or 1, by the predictor's thresholds, (K,) or (B, K)."""
    terminations: NDArray[np.float32]
    """Calibrated probabilities that the step ends the episode, (K,) or (B, K)."""


def rollout(predictor: Predictor, frames: NDArray[np.uint8], actions: NDArray[Any]) -> NDArray[np.uint8]:
    """Return the frames that the actions lead to, (K, H, W, C), after real frames (T, H, W, C), oldest first.

    Of the T frames the last ``predictor.context`` are used; if there are fewer, the first is repeated before them.
    ``actions`` are K indices (K,), one for each frame to predict, or vectors (K, A). With a batch,
    (B, T, H, W, C) and (B, K) or (B, K, A) give (B, K, H, W, C).
    """
    return _rollout(predictor, frames, actions)[0]


def rollout_with_rewards(predictor: Predictor, frames: NDArray[np.uint8], actions: NDArray[Any]) -> Rollout:
    """Return what ``rollout`` does, and the predicted rewards and terminations; ConfigError without such heads."""
    predicted, outcomes = _rollout(predictor, frames, actions)
    if not outcomes:
        raise ConfigError(
            f"a {type(predictor).__name__} without reward and termination heads predicts frames only; train one with "
            "--predict-rewards, or the pixel-exact predictor"
        )
    outcomes = [predictor.calibration.apply(outcome) for outcome in outcomes]
    rewards = np.stack([predictor.calibration.reward_signs(outcome) for outcome in outcomes], 1)  # (B, K)
    terminations = np.stack([outcome.termination.sigmoid().numpy(force=True) for outcome in outcomes], 1)
    if predicted.ndim == 4:
        return Rollout(predicted, rewards[0], terminations[0])
    return Rollout(predicted, rewards, terminations)


@torch.inference_mode()
def _rollout(
    predictor: Predictor, frames: NDArray[np.uint8], actions: NDArray[Any]
) -> tuple[NDArray[np.uint8], list[Outcome]]:
    """Return frames as ``rollout`` does, and the outcomes of all steps, each of B rows; none without heads."""
    frames, actions = np.asarray(frames), np.asarray(actions)
    _check(predictor, frames, actions)
    if single := frames.ndim == 4:
        frames, actions = frames[None], actions[None]
    normalizer = predictor.normalizer
    device = normalizer.mean.device
    vectors = predictor.action_scale.vectors(torch.as_tensor(actions), predictor.actions, actions.shape[:2]).to(device)
    missing = max(0, predictor.context - frames.shape[1])
    given = np.concatenate((np.repeat(frames[:, :1], missing, 1), frames[:, -predictor.context :]), 1)
    real = torch.from_numpy(given).to(device)
    predicted, outcomes = [], []
    for step, (frame, state) in enumerate(imagine(predictor, predictor.observe(normalizer.to_float(real)), vectors), 1):
        if not bool(frame.isfinite().all()):
            raise FrameError(
                f"step {step} has pixels that are not finite numbers: the network or its actions are corrupted"
            )
        predicted.append(normalizer.to_uint8(frame).numpy(force=True))
        outcomes += [] if state.outcome is None else [state.outcome]
    together = np.stack(predicted, 1)  # (B, K, H, W, C)
    return together[0] if single else together, outcomes


def _check(predictor: Predictor, frames: NDArray[np.uint8], actions: NDArray[Any]) -> None:
    height, width, channels = predictor.config.frame
    expected = f"(T, {height}, {width}, {channels}) or (B, T, {height}, {width}, {channels})"
    if frames.dtype != np.uint8:
        raise InputTypeError(f"frames are {frames.dtype}, expected uint8 {expected} with pixels 0..255")
    if frames.ndim not in (4, 5) or frames.shape[-3:] != (height, width, channels):
        raise FrameError(f"frames have shape {frames.shape}, expected {expected}, oldest first")
    if not frames.shape[-4]:
        raise FrameError(f"frames have shape {frames.shape}: no real frames, at least 1 is needed")
    _check_actions(predictor, frames, actions)


def _check_actions(predictor: Predictor, frames: NDArray[np.uint8], actions: NDArray[Any]) -> None:
    rows = frames.shape[:-4]  # () or (B,)
    steps = len(rows) + 1
    fits = actions.ndim == steps or (actions.ndim == steps + 1 and actions.shape[-1] == predictor.actions)
    if not fits or actions.shape[: len(rows)] != rows or 0 in actions.shape:
        lead = "".join(f"{size}, " for size in rows)
        raise ActionError(
            f"actions have shape {actions.shape} beside frames {frames.shape}; expected indices ({lead}K) "
            f"or vectors ({lead}K, {predictor.actions}), K at least 1"
        )
    limits = predictor.config.action_range
    if limits and actions.ndim == steps + 1:
        wrong = outside(actions.reshape(-1, predictor.actions), limits)
        if wrong is not None:
            raise ActionError(wrong)


def select_rows(state: State, rows: NDArray[np.int64]) -> State:
    """Return the state of some rows of the batch, in their order; a row may come several times."""

    def select(tensors: Sequence[Tensor]) -> Tensor:
        return tensors[0].index_select(0, torch.from_numpy(rows).to(tensors[0].device))

    chosen: State = _by_tensor(select, [state])
    return chosen


def join_rows(states: Sequence[State]) -> State:
    """Return states of one kind, all of them after a prediction or none, as one batch."""
    if len(states) == 1:
        return states[0]
    joined: State = _by_tensor(lambda tensors: torch.cat(list(tensors)), states)
    return joined


def _by_tensor(function: Callable[[Sequence[Tensor]], Tensor], values: Sequence[Any]) -> Any:
    """Apply a function to the tensors that stand in the same place of each value."""
    first = values[0]
    if first is None:
        return None
    if isinstance(first, Tensor):
        return function(values)
    if is_dataclass(first) and not isinstance(first, type):
        names = [field.name for field in fields(first)]
        return replace(first, **{name: _by_tensor(function, [getattr(v, name) for v in values]) for name in names})
    if isinstance(first, tuple) and hasattr(first, "_fields"):
        return type(first)(*(_by_tensor(function, parts) for parts in zip(*values, strict=True)))
    raise TypeError(f"a predictor's state holds a {type(first).__name__}; only tensors have rows")
