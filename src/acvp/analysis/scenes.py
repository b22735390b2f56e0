"""Moments of stored plays: the frames before, the action taken, the frame it led to, and where the object was.

Shapes: S scenes, T given frames, h height, w width and C channels of the view.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import ceil, floor

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from acvp.data.store import EpisodeStore
from acvp.data.views import View
from acvp.evaluation.objects import PATCH, Positions
from acvp.evaluation.places import Place
from acvp.evaluation.subjects import Subject
from acvp.evaluation.truth import TrueWindows

BATCH = 16
"""Scenes predicted at once."""


@dataclass(frozen=True, kw_only=True)
class Scenes:
    """The truth about some moments, side by side."""

    places: list[Place]
    given: NDArray[np.uint8]
    """(S, T, h, w, C)"""
    actions: NDArray[np.int64]
    """(S, T), the last of them that of the moment."""
    after: NDArray[np.uint8]
    """(S, h, w, C)"""

    @property
    def now(self) -> NDArray[np.uint8]:
        """The last frames given, (S, h, w, C)."""
        return self.given[:, -1]

    def changed(self) -> NDArray[np.bool_]:
        """Return the pixels (S, h, w) that the next frame shows otherwise."""
        changed: NDArray[np.bool_] = (self.now != self.after).any(-1)
        return changed


def read_scenes(store: EpisodeStore, places: list[Place], view: View, context: int) -> Scenes:
    """Return the scenes whose first given frame is at each place."""
    windows = TrueWindows(store, places, view)
    frames = windows.frames(0, context + 1)
    return Scenes(
        places=places, given=frames[:, :context], actions=windows.actions(0, context), after=frames[:, context]
    )


@torch.inference_mode()
def predict_next(subject: Subject, scenes: Scenes) -> Tensor:
    """Return the predicted next frames (S, C, h, w), in pixel values clamped to 0..255."""
    rows = range(0, len(scenes.places), BATCH)
    parts = [subject.look_ahead(scenes.given[i : i + BATCH], scenes.actions[i : i + BATCH]) for i in rows]
    return torch.cat([next(part) for part in parts])


def object_regions(scenes: Scenes, positions: Positions, recorded: tuple[int, ...]) -> NDArray[np.bool_]:
    """Return the pixels (S, h, w) within a patch of where the object is before or after; none while it is not drawn.

    ``recorded`` is the (height, width) that positions refer to.
    """
    regions = np.zeros(scenes.given.shape[:1] + scenes.given.shape[2:4], np.bool_)
    context = scenes.given.shape[1]
    scale, half = np.array(regions.shape[1:]) / recorded[:2], PATCH * max(recorded[:2])
    for region, (episode, start) in zip(regions, scenes.places, strict=True):
        where = positions[episode][start + context - 1 : start + context + 1] + 0.5  # (2, 2), centres of pixels
        if not np.isnan(where).any():
            for low, high in zip((where - half) * scale, (where + half) * scale, strict=True):
                region[_span(low[0], high[0]), _span(low[1], high[1])] = True
    return regions


def _span(low: float, high: float) -> slice:
    return slice(max(0, floor(low)), max(0, ceil(high)))
