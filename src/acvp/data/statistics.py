"""Statistics of a dataset, computed once and cached beside it: sampling priorities, the mean image, palette masks.

    .statistics/NAME-KEY.safetensors    arrays; the key is a hash of the dataset's digest, of settings and of the code

A cached statistic of another digest, of other settings or of other code has another key and is not read. One that is
damaged is computed again. Where the folder cannot be written, nothing is cached. Processes that need a statistic at
the same time wait for the one that computes it.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Mapping
from contextlib import suppress
from pathlib import Path
from types import FunctionType
from typing import Any, cast

import numpy as np
import safetensors.numpy
from filelock import BaseFileLock, FileLock, Timeout
from numpy.typing import NDArray
from safetensors import SafetensorError

from acvp.data.store import EpisodeStore
from acvp.durable import make_folder, read_file, write_atomic
from acvp.errors import UserError

FOLDER_NAME = ".statistics"
MOST_FILES = 64
"""Files kept for a dataset; the oldest are removed, such as those of splits by other seeds."""
WAIT_SECONDS = 0.2
"""Time between two looks at whether another process has finished."""

Arrays = dict[str, NDArray[Any]]


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
