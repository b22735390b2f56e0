"""Where in the frame each colour has been: what a place has never shown, it hardly ever will.

Shapes: T frames, H height, W width, N colours, K colours of a store.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

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


@dataclass(frozen=True)
class Found:
    """Where each colour can be, and how that was found."""

    places: Places
    reach: int | None
    """Pixels that a colour may be away from where it was recorded; None: it may be anywhere."""
    odd: float
    """Pixels of a held-out frame, in the mean, that have a colour elsewhere."""


def places_of(
    train: EpisodeStore,
    held_out: EpisodeStore,
    colours: Sequence[Colour],
    progress: Callable[[int, int], None] = lambda done, total: None,
) -> Found:
    """Return where each colour can be: where the training part shows it, or close to that.

    How close is decided by the held-out part, which must not have many pixels elsewhere. Where even the widest reach
    leaves too many, as in a store that is small, or where ``colours`` are not all that the training part has, every
    colour can be anywhere. Other colours of the held-out part are elsewhere, wherever they are.
    """
    if not _known(train, colours) or held_out.palette is None:
        return Found(np.ones((len(colours), *train.info.frame_shape[:2]), np.bool_), None, 0.0)
    seen = _seen(train, colours, progress)
    for reach in REACHES:
        wider = _grown(seen, reach)
        odd = odd_pixels(held_out, colours, wider, progress)
        if odd <= MOST_ODD:
            return Found(wider, reach, odd)
    return Found(np.ones_like(seen), None, 0.0)


def odd_pixels(
    store: EpisodeStore,
    colours: Sequence[Colour],
    places: Places,
    progress: Callable[[int, int], None] = lambda done, total: None,
) -> float:
    """Return the pixels of a frame of a store, in the mean, whose colour cannot be at their place."""
    windows, numbers = Windows(store, Window(1, 0)), _numbers(store, colours)
    places = np.concatenate((places, np.zeros_like(places[:1])))  # one colour more, for those that are not known
    rows, columns = np.indices(places.shape[1:])
    odd = 0
    for position in range(len(store)):
        for _, frames in frame_blocks(windows, position, overlap=0):
            odd += sum(int(np.count_nonzero(~places[numbers[frame], rows, columns])) for frame in frames)
        progress(position + 1, len(store))
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


def _known(store: EpisodeStore, colours: Sequence[Colour]) -> bool:
    """Return whether all colours of a store are among ``colours``."""
    return store.palette is not None and {tuple(colour) for colour in store.palette.tolist()} <= set(colours)


def _numbers(store: EpisodeStore, colours: Sequence[Colour]) -> NDArray[np.int64]:
    """Return the number among ``colours`` of each of a store's own, (K,); N where it is not among them."""
    assert store.palette is not None
    number = {colour: i for i, colour in enumerate(colours)}
    return np.array([number.get(tuple(colour), len(colours)) for colour in store.palette.tolist()])


def _grown(places: Places, reach: int) -> Places:
    """Return places with all others up to ``reach`` pixels away along either side."""
    square = np.ones((2 * reach + 1,) * 2, np.uint8)
    return np.stack([cv2.dilate(each.astype(np.uint8), square) for each in places]).astype(np.bool_)
