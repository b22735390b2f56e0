"""Moments of stored plays side by side: the frames before, the action taken, the frame it led to.

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
from acvp.evaluation.objects import PATCH
from acvp.evaluation.places import Place
from acvp.evaluation.subjects import Subject
from acvp.evaluation.truth import TrueWindows

BATCH = 16
"""Scenes predicted at once."""


@dataclass(frozen=True, kw_only=True)
class Scenes:
    """What the store tells about some moments."""

    places: list[Place]
    """Where the given frames begin."""
    given: NDArray[np.uint8]
    """(S, T, h, w, C)"""
    actions: NDArray[np.int64]
    """(S, T), the last of them the one taken."""
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


def object_regions(
    positions: NDArray[np.float64], size: tuple[int, ...], recorded: tuple[int, ...]
) -> NDArray[np.bool_]:
    """Return the pixels (S, h, w) within a patch of the object's positions (S, 2, 2) before and after.

    None of a scene's where it is not drawn. ``size`` is the view's (h, w), ``recorded`` what positions refer to.
    """
    regions = np.zeros((len(positions), *size[:2]), np.bool_)
    half, scale = PATCH * max(recorded[:2]), np.array(regions.shape[1:]) / recorded[:2]
    middles = positions + 0.5  # a pixel's centre lies half a pixel from its edge
    for region, low, high in zip(regions, (middles - half) * scale, (middles + half) * scale, strict=True):
        if not np.isnan(low).any():
            for (top, left), (bottom, right) in zip(low, high, strict=True):
                region[_span(top, bottom), _span(left, right)] = True
    return regions


def _span(low: float, high: float) -> slice:
    return slice(max(0, floor(low)), max(0, ceil(high)))
