"""True frames and actions of a batch of windows, decoded a few steps at a time.

Shapes: B windows, n frames asked for, h height, w width and C channels of the view.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import numpy as np
from numpy.typing import NDArray

from acvp.data.store import EpisodeStore
from acvp.data.views import View
from acvp.evaluation.places import Place

BLOCK = 16
"""Steps decoded at once: memory does not grow with the horizon."""

Pixels = NDArray[np.uint8]


class TrueWindows:
    """The truth of windows side by side: frames[t], actions[t] → frames[t + 1], t from the window's first frame."""

    def __init__(self, store: EpisodeStore, places: Sequence[Place], view: View) -> None:
        self.store, self.places, self.view = store, places, view

    def frames(self, first: int, stop: int) -> Pixels:
        """(B, n, h, w, C): frames `first` to `stop` - 1 of each window."""
        return np.stack([self._of(place, first, stop) for place in self.places])

    def steps(self, first: int, count: int) -> Iterator[Pixels]:
        """Yield `count` times the frames (B, h, w, C) of one moment, beginning with `first`."""
        for start in range(first, first + count, BLOCK):
            block = self.frames(start, min(start + BLOCK, first + count))
            yield from block.swapaxes(0, 1)

    def actions(self, first: int, stop: int) -> NDArray[np.int64]:
        """(B, n): actions `first` to `stop` - 1 of each window."""
        rows = [self.store[e].actions[start + first : start + stop] for e, start in self.places]
        return np.stack(rows).astype(np.int64)

    def _of(self, place: Place, first: int, stop: int) -> Pixels:
        episode = self.store[place.episode]
        stored = episode.stored(place.start + first, place.start + stop)
        return self.view.apply(stored, episode.palette)
