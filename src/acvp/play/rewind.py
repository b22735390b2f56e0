"""Moments to rewind to: the newest one by one, older ones thinned out, all within a number of bytes.

How good a dream is at this moment, beside the true frame.

Shapes: h height, w width and C channels of the view.

Both worlds at one time.

Shapes: A actions, H height and W width as recorded, h height, w width and C channels of the view.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Generic, TypeVar

import numpy as np
from numpy.typing import NDArray

from acvp.data.objects import ObjectFinder
from acvp.loaded import LoadedModel
from acvp.models.pixels import WrongPixels
from acvp.play.imagined import Dream, Seen
from acvp.play.worlds import Frame


@dataclass(frozen=True, kw_only=True)
class Reading:
    """What the meters show."""

    wrong: int
    """Wrong pixels, as without a palette: off by more than 8 of 255 in any channel."""
    pixels: int
    """Pixels of a frame."""
    error: float
    """Mean squared error per pixel and channel, pixel values."""
    found: bool | None
    """Whether the controlled object is near its true place in the dream; None where that is not known."""


class Meters:
    """Compares dreams of one predictor with the truth."""

    def __init__(self, subject: LoadedModel, recorded: tuple[int, int]) -> None:
        """``recorded`` is the (height, width) of the game's own frames."""
        self._wrong = WrongPixels(None)
        self._finder = ObjectFinder(recorded, subject.predictor.normalizer.mean.numpy(force=True))

    def read(self, dream: Seen, truth: Seen, position: tuple[float, float] | None) -> Reading:
        """Return how a dreamed frame (h, w, C) compares with the true one, whose object is at a recorded position."""
        apart = np.abs(dream.astype(np.int16) - truth)
        return Reading(
            wrong=self._wrong.count_in_frame(dream, truth),
            pixels=apart.shape[0] * apart.shape[1],
            error=float(np.square(apart.astype(np.int32)).mean()),
            found=self._found(dream, truth, position),
        )

    def _found(self, dream: Seen, truth: Seen, position: tuple[float, float] | None) -> bool | None:
        target = None if position is None else self._finder.target(truth.astype(np.float32), position)
        if target is None:
            return None
        return bool(self._finder.distance(dream.astype(np.float32), target) <= self._finder.near)


@dataclass(frozen=True, kw_only=True)
class Moment:
    """What there is to see, and what goes on from here."""

    frames: tuple[Frame, ...]
    """The last real frames (H, W, 3), newest last: what the dream can be grounded on."""
    actions: tuple[int, ...]
    """Those between them."""
    real: Seen | None
    """The real frame as the predictor sees it; None where the dream is alone."""
    dream: Dream
    reading: Reading | None = None
    """How the two compare; None where the dream is alone."""
    number: int = 0
    """Decisions since the start."""
    action: int | None = None
    """The one that led here."""
    score: float = 0.0
    """Sum of the real rewards since the start."""
    earned: int = 0
    """Sum of the signs of the real rewards since grounding."""
    dreamed: int = 0
    """The same of the predicted ones."""
    over: bool = False
    """Whether the real game, or the recording, has ended."""


@dataclass(frozen=True, kw_only=True)
class Grid:
    """What every action leads to."""

    steps: int
    """Decisions for which it is held."""
    dreams: NDArray[np.uint8]
    """(A, h, w, C)"""
    truths: NDArray[np.uint8] | None
    """(A, h, w, C); None where the game cannot say."""


RECENT = 15
"""Moments that are all kept: a second of play."""
EVERY = 5
"""Of the older ones, one in so many is kept."""

M = TypeVar("M")


@dataclass(frozen=True)
class _Kept(Generic[M]):
    number: int
    moment: M
    size: int


class Timeline(Generic[M]):
    """A stack of moments that forgets its oldest."""

    def __init__(self, budget: int) -> None:
        self._budget = budget
        self._kept: list[_Kept[M]] = []
        self._count = 0
        self.size = 0

    def __len__(self) -> int:
        return len(self._kept)

    def push(self, moment: M, size: int) -> None:
        """Keep a moment of so many bytes; the newest one stays whatever its size."""
        self._kept.append(_Kept(self._count, moment, size))
        self._count += 1
        self.size += size
        if len(self._kept) > RECENT and self._kept[-RECENT - 1].number % EVERY:
            self._drop(-RECENT - 1)
        while self.size > self._budget and len(self._kept) > 1:
            self._drop(0)

    def pop(self) -> M | None:
        """Return the newest moment and forget it; None where there is none."""
        return self._drop(-1).moment if self._kept else None

    def clear(self) -> None:
        """Forget everything."""
        self._kept.clear()
        self.size = 0

    def _drop(self, index: int) -> _Kept[M]:
        dropped = self._kept.pop(index)
        self.size -= dropped.size
        return dropped
