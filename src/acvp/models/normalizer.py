"""The one converter between frames at rest (uint8, channel last) and frames in a model (float, channel first).

Shapes: ... any leading sizes (batch, time), C channels, H height, W width, N palette colors.
"""

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from acvp.models.checks import FrameError, FrameShape, InputTypeError


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

    def to_uint8(self, frames: Tensor) -> Tensor:
        """Return float frames (..., C, H, W) as uint8 (..., H, W, C), rounded and clamped to 0..255."""
        pixels = frames.float().movedim(-3, -1) * self.scale + self.mean
        return pixels.round_().clamp_(0, 255).to(torch.uint8).contiguous()

    def _normalize(self, pixels: Tensor) -> Tensor:
        return pixels.sub_(self.mean).div_(self.scale).movedim(-1, -3)


def _sizes(image: Tensor) -> str:
    return ", ".join(str(size) for size in image.shape)
