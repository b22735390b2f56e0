"""Measures that single claims of the paper need: wraps, collisions, the march of the invaders, small things, precision.

Each is a value of some windows at some steps, NaN elsewhere; its mean is reported for ranges of steps, with the number
of values, since what it asks for may be rare.

Shapes: B windows, T predicted steps, C channels, H height, W width.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import cv2
import numpy as np
from numpy.typing import NDArray

from acvp.actions import parse
from acvp.bootstrap import Accumulator, Bootstrap
from acvp.runs import numbers

Floats = NDArray[np.float64]
Flags = NDArray[np.bool_]
Frames = NDArray[np.float32]
"""(B, C, H, W) in pixel values."""

AFTER = 3
"""Steps after a wrap or a collision at which the object must be in its true place."""
WRAP = 0.4
"""Of the frame's side: a longer way in one step is a wrap."""
CHANGED = 32.0
"""Pixel values by which a pixel must change to count as part of a march, or of a thing that appears."""
MARCH = 0.2
"""Share of the pixels of the fleet that change when it marches; between marches it is below 0.05."""
FLEET = (0.1, 0.74)
"""Rows of the fleet, as shares of the height: below the score, above the shields."""
BRIGHT = 40.0
"""Pixel value above which a pixel of these rows belongs to the fleet: behind it everything is black."""
SMALL = 0.025
"""Of the frame's longer side: a thing whose shorter side is at most this is small, as bullets are in every view."""
GAP = 0.025
"""Of the frame's longer side: changes that are nearer to each other than twice this belong to one thing."""


@dataclass(frozen=True, kw_only=True)
class ClaimMeasure:
    """One measure."""

    title: str
    unit: str
    formula: str
    claim: str
    """Where the paper makes the claim."""


CLAIM_MEASURES = {
    "wrap_kept": ClaimMeasure(
        title="Wrap predicted",
        unit="share",
        formula=f"of the windows whose object, in its true place one step before, moves by more than {WRAP:g} of the "
        f"frame's side in one step: share in which it is in its true place {AFTER} steps later",
        claim="figure 2",
    ),
    "collision_kept": ClaimMeasure(
        title="Collision predicted",
        unit="share",
        formula="of the windows whose object, in its true place one step before and not moving down, is pushed down "
        f"without a DOWN action: share in which it is in its true place {AFTER} steps later",
        claim="section 4.1",
    ),
    "march_seen": ClaimMeasure(
        title="March predicted",
        unit="share",
        formula=f"of the steps in which more than {MARCH:g} of the fleet's pixels change: share in which more than "
        f"{MARCH:g} of them change in the prediction",
        claim="figure 4b",
    ),
    "march_false": ClaimMeasure(
        title="March at a wrong step",
        unit="share",
        formula=f"of the other steps: share in which more than {MARCH:g} of the fleet's pixels change in the "
        "prediction",
        claim="figure 4b",
    ),
    "small_found": ClaimMeasure(
        title="Small things found",
        unit="share",
        formula="of the things that appear in a place, whose change has a shorter side of at most "
        f"{SMALL:.1%} of the frame's longer side: share at which the prediction is nearer to the true frame than to "
        "the true frame before, where they appear",
        claim="section 4.1",
    ),
    "large_found": ClaimMeasure(
        title="Larger things found",
        unit="share",
        formula="the same for larger things",
        claim="section 4.1",
    ),
    "translation": ClaimMeasure(
        title="Translation error",
        unit="recorded pixels",
        formula="distance between the true and the predicted place of the controlled object, where it is found within "
        "12 % of the frame's longer side",
        claim="figure 4a",
    ),
}


def find_wraps(positions: Floats, shape: Sequence[int]) -> Flags:
    """Return in which steps (B, T) objects at positions (B, T + 1, 2) leave a side and come in at another."""
    return np.asarray((np.abs(np.diff(positions, axis=1)) > WRAP * np.asarray(shape[:2])).any(-1))


def find_collisions(positions: Floats, actions: NDArray[np.int64], meanings: Sequence[str]) -> Flags:
    """Return the steps (B, T) in which objects (B, T + 1, 2) begin to move down though no action (B, T) says so.

    Where they moved down in the step before, by an action or not, it may be the same push.
    """
    moves = [parse(name) for name in meanings]
    down = np.array([move is not None and move.down > 0 for move in moves])
    sinks = np.diff(positions[..., 0], axis=1) > 0
    begins: Flags = np.zeros(sinks.shape, np.bool_)  # what is pushed in the first step may have been so before
    begins[:, 1:] = sinks[:, 1:] & ~sinks[:, :-1] & ~down[actions[:, 1:]]
    return begins


def marches(frames: Frames, before: Frames, fleet: Frames) -> Flags:
    """Return whether (B,) the fleet moves from frames to the next; how large it is shows in the true frames ``fleet``.

    True and predicted frames are judged alike.
    """
    height = frames.shape[2]
    rows = slice(round(FLEET[0] * height), round(FLEET[1] * height))
    changed = (np.abs(frames[:, :, rows] - before[:, :, rows]).max(1) > CHANGED).sum((1, 2))
    pixels = (fleet[:, :, rows].max(1) > BRIGHT).sum((1, 2))
    return np.asarray((pixels > 0) & (changed > MARCH * pixels))


def appearing(
    truth: Frames, before: Frames, mean: NDArray[np.float32]
) -> tuple[NDArray[np.int32], list[NDArray[np.bool_]]]:
    """Return the things that appear: their numbers from 1 on in each frame (B, H, W), and which of them are small.

    A thing is a group of changed pixels near each other; it appears in those that are farther from the mean image
    (H, W, C) than before, and these bear its number.
    """
    distance = np.abs(truth - mean.transpose(2, 0, 1)).sum(1) - np.abs(before - mean.transpose(2, 0, 1)).sum(1)
    labels = np.zeros(truth.shape[:1] + truth.shape[2:], np.int32)
    small = []
    for window, moved in enumerate((truth != before).any(1)):
        labels[window], is_small = _things(moved, moved & (distance[window] > CHANGED))
        small.append(is_small)
    return labels, small


def _things(moved: Flags, appears: Flags) -> tuple[NDArray[np.int32], NDArray[np.bool_]]:
    """Return the numbered things of one frame in the pixels in which they appear, and which are small."""
    reach = 2 * max(1, round(GAP * max(moved.shape))) + 1
    spread = cv2.dilate(moved.astype(np.uint8), np.ones((reach, reach), np.uint8))
    count, spread_groups = cv2.connectedComponents(spread, connectivity=8)
    groups = np.where(moved, spread_groups, 0)
    kept = np.bincount(groups[appears], minlength=count) > 0
    number = np.where(kept, np.cumsum(kept), 0)
    small = _shorter_sides(groups, count)[kept] <= SMALL * max(moved.shape)
    return np.where(appears, number[groups], 0).astype(np.int32), small


def _shorter_sides(groups: NDArray[Any], count: int) -> NDArray[np.int64]:
    """Return the shorter side (count,) of the box around each numbered group; 0 has none."""
    places = np.nonzero(groups)
    sides = np.zeros((2, count), np.int64)
    for side, axis, length in zip(sides, places, groups.shape, strict=True):
        first, last = np.full(count, length), np.full(count, -1)
        np.minimum.at(first, groups[places], axis)
        np.maximum.at(last, groups[places], axis)
        side[:] = last - first + 1
    return np.asarray(sides.min(0))


def found_share(
    predicted: Frames, truth: Frames, before: Frames, labels: NDArray[np.int32], small: Sequence[NDArray[np.bool_]]
) -> tuple[Floats, Floats]:
    """Return the share (B,) of small and of larger things at which predictions are nearer to the truth than before."""
    gain = ((predicted - before) ** 2 - (predicted - truth) ** 2).sum(1)
    shares = np.full((2, len(truth)), np.nan)
    for window, is_small in enumerate(small):
        if len(is_small):
            sums = np.bincount(labels[window].ravel(), weights=gain[window].ravel(), minlength=len(is_small) + 1)[1:]
            for row, which in enumerate((is_small, ~is_small)):
                shares[row, window] = (sums[which] > 0).mean() if which.any() else np.nan
    return shares[0], shares[1]


def claim_events(
    game: str, positions: Floats | None, actions: NDArray[np.int64], meanings: Sequence[str], shape: Sequence[int]
) -> dict[str, Flags]:
    """Return the steps (B, T) of wraps and, in Freeway, collisions of objects at positions (B, T + 1, 2)."""
    if positions is None:
        return {}
    wraps = find_wraps(positions, shape)
    events = {"wrap_kept": wraps}
    if "freeway" in game.lower():
        events["collision_kept"] = find_collisions(positions, actions, meanings) & ~wraps
    return events


class ClaimMeter:
    """Measures a batch of windows step by step, for several models."""

    def __init__(
        self, game: str, mean: NDArray[np.float32], models: int, events: Mapping[str, Flags], near: float
    ) -> None:
        """``mean`` is the mean image (H, W, C) of the view; ``events`` come from `claim_events`; an object is in its
        true place if it is not farther away than ``near``.
        """
        self._fleet, self._near = "invaders" in game.lower(), near
        self._mean, self._events = mean, events
        self._found: list[list[Floats]] = [[] for _ in range(models)]
        self._last: list[Frames | None] = [None] * models

    def true_step(self, truth: Frames, before: Frames) -> None:
        """Take in the true frames of a step and those before them."""
        self._truth, self._before = truth, before
        self._things = appearing(truth, before, self._mean)
        if self._fleet:
            self._marched = marches(truth, before, before)

    def measure(self, model: int, predicted: Frames, distance: Floats | None) -> dict[str, Floats]:
        """Return the measures of a model's frames of this step; ``distance`` (B,) is that of its controlled object."""
        small, large = found_share(predicted, self._truth, self._before, *self._things)
        values = {"small_found": small, "large_found": large}
        if self._fleet:
            values |= self._marches(model, predicted)
        if distance is not None:
            values["translation"] = np.where(np.isfinite(distance), distance, np.nan)
            values |= self._events_kept(model, np.where(np.isnan(distance), np.nan, distance <= self._near))
        self._last[model] = predicted
        return values

    def _marches(self, model: int, predicted: Frames) -> dict[str, Floats]:
        last = self._last[model]
        moved = marches(predicted, self._before if last is None else last, self._before).astype(np.float64)
        return {
            "march_seen": np.where(self._marched, moved, np.nan),
            "march_false": np.where(self._marched, np.nan, moved),
        }

    def _events_kept(self, model: int, in_place: Floats) -> dict[str, Floats]:
        history = self._found[model]
        history.append(in_place)
        at = len(history) - 1 - AFTER
        if at < 0:
            return {}
        ready = history[at - 1] == 1 if at else np.ones(len(in_place), np.bool_)  # step 0 follows a real frame
        return {name: np.where(flags[:, at] & ready, in_place, np.nan) for name, flags in self._events.items()}


RANGES = ((1, 10), (11, 30), (31, 100), (101, 500))
"""First and last steps of the ranges that are reported."""


def summarize_claims(accumulators: Mapping[str, Mapping[str, Accumulator]], bootstrap: Bootstrap) -> dict[str, Any]:
    """Return mean, 95 % band and number of values of every measure, by model and range of steps."""
    some = next(iter(accumulators.values()))["error"]
    ranges = [(first, min(last, some.sums.shape[1])) for first, last in RANGES if first <= some.sums.shape[1]]
    body: dict[str, Any] = {}
    for name, measure in CLAIM_MEASURES.items():
        having = {model: metrics[name] for model, metrics in accumulators.items() if name in metrics}
        models = {model: _in_ranges(accumulator, ranges, bootstrap) for model, accumulator in having.items()}
        if any(any(values["count"]) for values in models.values()):
            body[name] = vars(measure) | {"steps": [list(steps) for steps in ranges], "models": models}
    return body


def _in_ranges(accumulator: Accumulator, ranges: Sequence[tuple[int, int]], bootstrap: Bootstrap) -> dict[str, Any]:
    pooled = Accumulator(accumulator.sums.shape[0], len(ranges))
    for number, (first, last) in enumerate(ranges):
        pooled.sums[:, number] = accumulator.sums[:, first - 1 : last].sum(1)
        pooled.counts[:, number] = accumulator.counts[:, first - 1 : last].sum(1)
    curve = bootstrap.curve(pooled)
    bands = {part: numbers(values) for part, values in curve._asdict().items()}
    return bands | {"count": [int(count) for count in pooled.counts.sum(0)]}
