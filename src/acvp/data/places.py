"""Where in the frame each colour has been: what a place has never shown, it hardly ever will.

Shapes: T frames, H height, W width, N colours, K colours of a store.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import cv2
import numpy as np
from numpy.typing import NDArray

from acvp.data.changes import frame_blocks
from acvp.data.store import EpisodeStore
from acvp.data.windows import Window, Windows

REACHES = (0, 1, 2, 4, 8)
"""Pixels up to which a colour may be away from where it was recorded; the first that is enough is taken."""
MOST_ODD = 0.5
"""Pixels of a held-out frame, in the mean, that may have a colour which is not known at their place."""

Colour = tuple[int, ...]
Places = NDArray[np.bool_]
"""Whether a colour can be at a place, (N, H, W)."""


def places_of(
    train: EpisodeStore,
    held_out: EpisodeStore,
    colours: Sequence[Colour],
    progress: Callable[[int, int], None] = lambda done, total: None,
) -> Places:
    """Return where each colour can be: where the training part shows it, or close to that.

    How close is decided by the held-out part, which must not have many pixels elsewhere. Where even the widest reach
    leaves too many, as in a store that is small, every colour can be anywhere. Both parts have a palette.
    """
    seen = _seen(train, colours, progress)
    for reach in REACHES:
        wider = _grown(seen, reach)
        if odd_pixels(held_out, colours, wider) <= MOST_ODD:
            return wider
    return np.ones_like(seen)


def odd_pixels(store: EpisodeStore, colours: Sequence[Colour], places: Places) -> float:
    """Return the pixels of a frame of a store, in the mean, whose colour cannot be at their place."""
    windows, known = Windows(store, Window(1, 0)), places[_numbers(store, colours)].reshape(-1)  # (K·H·W,)
    here = np.arange(places[0].size)
    odd = 0
    for position in range(len(store)):
        for _, frames in frame_blocks(windows, position, overlap=0):
            odd += int(np.count_nonzero(~known[frames.reshape(len(frames), -1) * np.int64(places[0].size) + here]))
    return odd / max(1, store.frames)


def _seen(store: EpisodeStore, colours: Sequence[Colour], progress: Callable[[int, int], None]) -> Places:
    seen = np.zeros((len(colours), *store.info.frame_shape[:2]), np.bool_)
    windows, numbers = Windows(store, Window(1, 0)), _numbers(store, colours)
    rows, columns = np.indices(seen.shape[1:])
    for position in range(len(store)):
        for first, frames in frame_blocks(windows, position, overlap=1):
            if first == 0:
                seen[numbers[frames[0]], rows, columns] = True
            step, row, column = (frames[1:] != frames[:-1]).nonzero()
            seen[numbers[frames[step + 1, row, column]], row, column] = True
        progress(position + 1, len(store))
    return seen


def _numbers(store: EpisodeStore, colours: Sequence[Colour]) -> NDArray[np.int64]:
    """Return the number among ``colours`` of each of a store's own, (K,)."""
    assert store.palette is not None
    number = {colour: i for i, colour in enumerate(colours)}
    return np.array([number[tuple(colour)] for colour in store.palette.tolist()])


def _grown(places: Places, reach: int) -> Places:
    """Return places with all others up to ``reach`` pixels away along either side."""
    square = np.ones((2 * reach + 1,) * 2, np.uint8)
    return np.stack([cv2.dilate(each.astype(np.uint8), square) for each in places]).astype(np.bool_)
