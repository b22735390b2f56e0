"""Which colour turns into which where things flash: shapes that stay and change their colour.

Shapes: n cells that change, q pixels of a cell, N colours.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from acvp.data.changes import changed_cells_of
from acvp.data.store import EpisodeStore
from acvp.data.windows import Window, Windows

FRAMES = 20_000
"""Looked at, in whole episodes spread over the store."""
FEWEST = 3
"""Times that a change of colour must be seen."""

Colour = tuple[int, ...]


def recolours_of(store: EpisodeStore) -> dict[Colour, Colour]:
    """Return the colour that each turns into most often; those that never do are left out.

    Counted are cells of 5×5 pixels in which all pixels of one colour, and no others, turn into another that was not
    there: a part of a shape whose colour changes. A store without a palette has too many colours for that.
    """
    if store.palette is None:
        return {}
    windows = Windows(store, Window(1, 0))
    seen = np.zeros((256, 256), np.int64)
    for position in _spread(store):
        for _, before, after in changed_cells_of(windows, position):
            np.add.at(seen, _recoloured(before, after), 1)
    colours = [tuple(colour) for colour in store.palette.tolist()]
    return {colours[old]: colours[new] for old, new in enumerate(seen.argmax(1)) if seen[old, new] >= FEWEST}


def _spread(store: EpisodeStore) -> list[int]:
    """Return episodes of about as many frames as are to be looked at, evenly spread."""
    count = max(1, min(len(store), round(FRAMES * len(store) / max(1, store.frames))))
    return [(2 * i + 1) * len(store) // (2 * count) for i in range(count)]


def _recoloured(before: NDArray[np.uint8], after: NDArray[np.uint8]) -> tuple[NDArray[np.uint8], NDArray[np.uint8]]:
    """Return old and new colour of the cells (n, q) in which just one colour turns into another."""
    changed = before != after
    first = changed.argmax(1)[:, None]
    old, new = np.take_along_axis(before, first, 1), np.take_along_axis(after, first, 1)
    one = ((before == old) == changed).all(1) & ((after == new) == changed).all(1) & ~changed.all(1)
    return old[one, 0], new[one, 0]
