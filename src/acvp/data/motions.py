"""How things move in a store from one frame to the next, by whole pixels.

What is animated shows its poses by turns: it is seldom like what it was a frame ago, and often like two frames ago.

Shapes: B triples of frames, H height, W width, C channels, n cells that changed, q pixels of a cell.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from acvp.data.store import EpisodeStore
from acvp.data.views import View
from acvp.data.windows import Window, Windows
from acvp.seeding import generator

Motion = tuple[int, int]
"""Pixels (down, right)."""
TRIPLES = 300
"""Three frames in a row looked at, drawn at random; of frames larger than Atari's fewer."""
PIXELS = TRIPLES * 210 * 160
CELLS = 20_000
"""Cells looked at, drawn at random where more have changed."""
REACH = 12
"""Pixels of the longest motion looked for, along either side."""
MOST, MOST_OLDER = 32, 16
"""Motions from the newest frame, and from the one before it."""
RAREST = 0.0005
"""Share of the cells that a motion must explain and none before it."""


class Motions(NamedTuple):
    """Motions by what each explains beyond those before it."""

    newest: tuple[Motion, ...]
    """From the newest frame to the next; the first is no motion at all."""
    older: tuple[Motion, ...]
    """From the frame before the newest to the next, for what the others leave unexplained."""


def motions_of(store: EpisodeStore, cell: int, *, seed: int, view: View | None = None) -> Motions:
    """Return the motions that explain most of what changes.

    A motion explains a cell, cell × cell pixels, if the earlier frame, moved, shows the same pixels there. Counted are
    cells that changed and are not of one colour.
    """
    windows = Windows(store, Window(2, 1), view)
    height, width = (view.shape(store.info.frame_shape) if view else store.info.frame_shape)[:2]
    count = max(1, min(TRIPLES, PIXELS // (height * width)))
    frames = windows.batch(windows.draw(count, seed=seed, step=0)).frames  # (B, 3, H, W) indices, or with C
    if frames.ndim == 4:
        frames = frames[..., None]
    older, newest, after = frames[:, 0], frames[:, 1], frames[:, 2]
    changed = _changed(newest, after, cell, generator("motions", seed))
    explained = _explained(newest, changed)
    found = _cover(explained, MOST)
    left = ~np.any([explained[motion] for motion in found], axis=0) if found else None
    return Motions(((0, 0), *found), tuple(_cover(_explained(older, changed), MOST_OLDER, left)))


@dataclass(frozen=True)
class _Changed:
    """Cells that changed: number of the triple, upper left corner, and pixels after it."""

    triple: NDArray[np.int64]
    """(n,)"""
    y: NDArray[np.int64]
    """(n,)"""
    x: NDArray[np.int64]
    """(n,)"""
    pixels: NDArray[np.uint8]
    """(n, q, C)"""
    cell: int


def _changed(before: NDArray[np.uint8], after: NDArray[np.uint8], cell: int, rng: np.random.Generator) -> _Changed:
    """Return the cells that count, some of them where there are very many."""
    old, new = _cells(before, cell), _cells(after, cell)
    chosen = np.argwhere((new != old).any((2, 3)) & (new != new[:, :, :1]).any((2, 3)))
    if len(chosen) > CELLS:
        chosen = chosen[rng.choice(len(chosen), CELLS, replace=False)]
    triple, place = chosen.T
    down, right = np.divmod(place, before.shape[2] // cell)
    return _Changed(triple, down * cell, right * cell, new[triple, place], cell)


def _explained(before: NDArray[np.uint8], changed: _Changed) -> dict[Motion, NDArray[np.bool_]]:
    """Return for every motion within reach from a frame before which of the changed cells it explains, (n,) each."""
    padded = np.pad(before.astype(np.int16), ((0, 0), (REACH, REACH), (REACH, REACH), (0, 0)), constant_values=-1)
    inside = np.arange(changed.cell) + REACH
    triple = changed.triple[:, None, None]
    y = changed.y[:, None, None] + inside[:, None]  # (n, cell, 1)
    x = changed.x[:, None, None] + inside  # (n, 1, cell)
    ways = [(a, b) for a in range(-REACH, REACH + 1) for b in range(-REACH, REACH + 1)]
    wanted = changed.pixels
    return {(a, b): (padded[triple, y - a, x - b].reshape(wanted.shape) == wanted).all((1, 2)) for a, b in ways}


def _cells(frames: NDArray[np.uint8], cell: int) -> NDArray[np.uint8]:
    """Return frames (B, H, W, C) by whole cells, (B, cells, q, C)."""
    batch, height, width, channels = frames.shape
    rows, columns = height // cell, width // cell
    cut = frames[:, : rows * cell, : columns * cell].reshape(batch, rows, cell, columns, cell, channels)
    return cut.swapaxes(2, 3).reshape(batch, rows * columns, cell * cell, channels)


def _cover(
    explained: dict[Motion, NDArray[np.bool_]], most: int, left: NDArray[np.bool_] | None = None
) -> list[Motion]:
    """Return motions, each explaining the most of the cells ``left`` (all: None) that those before it did not."""
    found: list[Motion] = []
    left = np.ones_like(next(iter(explained.values()))) if left is None else left
    fewest = max(1.0, RAREST * len(left))
    while len(found) < most:
        gains = {motion: int((cells & left).sum()) for motion, cells in explained.items()}
        best = max(gains, key=lambda motion: (gains[motion], -abs(motion[0]) - abs(motion[1])))
        if gains[best] < fewest:
            break
        found.append(best)
        left = left & ~explained[best]
    return found
