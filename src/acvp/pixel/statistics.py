"""Statistics of a dataset that the predictor is built on: palette, motions and palette cycling.

Motions are whole pixels. An animated object alternates between poses: it often looks as it did two frames ago rather
than one, so motions from the frame before the newest are counted too.

Shapes: B triples of frames, H height, W width, C channels, n cells that changed, q pixels of a cell, N colors.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, NamedTuple

import cv2
import numpy as np
from numpy.typing import NDArray

from acvp.data.frames import MAX_COLORS, Palette, View
from acvp.data.statistics import CELL, Arrays, cached, changed_cells_of
from acvp.data.store import EpisodeStore
from acvp.data.windows import Window, Windows
from acvp.errors import UserError
from acvp.models.config import DatasetSplit
from acvp.pixel.config import Motion, cell_side
from acvp.seeding import generator

SAMPLED_FRAMES = 64
SAMPLED_PIXELS = 2**15
ROUNDS = 20
"""Of k-means."""


def statistics_of(data: DatasetSplit) -> dict[str, Any]:
    """Return the fields of PixelConfig that are statistics of the training episodes, never of held-out ones."""
    train, view = data.train, data.resampled_view
    motions = motions_of(train, min(cell_side(data.frame), CELL), seed=data.seed, view=view)
    fields: dict[str, Any] = {"motions": motions.newest, "older_motions": motions.older}
    if view is not None:
        return fields | {"palette": tuple((level,) for level in range(256)), "palette_cycle": ()}
    colors, quantized = colors_of(train, seed=data.seed)
    palette = tuple(tuple(color) for color in colors.tolist())
    successors = palette_cycle_of(train)
    cycle = tuple(palette.index(successors.get(color, color)) for color in palette) if successors else ()
    return fields | {"palette": palette, "quantized": quantized, "palette_cycle": cycle}


def colors_of(store: EpisodeStore, *, seed: int) -> tuple[Palette, bool]:
    """Return the palette of a dataset, and whether it is quantized, as for a game of over 256 colors.

    A quantized palette has the means that k-means finds among pixels of frames drawn at random.
    """
    if not len(store):
        raise UserError(f"{store.path}: the dataset has no episodes; record some with acvp collect")
    if store.palette is not None:
        return store.palette, False
    rng = generator("colors", seed)
    frames = [store[int(rng.integers(len(store)))] for _ in range(SAMPLED_FRAMES)]
    starts = [int(rng.integers(len(episode))) for episode in frames]
    pixels = np.concatenate(
        [episode.frames(at, at + 1).reshape(-1, 3) for episode, at in zip(frames, starts, strict=True)]
    )
    some = pixels[rng.integers(len(pixels), size=SAMPLED_PIXELS)].astype(np.float32)
    cv2.setRNGSeed(seed)
    criteria = (cv2.TERM_CRITERIA_MAX_ITER, ROUNDS, 0.0)
    _, _, means = cv2.kmeans(some, MAX_COLORS, None, criteria, 1, cv2.KMEANS_PP_CENTERS)  # type: ignore[call-overload]
    return np.unique(np.rint(means).astype(np.uint8), axis=0), True


TRIPLES = 300
"""Three frames in a row looked at, drawn at random; of frames larger than Atari's fewer."""
PIXELS = TRIPLES * 210 * 160
CELLS = 20_000
"""Cells looked at, drawn at random where more have changed."""
REACH = 12
"""Pixels of the longest motion looked for, along either side."""
MOST_MOTIONS, MOST_OLDER_MOTIONS = 32, 16
"""Motions from the newest frame, and from the one before it."""
SMALLEST_GAIN = 0.0005
"""Share of the cells that a motion must explain beyond those before it."""


class Motions(NamedTuple):
    """Motions by what each explains beyond those before it."""

    newest: tuple[Motion, ...]
    """From the newest frame to the next; the first is no motion at all."""
    older: tuple[Motion, ...]
    """From the frame before the newest to the next, for what the others leave unexplained."""


def motions_of(store: EpisodeStore, cell: int, *, seed: int, view: View | None = None) -> Motions:
    """Return the motions that explain most of what changes.

    A motion explains a cell, cell × cell pixels, if the earlier frame, moved, shows the same pixels there. Counted are
    cells that changed and are not of one color. They are computed once for a dataset and cached beside it.
    """

    def compute() -> Arrays:
        motions = _motions_of(store, cell, seed=seed, view=view)
        return {name: np.array(moves, np.int64).reshape(-1, 2) for name, moves in motions._asdict().items()}

    settings = {"cell": cell, "seed": seed, "view": view.name if view else None}
    arrays = cached(store, "motions", settings, compute)
    return Motions(*(tuple((y, x) for y, x in arrays[name].tolist()) for name in Motions._fields))


def _motions_of(store: EpisodeStore, cell: int, *, seed: int, view: View | None) -> Motions:
    """Compute the motions of `motions_of`."""
    windows = Windows(store, Window(2, 1), view)
    height, width = (view.shape(store.info.frame_shape) if view else store.info.frame_shape)[:2]
    count = max(1, min(TRIPLES, PIXELS // (height * width)))
    frames = windows.batch(windows.draw(count, seed=seed, step=0)).frames  # (B, 3, H, W) indices, or with C
    if frames.ndim == 4:
        frames = frames[..., None]
    older, newest, after = frames[:, 0], frames[:, 1], frames[:, 2]
    changed = _changed(newest, after, cell, generator("motions", seed))
    explained = _explained(newest, changed)
    moves = _cover(explained, MOST_MOTIONS)
    left = ~np.any([explained[motion] for motion in moves], axis=0) if moves else None
    return Motions(((0, 0), *moves), tuple(_cover(_explained(older, changed), MOST_OLDER_MOTIONS, left)))


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
    _, height, width, channels = padded.shape
    pixels, inside = padded.reshape(-1, channels), np.arange(changed.cell) + REACH
    y = changed.y[:, None, None] + inside[:, None]  # (n, cell, 1)
    x = changed.x[:, None, None] + inside  # (n, 1, cell)
    at = ((changed.triple[:, None, None] * height + y) * width + x).reshape(len(y), changed.cell**2)  # (n, q)
    shifts = [(a, b) for a in range(-REACH, REACH + 1) for b in range(-REACH, REACH + 1)]
    return {(a, b): _equal(pixels, at - (a * width + b), changed.pixels) for a, b in shifts}


def _equal(pixels: NDArray[np.int16], at: NDArray[np.int64], after: NDArray[np.uint8]) -> NDArray[np.bool_]:
    """Return for which cells (n,) the pixels at some indices (n, q) equal those after (n, q, C)."""
    equal = np.zeros(len(at), np.bool_)
    likely = np.arange(len(at))
    for column in range(at.shape[1]):  # few cells are left after the first pixels
        likely = likely[(pixels[at[likely, column]] == after[likely, column]).all(1)]
    equal[likely] = True
    return equal


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
    motions: list[Motion] = []
    left = np.ones_like(next(iter(explained.values()))) if left is None else left
    fewest = max(1.0, SMALLEST_GAIN * len(left))
    while len(motions) < most:
        gains = {motion: int((cells & left).sum()) for motion, cells in explained.items()}
        best = max(gains, key=lambda motion: (gains[motion], -abs(motion[0]) - abs(motion[1])))
        if gains[best] < fewest:
            break
        motions.append(best)
        left = left & ~explained[best]
    return motions


CYCLE_FRAMES = 20_000
"""Looked at for palette cycling, in whole episodes spread over the dataset."""
FEWEST_CHANGES = 3
"""Times that a change of color must be seen."""

Color = tuple[int, ...]


def palette_cycle_of(store: EpisodeStore) -> dict[Color, Color]:
    """Return the color that each color turns into most often; colors that never change are left out.

    Counted are cells of 5×5 pixels in which all pixels of one color, and no others, turn into another that was not
    there: part of a shape that changes its color. A dataset without a palette has too many colors for that.
    """
    if store.palette is None:
        return {}

    def compute() -> Arrays:
        pairs = [(*old, *new) for old, new in _palette_cycle_of(store, palette).items()]
        return {"pairs": np.array(pairs, np.uint8).reshape(-1, 6)}

    palette = store.palette
    pairs = cached(store, "palette-cycle", {"frames": CYCLE_FRAMES}, compute)["pairs"].tolist()
    return {tuple(pair[:3]): tuple(pair[3:]) for pair in pairs}


def _palette_cycle_of(store: EpisodeStore, palette: Palette) -> dict[Color, Color]:
    """Compute the color that each color turns into most often."""
    windows = Windows(store, Window(1, 0))
    seen = np.zeros((256, 256), np.int64)
    for position in _spread(store):
        for _, before, after in changed_cells_of(windows, position):
            np.add.at(seen, _changed_color(before, after), 1)
    colors = [tuple(color) for color in palette.tolist()]
    return {colors[old]: colors[new] for old, new in enumerate(seen.argmax(1)) if seen[old, new] >= FEWEST_CHANGES}


def _spread(store: EpisodeStore) -> list[int]:
    """Return evenly spread episodes that have about CYCLE_FRAMES frames together."""
    count = max(1, min(len(store), round(CYCLE_FRAMES * len(store) / max(1, store.frames))))
    return [(2 * i + 1) * len(store) // (2 * count) for i in range(count)]


def _changed_color(before: NDArray[np.uint8], after: NDArray[np.uint8]) -> tuple[NDArray[np.uint8], NDArray[np.uint8]]:
    """Return old and new color of the cells (n, q) in which just one color turns into another."""
    changed = before != after
    first = changed.argmax(1)[:, None]
    old, new = np.take_along_axis(before, first, 1), np.take_along_axis(after, first, 1)
    only = ((before == old) == changed).all(1) & ((after == new) == changed).all(1) & ~changed.all(1)
    return old[only, 0], new[only, 0]
