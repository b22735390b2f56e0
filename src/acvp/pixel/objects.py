"""Objects: connected regions of a frame that are not background, found by color statistics of a dataset alone.

A color is background at a pixel where it often is, in frames that have the color at all. Colors that appear at many
more pixels than they cover at a time are moving colors: their pixels belong to objects except where they nearly always
are. Pixels of other colors belong to objects where they are rare. A pixel that has no background color most of the time
has a cycling palette: all its colors are background. Regions of moving and of rare colors are separate objects, so that
a sprite does not merge with the scenery it passes.

Shapes: T frames, H height, W width, N colors, n objects.
"""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from typing import NamedTuple

import cv2
import numpy as np
from numpy.typing import NDArray

from acvp.data.statistics import Arrays, cached
from acvp.data.store import EpisodeStore
from acvp.data.windows import Window, Windows
from acvp.models.config import Progress
from acvp.pixel.config import Motion

BACKGROUND, MOVING, RARE = 0, 1, 2
"""Kinds of pixels."""
SAMPLED_FRAMES = 8192
"""Frames whose colors are counted, spread over the dataset."""
SAMPLED_PAIRS = 8192
"""Pairs of consecutive frames in which moves are counted."""
BLOCK = 128
"""Frames counted together."""
SPREAD = 4.0
"""A moving color appears at so many times as many pixels as it covers at a time, or more."""
SMALLEST_SPREAD = 60
"""Pixels at which a moving color appears, at least."""
USUAL, COMMON = 0.5, 0.1
"""Shares of the frames that have a color above which a moving color, or any other, is background at a pixel."""
CYCLING = 0.5
"""Share of the frames above which a pixel without background is no object's: its palette cycles."""
LARGEST = 32
"""Pixels of an object's longer side, at most; larger regions are left to the grid."""
MOST = 64
"""Objects of a frame, at most: the largest."""
REACH = 16
"""Pixels that an object may move in a step, along either side."""
OTHER_COLOR, OTHER_SIZE, FARTHEST = 12.0, 0.5, 30.0
"""Costs of a link in pixels: for another main color, for each pixel of difference in size; and above which there is
none."""

Boxes = NDArray[np.int64]
"""Top, left, bottom, right (inclusive) and kind of each object, (n, 5)."""
Frame = NDArray[np.uint8]
"""Color classes or kinds of pixels, (H, W)."""


@dataclass(frozen=True)
class Background:
    """What distinguishes objects from background."""

    colors: NDArray[np.bool_]
    """Whether a color is background at a pixel, (N, H, W)."""
    usual: NDArray[np.uint8]
    """The most frequent color of each pixel, (H, W)."""
    moving: tuple[int, ...]
    """The moving colors."""

    def kinds_table(self) -> NDArray[np.uint8]:
        """Return the kind of a pixel for each color, (N, H, W)."""
        table = np.full(self.colors.shape, RARE, np.uint8)
        table[list(self.moving)] = MOVING
        table[self.colors] = BACKGROUND
        return table


def find_background(
    store: EpisodeStore, numbers: NDArray[np.int64], colors: int, progress: Progress = lambda done, total: None
) -> Background:
    """Return the background of a dataset; ``numbers`` are the classes of its colors, of which there are ``colors``.

    It is computed once for a dataset and cached beside it.
    """

    def compute() -> Arrays:
        counts, present = _color_counts(store, numbers, colors, progress)
        return {"counts": counts, "present": present}

    settings = {"numbers": numbers.tolist(), "colors": colors, "frames": SAMPLED_FRAMES}
    arrays = cached(store, "color-counts", settings, compute, lambda: progress(0, len(store)))
    return _background(arrays["counts"], arrays["present"])


def _color_counts(
    store: EpisodeStore, numbers: NDArray[np.int64], colors: int, progress: Progress
) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Return how often each pixel has each color, (N, H, W), in some frames, and how many of them have it, (N,)."""
    windows = Windows(store, Window(1, 0))
    spread = np.linspace(0, len(windows) - 1, min(SAMPLED_FRAMES, len(windows))).astype(np.int64)
    height, width = store.info.frame_shape[:2]
    counts, present = np.zeros(colors * height * width, np.int64), np.zeros(colors, np.int64)
    for first in range(0, len(spread), BLOCK):
        frames = numbers[windows.batch(spread[first : first + BLOCK]).frames[:, 0]].reshape(-1, height * width)
        at = frames * (height * width) + np.arange(height * width)
        counts += np.bincount(at.ravel(), minlength=len(counts))
        present += np.stack([np.bincount(frame, minlength=colors) > 0 for frame in frames]).sum(0)
        progress(first + len(frames), len(spread))
    return counts.reshape(colors, height, width), present


def _background(counts: NDArray[np.int64], present: NDArray[np.int64]) -> Background:
    """Return the background of pixels' color counts (N, H, W); ``present`` (N,) counts the frames that have a color.

    Shares are of the frames that have the color: the scenery of a screen that is seldom reached is no object.
    """
    share = counts / np.maximum(present, 1)[:, None, None]
    appears, covers = (counts > 0).sum((1, 2)), share.sum((1, 2))
    moving = (appears >= SMALLEST_SPREAD) & (appears > SPREAD * covers)
    common = np.where(moving[:, None, None], share >= USUAL, share >= COMMON)
    cycling = (counts * ~common).sum(0) >= CYCLING * counts.sum(0)  # (H, W)
    common |= cycling & (counts > 0)
    usual = counts.argmax(0).astype(np.uint8)
    return Background(common, usual, tuple(int(color) for color in np.flatnonzero(moving)))


def find_boxes(kinds: Frame) -> Boxes:
    """Return the objects of a frame's kinds of pixels: regions that a gap of up to two pixels does not separate."""
    regions = [_regions((kinds == kind).astype(np.uint8), kind) for kind in (MOVING, RARE)]
    boxes = np.concatenate(regions)
    if len(boxes) > MOST:
        sizes = (boxes[:, 2] - boxes[:, 0] + 1) * (boxes[:, 3] - boxes[:, 1] + 1)
        boxes = boxes[np.sort(np.argsort(-sizes, kind="stable")[:MOST])]
    return boxes


def _regions(mask: Frame, kind: int) -> Boxes:
    """Return the boxes of the regions of a mask."""
    if not mask.any():
        return np.zeros((0, 5), np.int64)
    height, width = mask.shape
    _, _, stats, _ = cv2.connectedComponentsWithStats(cv2.dilate(mask, np.ones((3, 3), np.uint8)), connectivity=8)
    left, top, wide, high = stats[1:, :4].astype(np.int64).T
    bottom, right = top + high - 1, left + wide - 1
    edges = (top + (top > 0), left + (left > 0), bottom - (bottom < height - 1), right - (right < width - 1))
    boxes = np.stack((*edges, np.full_like(top, kind)), 1)  # without the dilation
    small: Boxes = boxes[(boxes[:, 2:4] - boxes[:, :2] < LARGEST).all(1)]
    return small


def centers(boxes: Boxes) -> NDArray[np.int64]:
    """Return the middles of boxes, rounded down, (n, 2)."""
    middles: NDArray[np.int64] = (boxes[:, :2] + boxes[:, 2:4]) // 2
    return middles


class FrameObjects(NamedTuple):
    """The objects of a frame."""

    frame: Frame
    kinds: Frame
    boxes: Boxes

    def main_colors(self) -> NDArray[np.int64]:
        """Return the most frequent color of each object, without background, (n,)."""
        colors = np.zeros(len(self.boxes), np.int64)
        for number, (top, left, bottom, right, kind) in enumerate(self.boxes):
            region = np.s_[top : bottom + 1, left : right + 1]
            colors[number] = np.bincount(self.frame[region][self.kinds[region] == kind]).argmax()
        return colors


def link(before: FrameObjects, after: FrameObjects) -> NDArray[np.int64]:
    """Return for each object the number of the object that it is in the next frame, (n,); -1: none.

    The pair of the smallest cost is linked first: near, of about the same size, of the same main color and kind.
    """
    links = np.full(len(before.boxes), -1)
    if not len(before.boxes) or not len(after.boxes):
        return links
    cost = _costs(before, after)
    while True:
        source, target = np.unravel_index(cost.argmin(), cost.shape)
        if cost[source, target] > FARTHEST:
            return links
        links[source] = target
        cost[source], cost[:, target] = np.inf, np.inf


def _costs(before: FrameObjects, after: FrameObjects) -> NDArray[np.float64]:
    """Return the cost of linking any object of a frame to any of the next one."""
    middles = [(frame.boxes[:, :2] + frame.boxes[:, 2:4]) / 2 for frame in (before, after)]
    sizes = [frame.boxes[:, 2:4] - frame.boxes[:, :2] for frame in (before, after)]
    distance = np.abs(middles[0][:, None] - middles[1][None]).max(2)
    resized = np.abs(sizes[0][:, None] - sizes[1][None]).sum(2)
    differs = before.main_colors()[:, None] != after.main_colors()[None]
    cost: NDArray[np.float64] = distance + OTHER_SIZE * resized + OTHER_COLOR * differs
    other_kind = before.boxes[:, None, 4] != after.boxes[None, :, 4]
    cost[other_kind | (distance > REACH)] = np.inf
    return cost


def displacements(before: FrameObjects, after: FrameObjects) -> list[Motion | None]:
    """Return how far each object moves to the next frame, in pixels (down, right); None if it vanishes."""
    here, there = centers(before.boxes), centers(after.boxes)
    links = enumerate(link(before, after))
    moves = [None if target < 0 else there[target] - here[source] for source, target in links]
    return [None if move is None else (int(move[0]), int(move[1])) for move in moves]


def find_moves(
    store: EpisodeStore,
    numbers: NDArray[np.int64],
    background: Background,
    most: int,
    progress: Progress = lambda done, total: None,
) -> tuple[Motion, ...]:
    """Return the moves that objects of a dataset make most often, the most frequent first.

    They are computed once for a dataset and cached beside it.
    """

    def compute() -> Arrays:
        moves = _find_moves(store, numbers, background, most, progress)
        return {"moves": np.array(moves, np.int64).reshape(-1, 2)}

    digest = hashlib.sha256(background.kinds_table().tobytes()).hexdigest()
    settings = {"numbers": numbers.tolist(), "background": digest, "most": most, "pairs": SAMPLED_PAIRS}
    arrays = cached(store, "moves", settings, compute, lambda: progress(0, len(store)))
    return tuple((y, x) for y, x in arrays["moves"].tolist())


def _find_moves(
    store: EpisodeStore, numbers: NDArray[np.int64], background: Background, most: int, progress: Progress
) -> tuple[Motion, ...]:
    """Compute the moves of `find_moves`."""
    windows = Windows(store, Window(1, 1))
    spread = np.linspace(0, len(windows) - 1, min(SAMPLED_PAIRS, len(windows))).astype(np.int64)
    table, counts = background.kinds_table(), dict[Motion, int]()
    rows, columns = np.indices(table.shape[1:])
    for first in range(0, len(spread), BLOCK):
        for pair in numbers[windows.batch(spread[first : first + BLOCK]).frames].astype(np.uint8):
            kinds = table[pair, rows, columns]
            before, after = (
                FrameObjects(frame, kind, find_boxes(kind)) for frame, kind in zip(pair, kinds, strict=True)
            )
            for move in displacements(before, after):
                if move is not None:
                    counts[move] = counts.get(move, 0) + 1
        progress(min(first + BLOCK, len(spread)), len(spread))
    ranked = sorted(counts, key=lambda move: (-counts[move], move))
    return tuple(ranked[:most]) or ((0, 0),)
