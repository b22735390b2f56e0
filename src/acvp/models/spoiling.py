"""Frames spoiled on purpose: from them a predictor learns to mend what it got wrong itself.

Shapes: B rows, T frames, C channels, H height, W width, N colours, h × w a patch.
"""

from __future__ import annotations

import numpy as np
import torch
from torch import Tensor

from acvp.models.normaliser import Normaliser

MOST_PATCHES = 2
"""Of a spoiled row."""
LARGEST = 0.25
"""Sides of a patch, of the frame's, at most."""
FRAMES = 4.0
"""How long a patch stays, on average."""
DENSITIES = (1.0, 0.5, 0.2)
"""Shares of a patch's pixels that are spoiled, equally often."""


def spoil(frames: Tensor, share: float, palette: Tensor, normaliser: Normaliser, rng: np.random.Generator) -> Tensor:
    """Return normalised frames (B, T, C, H, W) with patches, in a share of the rows, that do not belong there.

    A patch shows one colour of the palette (N, C), or what was there up to 8 frames before, or what another row shows
    there. It stays for some frames and is gone at the latest in the last one, which is never spoiled.
    """
    spoiled = frames.clone()
    rows, times = frames.shape[:2]
    for row in np.flatnonzero(rng.random(rows) < share):
        for _ in range(rng.integers(1, MOST_PATCHES + 1)):
            down, right = (_stretch(side, rng) for side in frames.shape[3:])
            end = int(rng.integers(max(times - 4, 1), times))
            start = max(0, end - int(rng.geometric(1 / FRAMES)))
            other = int(rng.integers(rows))
            patches = {
                "colour": _plain(palette, normaliser, rng)[:, down, right],
                "older": frames[row, max(0, start - int(rng.integers(1, 9))), :, down, right],
                "elsewhere": frames[other, start:end, :, down, right],
            }
            patch = patches[str(rng.choice(sorted(patches)))]
            hit = torch.from_numpy(rng.random(patch.shape[-2:]) < rng.choice(DENSITIES)).to(frames.device)  # (h, w)
            place = spoiled[row, start:end, :, down, right]
            place.copy_(torch.where(hit, patch, place))
    return spoiled


def _stretch(side: int, rng: np.random.Generator) -> slice:
    """Return some of a frame's rows or columns."""
    length = int(rng.integers(1, max(2, int(side * LARGEST))))
    first = int(rng.integers(side - length + 1))
    return slice(first, first + length)


def _plain(palette: Tensor, normaliser: Normaliser, rng: np.random.Generator) -> Tensor:
    """Return a normalised frame (C, H, W) of one colour."""
    colour = palette[int(rng.integers(len(palette)))]
    return normaliser.to_float(colour.expand(normaliser.mean.shape))
