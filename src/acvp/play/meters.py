"""How good a dream is at this moment, beside the true frame.

Shapes: h height, w width and C channels of the view.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from acvp.evaluation.definitions import WRONG_BY
from acvp.evaluation.objects import ObjectFinder
from acvp.evaluation.subjects import Subject
from acvp.play.dream import Seen


@dataclass(frozen=True, kw_only=True)
class Reading:
    """What the meters show."""

    wrong: int
    """Pixels off by more than WRONG_BY of 255 in any channel."""
    pixels: int
    """Pixels of a frame."""
    error: float
    """Mean squared error per pixel and channel, pixel values."""
    found: bool | None
    """Whether the controlled object is near its true place in the dream; None where that is not known."""


class Meters:
    """Compares dreams of one predictor with the truth."""

    def __init__(self, subject: Subject, recorded: tuple[int, int]) -> None:
        """``recorded`` is the (height, width) of the game's own frames."""
        self._finder = ObjectFinder(recorded, subject.predictor.normaliser.mean.numpy(force=True))

    def read(self, dream: Seen, truth: Seen, position: tuple[float, float] | None) -> Reading:
        """Return how a dreamed frame (h, w, C) compares with the true one, whose object is at a recorded position."""
        apart = np.abs(dream.astype(np.int16) - truth)
        return Reading(
            wrong=int((apart > WRONG_BY).any(-1).sum()),
            pixels=apart.shape[0] * apart.shape[1],
            error=float(np.square(apart.astype(np.int32)).mean()),
            found=self._found(dream, truth, position),
        )

    def _found(self, dream: Seen, truth: Seen, position: tuple[float, float] | None) -> bool | None:
        target = None if position is None else self._finder.target(truth.astype(np.float32), position)
        if target is None:
            return None
        return bool(self._finder.distance(dream.astype(np.float32), target) <= self._finder.near)
