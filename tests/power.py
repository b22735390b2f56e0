"""A disk that loses its power: every call that changes files is recorded, then replayed up to any point and cut off.

What is sure after a power cut is what POSIX says is sure: the bytes of a file at its last fsync, the names in a folder
at the folder's last fsync. Of everything later, each write may be there, missing, cut at any byte, zeros, or there in
some sectors only, and each new, changed or removed name may be there or not, whatever became of the others.
"""

from __future__ import annotations

import fcntl
import os
from collections import defaultdict
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import partial
from itertools import count
from pathlib import Path
from typing import Any

import numpy as np
import pytest

SECTOR = 512
ROOT = 0
"""Number of the recorded folder itself, which was there before."""

WRITE_FATES = ("kept", "missing", "cut", "zeros", "sectors", "any")
NAME_FATES = {"kept": 1.0, "missing": 0.0, "any": 0.5}
FATES = [(data, names) for data in WRITE_FATES for names in NAME_FATES]
"""What may happen to all that was not synced: `any` decides for each write or name on its own."""

Call = tuple[str, tuple[Any, ...]]
"""Method of `Disk` and its arguments."""


class KilledError(BaseException):
    """The recorded process ends here; nothing is lost, for the system still has its power."""


@dataclass
class _File:
    synced: bytes = b""
    later: list[tuple[int, bytes | None]] = field(default_factory=list)
    """(offset, data) of writes since, (size, None) of truncations."""


@dataclass
class _Folder:
    synced: dict[str, int] = field(default_factory=dict)
    """Number of the file or folder of each name."""
    later: list[dict[str, int | None]] = field(default_factory=list)
    """Changed names since, one operation each; None: removed."""


class Disk:
    """Files and folders by number, each with what is sure and what came after."""

    def __init__(self) -> None:
        self.files: defaultdict[int, _File] = defaultdict(_File)
        self.folders: defaultdict[int, _Folder] = defaultdict(_Folder, {ROOT: _Folder()})
        self.reports: list[Any] = []
        """What was reported as saved."""

    @classmethod
    def after(cls, calls: list[Call]) -> Disk:
        """The disk after these calls."""
        disk = cls()
        for name, arguments in calls:
            getattr(disk, name)(*arguments)
        return disk

    def report(self, what: Any) -> None:
        self.reports.append(what)

    def folder(self, number: int) -> None:
        self.folders[number] = _Folder()

    def write(self, number: int, offset: int, data: bytes) -> None:
        self.files[number].later.append((offset, data))

    def truncate(self, number: int, size: int) -> None:
        self.files[number].later.append((size, None))

    def names(self, folder: int, changes: dict[str, int | None]) -> None:
        self.folders[folder].later.append(changes)

    def sync(self, number: int) -> None:
        if number in self.folders:
            folder = self.folders[number]
            self.folders[number] = _Folder(_renamed(folder.synced, folder.later))
        else:
            file = self.files[number]
            self.files[number] = _File(_written(file.synced, file.later))

    def lose_power(self, into: Path, fate: tuple[str, str], rng: np.random.Generator) -> None:
        """Make what is found when the power is back, in an empty folder."""
        self._restore(ROOT, into, fate, rng)

    def _restore(self, number: int, path: Path, fate: tuple[str, str], rng: np.random.Generator) -> None:
        path.mkdir()
        folder = self.folders[number]
        happened = [changes for changes in folder.later if rng.random() < NAME_FATES[fate[1]]]
        for name, entry in _renamed(folder.synced, happened).items():
            if entry in self.folders:
                self._restore(entry, path / name, fate, rng)
            else:
                file = self.files[entry]
                left = [piece for write in file.later for piece in _fate_of(write, fate[0], rng)]
                (path / name).write_bytes(_written(file.synced, left))


def _renamed(names: dict[str, int], changes: list[dict[str, int | None]]) -> dict[str, int]:
    merged: dict[str, int | None] = dict(names)
    for change in changes:
        merged |= change
    return {name: number for name, number in merged.items() if number is not None}


def _written(data: bytes, writes: list[tuple[int, bytes | None]]) -> bytes:
    content = bytearray(data)
    for offset, piece in writes:
        content += bytes(max(0, offset - len(content)))
        if piece is None:
            del content[offset:]
        else:
            content[offset : offset + len(piece)] = piece
    return bytes(content)


def _fate_of(
    write: tuple[int, bytes | None], fate: str, rng: np.random.Generator
) -> Iterator[tuple[int, bytes | None]]:
    """What is left of one write that was not synced."""
    offset, data = write
    if fate == "any":
        fate = str(rng.choice(WRITE_FATES[:-1]))
    if fate == "kept" or (data is None and fate != "missing"):
        yield write
    elif data is not None and fate == "cut":
        yield offset, data[: rng.integers(len(data) + 1)]
    elif data is not None and fate in ("zeros", "sectors"):
        yield offset, bytes(len(data))
        begin = 0
        while fate == "sectors" and begin < len(data):
            end = begin + SECTOR - (offset + begin) % SECTOR
            if rng.random() < 0.5:
                yield offset + begin, data[begin:end]
            begin = end


class Recorder:
    """Notes every call of this process that changes something in a folder; fsync is only noted, for it is slow."""

    def __init__(self, root: Path) -> None:
        self.root, self.calls = root, list[Call]()
        self._numbers = {os.fspath(root): ROOT}
        self._opened: dict[int, int] = {}
        self._new = count(ROOT + 1)
        self._kill_at: int | None = None

    def report(self, what: Any) -> None:
        """Note that something was reported as saved."""
        self.calls.append(("report", (what,)))

    @contextmanager
    def recording(self, kill_at: int | None = None) -> Iterator[None]:
        """Note what happens; a process to be killed ends before the call of this number."""
        self._kill_at = kill_at
        self._opened.clear()
        with pytest.MonkeyPatch.context() as patch:
            for name in ("open", "write", "fsync", "replace", "unlink", "mkdir", "rmdir", "ftruncate"):
                patch.setattr(os, name, partial(getattr(self, f"_{name}"), getattr(os, name)))
            patch.setattr(os, "rename", os.replace)
            patch.setattr(os, "remove", os.unlink)
            yield

    def _note(self, name: str, *arguments: Any) -> None:
        self.calls.append((name, arguments))

    def _strike(self) -> None:
        if self._kill_at is not None and len(self.calls) >= self._kill_at:
            self._kill_at = None
            raise KilledError

    def _rename(self, changes: dict[str, int | None]) -> None:
        """Note changed names, all in one folder."""
        (folder,) = {str(Path(path).parent) for path in changes}
        self._note("names", self._numbers[folder], {Path(path).name: number for path, number in changes.items()})
        for path, number in changes.items():
            self._numbers.pop(path, None)
            if number is not None:
                self._numbers[path] = number

    def _open(self, real: Callable[..., int], path: Any, flags: int, *rest: Any, **options: Any) -> int:
        name = os.fspath(path)
        known, ours = name in self._numbers, os.path.split(name)[0] in self._numbers
        if ours and flags & (os.O_CREAT | os.O_TRUNC):
            self._strike()
        descriptor = real(path, flags, *rest, **options)
        self._opened.pop(descriptor, None)
        if ours and not known and flags & os.O_CREAT:
            self._rename({name: next(self._new)})
        elif known and flags & os.O_TRUNC:
            self._note("truncate", self._numbers[name], 0)
        if name in self._numbers:
            self._opened[descriptor] = self._numbers[name]
        return descriptor

    def _write(self, real: Callable[..., int], descriptor: int, data: Any) -> int:
        if descriptor not in self._opened:
            return real(descriptor, data)
        self._strike()
        appends = fcntl.fcntl(descriptor, fcntl.F_GETFL) & os.O_APPEND
        offset = os.fstat(descriptor).st_size if appends else os.lseek(descriptor, 0, os.SEEK_CUR)
        written = real(descriptor, data)
        self._note("write", self._opened[descriptor], offset, bytes(data[:written]))
        return written

    def _ftruncate(self, real: Callable[..., None], descriptor: int, size: int) -> None:
        if descriptor in self._opened:
            self._strike()
            self._note("truncate", self._opened[descriptor], size)
        real(descriptor, size)

    def _fsync(self, real: Callable[..., None], descriptor: int) -> None:
        if descriptor in self._opened:
            self._strike()
            self._note("sync", self._opened[descriptor])

    def _replace(self, real: Callable[..., None], source: Any, target: Any) -> None:
        ours = os.fspath(source) in self._numbers
        if ours:
            self._strike()
        real(source, target)
        if ours:
            self._rename({os.fspath(source): None, os.fspath(target): self._numbers[os.fspath(source)]})

    def _unlink(self, real: Callable[..., None], path: Any, **options: Any) -> None:
        if os.fspath(path) in self._numbers:
            self._strike()
        real(path, **options)
        if os.fspath(path) in self._numbers:
            self._rename({os.fspath(path): None})

    def _rmdir(self, real: Callable[..., None], path: Any, **options: Any) -> None:
        self._unlink(real, path, **options)

    def _mkdir(self, real: Callable[..., None], path: Any, *rest: Any, **options: Any) -> None:
        name = os.fspath(path)
        ours = os.path.split(name)[0] in self._numbers
        if ours and name not in self._numbers:
            self._strike()
        real(path, *rest, **options)
        if ours:
            number = next(self._new)
            self._note("folder", number)
            self._rename({name: number})
