"""Structural similarity with OpenCV's Gaussian filter: what torchmetrics computes, in a fraction of the time.

Shapes: B frames, C channels, H height, W width.
"""

from __future__ import annotations

from typing import NamedTuple

import cv2
import numpy as np
import torch
from torch import Tensor

SIGMA, SIDE, RANGE = 1.5, 11, 255.0
C1, C2 = (0.01 * RANGE) ** 2, (0.03 * RANGE) ** 2
MIDDLE = 128.0
"""Subtracted before squaring: variances do not change, and rounding errors get smaller."""


class Blurred(NamedTuple):
    """Local statistics of frames, (B, C, H, W) each."""

    shifted: Tensor
    """Pixel values − MIDDLE."""
    mean: Tensor
    """Of the shifted values."""
    level: Tensor
    """Of the pixel values."""
    variance: Tensor


class Ssim:
    """SSIM of frames of one size, reflected at their edges; the window shrinks for frames that are smaller than it."""

    def __init__(self, height: int, width: int) -> None:
        self._side = min(SIDE, 2 * min(height, width) - 1)

    def blur(self, frames: Tensor) -> Blurred:
        """Return the local statistics of frames (B, C, H, W) in pixel values."""
        shifted = frames - MIDDLE
        mean = self._filter(shifted)
        variance = self._filter(shifted.square()).addcmul_(mean, mean, value=-1).clamp_(min=0)
        return Blurred(shifted, mean, mean + MIDDLE, variance)

    def compare(self, a: Blurred, b: Blurred) -> Tensor:
        """Return the similarity (B,) of frames."""
        covariance = self._filter(a.shifted * b.shifted).addcmul_(a.mean, b.mean, value=-1)
        above = (a.level * b.level).mul_(2).add_(C1).mul_(covariance.mul_(2).add_(C2))
        levels = a.level.square().addcmul_(b.level, b.level).add_(C1)
        below = levels.mul_((a.variance + b.variance).add_(C2))
        return above.div_(below).flatten(1).mean(1, dtype=torch.float64)

    def _filter(self, frames: Tensor) -> Tensor:
        planes = frames.contiguous().numpy().reshape(-1, *frames.shape[-2:])  # (B·C, H, W)
        blurred = np.empty_like(planes)
        for plane, out in zip(planes, blurred, strict=True):
            cv2.GaussianBlur(plane, (self._side, self._side), SIGMA, dst=out, borderType=cv2.BORDER_REFLECT_101)
        return torch.from_numpy(blurred).view(frames.shape)
