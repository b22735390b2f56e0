"""What the writers of all formats share: frames in small pieces."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
from numpy.typing import NDArray

from acvp.data.chunks import CHUNK_FRAMES
from acvp.data.episode import Episode

PIECE_FRAMES = 4 * CHUNK_FRAMES
"""Raw frames held in memory at once."""


def pieces(episode: Episode, size: int = PIECE_FRAMES) -> Iterator[NDArray[np.uint8]]:
    """(n, H, W, 3) frames of an episode, n ≤ size, oldest first."""
    for start in range(0, len(episode), size):
        yield np.ascontiguousarray(episode.frames(start, min(start + size, len(episode))))
