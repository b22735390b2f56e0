"""The part file: one episode, immutable, as a safetensors file that any reader of the format can open.

    tensors   chunks      uint8 (bytes,)  Zstandard frames, one per 16 game frames, one after the other
              chunk_ends  int64 (chunks,) where each ends in `chunks`
              palette     uint8 (K, 3)    absent where frames are raw RGB
              actions     int16 (T,)      rewards float32 (T,)      lives int16 (T + 1,), -1: no such thing
    metadata  acvp        JSON: format, episode, seed, height, width, frames, terminated, truncated, content, opening

Inside a chunk each frame but the first is XORed with the one before it: consecutive game frames are nearly equal, which
makes parts two to three times smaller at no cost in speed.
"""

from __future__ import annotations

import hashlib
import json
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
import safetensors.numpy
from numcodecs import Zstd
from numpy.typing import NDArray
from safetensors import SafetensorError

from acvp.data.palette import (
    MAX_COLORS,
    Frame,
    Indices,
    Palette,
    PaletteEncoder,
    TooManyColorsError,
    colorize,
)
from acvp.errors import UserError

PART_FORMAT = 1
CHUNK_FRAMES = 16
OPENING_FRAMES = 32
"""Two episodes whose first 32 frames and 31 actions agree count as one play when data is split."""
MAX_SIDE = 4096
"""Larger frames are refused, so that a damaged header cannot ask for unbounded memory."""

_zstd = Zstd(level=6, checksum=True)


class PartError(UserError):
    """A part file that cannot be trusted; the message says why."""


@dataclass(frozen=True, kw_only=True)
class PartHeader:
    """What a part says of its episode besides the arrays."""

    format: int = PART_FORMAT
    episode: int
    """Number of the episode in its store."""
    seed: int
    """The seed the game was reset with."""
    height: int
    width: int
    frames: int
    """T + 1 frames for T actions."""
    terminated: bool
    """The game ended by its own rules."""
    truncated: bool
    """The recording ended it (step limit)."""
    content: str
    """SHA-256 of frames and actions: equal plays have equal content, whatever their number or seed."""
    opening: str
    """The same for the first 32 frames."""


class EpisodeRecorder:
    """Compresses an episode while it is played: memory holds 16 raw frames at most."""

    def __init__(self) -> None:
        self._encoder = PaletteEncoder()

    def start(self, frame: Frame, keys: NDArray[np.uint8] | None = None, lives: int = -1) -> None:
        """Begin an episode with its first frame; `keys` see PaletteEncoder.encode."""
        self._encoder.reset()
        self._raw_rgb = False
        self._height, self._width = frame.shape[:2]
        self._pending: list[NDArray[np.uint8]] = []
        self._chunks: list[bytes] = []
        self._actions: list[int] = []
        self._rewards: list[float] = []
        self._lives: list[int] = [lives]
        self._content = hashlib.sha256()
        self._opening = ""
        self._append_frame(frame, keys)

    def step(
        self, action: int, reward: float, frame: Frame, keys: NDArray[np.uint8] | None = None, lives: int = -1
    ) -> None:
        """Add what an action led to."""
        self._actions.append(action)
        self._rewards.append(reward)
        self._lives.append(lives)
        self._append_frame(frame, keys)

    @property
    def frames(self) -> int:
        return len(self._lives)

    def finish(self, *, episode: int, seed: int, terminated: bool, truncated: bool) -> bytes:
        """The bytes of the part file."""
        self._flush()
        content = _finish_hash(self._content, self._palette(), self._actions)
        header = PartHeader(
            episode=episode,
            seed=seed,
            height=self._height,
            width=self._width,
            frames=self.frames,
            terminated=terminated,
            truncated=truncated,
            content=content,
            opening=self._opening or content,
        )
        tensors = {
            "chunks": np.frombuffer(b"".join(self._chunks), np.uint8),
            "chunk_ends": np.cumsum([len(c) for c in self._chunks], dtype=np.int64),
            "actions": np.array(self._actions, np.int16),
            "rewards": np.array(self._rewards, np.float32),
            "lives": np.array(self._lives, np.int16),
        }
        if not self._raw_rgb:
            tensors["palette"] = self._encoder.palette
        return safetensors.numpy.save(tensors, {"acvp": json.dumps(asdict(header))})

    def _palette(self) -> Palette | None:
        return None if self._raw_rgb else self._encoder.palette

    def _append_frame(self, frame: Frame, keys: NDArray[np.uint8] | None) -> None:
        if not self._raw_rgb:
            try:
                self._pending.append(self._encoder.encode(frame, keys))
            except TooManyColorsError:
                self._change_to_rgb()
        if self._raw_rgb:
            self._pending.append(np.ascontiguousarray(frame))
        if len(self._pending) == CHUNK_FRAMES:
            self._flush()

    def _flush(self) -> None:
        if self._pending:
            chunk = np.stack(self._pending)
            self._content.update(chunk)
            self._chunks.append(_compress(chunk))
            self._pending = []
        if not self._opening and len(self._chunks) * CHUNK_FRAMES == OPENING_FRAMES:
            self._opening = _finish_hash(self._content.copy(), self._palette(), self._actions[: OPENING_FRAMES - 1])

    def _change_to_rgb(self) -> None:
        """Over 256 colours: turn what was recorded as indices into raw RGB and go on that way."""
        palette = self._encoder.palette[:MAX_COLORS]  # the one colour too many stands in no frame yet
        pending, chunks = self._pending, self._chunks
        self._raw_rgb, self._pending, self._chunks, self._opening = True, [], [], ""
        self._content = hashlib.sha256()
        for chunk in chunks:
            indices = _decompress(chunk, (CHUNK_FRAMES, self._height, self._width))
            self._pending = list(colorize(indices, palette))
            self._flush()
        self._pending = [np.ascontiguousarray(colorize(indices, palette)) for indices in pending]


@dataclass(frozen=True, eq=False, repr=False)
class Part:
    """One parsed part: arrays small enough to hold, frames decoded on demand."""

    header: PartHeader
    actions: NDArray[np.int16]  # (T,)
    rewards: NDArray[np.float32]  # (T,)
    lives: NDArray[np.int16]  # (T + 1,)
    palette: Palette | None
    chunks: tuple[memoryview, ...]

    def decode(self, start: int, stop: int) -> NDArray[np.uint8]:
        """Frames start … stop - 1 as stored: (n, H, W) palette indices or (n, H, W, 3) RGB."""
        if not 0 <= start <= stop <= self.header.frames:
            raise IndexError(f"frames {start}:{stop} of an episode of {self.header.frames} frames")
        shape = self._frame_shape
        out = np.empty((stop - start, *shape), np.uint8)
        for number in range(start // CHUNK_FRAMES, -(-stop // CHUNK_FRAMES)):
            first = number * CHUNK_FRAMES
            length = min(CHUNK_FRAMES, self.header.frames - first)
            lo, hi = max(start, first), min(stop, first + length)
            whole = hi - lo == length
            target = out[lo - start : hi - start] if whole else np.empty((length, *shape), np.uint8)
            self._decode_chunk(number, target, hi - first)
            if not whole:
                out[lo - start : hi - start] = target[lo - first : hi - first]
        return out

    @property
    def _frame_shape(self) -> tuple[int, ...]:
        size = (self.header.height, self.header.width)
        return size if self.palette is not None else (*size, 3)

    def _decode_chunk(self, number: int, target: NDArray[np.uint8], needed: int) -> None:
        """Fill target with a chunk, undoing the XOR for its first `needed` frames."""
        try:
            _decompress_into(self.chunks[number], target)
        except RuntimeError as error:
            raise PartError(f"chunk {number} of episode {self.header.episode} is damaged ({error})") from error
        for i in range(1, needed):
            np.bitwise_xor(target[i], target[i - 1], out=target[i])

    def content_hash(self, frames: int | None = None) -> str:
        """The hash of the first `frames` frames (all where None), from the frames themselves."""
        count = self.header.frames if frames is None else min(frames, self.header.frames)
        digest = hashlib.sha256()
        for first in range(0, count, CHUNK_FRAMES):
            digest.update(self.decode(first, min(first + CHUNK_FRAMES, count)))
        palette = self.palette
        if palette is not None and count < self.header.frames:
            palette = palette[: int(self.decode(0, count).max()) + 1]
        return _finish_hash(digest, palette, self.actions[: count - 1].tolist())


def parse_part(data: bytes) -> Part:
    """Read a part from its bytes; PartError says what is wrong with it."""
    try:
        metadata = _metadata(data)
        header = PartHeader(**json.loads(metadata["acvp"]))
        tensors = safetensors.numpy.load(data)
    except (SafetensorError, ValueError, KeyError, TypeError, OverflowError, RecursionError, MemoryError) as error:
        raise PartError(f"not a part file of acvp ({error})") from error
    _check_header(header)
    _check_tensors(header, tensors)
    view = memoryview(data)
    start = _chunks_offset(data)
    ends = tensors["chunk_ends"].tolist()
    chunks = tuple(view[start + a : start + b] for a, b in zip([0, *ends[:-1]], ends, strict=True))
    return Part(header, tensors["actions"], tensors["rewards"], tensors["lives"], tensors.get("palette"), chunks)


def _metadata(data: bytes) -> dict[str, Any]:
    return dict(_header_json(data)["__metadata__"])


def _header_json(data: bytes) -> dict[str, Any]:
    size = int.from_bytes(data[:8], "little")
    header = json.loads(data[8 : 8 + size])
    if not isinstance(header, dict):
        raise ValueError("its header is not an object")
    return header


def _chunks_offset(data: bytes) -> int:
    """Where the compressed frames begin, so that they need no copy."""
    size = int.from_bytes(data[:8], "little")
    return 8 + size + int(_header_json(data)["chunks"]["data_offsets"][0])


def _check_header(header: PartHeader) -> None:
    if header.format != PART_FORMAT:
        raise PartError(f"part format {header.format!r}, this version of acvp reads {PART_FORMAT}: upgrade acvp")
    numbers = (header.episode, header.seed, header.height, header.width, header.frames)
    if not all(type(n) is int and n >= 0 for n in numbers):
        raise PartError(f"impossible numbers in its header: {header}")
    if not (1 <= header.height <= MAX_SIDE and 1 <= header.width <= MAX_SIDE and header.frames >= 1):
        raise PartError(f"impossible sizes: {header.frames} frames of {header.height}×{header.width}")
    if type(header.terminated) is not bool or type(header.truncated) is not bool:
        raise PartError(f"its ends are not true or false: {header}")


def _check_tensors(header: PartHeader, tensors: dict[str, NDArray[Any]]) -> None:
    steps, chunk_count = header.frames - 1, -(-header.frames // CHUNK_FRAMES)
    expected = {
        "chunk_ends": (np.int64, (chunk_count,)),
        "actions": (np.int16, (steps,)),
        "rewards": (np.float32, (steps,)),
        "lives": (np.int16, (header.frames,)),
    }
    for name, (dtype, shape) in expected.items():
        got = tensors.get(name)
        if got is None or got.dtype != dtype or got.shape != shape:
            raise PartError(f"array {name} is {_describe(got)}, expected {np.dtype(dtype)} {shape}")
    palette = tensors.get("palette")
    if palette is not None and not (palette.dtype == np.uint8 and palette.ndim == 2 and palette.shape[1] == 3):
        raise PartError(f"array palette is {_describe(palette)}, expected uint8 (K, 3)")
    ends = [0, *tensors["chunk_ends"].tolist()]
    size = tensors["chunks"].nbytes if "chunks" in tensors else -1
    if ends[-1] != size or any(b <= a for a, b in zip(ends, ends[1:], strict=False)):
        raise PartError(f"its chunks end at {ends[-1]}, their bytes at {size}")


def _describe(array: NDArray[Any] | None) -> str:
    return "missing" if array is None else f"{array.dtype} {array.shape}"


def _finish_hash(digest: Any, palette: Palette | None, actions: list[int]) -> str:
    digest.update(b"" if palette is None else palette.tobytes())
    digest.update(np.array(actions, np.int16).tobytes())
    return str(digest.hexdigest())


def _compress(frames: NDArray[np.uint8]) -> bytes:
    delta = frames.copy()
    np.bitwise_xor(frames[1:], frames[:-1], out=delta[1:])
    return bytes(_zstd.encode(delta))


def _decompress_into(chunk: bytes | memoryview, out: NDArray[np.uint8]) -> None:
    """Zstandard into `out`, which bounds the memory a damaged chunk can ask for."""
    written = _zstd.decode(chunk, out.reshape(-1))
    if written is None:  # pragma: no cover - numcodecs returns the buffer
        raise RuntimeError("nothing decoded")


def _decompress(chunk: bytes, shape: tuple[int, ...]) -> Indices:
    frames = np.empty(shape, np.uint8)
    _decompress_into(chunk, frames)
    np.bitwise_xor.accumulate(frames, axis=0, out=frames)
    return frames
