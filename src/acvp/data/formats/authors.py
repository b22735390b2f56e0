"""The layout of the paper's authors, for Caffe: a PNG per frame, a text file of actions per episode.

<game>/train/0000/00000.png 00001.png …   episodes and frames count from 0, without gaps
<game>/train/0000/act.log                 a line per action, one fewer than frames
<game>/test/…
<game>/mean.binaryproto                   mean image of the train frames

PNG files are exact both ways, and are checked before they are decoded. The Caffe mean is a BlobProto message of
protobuf: 1×3×H×W floats, blue first. Its fields: 1 num, 2 channels, 3 height, 4 width (older files), 7 shape with
packed dims in its field 1 (newer files), 5 data as floats, 8 data as doubles, both packed or not.
"""

from __future__ import annotations

import io
import math
import re
import struct
import zlib
from collections.abc import Callable, Generator, Iterator, Sequence
from functools import partial
from pathlib import Path

import numpy as np
from numpy.typing import NDArray
from PIL import Image

from acvp.actions import Actions, require_numbered
from acvp.data.episode import MAX_SIDE, Episode
from acvp.data.formats.importer import (
    Recording,
    Source,
    SourceEpisode,
    checked_actions,
    described_actions,
    numbers_of,
)
from acvp.data.frames import Frame
from acvp.data.store import EpisodeStore
from acvp.durable import new_folder, read_file
from acvp.errors import UserError

_SIGNATURE = b"\x89PNG\r\n\x1a\n"
_HEADER = struct.Struct(">8s4x4sIIB")  # signature, length, "IHDR", width, height, bits a channel


def encode_png(frame: Frame) -> bytes:
    """Return a frame as the bytes of a PNG file."""
    buffer = io.BytesIO()
    Image.fromarray(np.ascontiguousarray(frame)).save(buffer, "PNG")
    return buffer.getvalue()


def read_png(file: Path, within: Path | None = None) -> Frame:
    """Read a PNG file as RGB (H, W, 3); palette and gray images are converted, which is exact."""
    try:
        data = read_file(file, within)
        _check_header(file, data)  # before Pillow makes room for the pixels
        _check_chunks(data)  # Pillow lets some damage pass
        with Image.open(io.BytesIO(data), formats=["PNG"]) as image:
            return np.asarray(_opaque(file, image))
    except (OSError, ValueError, SyntaxError) as error:
        raise UserError(f"{file}: cannot be read as PNG ({error}); replace it") from error


def _check_header(file: Path, data: bytes) -> None:
    if len(data) < _HEADER.size:
        raise ValueError(f"only {len(data)} bytes")
    signature, name, width, height, bits = _HEADER.unpack_from(data)
    if signature != _SIGNATURE or name != b"IHDR":
        raise ValueError("it does not begin like one")
    if not (1 <= width <= MAX_SIDE and 1 <= height <= MAX_SIDE):
        raise UserError(f"{file}: {height}×{width} pixels; sides from 1 to {MAX_SIDE} are possible")
    if bits > 8:
        raise UserError(f"{file}: {bits} bits a channel; frames have 8: convert it")


def _check_chunks(data: bytes) -> None:
    """Compare the checksum of every chunk up to the last one."""
    position, name = len(_SIGNATURE), b""
    while name != b"IEND":
        if position + 12 > len(data):
            raise ValueError("it ends too early")
        length, name = struct.unpack_from(">I4s", data, position)
        end = position + 8 + length
        if data[end : end + 4] != zlib.crc32(data[position + 4 : end]).to_bytes(4, "big"):
            raise ValueError(f"its chunk {name!r} is damaged")
        position = end + 4


def _opaque(file: Path, image: Image.Image) -> Image.Image:
    if not image.has_transparency_data:
        return image.convert("RGB")
    rgba = image.convert("RGBA")
    lowest = int(np.asarray(rgba)[..., 3].min())
    if lowest < 255:
        raise UserError(f"{file}: transparent pixels (alpha {lowest}); frames are opaque: paint it on a background")
    return rgba.convert("RGB")


MeanImage = NDArray[np.float32]  # (H, W, 3) RGB

_VARINT, _FIXED64, _BYTES, _FIXED32 = 0, 1, 2, 5
_LEGACY_DIMS, _DATA, _SHAPE, _DOUBLE_DATA = (1, 2, 3, 4), 5, 7, 8


def encode_mean(mean: NDArray[np.floating]) -> bytes:
    """Return an RGB image (H, W, 3) as the bytes of a mean.binaryproto, readable by old and new Caffe."""
    assert mean.shape[2:] == (3,), mean.shape
    blue_first = np.ascontiguousarray(mean[..., ::-1].transpose(2, 0, 1), "<f4")  # (3, H, W)
    dims = b"".join(_varint(field << 3 | _VARINT) + _varint(dim) for field, dim in enumerate((1, *blue_first.shape), 1))
    return dims + _varint(_DATA << 3 | _BYTES) + _varint(blue_first.nbytes) + blue_first.tobytes()


def decode_mean(data: bytes) -> MeanImage:
    """Return the RGB image (H, W, 3) in the bytes of a mean.binaryproto; ValueError if they are damaged."""
    legacy, shape = dict.fromkeys(_LEGACY_DIMS, 0), list[int]()
    floats, doubles = bytearray(), bytearray()
    for field, value in _fields(memoryview(data)):
        if field in legacy and isinstance(value, int):
            legacy[field] = value
        elif field == _SHAPE and isinstance(value, memoryview):
            shape = list(_dims(value))
        elif field in (_DATA, _DOUBLE_DATA) and isinstance(value, memoryview):
            (floats if field == _DATA else doubles).extend(value)
    return _image(shape or list(legacy.values()), floats, doubles)


def _image(dims: list[int], floats: bytearray, doubles: bytearray) -> MeanImage:
    raw, kind = (floats, "<f4") if floats or not doubles else (doubles, "<f8")
    if [*([1] * (4 - len(dims))), *dims][:2] != [1, 3] or len(dims) > 4:
        raise ValueError(f"its shape is {'×'.join(map(str, dims))}, not 1×3×height×width")
    if math.prod(dims) * np.dtype(kind).itemsize != len(raw):
        raise ValueError(f"{len(raw)} bytes of numbers do not fill its shape {'×'.join(map(str, dims))}")
    values = np.frombuffer(raw, kind).reshape(dims[-3:])
    return np.ascontiguousarray(values.transpose(1, 2, 0)[..., ::-1], np.float32)


def _dims(message: memoryview) -> Iterator[int]:
    for field, value in _fields(message):
        if field == 1 and isinstance(value, int):
            yield value
        elif field == 1 and isinstance(value, memoryview):
            position = 0
            while position < len(value):
                dim, position = _read_varint(value, position)
                yield dim


def _fields(message: memoryview) -> Iterator[tuple[int, int | memoryview]]:
    """Yield number and value of each field: varints as numbers, all else as bytes."""
    position = 0
    while position < len(message):
        tag, position = _read_varint(message, position)
        field, kind = tag >> 3, tag & 7
        if kind == _VARINT:
            number, position = _read_varint(message, position)
            yield field, number
            continue
        if kind == _BYTES:
            length, position = _read_varint(message, position)
        elif kind in (_FIXED32, _FIXED64):
            length = 4 if kind == _FIXED32 else 8
        else:
            raise ValueError(f"byte {position} is no field of a BlobProto")
        if length > len(message) - position:
            raise ValueError(f"it ends {length - len(message) + position} bytes too early")
        yield field, message[position : position + length]
        position += length


def _read_varint(message: memoryview, position: int) -> tuple[int, int]:
    value = 0
    for shift in range(0, 70, 7):
        if position >= len(message):
            raise ValueError("it ends inside a number")
        byte = message[position]
        position += 1
        value |= (byte & 127) << shift
        if byte < 128:
            return value, position
    raise ValueError(f"a number of over 10 bytes before byte {position}")


def _varint(value: int) -> bytes:
    low = bytearray()
    while value > 127:
        low.append(value & 127 | 128)
        value >>= 7
    return bytes(low) + bytes([value])


SPLITS = ("train", "test")
ACTIONS_NAME = "act.log"
MEAN_NAME = "mean.binaryproto"


def read(source: Path) -> dict[str, Source]:
    """Return what to import from a game's folder, one of its splits, or one episode, by the subfolder of the output."""
    if not source.is_dir():
        raise UserError(f"{source}: no such folder; give the game's folder, its train/ or test/, or one episode")
    splits = [name for name in SPLITS if (source / name).is_dir()]
    folders = {name: _episode_folders(source / name) for name in splits} or {"": _episode_folders(source)}
    if len(folders) == 1:
        folders = {"": next(iter(folders.values()))}
    actions = {folder: _read_actions(folder, source) for episodes in folders.values() for folder in episodes}
    described = described_actions((str(f / ACTIONS_NAME), a) for f, a in actions.items())
    shape = read_png(next(iter(actions)) / _frame_name(0), source).shape
    _check_mean(source, shape)
    return {
        name: Source(
            episodes=_episodes(source, episode_folders, actions, shape),
            env_id=_game_name(source),
            frame_shape=(shape[0], shape[1], 3),
            **described,
        )
        for name, episode_folders in folders.items()
    }


def write(
    store: EpisodeStore,
    out: Path,
    advance: Callable[[int], None],
    *,
    train: Sequence[int] | None = None,
    test: Sequence[int] | None = None,
) -> None:
    """Write the episodes at positions `train` and `test`; all to train/ if neither is given."""
    require_numbered(store.info.action_range, "the authors' layout")
    splits = dict(zip(SPLITS, _positions(len(store), train, test), strict=True))
    with new_folder(out) as folder:
        for name, positions in splits.items():
            total: NDArray[np.int64] = np.zeros(store.info.frame_shape, np.int64)
            for number, position in enumerate(positions):
                total += _write_episode(store[position], folder / name / f"{number:04d}", advance)
            if name == "train":
                frames = sum(store.entries[i].frames for i in positions)
                (folder / MEAN_NAME).write_bytes(encode_mean(total / frames))


def read_mean(file: Path, within: Path | None = None) -> MeanImage:
    """Read the mean image, RGB (H, W, 3), of a mean.binaryproto."""
    try:
        return decode_mean(read_file(file, within))
    except (OSError, ValueError) as error:
        raise UserError(
            f"{file}: cannot be read as a mean image ({error}); move it away to import without it"
        ) from error


def _episode_folders(split: Path) -> list[Path]:
    if (split / ACTIONS_NAME).exists() or any(split.glob("*.png")):
        return [split]
    folders = [folder for folder in split.iterdir() if folder.is_dir() and re.fullmatch("[0-9]+", folder.name)]
    if not folders:
        raise UserError(
            f"{split}: no episodes in it; expected train/ and test/, or folders like 0000/, or {ACTIONS_NAME} with "
            f"{_frame_name(0)}, {_frame_name(1)}, …"
        )
    return sorted(folders, key=lambda folder: (int(folder.name), folder.name))


def _episodes(
    source: Path, folders: list[Path], actions: dict[Path, Actions], shape: tuple[int, ...]
) -> list[SourceEpisode]:
    return [
        SourceEpisode(
            number=number,
            location=str(folder),
            frame_count=len(actions[folder]) + 1,
            actions=actions[folder],
            read=partial(_record, source, folder, actions[folder], shape),
        )
        for number, folder in zip(numbers_of([folder.name for folder in folders]), folders, strict=True)
    ]


def _record(source: Path, folder: Path, actions: Actions, shape: tuple[int, ...]) -> Recording:
    return Recording(frames=_frames(source, folder, len(actions) + 1, shape), actions=actions)


def _frames(source: Path, folder: Path, count: int, shape: tuple[int, ...]) -> Generator[Frame, None, None]:
    for number in range(count):
        file = folder / _frame_name(number)
        frame = read_png(file, source)
        if frame.shape != shape:
            raise UserError(
                f"{file}: {frame.shape[0]}×{frame.shape[1]} pixels, the first frame of all has {shape[0]}×{shape[1]} "
                "(height×width); all frames must be of one size"
            )
        yield frame


def _read_actions(folder: Path, source: Path) -> Actions:
    """The actions of an episode, once its files are as many as they should be."""
    frames = _count_frames(folder)
    file = folder / ACTIONS_NAME
    try:
        lines = read_file(file, source).decode("ascii").rstrip().splitlines()
    except FileNotFoundError as error:
        raise UserError(f"{folder}: it has no {ACTIONS_NAME}, the file of its actions, one a line") from error
    except (OSError, UnicodeDecodeError) as error:
        raise UserError(f"{file}: cannot be read ({error}); it must be a text file with one number a line") from error
    values = [_integer(file, number, line) for number, line in enumerate(lines, 1)]
    if len(values) != frames - 1:
        raise UserError(
            f"{file}: {len(values)} actions for the {frames} frames in {folder}; {frames} frames need {frames - 1}"
        )
    return checked_actions(values, lambda i: f"{file}: line {i + 1}")


def _integer(file: Path, number: int, line: str) -> int:
    if not re.fullmatch(r"\s*[+-]?[0-9]{1,18}\s*", line):
        raise UserError(f"{file}: line {number} is {line[:40]!r}, not a whole number; every line must be an action")
    return int(line)


def _count_frames(folder: Path) -> int:
    names = {file.name for file in folder.glob("*.png")}
    missing = next(i for i in range(len(names) + 1) if _frame_name(i) not in names)
    if missing < len(names):
        extra = max(names - {_frame_name(i) for i in range(missing)})
        raise UserError(
            f"{folder}: {_frame_name(missing)} is missing, but {extra} is there; frames are numbered from "
            f"{_frame_name(0)} without gaps"
        )
    if not names:
        raise UserError(f"{folder}: no frames in it; an episode has at least {_frame_name(0)}")
    return len(names)


def _frame_name(number: int) -> str:
    return f"{number:05d}.png"


def _check_mean(source: Path, shape: tuple[int, ...]) -> None:
    file = source / MEAN_NAME
    if file.exists() and (mean := read_mean(file, source)).shape != shape:
        raise UserError(
            f"{file}: a mean image of {mean.shape[0]}×{mean.shape[1]} for frames of {shape[0]}×{shape[1]} "
            "(height×width); move it away if it belongs to other data"
        )


def _game_name(source: Path) -> str:
    folder = source.resolve()
    return folder.parent.name if folder.name in SPLITS else folder.name


def _positions(count: int, train: Sequence[int] | None, test: Sequence[int] | None) -> tuple[list[int], list[int]]:
    in_test = list(test or [])
    in_train = sorted(set(range(count)) - set(in_test)) if train is None else list(train)
    wrong = [i for i in in_train + in_test if not 0 <= i < count]
    if wrong:
        raise UserError(f"there is no episode at position {wrong[0]}: the store has positions 0 to {count - 1}")
    twice = set(in_train) & set(in_test)
    if twice:
        raise UserError(f"the episode at position {min(twice)} is both in train and in test; choose one")
    if not in_train:
        raise UserError("no episodes in train, so there is no mean image; leave some for it")
    return in_train, in_test


def _write_episode(episode: Episode, folder: Path, advance: Callable[[int], None]) -> NDArray[np.int64]:
    """Write frames and actions; the sum of the frames comes back."""
    folder.mkdir(parents=True)
    total: NDArray[np.int64] = np.zeros((episode.header.height, episode.header.width, 3), np.int64)
    number = 0
    for block in episode.blocks():
        total += block.sum(axis=0, dtype=np.int64)
        for frame in block:
            (folder / _frame_name(number)).write_bytes(encode_png(frame))
            number += 1
        advance(len(block))
    (folder / ACTIONS_NAME).write_text("".join(f"{action}\n" for action in episode.actions.tolist()), encoding="utf-8")
    return total
