"""Different actions (appendix D): from one state every action is repeated for some steps, truth beside prediction.

Shapes: A actions, L steps, h height, w width and C channels of the view.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import torch
from numpy.typing import NDArray

from acvp.analysis.figures import Row, action_heads, grid
from acvp.analysis.samples import Part, Study
from acvp.console import Progress
from acvp.envs.actions import ordered
from acvp.errors import UserError
from acvp.evaluation.futures import BranchedState, branched_states, every_action
from acvp.loaded import LoadedModel
from acvp.models.pixels import to_frames

Pictures = NDArray[np.uint8]  # (A, L, h, w, C)
MARGIN, LEAST = 0.06, 0.25
"""Margin around the pixels that differ, and least size of a zoomed region, as shares of the frame's sides."""


def different_actions(study: Study, progress: Progress) -> Part:
    """Draw every action's true and predicted future, whole and enlarged where the true ones differ."""
    titles, files = [], {}
    for number, branched in enumerate(_branched(study)):
        predicted = predict_futures(study.model, branched)
        whole = slice(None), slice(None)
        for name, part in (("", whole), ("-zoom", informative_region(branched.futures))):
            files[f"different-actions-{number}{name}.png"] = _picture(study, branched, predicted, part)
        titles.append(study.title(branched.start))
    if not files:
        raise UserError(f"an action held for --steps {study.config.steps} ends the game: choose fewer steps, or --at")
    return Part({"steps": study.config.steps, "states": titles}, files)


def _branched(study: Study) -> Iterator[BranchedState]:
    """Yield the states to picture with their true futures, without those in which an action ends the game."""
    plans = every_action(len(study.actions), study.config.steps)
    context = study.model.predictor.context
    for branched in branched_states(study.store, study.examples, study.model.view, context, lambda number: plans):
        if branched is not None:
            yield branched


@torch.inference_mode()
def predict_futures(model: LoadedModel, branched: BranchedState) -> Pictures:
    """Return the predicted future of each plan of a state."""
    count = len(branched.plans)
    given = np.repeat(branched.given[None], count, 0)
    actions = np.concatenate((np.repeat(branched.between[None], count, 0), branched.plans), 1)
    return np.stack([to_frames(frames) for frames in model.look_ahead(given, actions)], 1)


def informative_region(true: Pictures) -> tuple[slice, slice]:
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


def _picture(study: Study, branched: BranchedState, predicted: Pictures, part: tuple[slice, slice]) -> bytes:
    """Return a PNG: a column for each action, for each step a row of true frames above one of predictions."""
    order = ordered(study.actions)
    rows: list[Row] = [("last frame", [branched.given[-1][part]])]
    for step in range(study.config.steps):
        for name, frames in (("true", branched.futures), ("predicted", predicted)):
            rows.append((f"step {step + 1}, {name}", [frames[action, step][part] for action in order]))
    return grid(action_heads([study.actions[action] for action in order]), rows)
