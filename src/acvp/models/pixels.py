"""Frames and actions as models take them: checked, converted, and predictions compared with the truth by pixels.

Each error at this edge names the shapes it saw and the cure. There is one converter between frames at rest (uint8,
channel last) and in a model (float).

There is one definition of a wrong pixel. Where a palette says what is right, a pixel is wrong if its nearest color of
the palette is not the true one; where there is none, if it is off by more than WRONG_BY in any channel. The controlled
object is found where its true patch fits best.

Shapes: ... any leading sizes (batch, time), B batch, T time, A actions, C channels, H height, W width, N pixels or
palette colors, K colors; h height and w width of the view.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import hypot

import cv2
import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn
from torch.nn import functional

from acvp.actions import ActionRange
from acvp.models.config import FrameShape

WRONG_BY = 8
"""Pixel values by which a pixel may be off where no palette says what is right."""
PATCH, NEAR, SEARCH = 0.04, 0.04, 0.12
"""Of the frame's longer side: half the patch's side, how far off an object may be before it is lost, search radius."""
STANDS_OUT = 16
"""Pixel values by which a pixel of the patch must differ from the mean image to count as the object's."""
PRESENT = 0.5
"""A patch fits if its squared error is below this share of the mean image's; otherwise the object has vanished."""

Frame = NDArray[np.float32]  # (h, w, C)


class FrameError(ValueError):
    """Frames of a shape the predictor cannot take."""


class ActionError(ValueError):
    """Actions of a shape or value the predictor cannot take."""


class InputTypeError(TypeError):
    """Frames or actions of a type the predictor cannot take."""


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


class ActionScale(nn.Module):
    """Maps each component of continuous actions from its range to −1 to 1; action vectors of numbers pass unchanged."""

    def __init__(self, limits: ActionRange) -> None:
        super().__init__()
        self.continuous, self._limits = bool(limits), [list(pair) for pair in limits]

    def forward(self, vectors: Tensor) -> Tensor:
        """Return action vectors (..., A) as a network multiplies them."""
        if not self.continuous:
            return vectors
        low, high = vectors.new_tensor(self._limits).unbind(1)  # (A,)
        return (2 * vectors - low - high) / (high - low)

    def vectors(self, actions: Tensor, count: int, leading: tuple[int, ...]) -> Tensor:
        """Return actions as float vectors (*leading, A), unscaled; continuous ones are no indices."""
        if self.continuous and isinstance(actions, Tensor) and tuple(actions.shape) != (*leading, count):
            raise ActionError(
                f"actions have shape {tuple(actions.shape)}, expected {(*leading, count)}: they are continuous, "
                f"vectors of {count} numbers"
            )
        return action_vectors(actions, count, leading)

    def require_numbered(self) -> None:
        """Refuse to list all actions where they are continuous."""
        if self.continuous:
            raise ActionError("continuous actions cannot be listed: predict them one by one")


def _one_hot(actions: Tensor, count: int) -> Tensor:
    if actions.is_floating_point() or actions.dtype == torch.bool:
        raise InputTypeError(f"action indices are {actions.dtype}; pass integers below {count}, or vectors of {count}")
    actions = actions.long()
    low, high = (int(limit) for limit in actions.aminmax()) if actions.numel() else (0, 0)
    if low < 0 or high >= count:
        worst = low if low < 0 else high
        raise ActionError(f"action {worst} is outside 0..{count - 1}: the predictor knows {count} actions")
    return torch.nn.functional.one_hot(actions, count).float()


class Normalizer(nn.Module):
    """Subtracts the mean image and divides by a scale: 255 for RGB, 128 for the gray network (§4, appendix B)."""

    mean: Tensor
    """Mean image of the training set in pixel values, (H, W, C)."""

    def __init__(self, frame: FrameShape, scale: float) -> None:
        super().__init__()
        self.scale = scale
        self.register_buffer("mean", torch.zeros(frame))

    def set_mean(self, mean: Tensor | NDArray[np.float32]) -> None:
        """Take the mean image (H, W, C), in pixel values 0..255, of a training set."""
        mean = torch.as_tensor(mean)
        if mean.shape != self.mean.shape:
            raise FrameError(f"the mean image has shape {tuple(mean.shape)}, expected {tuple(self.mean.shape)}")
        self.mean.copy_(mean)

    def to_float(self, frames: Tensor) -> Tensor:
        """Return uint8 frames (..., H, W, C) as normalized floats (..., C, H, W) in channels-last memory."""
        if frames.dtype != torch.uint8:
            raise InputTypeError(f"frames are {frames.dtype}, expected uint8 pixels 0..255")
        if frames.shape[-3:] != self.mean.shape:
            raise FrameError(f"frames have shape {tuple(frames.shape)}, expected (..., {_sizes(self.mean)})")
        return self._normalize(frames.to(self.mean.dtype))

    def palette_to_float(self, indices: Tensor, palette: Tensor) -> Tensor:
        """Return palette indices (..., H, W) with uint8 palette (N, C) as normalized floats (..., C, H, W)."""
        channels = self.mean.shape[-1]
        if indices.dtype != torch.uint8 or palette.dtype != torch.uint8:
            raise InputTypeError(f"indices are {indices.dtype} and palette {palette.dtype}, expected uint8 for both")
        if indices.shape[-2:] != self.mean.shape[:2] or palette.ndim != 2 or palette.shape[1] != channels:
            raise FrameError(
                f"indices {tuple(indices.shape)} with palette {tuple(palette.shape)}, expected "
                f"(..., {_sizes(self.mean[..., 0])}) with (N, {channels})"
            )
        if indices.numel() and int(indices.max()) >= len(palette):
            raise FrameError(f"palette index {int(indices.max())} in a palette of {len(palette)} colors")
        pixels = palette.to(self.mean.dtype).index_select(0, indices.flatten().int())  # (... · H · W, C)
        return self._normalize(pixels.view(*indices.shape, channels))

    def stored_to_float(self, frames: Tensor, palette: Tensor | None) -> Tensor:
        """Return frames as a dataset stores them, pixels or indices of a palette, as normalized floats."""
        frames = frames.to(self.mean.device, non_blocking=True)
        return self.to_float(frames) if palette is None else self.palette_to_float(frames, palette.to(frames.device))

    def to_uint8(self, frames: Tensor) -> Tensor:
        """Return float frames (..., C, H, W) as uint8 (..., H, W, C), rounded and clamped to 0..255."""
        pixels = frames.float().movedim(-3, -1) * self.scale + self.mean
        return pixels.round_().clamp_(0, 255).to(torch.uint8).contiguous()

    def to_pixels(self, frames: Tensor) -> Tensor:
        """Return normalized frames (..., C, H, W) in pixel values, clamped to 0..255 but not rounded; NaN becomes 0."""
        pixels = frames.float() * self.scale + self.mean.movedim(-1, 0)
        return pixels.nan_to_num_(nan=0.0).clamp_(0, 255)

    def _normalize(self, pixels: Tensor) -> Tensor:
        return pixels.sub_(self.mean).div_(self.scale).movedim(-1, -3)


def _sizes(image: Tensor) -> str:
    return ", ".join(str(size) for size in image.shape)


def as_pixels(frames: NDArray[np.uint8]) -> Tensor:
    """Return uint8 frames (B, H, W, C) as floats (B, C, H, W) of the same values."""
    return torch.from_numpy(np.ascontiguousarray(frames.transpose(0, 3, 1, 2))).float()


def to_frames(pixels: Tensor) -> NDArray[np.uint8]:
    """Return floats (B, C, H, W) in pixel values 0..255 as uint8 frames (B, H, W, C), rounded."""
    frames: NDArray[np.uint8] = pixels.round().to(torch.uint8).permute(0, 2, 3, 1).numpy()
    return frames


def squared_error_loss(predicted: Tensor, target: Tensor) -> Tensor:
    """Return half the squared error summed over pixels and channels, averaged over batch and steps (equation 6).

    ``predicted`` and ``target`` are normalized frames (B, K, C, H, W). The scale is that of the authors' code.
    """
    if predicted.shape != target.shape or predicted.ndim != 5:
        raise FrameError(
            f"predicted frames {tuple(predicted.shape)} beside target frames {tuple(target.shape)}; "
            f"expected two equal shapes (B, K, C, H, W)"
        )
    rows, steps = predicted.shape[:2]
    return functional.mse_loss(predicted.float(), target, reduction="sum") / (2 * rows * steps)


class WrongPixels:
    """Counts the wrong pixels of predictions, by a palette (K, C) or, without one, by how far they are off."""

    def __init__(self, palette: NDArray[np.uint8] | None, *, may_be_off: int = WRONG_BY) -> None:
        """Without a palette, pixels may be off by ``may_be_off`` in every channel; 0 if all colors are a palette's."""
        self._may_be_off = may_be_off
        self._colors = None if palette is None else torch.from_numpy(palette.astype("float32"))  # (K, C)
        self._near = 0.0 if self._colors is None else float(_least_distance(self._colors)) / 2

    def count(self, predicted: Tensor, truth: Tensor) -> Tensor:
        """Return the number (B,) of wrong pixels in predictions (B, C, H, W)."""
        if self._colors is None:
            return ((predicted.round() - truth).abs() > self._may_be_off).any(1).flatten(1).sum(1)
        off = (predicted - truth).square().sum(1)  # (B, H, W)
        # A pixel closer to its true color than half the least distance between two colors cannot be wrong.
        doubtful = off >= self._near**2
        return torch.stack([self._wrong(p, t, d) for p, t, d in zip(predicted, truth, doubtful, strict=True)])

    def count_in_frame(self, predicted: NDArray[np.uint8], truth: NDArray[np.uint8]) -> int:
        """Return the number of wrong pixels in one uint8 frame (H, W, C)."""
        return int(self.count(as_pixels(predicted[None]), as_pixels(truth[None])))

    def _wrong(self, predicted: Tensor, truth: Tensor, doubtful: Tensor) -> Tensor:
        """Return how many of the doubtful pixels (H, W) of a frame (C, H, W) are wrong."""
        assert self._colors is not None
        pixels, right = predicted[:, doubtful].T, truth[:, doubtful].T  # (N, C) each
        distance = self._colors.square().sum(1) - 2 * pixels @ self._colors.T  # (N, K), less what all have in common
        return (self._colors[distance.argmin(1)] != right).any(1).sum()


def _least_distance(colors: Tensor) -> Tensor:
    """Return the distance between the two closest of colors (K, C); of a single color, a large one."""
    apart = torch.cdist(colors, colors) + torch.eye(len(colors)) * 1e3
    return apart.min()


@dataclass(frozen=True)
class Target:
    """The object in a true frame: its patch, and where to look for it."""

    corner: tuple[int, int]
    """Row and column of the patch in the region."""
    region: tuple[slice, slice]
    """Part of the frame that is searched."""
    patch: Frame
    mask: Frame
    """1 on the object's pixels."""
    absent: float
    """Squared error of the mean image in the object's place."""


class ObjectFinder:
    """Finds the controlled object of true frames in predictions."""

    def __init__(self, recorded: tuple[int, int], mean: Frame) -> None:
        """``recorded`` is the (height, width) that positions refer to, ``mean`` the mean image in the view."""
        self._mean = np.ascontiguousarray(mean, np.float32)
        self._scale = mean.shape[0] / recorded[0], mean.shape[1] / recorded[1]
        side = max(recorded)
        self.near, self.search = NEAR * side, SEARCH * side
        self._half = [max(1, round(PATCH * side * scale)) for scale in self._scale]
        self._radius = [max(1, round(self.search * scale)) for scale in self._scale]

    def target(self, truth: Frame, position: Sequence[float]) -> Target | None:
        """Return the object of a true frame, None where it is not drawn or looks like the mean image."""
        if np.isnan(position[0]):
            return None
        patch, region = [], []
        for axis in (0, 1):
            size, half, radius = truth.shape[axis], self._half[axis], self._radius[axis]
            middle = int(min(max((position[axis] + 0.5) * self._scale[axis], 0), size - 1))
            patch.append(slice(max(0, middle - half), min(size, middle + half + 1)))
            region.append(slice(max(0, middle - half - radius), min(size, middle + half + 1 + radius)))
        rows, columns = patch
        true, mean = truth[rows, columns], self._mean[rows, columns]
        mask = (np.abs(true - mean).max(2, keepdims=True) > STANDS_OUT).astype(np.float32)
        if not mask.any():
            return None
        absent = float((np.square(true - mean) * mask).sum())
        corner = rows.start - region[0].start, columns.start - region[1].start
        full_mask = np.ascontiguousarray(np.broadcast_to(mask, true.shape))
        return Target(corner, (region[0], region[1]), np.ascontiguousarray(true), full_mask, absent)

    def distance(self, predicted: Frame, target: Target) -> float:
        """Return how far from its true place the object is in a prediction, in recorded pixels; inf: nowhere near."""
        region = np.ascontiguousarray(predicted[target.region])
        misfit = cv2.matchTemplate(region, target.patch, cv2.TM_SQDIFF, mask=target.mask)
        row, column = target.corner
        best = int(misfit.argmin()) if misfit[row, column] > misfit.min() else row * misfit.shape[1] + column
        if misfit.flat[best] > PRESENT * target.absent:
            return np.inf
        down, right = divmod(best, misfit.shape[1])
        return hypot((down - row) / self._scale[0], (right - column) / self._scale[1])
