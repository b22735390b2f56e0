"""A clip of a session: real | dream | difference, as MP4 or GIF.

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
    FPS,
    GIF_HEIGHT,
    PREDICTED,
    VIDEO_HEIGHT,
    Picture,
    difference,
    encode_gif,
    encode_mp4,
    even_scale,
    in_color,
    side_by_side,
)
from acvp.play.worlds import ViewedFrame

MAX_STEPS = 30 * FPS
"""Agent steps that a clip holds at most: half a minute of Atari."""

FORMATS: dict[str, tuple[Callable[[Iterable[Picture]], bytes], int]] = {
    "mp4": (encode_mp4, VIDEO_HEIGHT),
    "gif": (encode_gif, GIF_HEIGHT),
}
"""The encoder of each format, and the approximate height of its frames in pixels."""


@dataclass(frozen=True)
class _CompressedFrames:
    real: bytes | None
    imagined: bytes
    caption: str


class Clip:
    """Frames of both worlds, kept compressed until they are encoded as a video."""

    def __init__(self, shape: tuple[int, ...]) -> None:
        self._shape = shape  # (h, w, C)
        self._steps: list[_CompressedFrames] = []

    def __len__(self) -> int:
        return len(self._steps)

    @property
    def full(self) -> bool:
        """Whether it has reached its maximum length."""
        return len(self) >= MAX_STEPS

    def add(self, real: ViewedFrame | None, imagined: ViewedFrame, caption: str) -> None:
        """Add the frames of one step; a full clip ignores them."""
        if not self.full:
            packed = None if real is None else zlib.compress(real.tobytes(), 1)
            self._steps.append(_CompressedFrames(packed, zlib.compress(imagined.tobytes(), 1), caption))

    def encode(self, kind: str) -> bytes:
        """Return the clip as an mp4 or gif file."""
        if kind not in FORMATS:
            raise UserError(f"a clip cannot be {kind[:20]!r}: mp4 or gif")
        if not self._steps:
            raise UserError("the clip is empty: play a few steps before you end it")
        encode, height = FORMATS[kind]
        return encode(self._pictures(even_scale(self._shape[0], height)))

    def _pictures(self, scale: int) -> Iterator[Picture]:
        imagined_only = any(step.real is None for step in self._steps)
        for step in self._steps:
            imagined = self._unpack(step.imagined)
            if imagined_only or step.real is None:
                yield side_by_side([("dream", imagined, PREDICTED)], step.caption, scale)
                continue
            real = self._unpack(step.real)
            panels = [("real", real, FAINT), ("dream", imagined, PREDICTED)]
            panels.append(("difference x 2", difference(imagined, real), PREDICTED))
            yield side_by_side(panels, step.caption, scale)

    def _unpack(self, packed: bytes) -> Picture:
        return in_color(np.frombuffer(zlib.decompress(packed), np.uint8).reshape(self._shape))
