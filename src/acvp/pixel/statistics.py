"""How things move in a store from one frame to the next, by whole pixels.

What is animated shows its poses by turns: it is seldom like what it was a frame ago, and often like two frames ago.

Shapes: B triples of frames, H height, W width, C channels, n cells that changed, q pixels of a cell.

The colors of a store: all of them, or 256 that stand for more.

Which color turns into which where things flash: shapes that stay and change their color.

Shapes: n cells that change, q pixels of a cell, N colors.

Where in the frame each color has been: what a place has never shown, it hardly ever will.

Shapes: T frames, H height, W width, N colors, K colors of a store.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import cv2
import numpy as np
from numpy.typing import NDArray

from acvp.data.palette import MAX_COLORS, Palette
from acvp.data.priorities import changed_cells_of, frame_blocks
from acvp.data.store import EpisodeStore
from acvp.data.views import View
from acvp.data.windows import Window, Windows
from acvp.errors import UserError
from acvp.seeding import generator

SAMPLED_FRAMES = 64
SAMPLED_PIXELS = 2**15
ROUNDS = 20


def colors_of(store: EpisodeStore, *, seed: int) -> tuple[Palette, bool]:
    """Return the palette of a store, and whether its colors stand for similar ones too: a game of over 256 colors.

    Those are the means that k-means finds among pixels of frames drawn at random.
    """
    if not len(store):
        raise UserError(f"{store.path}: the store has no episodes; record some with acvp collect")
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
    ends = (cv2.TERM_CRITERIA_MAX_ITER, ROUNDS, 0.0)
    _, _, means = cv2.kmeans(some, MAX_COLORS, None, ends, 1, cv2.KMEANS_PP_CENTERS)  # type: ignore[call-overload]
    return np.unique(np.rint(means).astype(np.uint8), axis=0), True


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
    cells that changed and are not of one color.
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


FRAMES = 20_000
"""Looked at, in whole episodes spread over the store."""
FEWEST = 3
"""Times that a change of color must be seen."""

Color = tuple[int, ...]


def recolors_of(store: EpisodeStore) -> dict[Color, Color]:
    """Return the color that each turns into most often; those that never do are left out.

    Counted are cells of 5×5 pixels in which all pixels of one color, and no others, turn into another that was not
    there: a part of a shape whose color changes. A store without a palette has too many colors for that.
    """
    if store.palette is None:
        return {}
    windows = Windows(store, Window(1, 0))
    seen = np.zeros((256, 256), np.int64)
    for position in _spread(store):
        for _, before, after in changed_cells_of(windows, position):
            np.add.at(seen, _recolored(before, after), 1)
    colors = [tuple(color) for color in store.palette.tolist()]
    return {colors[old]: colors[new] for old, new in enumerate(seen.argmax(1)) if seen[old, new] >= FEWEST}


def _spread(store: EpisodeStore) -> list[int]:
    """Return episodes of about as many frames as are to be looked at, evenly spread."""
    count = max(1, min(len(store), round(FRAMES * len(store) / max(1, store.frames))))
    return [(2 * i + 1) * len(store) // (2 * count) for i in range(count)]


def _recolored(before: NDArray[np.uint8], after: NDArray[np.uint8]) -> tuple[NDArray[np.uint8], NDArray[np.uint8]]:
    """Return old and new color of the cells (n, q) in which just one color turns into another."""
    changed = before != after
    first = changed.argmax(1)[:, None]
    old, new = np.take_along_axis(before, first, 1), np.take_along_axis(after, first, 1)
    one = ((before == old) == changed).all(1) & ((after == new) == changed).all(1) & ~changed.all(1)
    return old[one, 0], new[one, 0]


REACHES = (0, 1, 2, 4, 8)
"""Pixels up to which a color may be away from where it was recorded; the first that is enough is taken."""
MOST_ODD = 0.5
"""Pixels of a held-out frame, in the mean, that may have a color which is not known at their place."""

Places = NDArray[np.bool_]
"""Whether a color can be at a place, (N, H, W)."""


@dataclass(frozen=True)
class Found:
    """Where each color can be, and how that was found."""

    places: Places
    reach: int | None
    """Pixels that a color may be away from where it was recorded; None: it may be anywhere."""
    odd: float
    """Pixels of a held-out frame, in the mean, that have a color elsewhere."""


def places_of(
    train: EpisodeStore,
    held_out: EpisodeStore,
    colors: Sequence[Color],
    progress: Callable[[int, int], None] = lambda done, total: None,
) -> Found:
    """Return where each color can be: where the training part shows it, or close to that.

    How close is decided by the held-out part, which must not have many pixels elsewhere. Where even the widest reach
    leaves too many, as in a store that is small, or where ``colors`` are not all that the training part has, every
    color can be anywhere. Other colors of the held-out part are elsewhere, wherever they are.
    """
    if not _known(train, colors) or held_out.palette is None:
        return Found(np.ones((len(colors), *train.info.frame_shape[:2]), np.bool_), None, 0.0)
    seen = _seen(train, colors, progress)
    for reach in REACHES:
        wider = _grown(seen, reach)
        odd = odd_pixels(held_out, colors, wider, progress)
        if odd <= MOST_ODD:
            return Found(wider, reach, odd)
    return Found(np.ones_like(seen), None, 0.0)


def odd_pixels(
    store: EpisodeStore,
    colors: Sequence[Color],
    places: Places,
    progress: Callable[[int, int], None] = lambda done, total: None,
) -> float:
    """Return the pixels of a frame of a store, in the mean, whose color cannot be at their place."""
    windows, numbers = Windows(store, Window(1, 0)), _numbers(store, colors)
    places = np.concatenate((places, np.zeros_like(places[:1])))  # one color more, for those that are not known
    rows, columns = np.indices(places.shape[1:])
    odd = 0
    for position in range(len(store)):
        for _, frames in frame_blocks(windows, position, overlap=0):
            odd += sum(int(np.count_nonzero(~places[numbers[frame], rows, columns])) for frame in frames)
        progress(position + 1, len(store))
    return odd / max(1, store.frames)


def _seen(store: EpisodeStore, colors: Sequence[Color], progress: Callable[[int, int], None]) -> Places:
    seen = np.zeros((len(colors), *store.info.frame_shape[:2]), np.bool_)
    windows, numbers = Windows(store, Window(1, 0)), _numbers(store, colors)
    rows, columns = np.indices(seen.shape[1:])
    for position in range(len(store)):
        for first, frames in frame_blocks(windows, position, overlap=1):
            if first == 0:
                seen[numbers[frames[0]], rows, columns] = True
            step, row, column = (frames[1:] != frames[:-1]).nonzero()
            seen[numbers[frames[step + 1, row, column]], row, column] = True
        progress(position + 1, len(store))
    return seen


def _known(store: EpisodeStore, colors: Sequence[Color]) -> bool:
    """Return whether all colors of a store are among ``colors``."""
    return store.palette is not None and {tuple(color) for color in store.palette.tolist()} <= set(colors)


def _numbers(store: EpisodeStore, colors: Sequence[Color]) -> NDArray[np.int64]:
    """Return the number among ``colors`` of each of a store's own, (K,); N where it is not among them."""
    assert store.palette is not None
    number = {color: i for i, color in enumerate(colors)}
    return np.array([number.get(tuple(color), len(colors)) for color in store.palette.tolist()])


def _grown(places: Places, reach: int) -> Places:
    """Return places with all others up to ``reach`` pixels away along either side."""
    square = np.ones((2 * reach + 1,) * 2, np.uint8)
    return np.stack([cv2.dilate(each.astype(np.uint8), square) for each in places]).astype(np.bool_)
