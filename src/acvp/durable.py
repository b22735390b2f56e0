"""The one place that writes files meant to last: atomic, synced, one writer per folder.

A file is written under a temporary name in its own folder, synced, renamed over the old one, and the folder is synced.
Whatever happens in between, a reader finds the old file or the new one, whole.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import shutil
import socket
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from filelock import FileLock, Timeout

from acvp.errors import UserError

SPARE_BYTES = 16 * 1024 * 1024
"""Kept free on the disk beyond what a write needs, so that logs and other programs go on working."""

LOCK_NAME = ".lock"
HOLDER_NAME = ".writer.json"
TEMPORARY_SUFFIX = ".tmp"


class DiskError(UserError):
    """A write that the disk did not take; what was there before is untouched."""


def write_atomic(path: Path, data: bytes) -> None:
    """Put data at path so that a crash at any moment leaves the old file or the new one, never a mixture."""
    check_space(path, len(data))
    temporary = path.with_name(f".{path.name}.{os.getpid()}{TEMPORARY_SUFFIX}")
    try:
        _write_synced(temporary, data)
        temporary.replace(path)
    except OSError as error:
        with contextlib.suppress(OSError):
            temporary.unlink(missing_ok=True)
        raise _disk_error(path, len(data), error) from error
    sync_folder(path.parent)


def make_folder(path: Path) -> None:
    """Make a folder and its parents where they are not there yet."""
    try:
        path.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise DiskError(
            f"{path}: this folder cannot be made ({error.strerror or error}); choose another one"
        ) from error


def append_line(path: Path, line: str) -> None:
    """Add one line to a file and sync it; if the disk refuses, the file is cut back to what it was."""
    data = line.encode() + b"\n"
    check_space(path, len(data))
    created = not path.exists()
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, 0o644)
    try:
        before = os.fstat(descriptor).st_size
        try:
            _write_all(descriptor, data)
            os.fsync(descriptor)
        except OSError as error:
            os.ftruncate(descriptor, before)
            raise _disk_error(path, len(data), error) from error
    finally:
        os.close(descriptor)
    if created:
        sync_folder(path.parent)


def sync_folder(folder: Path) -> None:
    """Make renames and new names in a folder survive a power cut (where the system can sync folders)."""
    if os.name == "nt":  # pragma: no cover - Windows cannot open folders
        return
    descriptor = os.open(folder, os.O_RDONLY | os.O_CLOEXEC)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def check_space(path: Path, needed: int) -> None:
    """Refuse early when the disk cannot take `needed` bytes more."""
    free = shutil.disk_usage(path.parent).free
    if free < needed + SPARE_BYTES:
        raise DiskError(
            f"{path}: not enough disk space: {needed:,} bytes needed and {SPARE_BYTES:,} kept spare, {free:,} free; "
            "free some space and run the same command again"
        )


@contextlib.contextmanager
def exclusive_writer(folder: Path) -> Iterator[None]:
    """Hold a folder for writing; a second writer is refused and told who holds it.

    The lock dies with its process, so kill -9 leaves none behind.
    """
    lock = FileLock(folder / LOCK_NAME, timeout=0)
    try:
        lock.acquire()
    except Timeout as error:
        raise UserError(
            f"{folder} is being written by {_holder(folder)}; wait for it or choose another folder"
        ) from error
    try:
        holder = {"pid": os.getpid(), "host": socket.gethostname(), "since": time.strftime("%Y-%m-%d %H:%M:%S")}
        (folder / HOLDER_NAME).write_text(json.dumps(holder | {"command": Path(sys.argv[0]).name}))
        _remove_temporaries(folder)
        yield
    finally:
        (folder / HOLDER_NAME).unlink(missing_ok=True)
        lock.release()


def seal(body: dict[str, Any]) -> bytes:
    """JSON text of body with its own SHA-256 inside, so that a flipped bit anywhere in it shows."""
    return json.dumps(body | {"sha256": _digest(body)}, indent=1, ensure_ascii=False).encode() + b"\n"


def unseal(data: bytes) -> dict[str, Any]:
    """The body of a sealed JSON text; ValueError says what is wrong with it."""
    try:
        sealed = json.loads(data.decode())
    except (UnicodeDecodeError, ValueError, RecursionError) as error:
        raise ValueError(f"not readable as JSON ({error})") from error
    if not isinstance(sealed, dict) or "sha256" not in sealed:
        raise ValueError("no checksum inside")
    body = {key: value for key, value in sealed.items() if key != "sha256"}
    if sealed["sha256"] != _digest(body) or seal(body) != data:
        raise ValueError("its checksum does not match its text: the file is damaged or was edited by hand")
    return body


def _digest(body: dict[str, Any]) -> str:
    return hashlib.sha256(json.dumps(body, sort_keys=True, ensure_ascii=False).encode()).hexdigest()


def _write_synced(path: Path, data: bytes) -> None:
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, 0o644)
    try:
        _write_all(descriptor, data)
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def _write_all(descriptor: int, data: bytes) -> None:
    view = memoryview(data)
    while view:
        view = view[os.write(descriptor, view) :]


def _disk_error(path: Path, needed: int, error: OSError) -> DiskError:
    return DiskError(
        f"{path}: could not write {needed:,} bytes: {error.strerror or error}; what was there is untouched"
    )


def _holder(folder: Path) -> str:
    try:
        holder = json.loads((folder / HOLDER_NAME).read_text())
        return f"process {holder['pid']} on {holder['host']} ({holder['command']}, since {holder['since']})"
    except (OSError, ValueError, KeyError, TypeError):
        return "another process"


def _remove_temporaries(folder: Path) -> None:
    """Clear what killed writers left: only the holder of the lock may, and it holds it now."""
    for leftover in folder.rglob(f".*{TEMPORARY_SUFFIX}"):
        leftover.unlink(missing_ok=True)
