"""Checks at the public edge: each error names the shapes it saw and the cure.

Shapes: B batch, T time, K predicted steps, C channels, H height, W width, A actions.
"""

import torch
from torch import Tensor

from acvp.errors import UserError

FrameShape = tuple[int, int, int]
"""(height, width, channels) of one frame."""


class ConfigError(UserError, ValueError):
    """A configuration that no network can be built from."""


class FrameError(ValueError):
    """Frames of a shape the predictor cannot take."""


class ActionError(ValueError):
    """Actions of a shape or value the predictor cannot take."""


class InputTypeError(TypeError):
    """Frames or actions of a type the predictor cannot take."""


def require_positive(**values: int | float) -> None:
    """Refuse the first value that is not above zero, by name."""
    for name, value in values.items():
        if not value > 0:
            raise ConfigError(f"{name} is {value}; it must be above 0")


def require_whole(**values: int) -> None:
    """Refuse the first value that is not a whole number above zero, by name."""
    for name, value in values.items():
        if type(value) is not int or value < 1:
            raise ConfigError(f"{name} is {value}; it must be a whole number above 0")


def require_frame(frame: FrameShape) -> None:
    """Refuse anything but three whole numbers above zero."""
    if len(frame) != 3 or not all(type(side) is int and side > 0 for side in frame):
        raise ConfigError(f"frame is {frame}; it must be (height, width, channels), whole numbers above 0")


def check_frames(frames: Tensor, frame_shape: FrameShape, least: int) -> None:
    """Refuse anything but normalized float frames (B, T, C, H, W) with T of at least ``least``."""
    height, width, channels = frame_shape
    expected = f"(B, T, {channels}, {height}, {width})"
    if not isinstance(frames, Tensor) or not frames.is_floating_point():
        kind = frames.dtype if isinstance(frames, Tensor) else type(frames).__name__
        raise InputTypeError(f"frames are {kind}, expected float {expected}; convert with normalizer.to_float first")
    if frames.ndim != 5 or tuple(frames.shape[2:]) != (channels, height, width):
        raise FrameError(f"frames have shape {tuple(frames.shape)}, expected {expected}, oldest first")
    if frames.shape[0] == 0:
        raise FrameError(f"frames have shape {tuple(frames.shape)}: the batch is empty")
    if frames.shape[1] < least:
        raise FrameError(
            f"frames have shape {tuple(frames.shape)}: {frames.shape[1]} frames in time, at least {least} are needed"
        )


def check_window(frames: Tensor, actions: Tensor, predict: int) -> None:
    """Refuse a training window whose frames, actions and number of predictions do not fit together."""
    if predict < 1:
        raise FrameError(f"predict is {predict}; at least 1 frame must be predicted")
    rows, times = frames.shape[:2]
    if tuple(actions.shape[:2]) != (rows, times - 1):
        raise ActionError(
            f"actions have shape {tuple(actions.shape)} beside frames {tuple(frames.shape)}; "
            f"expected ({rows}, {times - 1}, ...): one action between each two frames"
        )


def action_vectors(actions: Tensor, count: int, leading: tuple[int, ...]) -> Tensor:
    """Return actions as float vectors (*leading, A), from indices (*leading) or vectors (*leading, A)."""
    if not isinstance(actions, Tensor):
        raise InputTypeError(f"actions are {type(actions).__name__}; pass a tensor of indices or of vectors")
    if tuple(actions.shape) == (*leading, count):
        return actions if actions.is_floating_point() else actions.float()
    if tuple(actions.shape) != leading:
        raise ActionError(
            f"actions have shape {tuple(actions.shape)}, expected {leading} for indices below {count} "
            f"or {(*leading, count)} for action vectors"
        )
    return _one_hot(actions, count)


def _one_hot(actions: Tensor, count: int) -> Tensor:
    if actions.is_floating_point() or actions.dtype == torch.bool:
        raise InputTypeError(f"action indices are {actions.dtype}; pass integers below {count}, or vectors of {count}")
    actions = actions.long()
    low, high = (int(limit) for limit in actions.aminmax()) if actions.numel() else (0, 0)
    if low < 0 or high >= count:
        worst = low if low < 0 else high
        raise ActionError(f"action {worst} is outside 0..{count - 1}: the predictor knows {count} actions")
    return torch.nn.functional.one_hot(actions, count).float()
