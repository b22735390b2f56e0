"""How things move in a store from one frame to the next, by whole pixels.

Shapes: B pairs of frames, H height, W width, C channels, n cells that changed, q pixels of a cell.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from acvp.data.store import EpisodeStore
from acvp.data.views import View
from acvp.data.windows import Window, Windows
from acvp.seeding import generator

Motion = tuple[int, int]
"""Pixels (down, right)."""
PAIRS = 300
"""Pairs of frames looked at, drawn at random; of frames larger than Atari's fewer."""
PIXELS = PAIRS * 210 * 160
CELLS = 20_000
"""Cells looked at, drawn at random where more have changed."""
REACH = 12
"""Pixels of the longest motion looked for, along either side."""
MOST = 32
RAREST = 0.0005
"""Share of the cells that a motion must explain and none before it."""


def motions_of(store: EpisodeStore, cell: int, *, seed: int, view: View | None = None) -> tuple[Motion, ...]:
    """Return the motions that explain most of what moves, no motion first, then by what each explains beyond others.

    A motion explains a cell, cell × cell pixels, if the frame before, moved, shows the same pixels there. Counted are
    cells that changed and are not of one colour.
    """
    windows = Windows(store, Window(1, 1), view)
    height, width = (view.shape(store.info.frame_shape) if view else store.info.frame_shape)[:2]
    count = max(1, min(PAIRS, PIXELS // (height * width)))
    pairs = windows.batch(windows.draw(count, seed=seed, step=0)).frames  # (B, 2, H, W) indices, or with C
    before, after = pairs[:, 0], pairs[:, 1]
    if before.ndim == 3:
        before, after = before[..., None], after[..., None]
    return ((0, 0), *_cover(_explained(before, after, cell, generator("motions", seed))))


def _explained(
    before: NDArray[np.uint8], after: NDArray[np.uint8], cell: int, rng: np.random.Generator
) -> dict[Motion, NDArray[np.bool_]]:
    """Return for every motion within reach which of the counted cells it explains, (n,) each."""
    wanted, old = _cells(after, cell), _cells(before, cell)
    counted = (wanted != old).any((2, 3)) & (wanted != wanted[:, :, :1]).any((2, 3))
    chosen = np.argwhere(counted)
    if len(chosen) > CELLS:
        chosen = chosen[rng.choice(len(chosen), CELLS, replace=False)]
    rows, place = chosen.T
    wanted = wanted[rows, place]
    down, right = np.divmod(place, before.shape[2] // cell)
    inside = np.arange(cell)
    padded = np.pad(before.astype(np.int16), ((0, 0), (REACH, REACH), (REACH, REACH), (0, 0)), constant_values=-1)
    y = (down * cell)[:, None, None] + inside[:, None] + REACH  # (n, cell, 1)
    x = (right * cell)[:, None, None] + inside + REACH  # (n, 1, cell)
    ways = [(a, b) for a in range(-REACH, REACH + 1) for b in range(-REACH, REACH + 1) if (a, b) != (0, 0)]
    return {
        (a, b): (padded[rows[:, None, None], y - a, x - b].reshape(wanted.shape) == wanted).all((1, 2)) for a, b in ways
    }


def _cells(frames: NDArray[np.uint8], cell: int) -> NDArray[np.uint8]:
    """Return frames (B, H, W, C) by whole cells, (B, cells, q, C)."""
    batch, height, width, channels = frames.shape
    rows, columns = height // cell, width // cell
    cut = frames[:, : rows * cell, : columns * cell].reshape(batch, rows, cell, columns, cell, channels)
    return cut.swapaxes(2, 3).reshape(batch, rows * columns, cell * cell, channels)


def _cover(explained: dict[Motion, NDArray[np.bool_]]) -> list[Motion]:
    """Return motions, each explaining the most of what those before it left."""
    found: list[Motion] = []
    left = np.ones_like(next(iter(explained.values())))
    fewest = max(1.0, RAREST * len(left))
    while len(found) < MOST:
        gains = {motion: int((cells & left).sum()) for motion, cells in explained.items()}
        best = max(gains, key=lambda motion: (gains[motion], -abs(motion[0]) - abs(motion[1])))
        if gains[best] < fewest:
            break
        found.append(best)
        left &= ~explained[best]
    return found
