"""One .npz file per episode, as numpy.savez_compressed would write it.

frames (T + 1, H, W, 3) uint8      actions (T,) integers, or (T, A) floats      both required
rewards (T,)  terminated (T,)  truncated (T,)  lives (T + 1,)  seed ()  env_id ()  action_meanings (A,)
action_range (A, 2), of continuous actions; without it, the range that they fill

Files are not trusted: arrays are read row by row, without objects, and a header cannot make them take much memory.
"""

from __future__ import annotations

import ast
import lzma
import re
import zipfile
import zlib
from collections.abc import Callable, Generator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from math import prod
from pathlib import Path
from typing import IO, Any

import numpy as np
from numpy.typing import NDArray

from acvp.actions import ActionRange, Actions, checked_range
from acvp.data.episode import MAX_ACTIONS, MAX_SIDE, Episode
from acvp.data.formats.importer import (
    Recording,
    Source,
    SourceEpisode,
    checked_actions,
    checked_files,
    checked_lives,
    checked_rewards,
    checked_vectors,
    described_actions,
    numbers_of,
)
from acvp.data.frames import Frame
from acvp.data.store import EpisodeStore
from acvp.durable import new_folder
from acvp.errors import UserError

MAX_ARRAY_BYTES = 2**28
"""Limit of arrays that are read at once: 32 million actions."""
MAX_HEADER_BYTES = 10_000

_DAMAGE = (
    *(zipfile.BadZipFile, zlib.error, lzma.LZMAError, OSError, EOFError, RuntimeError),  # from zipfile
    *(ValueError, SyntaxError, TypeError, MemoryError),  # from headers
)


@dataclass(frozen=True)
class Header:
    """Shape and type of an array in a file."""

    dtype: np.dtype[Any]
    shape: tuple[int, ...]
    fortran: bool


@contextmanager
def opened(file: Path) -> Generator[zipfile.ZipFile, None, None]:
    """An .npz file, open; whatever is wrong with it becomes one line."""
    try:
        with zipfile.ZipFile(file) as archive:
            yield archive
    except _DAMAGE as error:
        raise UserError(f"{file}: cannot be read as npz ({error}); write it with numpy.savez_compressed") from error


def names(archive: zipfile.ZipFile) -> set[str]:
    """Which arrays there are."""
    return {name.removesuffix(".npy") for name in archive.namelist() if name.endswith(".npy")}


def read_header(archive: zipfile.ZipFile, name: str) -> Header:
    """What the array claims to be."""
    with archive.open(f"{name}.npy") as stream:
        return _header(name, stream)


def read_array(archive: zipfile.ZipFile, name: str) -> NDArray[Any]:
    """A small array, whole."""
    with archive.open(f"{name}.npy") as stream:
        header = _header(name, stream)
        size = prod(header.shape) * header.dtype.itemsize
        if size > MAX_ARRAY_BYTES:
            raise ValueError(f"its array {name} claims {size:,} bytes, {MAX_ARRAY_BYTES:,} are possible")
        data = _exactly(name, stream, size)
        _expect_end(name, stream)
    return np.frombuffer(data, header.dtype).reshape(header.shape, order="F" if header.fortran else "C")


def rows(archive: zipfile.ZipFile, name: str) -> Generator[NDArray[Any], None, None]:
    """The array's entries along its first axis, one by one."""
    with archive.open(f"{name}.npy") as stream:
        header = _header(name, stream)
        row_bytes = prod(header.shape[1:]) * header.dtype.itemsize
        for _ in range(header.shape[0]):
            yield np.frombuffer(_exactly(name, stream, row_bytes), header.dtype).reshape(header.shape[1:])
        _expect_end(name, stream)  # also makes zipfile compare the checksum


def _header(name: str, stream: IO[bytes]) -> Header:
    magic = _exactly(name, stream, 8)
    if magic[:6] != b"\x93NUMPY" or magic[6] not in (1, 2):
        raise ValueError(f"its array {name} is not in numpy's format")
    length = int.from_bytes(_exactly(name, stream, 2 * magic[6]), "little")
    if length > MAX_HEADER_BYTES:
        raise ValueError(f"its array {name} has a header of {length:,} bytes")
    header = ast.literal_eval(_exactly(name, stream, length).decode("latin1").strip())
    if not isinstance(header, dict) or set(header) != {"descr", "fortran_order", "shape"}:
        raise ValueError(f"its array {name} has a header without shape and type")
    descr, shape = header["descr"], header["shape"]
    if not isinstance(descr, str) or not re.fullmatch(r"[<>|=]?[biufU][0-9]{1,6}", descr, re.ASCII):
        raise ValueError(f"its array {name} holds {str(descr)[:40]!r}; only plain numbers and text are read")
    if not isinstance(shape, tuple) or any(type(side) is not int or side < 0 for side in shape):
        raise ValueError(f"its array {name} has the shape {str(shape)[:40]!r}")
    return Header(_dtype(name, descr), shape, bool(header["fortran_order"]))


def _dtype(name: str, descr: str) -> np.dtype[Any]:
    try:
        return np.dtype(descr)
    except TypeError as error:
        raise ValueError(f"its array {name} is of the unknown type {descr!r}") from error


def _exactly(name: str, stream: IO[bytes], size: int) -> bytes:
    data = stream.read(size)
    if len(data) < size:
        raise ValueError(f"its array {name} ends too early")
    return data


def _expect_end(name: str, stream: IO[bytes]) -> None:
    if stream.read(1):
        raise ValueError(f"its array {name} is longer than its shape")


def read(source: Path) -> dict[str, Source]:
    """Return what to import from an .npz file or a folder of them."""
    files = [source] if source.is_file() else checked_files(sorted(source.glob("*.npz")), source)
    if not files:
        raise UserError(f"{source}: no .npz files there; give one, or a folder of them")
    episodes = [_episode(file, number) for file, number in zip(files, numbers_of([f.stem for f in files]), strict=True)]
    with opened(files[0]) as archive:
        _, height, width, _ = read_header(archive, "frames").shape
        env_id, meanings = _text(archive, "env_id"), _text(archive, "action_meanings")
        limits = _limits(files[0], archive)
    known = ((episode.location, episode.actions) for episode in episodes if episode.actions is not None)
    actions = described_actions(known, limits)
    contents = Source(
        episodes=episodes,
        env_id=env_id[0] if env_id else source.resolve().with_suffix("").name,
        frame_shape=(height, width, 3),
        action_meanings=meanings if meanings and len(meanings) >= actions["action_count"] else None,
        **actions,
    )
    return {"": contents}


def write(store: EpisodeStore, out: Path, advance: Callable[[int], None]) -> None:
    """Write every episode to a separate file in the folder `out`."""
    with new_folder(out) as folder:
        for episode in store:
            with zipfile.ZipFile(folder / f"episode_{episode.header.number:06d}.npz", "w") as archive:
                _write_frames(archive, episode, advance)
                for name, array in _small_arrays(store, episode).items():
                    with archive.open(_member(name), "w") as stream:
                        np.lib.format.write_array(stream, np.asarray(array, order="C"), allow_pickle=False)


def _episode(file: Path, number: int) -> SourceEpisode:
    with opened(file) as archive:
        missing = {"frames", "actions"} - names(archive)
        if missing:
            raise UserError(f"{file}: it has no array {min(missing)}; an episode needs frames and actions")
        frames = read_header(archive, "frames")
        _check_frames(file, frames)
        actions = _actions(file, archive, frames.shape[0] - 1)
    return SourceEpisode(
        number=number,
        location=str(file),
        frame_count=frames.shape[0],
        actions=actions,
        read=partial(_record, file),
    )


def _check_frames(file: Path, frames: Header) -> None:
    count, *sides, channels = frames.shape if len(frames.shape) == 4 else (0, 0, 0, 0)
    possible = count > 0 and all(1 <= side <= MAX_SIDE for side in sides)
    if frames.dtype != np.uint8 or channels != 3 or frames.fortran or not possible:
        order = " in Fortran order" if frames.fortran else ""
        raise UserError(
            f"{file}: its frames are {frames.dtype} {frames.shape}{order}; expected uint8 (T + 1, height, width, 3) "
            f"in C order, sides up to {MAX_SIDE}"
        )


def _record(file: Path) -> Recording:
    with opened(file) as archive:
        steps = read_header(archive, "frames").shape[0] - 1
        actions = _actions(file, archive, steps)
        rewards = _series(file, archive, "rewards", "iufb", steps)
        lives = _series(file, archive, "lives", "iu", steps + 1)
        terminated = _series(file, archive, "terminated", "b", steps)
        truncated = _series(file, archive, "truncated", "b", steps)
        seed = _seed(file, archive)
    known_end = steps > 0 and (terminated is not None or truncated is not None)
    return Recording(
        frames=_frames(file),
        actions=actions,
        rewards=None if rewards is None else checked_rewards(rewards, lambda i: f"{file}: rewards[{i}]"),
        lives=None if lives is None else checked_lives(lives, lambda i: f"{file}: lives[{i}]"),
        seed=seed,
        terminated=known_end and terminated is not None and bool(terminated[-1]),
        truncated=not known_end or (truncated is not None and bool(truncated[-1])),
    )


def _actions(file: Path, archive: zipfile.ZipFile, steps: int) -> Actions:
    """Return numbers (T,) or vectors (T, A)."""

    def where(i: int) -> str:
        return f"{file}: actions[{i}]"

    header = read_header(archive, "actions")
    if header.dtype.kind == "f" and len(header.shape) == 2 and 1 <= header.shape[1] <= MAX_ACTIONS:
        if header.shape[0] != steps:
            raise UserError(f"{file}: its actions are {header.shape}; expected {steps} vectors for its frames")
        return checked_vectors(read_array(archive, "actions"), where)
    values = _series(file, archive, "actions", "iu", steps)
    assert values is not None
    return checked_actions(values, where)


def _limits(file: Path, archive: zipfile.ZipFile) -> ActionRange:
    """Return the range of continuous actions; empty: the file does not say."""
    if "action_range" not in names(archive):
        return ()
    try:
        return checked_range(read_array(archive, "action_range").tolist())
    except ValueError as error:
        raise UserError(f"{file}: {error}") from error


def _frames(file: Path) -> Generator[Frame, None, None]:
    with opened(file) as archive:
        yield from rows(archive, "frames")


def _series(file: Path, archive: zipfile.ZipFile, name: str, kinds: str, length: int) -> NDArray[Any] | None:
    """Return an array (length,) of one of the kinds of type; None if there is none."""
    if name not in names(archive):
        return None
    array = read_array(archive, name)
    if array.dtype.kind not in kinds or array.shape != (length,):
        kind = {"iu": "integers", "b": "booleans"}.get(kinds, "numbers")
        raise UserError(f"{file}: its {name} are {array.dtype} {array.shape}; expected {length} {kind} for its frames")
    return array


def _seed(file: Path, archive: zipfile.ZipFile) -> int:
    if "seed" not in names(archive):
        return 0
    array = read_array(archive, "seed")
    if array.dtype.kind not in "iu" or array.size != 1 or array.min() < 0:
        raise UserError(f"{file}: its seed is {array.dtype} {array.shape}; expected one number from 0")
    return int(array.item())


def _text(archive: zipfile.ZipFile, name: str) -> tuple[str, ...] | None:
    if name not in names(archive):
        return None
    return tuple(str(text) for text in read_array(archive, name).reshape(-1).tolist()) or None


def _write_frames(archive: zipfile.ZipFile, episode: Episode, advance: Callable[[int], None]) -> None:
    shape = (len(episode), episode.header.height, episode.header.width, 3)
    with archive.open(_member("frames"), "w", force_zip64=True) as stream:
        header: dict[str, Any] = {"descr": "|u1", "fortran_order": False, "shape": shape}
        np.lib.format.write_array_header_1_0(stream, header)
        for block in episode.blocks():
            stream.write(block.tobytes())
            advance(len(block))


def _small_arrays(store: EpisodeStore, episode: Episode) -> dict[str, NDArray[Any]]:
    header, steps = episode.header, len(episode.actions)
    last = np.arange(steps) == steps - 1
    return {
        "actions": episode.actions,
        "rewards": episode.rewards,
        "terminated": last & header.terminated,
        "truncated": last & header.truncated,
        "lives": episode.lives,
        "seed": np.array(header.seed, np.int64),
        "env_id": np.array(store.info.env_id),
        "action_meanings": np.array(store.info.action_meanings),
    } | ({"action_range": np.array(store.info.action_range)} if store.info.action_range else {})


def _member(name: str) -> zipfile.ZipInfo:
    """Return a zip entry without a time, so that equal episodes give equal files."""
    entry = zipfile.ZipInfo(f"{name}.npy")
    entry.compress_type = zipfile.ZIP_DEFLATED
    return entry
