"""Frames in pixel values 0..255: conversion from and to uint8, and which pixels of a prediction are wrong.

There is one definition of a wrong pixel. Where a palette says what is right, a pixel is wrong if its nearest color of
the palette is not the true one; where there is none, if it is off by more than WRONG_BY in any channel.

Shapes: B frames, C channels, H height, W width, N pixels, K colors.
"""

from __future__ import annotations

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from acvp.models.predictor import Predictor

WRONG_BY = 8
"""Pixel values by which a pixel may be off where no palette says what is right."""


def as_pixels(frames: NDArray[np.uint8]) -> Tensor:
    """Return uint8 frames (B, H, W, C) as floats (B, C, H, W) of the same values."""
    return torch.from_numpy(np.ascontiguousarray(frames.transpose(0, 3, 1, 2))).float()


def to_pixels(predictor: Predictor, frames: Tensor) -> Tensor:
    """Return normalized frames (..., C, H, W) in pixel values, clamped to 0..255 but not rounded; NaN becomes 0."""
    normalizer = predictor.normalizer
    pixels = frames.float() * normalizer.scale + normalizer.mean.movedim(-1, 0)
    return pixels.nan_to_num_(nan=0.0).clamp_(0, 255)


def to_frames(pixels: Tensor) -> NDArray[np.uint8]:
    """Return floats (B, C, H, W) in pixel values 0..255 as uint8 frames (B, H, W, C), rounded."""
    frames: NDArray[np.uint8] = pixels.round().to(torch.uint8).permute(0, 2, 3, 1).numpy()
    return frames


class WrongPixels:
    """Counts the wrong pixels of predictions, by a palette (K, C) or, without one, by WRONG_BY."""

    def __init__(self, palette: NDArray[np.uint8] | None) -> None:
        self._colors = None if palette is None else torch.from_numpy(palette.astype("float32"))  # (K, C)
        self._near = 0.0 if self._colors is None else float(_least_distance(self._colors)) / 2

    def count(self, predicted: Tensor, truth: Tensor) -> Tensor:
        """Return the number (B,) of wrong pixels in predictions (B, C, H, W)."""
        if self._colors is None:
            return ((predicted.round() - truth).abs() > WRONG_BY).any(1).flatten(1).sum(1)
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
