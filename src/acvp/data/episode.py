"""One recorded episode: frames[t], actions[t] → frames[t + 1], oldest first, T + 1 frames for T actions.

Frames are compressed in chunks of 16: XOR with the frame before, then Zstandard with a checksum. Consecutive frames are
nearly equal, so the XOR makes chunks two to three times smaller at no cost in speed.

An episode is stored in a part file, a safetensors file that never changes:

tensors   chunks      uint8 (bytes,)  the compressed frames, 16 a chunk, one chunk after the other
          chunk_ends  int64 (chunks,) where each chunk ends in `chunks`
          palette     uint8 (K, 3)    absent where frames are raw RGB
          actions     int16 (T,)      numbers; or float32 (T, A), continuous actions
          rewards     float32 (T,)    lives int16 (T + 1,)
metadata  acvp        JSON: part_format and the fields of EpisodeHeader

Shapes: T actions, A components of a continuous action, n frames asked for, H height, W width, K colors.
"""

from __future__ import annotations

import hashlib
import json
import math
from collections import OrderedDict
from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import asdict, dataclass, fields
from threading import Lock
from typing import Any, NamedTuple

import numpy as np
import safetensors.numpy
from numcodecs import Zstd
from numpy.typing import NDArray
from safetensors import SafetensorError

from acvp.actions import ActionRange, Actions, outside
from acvp.data.frames import MAX_COLORS, Indices, Palette, PaletteEncoder, TooManyColorsError, colorize
from acvp.errors import UserError

CHUNK_FRAMES = 16
"""Frames compressed together."""
BLOCK_FRAMES = 4 * CHUNK_FRAMES
"""Decoded frames held in memory at once."""
KEPT_BYTES = 2**30
"""Compressed episodes that a process keeps in memory: those read last. Others are read and checked again."""

_zstd = Zstd(level=3, checksum=True)  # higher levels save a third of the bytes and cost a sixth of the recording time


class DamagedChunkError(Exception):
    """A chunk does not decode to the frames that it should hold."""


def compress(frames: NDArray[np.uint8]) -> bytes:
    """Return frames (n, …), n ≤ 16, as compressed bytes."""
    delta = frames.copy()
    np.bitwise_xor(frames[1:], frames[:-1], out=delta[1:])
    return bytes(_zstd.encode(delta))


def decompress(chunk: bytes | memoryview, out: NDArray[np.uint8], needed: int) -> None:
    """Decode a chunk into `out`, which has its shape; only the first `needed` frames become valid.

    `out` bounds the memory: a chunk that claims to be larger is refused before it is decoded.
    """
    flat = out.reshape(-1)
    if _is_short(chunk, flat):
        raise DamagedChunkError("it holds less than it should")
    try:
        _zstd.decode(chunk, flat)
    except (RuntimeError, ValueError) as error:
        raise DamagedChunkError(str(error)) from error
    for i in range(1, needed):
        np.bitwise_xor(out[i], out[i - 1], out=out[i])


def _is_short(chunk: bytes | memoryview, flat: NDArray[np.uint8]) -> bool:
    """Return whether a chunk decodes to less than it should; one that is too large is refused before decoding."""
    try:
        _zstd.decode(chunk, flat[:-1])
    except (RuntimeError, ValueError):
        return False
    return True


OPENING_FRAMES = 32
"""Episodes whose first 32 frames and 31 actions agree count as duplicates when data is split."""


class PolicyShare(NamedTuple):
    """A policy and its ε: they play a share of the episodes of a dataset."""

    policy: str
    epsilon: float

    def __str__(self) -> str:
        return f"{self.policy}, ε = {self.epsilon:g}"


@dataclass(frozen=True, kw_only=True)
class EpisodeHeader:
    """Facts about an episode besides its arrays."""

    number: int
    """Its number in the dataset."""
    seed: int
    """Seed that the game was reset with."""
    height: int
    width: int
    frames: int
    """T + 1 frames for T actions."""
    terminated: bool
    """The game ended by its own rules."""
    truncated: bool
    """The episode was truncated by a step limit."""
    content: str
    """SHA-256 of frames and actions: equal for duplicates, whatever their number or seed."""
    opening: str
    """SHA-256 of the first 32 frames and their actions (of all, if there are fewer)."""
    policy: str | None = None
    """The policy that played it, if the dataset mixes several; None: the one that the dataset names."""
    epsilon: float | None = None
    """Its probability of a random action."""

    def to_json(self) -> dict[str, Any]:
        """Return the fields by name; those of a mix only where there is one."""
        return {name: value for name, value in asdict(self).items() if value is not None}


@dataclass(frozen=True, eq=False, repr=False)
class Episode:
    """An episode with compressed frames; reading frames decodes only the chunks that hold them."""

    header: EpisodeHeader
    actions: Actions  # int16 (T,), or float32 (T, A)
    rewards: NDArray[np.float32]  # (T,)
    lives: NDArray[np.int16]  # (T + 1,), -1: the game has no lives
    palette: Palette | None  # None: raw RGB, the episode has over 256 colors
    chunks: tuple[bytes | memoryview, ...]
    origin: str = ""  # the file it was read from, for messages

    def __len__(self) -> int:
        """Number of frames."""
        return self.header.frames

    def __repr__(self) -> str:
        h = self.header
        end = "terminated" if h.terminated else "truncated" if h.truncated else "unfinished"
        colors = "RGB" if self.palette is None else f"{len(self.palette)} colors"
        size = sum(map(len, self.chunks)) / 1000
        return (
            f"Episode({h.number}: {h.frames:,} frames {h.height}×{h.width} {colors}, {h.frames - 1:,} actions, "
            f"reward {float(self.rewards.sum()):g}, {end}, seed {h.seed}, {size:,.0f} kB)"
        )

    @property
    def lost_lives(self) -> NDArray[np.bool_]:
        """Whether each action lost a life, (T,)."""
        lost: NDArray[np.bool_] = (self.lives[1:] < self.lives[:-1]) & (self.lives[1:] >= 0)
        return lost

    def frames(self, start: int = 0, stop: int | None = None) -> NDArray[np.uint8]:
        """Return frames as RGB (n, H, W, 3)."""
        stored = self.stored(start, stop)
        return stored if self.palette is None else colorize(stored, self.palette)

    def indices(self, start: int = 0, stop: int | None = None) -> Indices:
        """Return frames (n, H, W) as indices into the episode's own palette."""
        if self.palette is None:
            raise UserError(f"episode {self.header.number} has over 256 colors and no palette: use frames() instead")
        return self.stored(start, stop)

    def stored(
        self, start: int = 0, stop: int | None = None, out: NDArray[np.uint8] | None = None
    ) -> NDArray[np.uint8]:
        """Return frames as stored, in `out` if given: indices (n, H, W), or RGB (n, H, W, 3) without a palette."""
        stop = len(self) if stop is None else stop
        if not 0 <= start <= stop <= len(self):
            raise IndexError(f"frames {start}:{stop} asked of an episode of {len(self)} frames")
        if out is None:
            out = self._room(stop - start)
        for number in range(start // CHUNK_FRAMES, -(-stop // CHUNK_FRAMES)):
            first = number * CHUNK_FRAMES
            length = min(CHUNK_FRAMES, len(self) - first)
            lo, hi = max(start, first), min(stop, first + length)
            if hi - lo == length:
                self._decode(number, out[lo - start : hi - start], length)
            else:
                chunk = self._room(length)
                self._decode(number, chunk, hi - first)
                out[lo - start : hi - start] = chunk[lo - first : hi - first]
        return out

    def blocks(self, stop: int | None = None) -> Iterator[NDArray[np.uint8]]:
        """Yield all frames, or those before `stop`, as contiguous RGB (n, H, W, 3), n ≤ 64, oldest first."""
        stop = len(self) if stop is None else stop
        for start in range(0, stop, BLOCK_FRAMES):
            yield np.ascontiguousarray(self.frames(start, min(start + BLOCK_FRAMES, stop)))

    def content_hash(self, frames: int | None = None) -> str:
        """Compute the SHA-256 of the first `frames` frames (None: all) and their actions.

        It equals the hash of an episode of just these frames, whatever colors come later.
        """
        count = len(self) if frames is None else min(frames, len(self))
        if self.palette is None and count < len(self):
            with suppress(TooManyColorsError):
                return _hash_as_indices(self.stored(0, count), self.actions[: count - 1])
        digest, colors = hashlib.sha256(), 0
        for first in range(0, count, CHUNK_FRAMES):
            chunk = self.stored(first, min(first + CHUNK_FRAMES, count))
            colors = max(colors, int(chunk.max()) + 1)
            digest.update(chunk.data)
        palette = None if self.palette is None else self.palette[:colors]  # indices are given in order of appearance
        return finish_content_hash(digest, palette, self.actions[: count - 1])

    def prefix_hashes(self, lengths: Sequence[int]) -> dict[int, str]:
        """Return `content_hash` of several numbers of first frames, each at most all; frames are decoded once."""
        if self.palette is None:
            return {length: self.content_hash(length) for length in lengths}
        hashes, digest, colors = dict[int, str](), hashlib.sha256(), 0
        for count, frame in enumerate(self.stored(0, max(lengths, default=0)), 1):
            digest.update(frame.data)
            colors = max(colors, int(frame.max()) + 1)
            if count in lengths:
                hashes[count] = finish_content_hash(digest.copy(), self.palette[:colors], self.actions[: count - 1])
        return hashes

    @property
    def _frame_shape(self) -> tuple[int, ...]:
        size = (self.header.height, self.header.width)
        return size if self.palette is not None else (*size, 3)

    def _room(self, count: int) -> NDArray[np.uint8]:
        shape = (count, *self._frame_shape)
        try:
            return np.empty(shape, np.uint8)
        except MemoryError as error:
            raise UserError(f"{self._name}: no memory for frames of {math.prod(shape):,} bytes") from error

    @property
    def _name(self) -> str:
        return f"{self.origin}: episode {self.header.number}" if self.origin else f"episode {self.header.number}"

    def _decode(self, number: int, out: NDArray[np.uint8], needed: int) -> None:
        try:
            decompress(self.chunks[number], out, needed)
        except DamagedChunkError as error:
            raise UserError(f"{self._name}: chunk {number} is damaged ({error})") from error


def _hash_as_indices(frames: NDArray[np.uint8], actions: Actions) -> str:
    encoder, digest = PaletteEncoder(), hashlib.sha256()
    for frame in frames:
        digest.update(encoder.encode(frame).data)
    return finish_content_hash(digest, encoder.palette, actions)


def finish_content_hash(frames: hashlib._Hash, palette: Palette | None, actions: Actions) -> str:
    """Add palette and actions to a hash of stored frames and return it."""
    frames.update(b"" if palette is None else palette.tobytes())
    frames.update(actions.tobytes())
    return frames.hexdigest()


PART_FORMAT = 1
MAX_ACTIONS = 2**15
MAX_SIDE = 4096
"""Larger frames are refused, so that a damaged header cannot ask for unbounded memory."""


class PartError(UserError):
    """A damaged part file; the message gives the reason."""


def serialize(episode: Episode) -> bytes:
    """Return an episode as the bytes of its part file; equal episodes give equal bytes."""
    tensors: dict[str, NDArray[Any]] = {
        "chunks": np.frombuffer(b"".join(episode.chunks), np.uint8),
        "chunk_ends": np.cumsum([len(c) for c in episode.chunks], dtype=np.int64),
        "actions": episode.actions,
        "rewards": episode.rewards,
        "lives": episode.lives,
    }
    if episode.palette is not None:
        tensors["palette"] = episode.palette
    header = {"part_format": PART_FORMAT} | episode.header.to_json()
    return bytes(safetensors.numpy.save(tensors, {"acvp": json.dumps(header)}))


def parse(data: bytes) -> Episode:
    """Read an episode from the bytes of its part file; PartError if they are damaged."""
    try:
        tensors = safetensors.numpy.load(data)  # checks all offsets against the file's length
        layout = json.loads(data[8 : 8 + int.from_bytes(data[:8], "little")])
        fields_read = json.loads(layout["__metadata__"]["acvp"])
        offset = 8 + int.from_bytes(data[:8], "little") + layout["chunks"]["data_offsets"][0]
    except (SafetensorError, ValueError, KeyError, TypeError, RecursionError, MemoryError) as error:
        raise PartError(f"not a part file of acvp ({type(error).__name__}: {error})") from error
    header = _header(fields_read)
    _check_tensors(header, tensors)
    frames = memoryview(data)[offset : offset + tensors["chunks"].nbytes]
    stops = tensors["chunk_ends"].tolist()
    chunks = tuple(frames[a:b] for a, b in zip([0, *stops[:-1]], stops, strict=True))
    return Episode(header, tensors["actions"], tensors["rewards"], tensors["lives"], tensors.get("palette"), chunks)


def _header(values: Any) -> EpisodeHeader:
    if not isinstance(values, dict):
        raise PartError("its header is not an object")
    version = values.pop("part_format", None)
    if version != PART_FORMAT:
        raise PartError(f"part format {version!r}, this acvp reads {PART_FORMAT}: a newer acvp may read it")
    kinds = {"int": int, "str": str, "bool": bool, "str | None": str | None, "float | None": float | None}
    for field in fields(EpisodeHeader):
        value = values.get(field.name)
        if not isinstance(value, kinds[str(field.type)]) or (isinstance(value, bool) and field.type != "bool"):
            raise PartError(f"its header says {field.name} = {values.get(field.name)!r}, which is no {field.type}")
    if unknown := values.keys() - {field.name for field in fields(EpisodeHeader)}:
        raise PartError(f"its header has unknown fields: {sorted(unknown)}")
    header = EpisodeHeader(**values)
    if not (1 <= header.height <= MAX_SIDE and 1 <= header.width <= MAX_SIDE):
        raise PartError(f"frames of {header.height}×{header.width}: sides from 1 to {MAX_SIDE} are possible")
    if header.frames < 1 or header.number < 0 or header.seed < 0:
        raise PartError(f"impossible numbers in its header: {header}")
    return header


def _check_tensors(header: EpisodeHeader, tensors: dict[str, NDArray[Any]]) -> None:
    steps, chunk_count = header.frames - 1, -(-header.frames // CHUNK_FRAMES)
    _expect(tensors, "chunk_ends", "int64", (chunk_count,))
    actions = tensors.get("actions", np.empty(0))
    continuous = actions.dtype == np.float32 and actions.ndim == 2 and 1 <= actions.shape[1] <= MAX_ACTIONS
    _expect(tensors, "actions", *("float32", (steps, actions.shape[1])) if continuous else ("int16", (steps,)))
    _expect(tensors, "rewards", "float32", (steps,))
    _expect(tensors, "lives", "int16", (header.frames,))
    stops = [0, *tensors["chunk_ends"].tolist()]
    _expect(tensors, "chunks", "uint8", (stops[-1],))
    if sorted(set(stops)) != stops:
        raise PartError("its chunks overlap")
    if "palette" in tensors:
        colors = min(tensors["palette"].size // 3, MAX_COLORS)
        _expect(tensors, "palette", "uint8", (colors, 3))


def _expect(tensors: dict[str, NDArray[Any]], name: str, dtype: str, shape: tuple[int, ...]) -> None:
    got = tensors.get(name)
    if got is None or str(got.dtype) != dtype or got.shape != shape:
        actual = "missing" if got is None else f"{got.dtype} {got.shape}"
        raise PartError(f"its array {name} is {actual}, expected {dtype} {shape}")


def wrong_actions(actions: Actions, count: int, limits: ActionRange) -> str | None:
    """Return in words what is wrong with the actions of an episode; None: nothing."""
    if limits:
        if actions.ndim != 2 or actions.shape[1] != count:
            return f"actions of shape {actions.shape}, where each is a vector of {count} numbers"
        return outside(actions, limits)
    if actions.ndim != 1:
        return f"actions of shape {actions.shape}, where each is a number from 0 to {count - 1}"
    if len(actions) and not 0 <= actions.min() <= actions.max() < count:
        return f"actions {actions.min()} to {actions.max()}, where there are 0 to {count - 1}"
    return None


class EpisodeCache:
    """The episodes read last, up to a number of bytes; threads can share it, other processes get an empty one."""

    def __init__(self, most: int = KEPT_BYTES) -> None:
        self._most, self._bytes = most, 0
        self._kept: OrderedDict[tuple[int, int], tuple[Episode, int]] = OrderedDict()
        self._lock = Lock()

    def __reduce__(self) -> tuple[type[EpisodeCache], tuple[int]]:
        return EpisodeCache, (self._most,)

    def find(self, key: tuple[int, int]) -> Episode | None:
        """Return an episode by its dataset and number, if it is kept."""
        with self._lock:
            if key not in self._kept:
                return None
            self._kept.move_to_end(key)
            return self._kept[key][0]

    def keep(self, key: tuple[int, int], episode: Episode, size: int) -> None:
        """Keep an episode, and drop those that were not read for longest where there are too many bytes."""
        with self._lock:
            self._bytes += size - self._kept.pop(key, (None, 0))[1]
            self._kept[key] = episode, size
            while self._bytes > self._most and len(self._kept) > 1:
                self._bytes -= self._kept.popitem(last=False)[1][1]
