"""One recorded play: frames[t], actions[t] → frames[t + 1], oldest first, T + 1 frames for T actions.

Shapes: T actions, n frames asked for, H height, W width, K colours.
"""

from __future__ import annotations

import hashlib
import math
from contextlib import suppress
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from acvp.data.chunks import CHUNK_FRAMES, DamagedChunkError, decompress
from acvp.data.palette import Indices, Palette, PaletteEncoder, TooManyColorsError, colorize
from acvp.errors import UserError

OPENING_FRAMES = 32
"""Episodes whose first 32 frames and 31 actions agree count as one play when data is split."""


@dataclass(frozen=True, kw_only=True)
class EpisodeHeader:
    """What is known of an episode besides its arrays."""

    number: int
    """Its place in the store."""
    seed: int
    """What the game was reset with."""
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
    """The same of the first 32 frames (of all, where there are fewer)."""


@dataclass(frozen=True, eq=False, repr=False)
class Episode:
    """A play with its frames still compressed; asking for frames decodes just the chunks that hold them."""

    header: EpisodeHeader
    actions: NDArray[np.int16]  # (T,)
    rewards: NDArray[np.float32]  # (T,)
    lives: NDArray[np.int16]  # (T + 1,), -1 where the game has no such thing
    palette: Palette | None  # None: raw RGB, the play has over 256 colours
    chunks: tuple[bytes | memoryview, ...]
    origin: str = ""  # the file it was read from, for messages

    def __len__(self) -> int:
        """Number of frames."""
        return self.header.frames

    def __repr__(self) -> str:
        h = self.header
        end = "terminated" if h.terminated else "truncated" if h.truncated else "cut off"
        colors = "RGB" if self.palette is None else f"{len(self.palette)} colours"
        size = sum(map(len, self.chunks)) / 1000
        return (
            f"Episode({h.number}: {h.frames:,} frames {h.height}×{h.width} {colors}, {h.frames - 1:,} actions, "
            f"reward {float(self.rewards.sum()):g}, {end}, seed {h.seed}, {size:,.0f} kB)"
        )

    def frames(self, start: int = 0, stop: int | None = None) -> NDArray[np.uint8]:
        """(n, H, W, 3) RGB."""
        stored = self.stored(start, stop)
        return stored if self.palette is None else colorize(stored, self.palette)

    def indices(self, start: int = 0, stop: int | None = None) -> Indices:
        """(n, H, W) indices into the episode's own palette."""
        if self.palette is None:
            raise UserError(f"episode {self.header.number} has over 256 colours and so no palette: ask for RGB frames")
        return self.stored(start, stop)

    def stored(
        self, start: int = 0, stop: int | None = None, out: NDArray[np.uint8] | None = None
    ) -> NDArray[np.uint8]:
        """Frames as they are kept, into `out` if given: (n, H, W) indices, or (n, H, W, 3) RGB without a palette."""
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

    def content_hash(self, frames: int | None = None) -> str:
        """SHA-256 of the first `frames` frames (all where None) with their actions, from the frames themselves.

        Of a beginning it is the one that an episode of just these frames has, whatever colours come later.
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


def _hash_as_indices(frames: NDArray[np.uint8], actions: NDArray[np.int16]) -> str:
    encoder, digest = PaletteEncoder(), hashlib.sha256()
    for frame in frames:
        digest.update(encoder.encode(frame).data)
    return finish_content_hash(digest, encoder.palette, actions)


def finish_content_hash(frames: hashlib._Hash, palette: Palette | None, actions: NDArray[np.int16]) -> str:
    """Close the hash over the stored frames with what gives them their meaning."""
    frames.update(b"" if palette is None else palette.tobytes())
    frames.update(actions.tobytes())
    return frames.hexdigest()
