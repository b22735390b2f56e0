"""A window from its first frame to its last predicted step, truth and predictions side by side, ready to be drawn.

Shapes: T given frames, K predicted steps, H height and W width of the view.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray

from acvp.data.store import EpisodeStore
from acvp.evaluation.objects import PATCH, Positions
from acvp.evaluation.places import Place
from acvp.evaluation.subjects import Subject
from acvp.evaluation.truth import TrueWindows

Pictures = NDArray[np.uint8]  # (n, H, W, 3)


@dataclass(frozen=True, kw_only=True)
class Film:
    """What videos and strips are made of; step 1 is the first predicted frame."""

    title: str
    truth: Pictures
    """(T + K, H, W, 3)"""
    predictions: dict[str, Pictures]
    """(K, H, W, 3) by subject."""
    actions: tuple[str, ...]
    """Name of the action that led to each frame but the first, T + K − 1."""
    context: int
    """T, the real frames given."""
    boxes: tuple[tuple[int, int, int, int] | None, ...]
    """Left, top, right, bottom of the controlled object by frame; None: not known."""

    @property
    def steps(self) -> int:
        return len(self.truth) - self.context

    def frame(self, step: int) -> Pictures:
        """Return the true frame (H, W, 3) of a step; 0 is the last given one."""
        picture: Pictures = self.truth[self.context - 1 + step]
        return picture

    def action(self, step: int) -> str:
        """Return the name of the action that led to a step."""
        return self.actions[self.context - 2 + step]

    def box(self, step: int) -> tuple[int, int, int, int] | None:
        """Return where the controlled object is at a step."""
        return self.boxes[self.context - 1 + step]


@torch.inference_mode()
def shoot(
    subjects: Sequence[Subject],
    store: EpisodeStore,
    place: Place,
    *,
    context: int,
    steps: int,
    positions: Positions | None = None,
) -> Film:
    """Look ahead from one place with every subject and keep all frames."""
    view, length = subjects[0].view, context + steps
    window = TrueWindows(store, [place], view)
    truth, actions = window.frames(0, length), window.actions(0, length - 1)
    predictions = {
        subject.name: np.concatenate([_picture(p) for p in subject.look_ahead(truth[:, :context], actions)])
        for subject in subjects
    }
    where = None if positions is None else positions[place.episode][place.start : place.start + length]
    return Film(
        title=f"episode {store.entries[place.episode].number}, frame {place.start}",
        truth=in_colour(truth[0]),
        predictions={name: in_colour(frames) for name, frames in predictions.items()},
        actions=tuple(store.info.action_meanings[action] for action in actions[0].tolist()),
        context=context,
        boxes=_boxes(where, length, truth.shape[2:4], store.info.frame_shape[:2]),
    )


def in_colour(frames: Pictures) -> Pictures:
    """Return frames (n, H, W, C) with three channels."""
    return np.repeat(frames, 3, -1) if frames.shape[-1] == 1 else frames


def _picture(pixels: torch.Tensor) -> Pictures:
    """Return predictions (1, C, H, W) as uint8 (1, H, W, C)."""
    picture: Pictures = pixels.round().to(torch.uint8).permute(0, 2, 3, 1).numpy()
    return picture


def _boxes(
    where: NDArray[np.float64] | None, length: int, size: tuple[int, ...], recorded: tuple[int, ...]
) -> tuple[tuple[int, int, int, int] | None, ...]:
    if where is None:
        return (None,) * length
    down, right = size[0] / recorded[0], size[1] / recorded[1]
    half, middle = 1.2 * PATCH * max(recorded), 0.5  # a pixel's centre lies half a pixel from its edge
    boxes: list[tuple[int, int, int, int] | None] = []
    for row, column in where + middle:
        edges = ((column - half) * right, (row - half) * down, (column + half) * right, (row + half) * down)
        boxes.append(None if np.isnan(row) else (round(edges[0]), round(edges[1]), round(edges[2]), round(edges[3])))
    return tuple(boxes)
