"""Files that survive kills and power losses: atomic synced writes, one writer per folder, and checked reads.

A file is written under a temporary name in its own folder and synced; then it replaces the old file, and the folder is
synced. Whatever happens in between, a reader finds the old file or the new one, whole.

Only regular files inside the folder that the user named are read. A named pipe or a device would block or never end. A
file name in a JSON file, or a symbolic link in a downloaded folder, could lead to any file of the reader's.
"""

from __future__ import annotations

import contextlib
import errno
import hashlib
import json
import os
import shutil
import socket
import stat
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from filelock import BaseFileLock, FileLock, Timeout

from acvp.errors import UserError

SPARE_BYTES = 16 * 1024 * 1024
"""Kept free on the disk beyond what a write needs, so that logs and other programs keep working."""

LOCK_NAME = ".lock"
HOLDER_NAME = ".writer.json"
TEMPORARY_SUFFIX = ".tmp"
TAIL_BYTES = 64 * 1024
"""Bytes read at the end of a file of lines to see whether its last line is whole."""
HOLDER_SECONDS = 1.0
"""How long a refused writer waits for the name of the process that holds the folder."""


class DiskError(UserError):
    """A write that failed; the old file is untouched."""


def write_atomic(path: Path, data: bytes) -> None:
    """Write a file so that a crash at any time leaves the old file or the new one, never a mixture."""
    check_space(path, len(data))
    temporary = path.with_name(f".{path.name}.{os.getpid()}{TEMPORARY_SUFFIX}")
    try:
        _write_synced(temporary, data)
        temporary.replace(path)
    except OSError as error:
        with contextlib.suppress(OSError):
            temporary.unlink(missing_ok=True)
        raise _disk_error(path, len(data), error) from error
    _sync_names(path)


def make_folder(path: Path) -> None:
    """Make a folder and its missing parents so that they survive a power loss."""
    try:
        missing = [folder for folder in (path, *path.parents) if not folder.exists()]
        there = missing[-1].parent if missing else path
        with contextlib.suppress(OSError):  # a killed process may have made it unsynced; its parent may be unreadable
            sync_folder(there.parent)
        for folder in reversed(missing):
            folder.mkdir(exist_ok=True)
            sync_folder(folder.parent)
        path.mkdir(exist_ok=True)
    except OSError as error:
        raise DiskError(f"{path}: this folder cannot be made ({error.strerror or error}); choose another") from error


def refuse_full(folder: Path) -> None:
    """Raise UserError unless a folder is missing or empty."""
    if folder.exists() and (not folder.is_dir() or any(folder.iterdir())):
        raise UserError(f"{folder} exists already and is not empty; choose another")


def append_line(path: Path, line: str) -> None:
    """Append one line to a file and sync it; if that fails, the file is truncated to its old length.

    An unfinished last line, left by a kill or a power loss, is removed first.
    """
    data = line.encode() + b"\n"
    check_space(path, len(data))
    created = not path.exists()
    try:
        if not created:
            check_file(path, path.parent)
        _append_synced(path, data)
    except OSError as error:
        raise _disk_error(path, len(data), error) from error
    if created:
        _sync_names(path)


def finished_lines(path: Path) -> list[bytes]:
    """Return the lines that `append_line` wrote, without a last line that a kill or power loss left unfinished."""
    return whole_lines(read_file(path, path.parent)).split(b"\n")[:-1] if path.exists() else []


def whole_lines(data: bytes) -> bytes:
    """Return a text without its last line if that is unfinished."""
    whole = data[: data.rfind(b"\n") + 1]
    last = whole.rfind(b"\n", 0, -1) + 1
    return whole[:last] if b"\0" in whole[last:] else whole  # zeros: a power loss kept the size, not all of the bytes


def sync_folder(folder: Path) -> None:
    """Make renames and new files in a folder survive a power loss (if the system can sync folders)."""
    if os.name == "nt":  # pragma: no cover - Windows cannot open folders
        return
    descriptor = os.open(folder, os.O_RDONLY | os.O_CLOEXEC)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def check_space(path: Path, needed: int) -> None:
    """Raise DiskError if the disk has no room for `needed` more bytes."""
    try:
        free = shutil.disk_usage(path.parent).free
    except OSError as error:
        raise _disk_error(path, needed, error) from error
    if free < needed + SPARE_BYTES:
        raise DiskError(
            f"{path}: not enough disk space: {needed:,} bytes needed and {SPARE_BYTES:,} kept spare, {free:,} free; "
            "free some space and run the same command again"
        )


@contextlib.contextmanager
def exclusive_writer(folder: Path) -> Iterator[None]:
    """Lock a folder for writing; a second writer gets an error that names the first.

    The lock ends with its process, so kill -9 leaves none behind.
    """
    lock = _acquire(folder)
    try:
        holder = {"pid": os.getpid(), "host": socket.gethostname(), "since": time.strftime("%Y-%m-%d %H:%M:%S")}
        with contextlib.suppress(OSError):  # only the message to a second writer needs it
            (folder / HOLDER_NAME).unlink(missing_ok=True)  # it may be a symbolic link
            (folder / HOLDER_NAME).write_text(
                json.dumps(holder | {"command": Path(sys.argv[0]).name}), encoding="utf-8"
            )
        _remove_temporaries(folder)
        yield
    finally:
        (folder / HOLDER_NAME).unlink(missing_ok=True)
        lock.release()


@contextlib.contextmanager
def new_folder(out: Path) -> Iterator[Path]:
    """Yield a hidden folder to write into; it is renamed to `out` when all is written, and removed if something fails.

    It lies in `.NAME.partial`, which one process at a time can lock; what a killed process left there is removed.
    """
    out = out.resolve()
    refuse_full(out)
    partial = out.with_name(f".{out.name}.partial")
    try:
        make_folder(partial)
    except DiskError as error:
        reason = getattr(error.__cause__, "strerror", None) or error
        raise DiskError(f"{out}: this folder cannot be made ({reason}); choose another one") from error
    with exclusive_writer(partial):
        unfinished = partial / "unfinished"
        try:
            if unfinished.exists():
                shutil.rmtree(unfinished)
            unfinished.mkdir()
            yield unfinished
            _sync_all(unfinished)
            if out.exists():
                out.rmdir()
            unfinished.rename(out)
            sync_folder(out.parent)
        except OSError as error:
            reason = error.strerror or error
            raise UserError(f"{out}: could not be written ({reason}); everything written was removed") from error
        finally:
            shutil.rmtree(partial, ignore_errors=True)


def seal(body: dict[str, Any]) -> bytes:
    """Return JSON that contains its own SHA-256, so that any flipped bit is detected."""
    return json.dumps(body | {"sha256": _digest(body)}, indent=1, ensure_ascii=False).encode() + b"\n"


def unseal(data: bytes) -> dict[str, Any]:
    """Return the body of sealed JSON; ValueError if it is damaged."""
    try:
        sealed = json.loads(data.decode())
    except (UnicodeDecodeError, ValueError, RecursionError) as error:
        raise ValueError(f"not readable as JSON ({error})") from error
    if not isinstance(sealed, dict) or "sha256" not in sealed:
        raise ValueError("no checksum inside")
    body = {key: value for key, value in sealed.items() if key != "sha256"}
    try:
        intact = sealed["sha256"] == _digest(body) and seal(body) == data
    except RecursionError as error:
        raise ValueError("nested too deeply") from error
    if not intact:
        raise ValueError("its checksum does not match its text: the file is damaged or was edited by hand")
    return body


def _digest(body: dict[str, Any]) -> str:
    return hashlib.sha256(json.dumps(body, sort_keys=True, ensure_ascii=False).encode()).hexdigest()


def _write_synced(path: Path, data: bytes) -> None:
    flags = os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC | os.O_NOFOLLOW | os.O_NONBLOCK  # as in _append_synced
    descriptor = os.open(path, flags, 0o644)
    try:
        _write_all(descriptor, data)
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def _append_synced(path: Path, data: bytes) -> None:
    flags = os.O_RDWR | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC
    flags |= os.O_NOFOLLOW | os.O_NONBLOCK  # neither a symbolic link to elsewhere nor a pipe without a reader
    descriptor = os.open(path, flags, 0o644)
    try:
        before = os.fstat(descriptor).st_size
        tail = os.pread(descriptor, TAIL_BYTES, max(0, before - TAIL_BYTES))
        if tail != (whole := whole_lines(tail)):
            before = before - len(tail) + len(whole) if whole else len(whole_lines(read_file(path)))
            os.ftruncate(descriptor, before)
        try:
            _write_all(descriptor, data)
            os.fsync(descriptor)
        except OSError:
            os.ftruncate(descriptor, before)
            raise
    finally:
        os.close(descriptor)


def _sync_all(folder: Path) -> None:
    """Sync a folder and everything in it."""
    for path in folder.rglob("*"):
        if not path.is_dir():
            descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
            try:
                os.fsync(descriptor)
            finally:
                os.close(descriptor)
    for path in (*(path for path in folder.rglob("*") if path.is_dir()), folder):
        sync_folder(path)


def _sync_names(path: Path) -> None:
    try:
        sync_folder(path.parent)
    except OSError as error:
        reason = error.strerror or error
        raise DiskError(f"{path}: written, but its folder could not be synced to the disk: {reason}") from error


def _write_all(descriptor: int, data: bytes) -> None:
    view = memoryview(data)
    while view:
        view = view[os.write(descriptor, view) :]


def _disk_error(path: Path, needed: int, error: OSError) -> DiskError:
    return DiskError(
        f"{path}: could not write {needed:,} bytes: {error.strerror or error}; what was there is untouched"
    )


def _acquire(folder: Path) -> BaseFileLock:
    """Lock a folder; tries for a second while its holder has not written its name yet, or is about to finish."""
    if (folder / LOCK_NAME).is_symlink():
        raise DiskError(f"{folder / LOCK_NAME}: a symbolic link, which leads the writer elsewhere; remove it")
    lock, deadline = FileLock(folder / LOCK_NAME, timeout=0), time.monotonic() + HOLDER_SECONDS
    while True:
        try:
            lock.acquire()
            return lock
        except Timeout as error:
            holder = _holder(folder)
            if holder or time.monotonic() > deadline:
                who = holder or "another process"
                raise UserError(f"{folder} is being written by {who}; wait for it or choose another folder") from error
        except OSError as error:
            raise DiskError(f"{folder}: cannot be locked for writing: {error.strerror or error}") from error
        time.sleep(0.02)


def _holder(folder: Path) -> str | None:
    """Return a description of the process that holds a folder; None if no live process does."""
    try:
        holder = json.loads(read_file(folder / HOLDER_NAME, folder))
        if holder["host"] == socket.gethostname() and not _is_alive(holder["pid"]):
            return None  # killed: the process that has the lock now is about to write its own name
        return f"process {holder['pid']} on {holder['host']} ({holder['command']}, since {holder['since']})"
    except (OSError, ValueError, KeyError, TypeError, RecursionError, OverflowError):
        return None


def _is_alive(pid: int) -> bool:
    if os.name == "nt":  # pragma: no cover - os.kill would end the process there
        return True
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        pass  # another user's
    return True


def _remove_temporaries(folder: Path) -> None:
    """Remove what killed writers left; only the holder of the lock may call this."""
    for leftover in folder.rglob(f".*{TEMPORARY_SUFFIX}"):
        with contextlib.suppress(OSError):  # it is never read, and may be a folder of another program
            leftover.unlink()


KINDS = {
    stat.S_IFIFO: "a named pipe",
    stat.S_IFSOCK: "a socket",
    stat.S_IFCHR: "a device",
    stat.S_IFBLK: "a device",
    stat.S_IFDIR: "a folder",
}


def check_file(file: Path, within: Path | None = None) -> None:
    """Raise OSError unless this is a regular file inside `within`, after following symbolic links.

    `within` None: anywhere, because the user named the file.
    """
    try:
        if within is not None and not file.resolve().is_relative_to(within.resolve()):
            raise OSError(errno.EPERM, f"it lies outside {within}; names and symbolic links must stay inside")
        kind = stat.S_IFMT(file.stat().st_mode)
    except (ValueError, RuntimeError) as error:  # a zero byte in the name; links that go round in circles
        raise OSError(errno.EINVAL, str(error)) from error
    if kind != stat.S_IFREG:
        raise OSError(errno.EINVAL, f"it is {KINDS.get(kind, 'something else')}, not a regular file")


def read_file(file: Path, within: Path | None = None) -> bytes:
    """Return the bytes of a file; OSError as by `check_file`."""
    check_file(file, within)
    return file.read_bytes()
