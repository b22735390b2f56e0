"""A clip of what was played: real | dream | difference, as MP4 or GIF.

Shapes: h height, w width and C channels of the view.
"""

from __future__ import annotations

import zlib
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass

import numpy as np

from acvp.errors import UserError
from acvp.figures import (
    FAINT,
    GIF_HEIGHT,
    PREDICTED,
    VIDEO_HEIGHT,
    Picture,
    difference,
    even_scale,
    in_color,
    side_by_side,
)
from acvp.play.imagined import Seen
from acvp.video import FPS, encode_gif, encode_mp4

LONGEST = 30 * FPS
"""Decisions that a clip holds at most: half a minute."""

FORMATS: dict[str, tuple[Callable[[Iterable[Picture]], bytes], int]] = {
    "mp4": (encode_mp4, VIDEO_HEIGHT),
    "gif": (encode_gif, GIF_HEIGHT),
}
"""What encodes a format, and about how high a frame is in it."""


@dataclass(frozen=True)
class _Shot:
    real: bytes | None
    dream: bytes
    caption: str


class Clip:
    """Frames kept compressed until they are made into a video."""

    def __init__(self, shape: tuple[int, ...]) -> None:
        self._shape = shape  # (h, w, C)
        self._shots: list[_Shot] = []

    def __len__(self) -> int:
        return len(self._shots)

    @property
    def full(self) -> bool:
        """Whether it holds as much as it can."""
        return len(self) >= LONGEST

    def add(self, real: Seen | None, dream: Seen, caption: str) -> None:
        """Keep one moment; what comes after the clip is full is left out."""
        if not self.full:
            packed = None if real is None else zlib.compress(real.tobytes(), 1)
            self._shots.append(_Shot(packed, zlib.compress(dream.tobytes(), 1), caption))

    def encode(self, kind: str) -> bytes:
        """Return the clip as a file of a kind, mp4 or gif."""
        if kind not in FORMATS:
            raise UserError(f"a clip cannot be {kind[:20]!r}: mp4 or gif")
        if not self._shots:
            raise UserError("the clip is empty: play on a little before you end it")
        encode, height = FORMATS[kind]
        return encode(self._pictures(even_scale(self._shape[0], height)))

    def _pictures(self, scale: int) -> Iterator[Picture]:
        alone = any(shot.real is None for shot in self._shots)
        for shot in self._shots:
            dream = self._unpack(shot.dream)
            if alone or shot.real is None:
                yield side_by_side([("dream", dream, PREDICTED)], shot.caption, scale)
                continue
            real = self._unpack(shot.real)
            panels = [("real", real, FAINT), ("dream", dream, PREDICTED)]
            panels.append(("difference x 2", difference(dream, real), PREDICTED))
            yield side_by_side(panels, shot.caption, scale)

    def _unpack(self, packed: bytes) -> Picture:
        return in_color(np.frombuffer(zlib.decompress(packed), np.uint8).reshape(self._shape))
