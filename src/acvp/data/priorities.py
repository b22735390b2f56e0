"""Sampling priorities of steps and windows: the rarer a change between two frames, the higher its priority.

So collisions are drawn as often as steps in which everything moves as usual.

Shapes: T frames, H height, W width, C channels, n cells that change, q values of a cell.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from math import prod

import numpy as np
from numpy.typing import NDArray

from acvp.compat import PRIORITY_STREAM
from acvp.data.statistics import Arrays, cached
from acvp.data.store import EpisodeStore
from acvp.data.windows import Window, Windows, starts_of
from acvp.seeding import generator

CELL = 5
"""Pixels along a side of a cell."""
BLOCK_BYTES = 2**24
"""Bytes of frames decoded at once."""

Pixels = NDArray[np.uint8]


def changed_cells_of(windows: Windows, position: int) -> Iterator[tuple[NDArray[np.int64], Pixels, Pixels]]:
    """Yield step, old pixels and new pixels of the cells that change in an episode, block by block."""
    for first, frames in frame_blocks(windows, position, overlap=1):
        step, before, after = changed_cells(frames)
        yield step + first, before, after


def frame_blocks(windows: Windows, position: int, *, overlap: int) -> Iterator[tuple[int, Pixels]]:
    """Yield the frames (T, H, W[, C]) of an episode in blocks, each with the number of its first frame.

    A block begins with the last `overlap` frames of the block before.
    """
    frames, at_once = windows.store.entries[position].frames, max(1, BLOCK_BYTES // prod(windows.stored_shape))
    for first in range(0, max(1, frames - overlap), at_once):
        yield first, windows.frames(position, first, min(first + at_once + overlap, frames))


def changed_cells(frames: Pixels) -> tuple[NDArray[np.int64], Pixels, Pixels]:
    """Return step (n,), old pixels (n, q) and new pixels (n, q) of the cells that change in frames (T, H, W[, C]).

    Pixels at the edges that fill no whole cell do not count.
    """
    rows, columns, channels = frames.shape[1] // CELL, frames.shape[2] // CELL, prod(frames.shape[3:])
    cut = frames[:, : rows * CELL, : columns * CELL].reshape(len(frames), rows, CELL, columns, CELL, channels)
    step, row, column = (cut[1:] != cut[:-1]).any((2, 4, 5)).nonzero()
    before, after = (cut[step + later, row, :, column].reshape(len(step), CELL**2 * channels) for later in (0, 1))
    return step, before, after


KIND_BITS = 22
"""Bits of the hash that identifies a kind of change; two kinds with the same hash, which is rare, count as one."""
KEPT = 50_000_000
"""Changes that are kept in memory, 8 bytes each; those of further episodes are computed twice."""

Changes = tuple[NDArray[np.int32], NDArray[np.int32]]
"""Step and kind of each change, (n,)."""


def step_priorities(
    store: EpisodeStore, progress: Callable[[int, int], None] = lambda done, total: None
) -> list[NDArray[np.float64]]:
    """Return the sampling priority of every step of each episode, (T - 1,) each.

    A change is a cell of 5×5 pixels that differs between two frames. Its kind is the cell's pixels before and after,
    wherever the cell is. A change has the priority 1 / number of changes of its kind in the dataset; a step has the sum
    over its changes. Of steps drawn by priority, every kind is the reason equally often. They are computed once for a
    dataset and cached beside it.
    """

    def compute() -> Arrays:
        return {"priorities": np.concatenate([np.empty(0), *_step_priorities(store, progress)])}

    steps = [entry.frames - 1 for entry in store.entries]
    priorities = cached(store, "priorities", {"cell": CELL}, compute, lambda: progress(0, len(store)))["priorities"]
    return np.split(priorities, np.cumsum(steps)[:-1]) if steps else []


def _step_priorities(store: EpisodeStore, progress: Callable[[int, int], None]) -> list[NDArray[np.float64]]:
    """Compute the sampling priority of every step of each episode, (T - 1,) each."""
    windows = Windows(store, Window(1, 0))
    counts, room = np.zeros(2**KIND_BITS, np.int64), KEPT
    kept: dict[int, Changes] = {}
    for position in range(len(store)):
        changes = _changes_of(windows, position)
        np.add.at(counts, changes[1], 1)
        room -= len(changes[1])
        if room >= 0:
            kept[position] = changes
        progress(position + 1, len(store))
    return [
        _priorities(kept.get(position) or _changes_of(windows, position), counts, entry.frames - 1)
        for position, entry in enumerate(store.entries)
    ]


def window_priorities(windows: Windows, of_steps: list[NDArray[np.float64]]) -> NDArray[np.float64]:
    """Return each window's priority (len(windows),): the sum over its predicted steps."""
    context, length = windows.window.context, windows.window.length
    sums = [np.empty(0)]
    for priorities in of_steps:
        before = np.concatenate(([0.0], np.cumsum(priorities)))  # sum over the first k steps
        possible = starts_of(len(priorities) + 1, windows.window)
        starts = np.arange(possible.start, max(possible.start, possible.stop))
        sums.append(before[starts + length - 1] - before[starts + context - 1])
    return np.concatenate(sums)


def _priorities(changes: Changes, counts: NDArray[np.int64], steps: int) -> NDArray[np.float64]:
    step, kind = changes
    return np.bincount(step, 1.0 / counts[kind], minlength=steps).astype(np.float64)


def _changes_of(windows: Windows, position: int) -> Changes:
    """Return the changes of an episode."""
    steps, kinds = [np.empty(0, np.int32)], [np.empty(0, np.int32)]
    for step, before, after in changed_cells_of(windows, position):
        steps.append(step.astype(np.int32))
        kinds.append(_kinds(np.concatenate((before, after), 1)))
    return np.concatenate(steps), np.concatenate(kinds)


def _kinds(pairs: NDArray[np.uint8]) -> NDArray[np.int32]:
    """Return a hash (n,) of each row of pixels."""
    words = np.pad(pairs, ((0, 0), (0, -pairs.shape[1] % 8))).view(np.uint64)
    factors = generator(PRIORITY_STREAM).integers(0, 2**63, words.shape[1], np.uint64) * np.uint64(2) + np.uint64(1)
    mixed: NDArray[np.uint64] = (words * factors).sum(1, dtype=np.uint64)
    return (mixed >> np.uint64(64 - KIND_BITS)).astype(np.int32)
