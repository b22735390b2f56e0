"""Both worlds at one time.

Shapes: A actions, H height and W width as recorded, h height, w width and C channels of the view.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from acvp.play.dream import Dream, Seen
from acvp.play.meters import Reading
from acvp.play.worlds import Frame


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
