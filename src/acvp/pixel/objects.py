"""Objects: connected regions of a frame that are not background, found by color statistics of a dataset alone.

A color is background at a pixel where it often is, in frames that have the color at all. Colors that appear at many
more pixels than they cover at a time are moving colors: their pixels belong to objects except where they nearly always
are. Pixels of other colors belong to objects where they are rare. A pixel that has no background color most of the time
has a cycling palette: all its colors are background. Regions of moving and of rare colors are separate objects, so that
a sprite does not merge with the scenery it passes.

Objects flicker: some games draw them only in every other frame. An object that is no longer seen is remembered for some
frames, in which it can come back.

Which objects the player controls is found the same way: the moves of objects of their main color depend on the action.

Shapes: T frames, H height, W width, N colors, n objects.
"""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, NamedTuple

import cv2
import numpy as np
from numpy.typing import NDArray

from acvp.data.statistics import Arrays, cached
from acvp.data.store import EpisodeStore
from acvp.data.windows import Window, Windows
from acvp.models.config import Progress
from acvp.pixel.config import SEEN_FRAMES, Motion

BACKGROUND, MOVING, RARE = 0, 1, 2
"""Kinds of pixels."""
SAMPLED_FRAMES = 8192
"""Frames whose colors are counted, spread over the dataset."""
SAMPLED_STEPS = 4096
"""Steps in which moves are counted."""
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
CONTROLLED = 0.05
"""Information in nats of the action about the moves of controlled objects, at least: it is 0.12 to 0.61 for those of
five games, and at most 0.05 for nearly all others (results/object_moves.json)."""
FEWEST_MOVES = 100
"""Moves of a color from which its dependence on the action is judged."""
UNSEEN = SEEN_FRAMES - 1
"""Steps for which an object that is not seen is remembered."""
OTHER_COLOR, OTHER_SIZE, NOT_SEEN, FARTHEST = 12.0, 0.5, 4.0, 30.0
"""Costs of a link in pixels: for another main color, for each pixel of difference in size, for each step in which the
object was not seen; and above which there is none."""

Boxes = NDArray[np.int64]
"""Top, left, bottom, right (inclusive) and kind of each object, (n, 5)."""
Frame = NDArray[np.uint8]
"""Color classes or kinds of pixels, (H, W)."""
MoveCounts = Counter[tuple[int, Motion]]
"""How often an action and a move came together."""


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


@dataclass(frozen=True)
class FrameObjects:
    """The objects of a frame: those that are seen in it, and those remembered from the frames before."""

    boxes: Boxes
    main_colors: NDArray[np.int64]
    """The most frequent color of each object, without background, (n,)."""
    unseen: NDArray[np.int64]
    """Steps since each object was last seen, (n,); 0: it is seen."""

    @classmethod
    def find(cls, frame: Frame, kinds: Frame) -> FrameObjects:
        """Return the objects that are seen in a frame of some kinds of pixels."""
        boxes = find_boxes(kinds)
        colors = np.zeros(len(boxes), np.int64)
        for number, (top, left, bottom, right, kind) in enumerate(boxes):
            region = np.s_[top : bottom + 1, left : right + 1]
            colors[number] = np.bincount(frame[region][kinds[region] == kind]).argmax()
        return cls(boxes, colors, np.zeros(len(boxes), np.int64))

    def followed_by(self, seen: FrameObjects, links: NDArray[np.int64]) -> FrameObjects:
        """Return the objects of the next frame: those seen there, and for some steps those that are not."""
        lost = (links < 0) & (self.unseen < UNSEEN)
        return FrameObjects(
            np.concatenate((seen.boxes, self.boxes[lost])),
            np.concatenate((seen.main_colors, self.main_colors[lost])),
            np.concatenate((seen.unseen, self.unseen[lost] + 1)),
        )


class Followed(NamedTuple):
    """The objects of a frame, and how far each moves to the next one."""

    objects: FrameObjects
    moves: list[Motion | None]
    """In pixels (down, right); None where an object is not seen in the next frame."""


def follow(frames: NDArray[np.uint8], kinds: NDArray[np.uint8]) -> tuple[list[Followed], FrameObjects]:
    """Return the objects of all frames (T, H, W) of some kinds of pixels but the last, and those of the last one."""
    followed = []
    objects = FrameObjects.find(frames[0], kinds[0])
    for frame, kind in zip(frames[1:], kinds[1:], strict=True):
        seen = FrameObjects.find(frame, kind)
        links = link(objects, seen)
        followed.append(Followed(objects, displacements(objects, seen, links)))
        objects = objects.followed_by(seen, links)
    return followed, objects


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
    differs = before.main_colors[:, None] != after.main_colors[None]
    cost: NDArray[np.float64] = (
        distance + OTHER_SIZE * resized + OTHER_COLOR * differs + NOT_SEEN * before.unseen[:, None]
    )
    other_kind = before.boxes[:, None, 4] != after.boxes[None, :, 4]
    cost[other_kind | (distance > REACH)] = np.inf
    return cost


def displacements(before: FrameObjects, after: FrameObjects, links: NDArray[np.int64]) -> list[Motion | None]:
    """Return how far each object moves to the next frame, in pixels (down, right); None if it is not seen there."""
    here, there = centers(before.boxes), centers(after.boxes)
    moves = [None if target < 0 else there[target] - here[source] for source, target in enumerate(links)]
    return [None if move is None else (int(move[0]), int(move[1])) for move in moves]


class Moves(NamedTuple):
    """How the objects of a dataset move."""

    moves: tuple[Motion, ...]
    """The most frequent ones, the most frequent first."""
    controlled: tuple[int, ...]
    """Main colors of the objects whose moves depend on the action."""


def find_moves(
    store: EpisodeStore,
    numbers: NDArray[np.int64],
    background: Background,
    most: int,
    progress: Progress = lambda done, total: None,
) -> Moves:
    """Return at most so many moves that objects of a dataset make, and which of the objects are controlled.

    They are computed once for a dataset and cached beside it.
    """

    def compute() -> Arrays:
        moves, controlled = _find_moves(store, numbers, background, most, progress)
        return {"moves": np.array(moves, np.int64).reshape(-1, 2), "controlled": np.array(controlled, np.int64)}

    digest = hashlib.sha256(background.kinds_table().tobytes()).hexdigest()
    settings = {"numbers": numbers.tolist(), "background": digest, "most": most, "steps": SAMPLED_STEPS}
    arrays = cached(store, "object-moves", settings, compute, lambda: progress(0, len(store)))
    return Moves(tuple((y, x) for y, x in arrays["moves"].tolist()), tuple(arrays["controlled"].tolist()))


def _find_moves(
    store: EpisodeStore, numbers: NDArray[np.int64], background: Background, most: int, progress: Progress
) -> Moves:
    """Compute the moves of `find_moves`."""
    counts, total = dict[int, MoveCounts](), Counter[Motion]()
    for objects, moves, action in sampled_steps(store, numbers, background, progress):
        for color, move in zip(objects.main_colors.tolist(), moves, strict=True):
            if move is not None:
                counts.setdefault(color, Counter())[action, move] += 1
                total[move] += 1
    ranked = sorted(total, key=lambda move: (-total[move], move))
    controlled = sorted(color for color, by_action in counts.items() if information(by_action) > CONTROLLED)
    return Moves(tuple(ranked[:most]) or ((0, 0),), tuple(controlled))


def sampled_steps(
    store: EpisodeStore, numbers: NDArray[np.int64], background: Background, progress: Progress
) -> Iterator[tuple[FrameObjects, list[Motion | None], int]]:
    """Yield the objects before steps spread over a dataset, how they move, and the action."""
    windows = Windows(store, Window(SEEN_FRAMES, 1))
    spread = np.linspace(0, len(windows) - 1, min(SAMPLED_STEPS, len(windows))).astype(np.int64)
    table = background.kinds_table()
    rows, columns = np.indices(table.shape[1:])
    for first in range(0, len(spread), BLOCK):
        batch = windows.batch(spread[first : first + BLOCK])
        for frames, action in zip(numbers[batch.frames].astype(np.uint8), batch.actions[:, -1].tolist(), strict=True):
            objects, moves = follow(frames, table[frames, rows, columns])[0][-1]
            yield objects, moves, action
        progress(min(first + BLOCK, len(spread)), len(spread))


def information(counts: MoveCounts) -> float:
    """Return the mutual information of action and move in nats; few counts that are independent give about 0.

    The bias of small samples is subtracted (Miller, 1955); of too few there is none.
    """
    number = counts.total()
    if number < FEWEST_MOVES:
        return 0.0
    actions, moves = (_marginal(counts, part) for part in (0, 1))
    shared = sum(
        count / number * np.log(count * number / (actions[action] * moves[move]))
        for (action, move), count in counts.items()
    )
    return float(shared) - (len(actions) - 1) * (len(moves) - 1) / (2 * number)


def _marginal(counts: MoveCounts, part: int) -> Counter[Any]:
    """Return the counts of the actions (0) or of the moves (1) alone."""
    marginal = Counter[Any]()
    for pair, count in counts.items():
        marginal[pair[part]] += count
    return marginal
