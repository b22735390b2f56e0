"""Structural similarity as products with banded matrices: what torchmetrics computes, at a tenth of the time.

Shapes: B frames, C channels, H height, W width.
"""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import Tensor

SIGMA, SIDE, RANGE = 1.5, 11, 255.0
C1, C2 = (0.01 * RANGE) ** 2, (0.03 * RANGE) ** 2
MIDDLE = 128.0
"""Subtracted before squaring: variances do not change, and rounding errors get smaller."""


class Blurred(NamedTuple):
    """Local mean and variance of frames."""

    shifted: Tensor  # (B, C, H, W): pixel values − MIDDLE
    mean: Tensor  # (B, C, H, W), of the shifted values
    variance: Tensor  # (B, C, H, W)


class Ssim:
    """SSIM of frames of one size, reflected at their edges; the window shrinks for frames that are smaller than it."""

    def __init__(self, height: int, width: int) -> None:
        side = min(SIDE, 2 * min(height, width) - 1)
        self._rows, self._columns = _band(height, side), _band(width, side).T.contiguous()  # (H, H), (W, W)

    def blur(self, frames: Tensor) -> Blurred:
        """Return the local statistics of frames (B, C, H, W) in pixel values."""
        shifted = frames - MIDDLE
        mean = self._filter(shifted)
        return Blurred(shifted, mean, (self._filter(shifted.square()) - mean.square()).clamp_(min=0))

    def compare(self, a: Blurred, b: Blurred) -> Tensor:
        """Return the similarity (B,) of frames."""
        covariance = self._filter(a.shifted * b.shifted) - a.mean * b.mean
        mean_a, mean_b = a.mean + MIDDLE, b.mean + MIDDLE
        above = (2 * mean_a * mean_b + C1) * (2 * covariance + C2)
        below = (mean_a.square() + mean_b.square() + C1) * (a.variance + b.variance + C2)
        return (above / below).flatten(1).mean(1, dtype=torch.float64)

    def _filter(self, frames: Tensor) -> Tensor:
        return self._rows @ frames @ self._columns


def _band(size: int, side: int) -> Tensor:
    """Return the matrix (size, size) that blurs along one axis."""
    distance = torch.arange(side) - side // 2
    weights = torch.exp(-(distance / SIGMA).square() / 2)
    band = torch.zeros(size, size)
    for row in range(size):
        for offset, weight in zip(distance.tolist(), (weights / weights.sum()).tolist(), strict=True):
            column = abs(row + offset)
            band[row, min(column, 2 * (size - 1) - column)] += weight
    return band
