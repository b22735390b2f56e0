"""The cells of a store's frames that change from one step to the next.

Shapes: T frames, H height, W width, C channels, n cells that change, q numbers of a cell.
"""

from __future__ import annotations

from collections.abc import Iterator
from math import prod

import numpy as np
from numpy.typing import NDArray

from acvp.data.windows import Windows

CELL = 5
"""Pixels along a side of a cell."""
BLOCK_BYTES = 2**24
"""Of frames decoded at once."""

Pixels = NDArray[np.uint8]


def changed_cells_of(windows: Windows, position: int) -> Iterator[tuple[NDArray[np.int64], Pixels, Pixels]]:
    """Yield step, pixels before and pixels after of the cells that change in an episode, block by block."""
    for first, frames in frame_blocks(windows, position, overlap=1):
        step, before, after = changed_cells(frames)
        yield step + first, before, after


def frame_blocks(windows: Windows, position: int, *, overlap: int) -> Iterator[tuple[int, Pixels]]:
    """Yield the frames (T, H, W[, C]) of an episode in blocks, each with the number of its first; a block begins with
    the last ``overlap`` of the block before.
    """
    frames, at_once = windows.store.entries[position].frames, max(1, BLOCK_BYTES // prod(windows.stored_shape))
    for first in range(0, max(1, frames - overlap), at_once):
        yield first, windows.frames(position, first, min(first + at_once + overlap, frames))


def changed_cells(frames: Pixels) -> tuple[NDArray[np.int64], Pixels, Pixels]:
    """Return step (n,), pixels before and pixels after (n, q) of the cells that change in frames (T, H, W[, C]).

    What is left of a frame beside whole cells does not count.
    """
    rows, columns, channels = frames.shape[1] // CELL, frames.shape[2] // CELL, prod(frames.shape[3:])
    cut = frames[:, : rows * CELL, : columns * CELL].reshape(len(frames), rows, CELL, columns, CELL, channels)
    step, row, column = (cut[1:] != cut[:-1]).any((2, 4, 5)).nonzero()
    before, after = (cut[step + later, row, :, column].reshape(len(step), CELL**2 * channels) for later in (0, 1))
    return step, before, after
