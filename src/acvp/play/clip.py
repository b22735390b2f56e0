"""A clip of a session: real | dream | difference, as MP4 or GIF.

Shapes: h height, w width and C channels of the view.
"""

from __future__ import annotations

import zlib
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass

import numpy as np
from PIL import Image

from acvp.errors import UserError
from acvp.evaluation.figures import FAINT, INK, LINE, PREDICTED, Picture, canvas, enlarge, even_scale, font
from acvp.evaluation.media import BORDER, GAP, GIF_HEIGHT, HEIGHT, in_color
from acvp.play.imagined import ViewedFrame
from acvp.video import FPS, encode_gif, encode_mp4

MAX_STEPS = 30 * FPS
"""Agent steps that a clip holds at most: half a minute of Atari."""

FORMATS: dict[str, tuple[Callable[[Iterable[Picture]], bytes], int]] = {
    "mp4": (encode_mp4, HEIGHT),
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
                yield _compose([("dream", imagined)], step.caption, scale)
                continue
            real = self._unpack(step.real)
            difference = np.minimum(2 * np.abs(imagined.astype(np.int16) - real), 255).astype(np.uint8)
            panels = [("real", real), ("dream", imagined), ("difference x 2", difference)]
            yield _compose(panels, step.caption, scale)

    def _unpack(self, packed: bytes) -> Picture:
        return in_color(np.frombuffer(zlib.decompress(packed), np.uint8).reshape(self._shape))


def _compose(panels: list[tuple[str, Picture]], caption: str, scale: int) -> Picture:
    """Draw panels (h, w, 3) side by side, their names above them and a caption on top."""
    height, width = (side * scale for side in panels[0][1].shape[:2])
    across = width + 2 * BORDER + GAP
    image, draw = canvas(len(panels) * across + GAP, 3 * LINE + height + 2 * BORDER)
    draw.text((GAP, 2), caption, INK, font())
    for column, (name, picture) in enumerate(panels):
        left, top = GAP + column * across, 2 * LINE
        draw.text((left, LINE + 2), name, INK, font())
        border = FAINT if name == "real" else PREDICTED
        draw.rectangle((left, top, left + width + 2 * BORDER - 1, top + height + 2 * BORDER - 1), border)
        image.paste(Image.fromarray(enlarge(picture, scale)), (left + BORDER, top + BORDER))
    return np.asarray(image)
