"""Pixels: the one converter between frames at rest (uint8, channel last) and in a model (float), and wrong pixels.

There is one definition of a wrong pixel. Where a palette says what is right, a pixel is wrong if its nearest color of
the palette is not the true one; where there is none, if it is off by more than WRONG_BY in any channel.

Shapes: ... any leading sizes (batch, time), B frames, C channels, H height, W width, N pixels or
palette colors, K colors.
"""

from __future__ import annotations

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from acvp.models.checks import FrameError, FrameShape, InputTypeError

WRONG_BY = 8
"""Pixel values by which a pixel may be off where no palette says what is right."""


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
