"""Which pixels of a prediction are wrong: nearest colour of the palette, or off by more than a few values.

Shapes: B frames, C channels, H height, W width, N pixels, K colours.
"""

from __future__ import annotations

import torch
from torch import Tensor

from acvp.data.palette import Palette
from acvp.evaluation.definitions import WRONG_BY


class WrongPixels:
    """Counts wrong pixels of frames; without a palette a pixel is wrong if it is off by more than WRONG_BY."""

    def __init__(self, palette: Palette | None) -> None:
        self._colors = None if palette is None else torch.from_numpy(palette.astype("float32"))  # (K, C)
        self._near = 0.0 if self._colors is None else float(_least_distance(self._colors)) / 2

    def count(self, predicted: Tensor, truth: Tensor) -> Tensor:
        """Return the number (B,) of wrong pixels in predictions (B, C, H, W)."""
        if self._colors is None:
            return ((predicted.round() - truth).abs() > WRONG_BY).any(1).flatten(1).sum(1)
        off = (predicted - truth).square().sum(1)  # (B, H, W)
        # A pixel closer to its true colour than half the least distance between two colours cannot be wrong.
        doubtful = off >= self._near**2
        return torch.stack([self._wrong(p, t, d) for p, t, d in zip(predicted, truth, doubtful, strict=True)])

    def _wrong(self, predicted: Tensor, truth: Tensor, doubtful: Tensor) -> Tensor:
        """Return how many of the doubtful pixels (H, W) of a frame (C, H, W) are wrong."""
        assert self._colors is not None
        pixels, wanted = predicted[:, doubtful].T, truth[:, doubtful].T  # (N, C) each
        distance = self._colors.square().sum(1) - 2 * pixels @ self._colors.T  # (N, K), less what all have in common
        return (self._colors[distance.argmin(1)] != wanted).any(1).sum()


def _least_distance(colors: Tensor) -> Tensor:
    """Return the distance between the two closest of colours (K, C); of a single colour, a large one."""
    apart = torch.cdist(colors, colors) + torch.eye(len(colors)) * 1e3
    return apart.min()
