"""The controlled object: where it is according to the emulator's RAM, and where its true patch is in a prediction.

Shapes: h height, w width and C channels of the view.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from math import hypot

import cv2
import numpy as np
from numpy.typing import NDArray

from acvp.data.replay import replay, replay_game
from acvp.data.store import EpisodeStore
from acvp.errors import UserError

PATCH, NEAR, SEARCH = 0.04, 0.04, 0.12
"""Of the frame's longer side: half the patch's side, how far off an object may be before it is lost, search radius."""
STANDS_OUT = 16
"""Pixel values by which a pixel of the patch must differ from the mean image to count as the object's."""
PRESENT = 0.5
"""A patch fits if its squared error is below this share of the mean image's; otherwise the object has vanished."""

Frame = NDArray[np.float32]  # (h, w, C)
Positions = dict[int, NDArray[np.float64]]
"""(frames, 2) rows and columns by position of the episode in the store; NaN while the object is not drawn."""


def find_positions(
    store: EpisodeStore,
    windows: Iterable[tuple[int, int]],
    length: int,
    progress: Callable[[int, int], None] = lambda done, total: None,
) -> Positions:
    """Replay the episodes of windows of some length, (episode, first frame) each, and return where the object was.

    Raises UserError where the episodes cannot be replayed or the game does not report the position.
    """
    last: dict[int, int] = {}
    for episode, start in windows:
        last[episode] = max(last.get(episode, 0), start + length)
    positions: Positions = {}
    with replay_game(store) as game:
        for done, (position, stop) in enumerate(last.items()):
            progress(done, len(last))
            rows = [game.controlled_position() or (np.nan, np.nan) for _ in replay(store[position], game, stop)]
            positions[position] = np.array(rows, np.float64)
    if all(np.isnan(rows).all() for rows in positions.values()):
        raise UserError(f"{store.info.env_id} does not report where its controlled object is (docs/environments.md)")
    return positions


@dataclass(frozen=True)
class Target:
    """The object in a true frame: its patch, and where to look for it."""

    corner: tuple[int, int]
    """Row and column of the patch in the region."""
    region: tuple[slice, slice]
    """Part of the frame that is searched."""
    patch: Frame
    mask: Frame
    """1 on the object's pixels."""
    absent: float
    """Squared error of the mean image in the object's place."""


class ObjectFinder:
    """Finds the controlled object of true frames in predictions."""

    def __init__(self, recorded: tuple[int, int], mean: Frame) -> None:
        """``recorded`` is the (height, width) that positions refer to, ``mean`` the mean image in the view."""
        self._mean = np.ascontiguousarray(mean, np.float32)
        self._scale = mean.shape[0] / recorded[0], mean.shape[1] / recorded[1]
        side = max(recorded)
        self.near, self.search = NEAR * side, SEARCH * side
        self._half = [max(1, round(PATCH * side * scale)) for scale in self._scale]
        self._radius = [max(1, round(self.search * scale)) for scale in self._scale]

    def target(self, truth: Frame, position: Sequence[float]) -> Target | None:
        """Return the object of a true frame, None where it is not drawn or looks like the mean image."""
        if np.isnan(position[0]):
            return None
        patch, region = [], []
        for axis in (0, 1):
            size, half, radius = truth.shape[axis], self._half[axis], self._radius[axis]
            middle = int(min(max((position[axis] + 0.5) * self._scale[axis], 0), size - 1))
            patch.append(slice(max(0, middle - half), min(size, middle + half + 1)))
            region.append(slice(max(0, middle - half - radius), min(size, middle + half + 1 + radius)))
        rows, columns = patch
        true, mean = truth[rows, columns], self._mean[rows, columns]
        mask = (np.abs(true - mean).max(2, keepdims=True) > STANDS_OUT).astype(np.float32)
        if not mask.any():
            return None
        absent = float((np.square(true - mean) * mask).sum())
        corner = rows.start - region[0].start, columns.start - region[1].start
        full_mask = np.ascontiguousarray(np.broadcast_to(mask, true.shape))
        return Target(corner, (region[0], region[1]), np.ascontiguousarray(true), full_mask, absent)

    def distance(self, predicted: Frame, target: Target) -> float:
        """Return how far from its true place the object is in a prediction, in recorded pixels; inf: nowhere near."""
        region = np.ascontiguousarray(predicted[target.region])
        misfit = cv2.matchTemplate(region, target.patch, cv2.TM_SQDIFF, mask=target.mask)
        row, column = target.corner
        best = int(misfit.argmin()) if misfit[row, column] > misfit.min() else row * misfit.shape[1] + column
        if misfit.flat[best] > PRESENT * target.absent:
            return np.inf
        down, right = divmod(best, misfit.shape[1])
        return hypot((down - row) / self._scale[0], (right - column) / self._scale[1])
