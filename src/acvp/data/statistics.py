"""Statistics of a dataset, computed once and cached beside it, and the sampling priorities among them.

    .statistics/NAME-KEY.safetensors    arrays; the key is a hash of the dataset's digest, of settings and of the code

A cached statistic of another digest, of other settings or of other code has another key and is not read. One that is
damaged is computed again. Where the folder cannot be written, nothing is cached. Processes that need a statistic at
the same time wait for the one that computes it. Episodes are looked at by several threads.

The rarer a change between two frames, the higher the sampling priority of its step and windows, so that collisions are
drawn as often as steps in which everything moves as usual.

Shapes: T frames, H height, W width, C channels, n cells that change, q values of a cell.
"""

from __future__ import annotations

import hashlib
import json
import os
from collections import deque
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from contextlib import suppress
from functools import partial
from math import prod
from pathlib import Path
from types import FunctionType
from typing import Any, TypeVar, cast

import numpy as np
import safetensors.numpy
from filelock import BaseFileLock, FileLock, Timeout
from numpy.typing import NDArray
from safetensors import SafetensorError

from acvp.compat import PRIORITY_STREAM
from acvp.data.store import EpisodeStore
from acvp.data.windows import Window, Windows, starts_of
from acvp.durable import make_folder, read_file, write_atomic
from acvp.errors import UserError
from acvp.seeding import generator

FOLDER_NAME = ".statistics"
MOST_FILES = 64
"""Files kept for a dataset; the oldest are removed, such as those of splits by other seeds."""
WAIT_SECONDS = 0.2
"""Time between two looks at whether another process has finished."""

MOST_THREADS = 8
"""Threads that look at episodes; each holds some 100 MB of frames."""
CELL = 5
"""Pixels along a side of a cell."""
BLOCK_BYTES = 2**24
"""Bytes of frames decoded at once."""

Arrays = dict[str, NDArray[Any]]
Pixels = NDArray[np.uint8]
T = TypeVar("T")


def in_order(function: Callable[[int], T], count: int, threads: int | None = None) -> Iterator[T]:
    """Yield function(0), …, function(count - 1), computed by threads a little ahead of need.

    None: a thread for each core. Decoding and NumPy release the interpreter lock, so that threads are enough.
    """
    threads = min(MOST_THREADS, os.cpu_count() or 1) if threads is None else threads
    waiting: deque[Future[T]] = deque()
    with ThreadPoolExecutor(threads, thread_name_prefix="statistics") as pool:
        try:
            for number in range(count):
                waiting.append(pool.submit(function, number))
                if len(waiting) > threads:
                    yield waiting.popleft().result()
            while waiting:
                yield waiting.popleft().result()
        finally:
            pool.shutdown(cancel_futures=True)


def cached(
    store: EpisodeStore,
    name: str,
    settings: Mapping[str, Any],
    compute: Callable[[], Arrays],
    waiting: Callable[[], None] = lambda: None,
) -> Arrays:
    """Return the arrays of a statistic, from the cache or computed; `waiting` may raise to stop.

    `settings` are all that decides them besides the episodes of the dataset and the module of `compute`, as JSON can
    hold it.
    """
    code = hashlib.sha256(Path(cast(FunctionType, compute).__code__.co_filename).read_bytes()).hexdigest()
    text = json.dumps([name, store.digest, dict(settings), code], sort_keys=True)
    key = hashlib.sha256(text.encode()).hexdigest()
    file = store.folder / FOLDER_NAME / f"{name}-{key[:32]}.safetensors"
    arrays = _read(file, key, store.folder)
    if arrays is not None:
        return arrays
    lock = _lock(file, waiting)
    try:
        arrays = _read(file, key, store.folder) if lock is not None else None
        if arrays is None:
            arrays = compute()
            if lock is not None:
                _write(file, key, arrays)
        return arrays
    finally:
        if lock is not None:
            lock.release()


def _lock(file: Path, waiting: Callable[[], None]) -> BaseFileLock | None:
    """Return the lock of a statistic, once no other process has it; None where the folder cannot be written."""
    path = file.with_name(".lock")
    try:
        make_folder(file.parent)
    except UserError:
        return None
    if file.parent.is_symlink() or path.is_symlink():  # it may lead anywhere
        return None
    lock = FileLock(path)
    while True:
        try:
            lock.acquire(timeout=WAIT_SECONDS)
            return lock
        except Timeout:
            waiting()
        except (OSError, NotImplementedError):
            return None


def _read(file: Path, key: str, within: Path) -> Arrays | None:
    """Return the arrays in a file; None where there is none, or one that is damaged or of another key."""
    try:
        data = read_file(file, within)
        body, checksum = data[:-32], data[-32:]
        if hashlib.sha256(key.encode() + body).digest() != checksum:
            return None
        return safetensors.numpy.load(body)
    except (OSError, SafetensorError, ValueError, KeyError, TypeError):
        return None


def _write(file: Path, key: str, arrays: Arrays) -> None:
    """Write arrays with a checksum behind them; where that fails, they are computed again next time."""
    body = safetensors.numpy.save({name: np.ascontiguousarray(array) for name, array in arrays.items()})
    with suppress(UserError, OSError):
        write_atomic(file, body + hashlib.sha256(key.encode() + body).digest())
        known = sorted(file.parent.glob("*.safetensors"), key=lambda path: path.stat().st_mtime)
        for old in known[:-MOST_FILES]:
            old.unlink(missing_ok=True)


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
    differs = (cut[1:] != cut[:-1]).reshape(len(frames) - 1, rows, CELL, columns * CELL * channels)
    of_rows = np.logical_or.reduce([differs[:, :, i] for i in range(CELL)])  # 4 times faster than any() of three axes
    of_cells = of_rows.reshape(len(frames) - 1, rows, columns, CELL * channels)
    step, row, column = np.logical_or.reduce([of_cells[..., i] for i in range(CELL * channels)]).nonzero()
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
    for position, changes in enumerate(in_order(partial(_changes_of, windows), len(store))):
        np.add.at(counts, changes[1], 1)
        room -= len(changes[1])
        if room >= 0:
            kept[position] = changes
        progress(position + 1, len(store))

    def priorities(position: int) -> NDArray[np.float64]:
        changes = kept.get(position) or _changes_of(windows, position)
        return _priorities(changes, counts, store.entries[position].frames - 1)

    return list(in_order(priorities, len(store)))


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
