"""What every action leads to: contingency maps one step ahead, and different actions (appendix D) for some steps.

A contingency map shows where in the frame the next frame depends on the action: its value at a pixel is the standard
deviation of the pixel's value over all actions, predicted and true. Different actions: from one state every action is
repeated for some steps, truth beside prediction.

Shapes: S states, A actions, L steps, C channels, h height, w width of the view.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray

from acvp.actions import ordered
from acvp.analysis.figures import Row, action_heads, contingency_figure, grid
from acvp.analysis.samples import Part, Study
from acvp.console import Progress
from acvp.errors import UserError
from acvp.evaluation.windows import BranchedState, branched_states, every_action
from acvp.figures import Figure, images
from acvp.loaded import LoadedModel
from acvp.models.pixels import as_pixels, to_frames
from acvp.runs import numbers

Map = NDArray[np.float64]  # (h, w)
FORMULA = "standard deviation of a pixel's value over all actions, one step ahead"

Pictures = NDArray[np.uint8]  # (A, L, h, w, C)
MARGIN, LEAST = 0.06, 0.25
"""Margin around the pixels that differ, and least size of a zoomed region, as shares of the frame's sides."""


@dataclass(frozen=True)
class State:
    """A state in which the next frame depends on the action."""

    number: int
    """Of the sample."""
    true: Map
    predicted: Map


def contingency_maps(study: Study, progress: Progress) -> Part:
    """Compare where predicted and true next frames depend on the action."""
    states = list(_states(study, progress))
    asked = len(study.samples.starts)
    if not states:
        raise UserError(f"in none of {asked} states does the next frame depend on the action: try more --states")
    true, predicted = [state.true for state in states], [state.predicted for state in states]
    agree = agreement(true, predicted)
    body = {
        "map": FORMULA,
        "states": len(states),
        "states_asked_for": asked,
        "correlation": agree,
        "greatest_of_mean_map": dict(zip(("true", "predicted"), numbers(_greatest(true, predicted)), strict=True)),
    }
    figure = _figure(study, states, agree)
    return Part(body, images(figure, "contingency"))


def _greatest(*maps: Sequence[Map]) -> NDArray[np.float64]:
    """Return the greatest value of the mean of each of some lists of maps."""
    return np.array([np.mean(values, 0).max() for values in maps])


@torch.inference_mode()
def _states(study: Study, progress: Progress) -> Iterator[State]:
    """Yield the states in which actions lead to different frames."""
    futures = study.futures
    for number, frames in enumerate(futures):
        progress(number, len(futures))
        true = spread(as_pixels(frames))
        if true.any():
            yield State(number, true, spread(_every_action(study, number)))


def spread(frames: torch.Tensor) -> NDArray[np.float64]:
    """Return the standard deviation (h, w) over frames (A, C, h, w), root mean square over channels."""
    return frames.double().var(0, correction=0).mean(0).sqrt().numpy()


def _every_action(study: Study, number: int) -> torch.Tensor:
    """Return the predicted next frame of a sample under every action, (A, C, h, w), in clamped pixel values."""
    predictor, samples, device = study.model.predictor, study.samples, study.model.device
    given = torch.from_numpy(samples.given[number : number + 1]).to(device)
    between = torch.from_numpy(samples.actions[number : number + 1, :-1]).to(device)
    state = predictor.observe(predictor.normalizer.to_float(given), between)
    return predictor.normalizer.to_pixels(predictor.predict_all(state)[0]).cpu()


def correlation(first: Map, second: Map) -> float:
    """Return Pearson's correlation over the pixels of two maps; 0 where one of them is flat."""
    a, b = first.ravel() - first.mean(), second.ravel() - second.mean()
    below = float(np.sqrt((a @ a) * (b @ b)))
    return float(a @ b) / below if below else 0.0


def agreement(true: Sequence[Map], predicted: Sequence[Map]) -> dict[str, float]:
    """Return how well predicted maps agree with true ones, as correlations over pixels.

    A predicted map should beat the mean true map of the other states, which knows the game but not the state.
    """
    total, count = sum(true), max(1, len(true) - 1)
    correlations = {
        "mean_maps": correlation(np.mean(predicted, 0), np.mean(true, 0)),
        "by_state": float(np.mean([correlation(p, t) for p, t in zip(predicted, true, strict=True)])),
        "by_state_of_mean_map": float(np.mean([correlation((total - t) / count, t) for t in true])),
    }
    return {name: float(f"{value:.4g}") for name, value in correlations.items()}


def _figure(study: Study, states: list[State], agree: dict[str, float]) -> Figure:
    """Return the mean maps, and those of the state that depends most on the action, over its last frame."""
    example = max(states, key=lambda state: float(state.true.sum()))
    panels = {
        f"true, mean of {len(states)} states": np.mean([state.true for state in states], 0),
        "predicted, mean": np.mean([state.predicted for state in states], 0),
        f"true, {study.title(study.samples.starts[example.number])}": example.true,
        "predicted, the same state": example.predicted,
    }
    text = (
        f"Contingency: {FORMULA}, of {study.model.name} and of the emulator ({study.store.info.env_id}); each map is "
        "scaled to its own greatest value, opacity by its root. Correlation over pixels: mean maps "
        f"{agree['mean_maps']:.2f}; state by state {agree['by_state']:.2f} (the mean true map of the other states: "
        f"{agree['by_state_of_mean_map']:.2f})."
    )
    return contingency_figure(study.samples.now[example.number], panels, text)


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
