"""Different actions (appendix D): one state, every action held for some decisions, true future and prediction.

Shapes: A actions, L decisions, h height, w width and C channels of the view.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray

from acvp.analysis.movements import ordered
from acvp.analysis.pictures import action_heads, grid
from acvp.analysis.scenes import most_telling
from acvp.analysis.study import Part, Study
from acvp.errors import UserError
from acvp.evaluation.futures import Moment
from acvp.evaluation.horizon import Progress
from acvp.evaluation.places import evenly
from acvp.evaluation.subjects import Subject

Pictures = NDArray[np.uint8]  # (A, L, h, w, C)
CANDIDATES = 8
"""Moments looked at for each one that is pictured."""
MARGIN, LEAST = 0.06, 0.25
"""Of the frame's sides: what a zoomed part shows around what differs, and its least size."""


def different_actions(study: Study, progress: Progress) -> Part:
    """Picture every action's true and predicted future, whole and enlarged where the true ones differ."""
    titles, files = [], {}
    for number, moment in enumerate(_moments(study, progress)):
        futures = predict_futures(study.subject, moment)
        whole = slice(None), slice(None)
        for name, part in (("", whole), ("-zoom", telling_part(futures.true))):
            files[f"different-actions-{number}{name}.png"] = _picture(study, futures, part)
        titles.append(study.title(moment.place))
    return Part({"steps": study.config.steps, "moments": titles}, files)


def _moments(study: Study, progress: Progress) -> list[Moment]:
    """Return the moments to picture: those named, or those whose true futures differ most."""
    count = study.config.examples
    candidates = study.chosen or [study.places[i] for i in evenly(len(study.places), count * CANDIDATES)]
    found = []
    for done, moment in enumerate(study.branched(candidates, study.config.steps)):
        progress(done, len(candidates))
        found += [] if moment is None else [moment]
    if not found:
        raise UserError(
            f"an action held for --steps {study.config.steps} ends the game in every state: choose fewer steps"
        )
    if study.chosen:
        return found
    differing = np.array([np.count_nonzero(moment.futures != moment.futures[:1]) for moment in found])
    return [found[number] for number in most_telling(differing, count)]


@dataclass(frozen=True, kw_only=True)
class Futures:
    """Every action's future from one state."""

    now: NDArray[np.uint8]
    """(h, w, C)"""
    true: Pictures
    predicted: Pictures


@torch.inference_mode()
def predict_futures(subject: Subject, moment: Moment) -> Futures:
    """Return what the emulator and a predictor make of a moment's plans."""
    count = len(moment.plans)
    given = np.repeat(moment.given[None], count, 0)
    actions = np.concatenate((np.repeat(moment.between[None], count, 0), moment.plans), 1)
    steps = [frames.round().to(torch.uint8).permute(0, 2, 3, 1) for frames in subject.look_ahead(given, actions)]
    return Futures(now=moment.given[-1], true=moment.futures, predicted=torch.stack(steps, 1).numpy())


def telling_part(true: Pictures) -> tuple[slice, slice]:
    """Return the part of the frame, with a margin, in which the true futures of the actions differ."""
    differs = (true != true[:1]).any((0, 1, 4))  # (h, w)
    if not differs.any():
        return slice(None), slice(None)
    rows, columns = (_widened(np.flatnonzero(differs.any(1 - axis)), differs.shape[axis]) for axis in (0, 1))
    return rows, columns


def _widened(inside: NDArray[np.int64], size: int) -> slice:
    """Return from the first to the last of some positions with a margin, at least LEAST of a side, within it."""
    middle, reach = (inside[0] + inside[-1] + 1) / 2, (inside[-1] - inside[0] + 1) / 2 + MARGIN * size
    length = min(size, round(max(2 * reach, LEAST * size)))
    first = min(max(0, round(middle - length / 2)), size - length)
    return slice(first, first + length)


def _picture(study: Study, futures: Futures, part: tuple[slice, slice]) -> bytes:
    """Return a PNG: a column for each action, for each step a row of true frames above one of predictions."""
    order = ordered(study.actions)
    rows: list[tuple[str, Sequence[NDArray[np.uint8]]]] = [("last frame", [futures.now[part]])]
    for step in range(study.config.steps):
        for name, frames in (("true", futures.true), ("predicted", futures.predicted)):
            rows.append((f"step {step + 1}, {name}", [frames[action, step][part] for action in order]))
    return grid(action_heads([study.actions[action] for action in order]), rows)
