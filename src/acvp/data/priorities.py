"""How rare what happens in each step of a store is: collisions among steps in which things just move on.

Shapes: T frames, n cells that change.

The cells of a store's frames that change from one step to the next.

Shapes: T frames, H height, W width, C channels, n cells that change, q numbers of a cell.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from math import prod

import numpy as np
from numpy.typing import NDArray

from acvp.data.store import EpisodeStore
from acvp.data.windows import Window, Windows
from acvp.seeding import generator

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


KIND_BITS = 22
"""Kinds of change are told apart by numbers of so many bits; two that share one, which is rare, count as one kind."""
KEPT = 50_000_000
"""Changes that are kept in memory, 8 bytes each; those of further episodes are looked up twice."""

Changes = tuple[NDArray[np.int32], NDArray[np.int32]]
"""Step and kind of each change, (n,)."""


def rarity_of(
    store: EpisodeStore, progress: Callable[[int, int], None] = lambda done, total: None
) -> list[NDArray[np.float64]]:
    """Return for each episode the rarity of its steps, (T - 1,) each.

    A cell of 5×5 pixels that changes between two frames is a change, of the kind that its pixels before and after make;
    where it is does not matter. A change's rarity is one over the number of changes of its kind in the store, a step's
    the sum over its changes: of steps drawn by their rarity, every kind is equally often the reason.
    """
    windows = Windows(store, Window(1, 0))
    counts, room = np.zeros(2**KIND_BITS, np.int64), KEPT
    kept: dict[int, Changes] = {}
    for position in range(len(store)):
        found = _changes_of(windows, position)
        np.add.at(counts, found[1], 1)
        room -= len(found[1])
        if room >= 0:
            kept[position] = found
        progress(position + 1, len(store))
    return [
        _rarity(kept.get(position) or _changes_of(windows, position), counts, entry.frames - 1)
        for position, entry in enumerate(store.entries)
    ]


def rarity_of_windows(windows: Windows, of_steps: list[NDArray[np.float64]]) -> NDArray[np.float64]:
    """Return each window's rarity: that of its predicted steps together, (len(windows),)."""
    context, length = windows.window.context, windows.window.length
    each = []
    for rarity in of_steps:
        before = np.concatenate(([0.0], np.cumsum(rarity)))  # that of the first k steps
        starts = np.arange(max(0, len(rarity) + 2 - length))
        each.append(before[starts + length - 1] - before[starts + context - 1])
    return np.concatenate(each)


def _rarity(found: Changes, counts: NDArray[np.int64], steps: int) -> NDArray[np.float64]:
    step, kind = found
    return np.bincount(step, 1.0 / counts[kind], minlength=steps).astype(np.float64)


def _changes_of(windows: Windows, position: int) -> Changes:
    """Return the changes of an episode."""
    steps, kinds = [np.empty(0, np.int32)], [np.empty(0, np.int32)]
    for step, before, after in changed_cells_of(windows, position):
        steps.append(step.astype(np.int32))
        kinds.append(_kinds(np.concatenate((before, after), 1)))
    return np.concatenate(steps), np.concatenate(kinds)


def _kinds(pairs: NDArray[np.uint8]) -> NDArray[np.int32]:
    """Return the number (n,) of each row of pixels: equal for equal rows, and hardly ever for others."""
    words = np.pad(pairs, ((0, 0), (0, -pairs.shape[1] % 8))).view(np.uint64)
    factors = generator("rarity").integers(0, 2**63, words.shape[1], np.uint64) * np.uint64(2) + np.uint64(1)
    mixed: NDArray[np.uint64] = (words * factors).sum(1, dtype=np.uint64)
    return (mixed >> np.uint64(64 - KIND_BITS)).astype(np.int32)
