"""Horizon curves: all models look ahead from the same windows; each step is compared with the true frame, and in pairs.

It streams: true frames are decoded a few steps at a time, predictions are dropped once they are measured, and only
sums by episode are kept. Memory does not grow with the number of windows or with their length.

Shapes: B windows of a batch, C channels, H height, W width.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from itertools import combinations
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from acvp.actions import Actions
from acvp.bootstrap import Accumulator, Bootstrap
from acvp.console import Progress
from acvp.data.replay import Positions
from acvp.data.store import EpisodeStore
from acvp.data.windows import WindowReader, WindowStart
from acvp.evaluation.claims import CLAIM_MEASURES, ClaimMeter, claim_events
from acvp.evaluation.config import shown_steps
from acvp.evaluation.metrics import FrameMetrics, Values, fingerprints
from acvp.evaluation.windows import batches, evenly
from acvp.loaded import LoadedModel, identity
from acvp.models.pixels import as_pixels
from acvp.result_cache import OtherShardError, ResultCache
from acvp.runs import numbers
from acvp.seeding import generator

SAME_PIXEL = 0.5
"""Pixels by which an object may be off and still count as exact: distances are of whole pixels of the view."""

Rows = NDArray[np.int64]
"""(B,): for each window of a batch, the row of its episode in the accumulators of the batch."""
Accumulators = dict[str, dict[str, Accumulator]]
"""By model, by metric; `shuffled` and `unshuffled` are the errors whose ratio is the action sensitivity."""


@dataclass(frozen=True, kw_only=True)
class EvaluationWindows:
    """Windows of test episodes to look ahead from."""

    store: EpisodeStore
    starts: Sequence[WindowStart]
    context: int
    """Real frames given: the most that any model needs."""
    horizon: int
    batch_size: int = 32
    seed: int = 0
    shuffled_windows: int = 0
    positions: Positions | None = None
    """Of the controlled object; None: not known."""

    @property
    def length(self) -> int:
        return self.context + self.horizon

    def identity(self) -> dict[str, Any]:
        """Return what decides the measurements of a batch besides its windows: part of the key of cached results."""
        known = self.positions is not None
        return {"context": self.context, "horizon": self.horizon, "object": known, "claims": sorted(CLAIM_MEASURES)}

    def shuffled(self) -> list[int]:
        """Return the numbers of the windows that are also predicted under another window's actions."""
        return evenly(len(self.starts), self.shuffled_windows) if len(self.starts) > 1 else []


@torch.inference_mode()
def look_ahead(
    models: Sequence[LoadedModel],
    windows: EvaluationWindows,
    metrics: FrameMetrics,
    progress: Progress = lambda done, total: None,
    results: ResultCache | None = None,
) -> Accumulators:
    """Return the measurements of every model, by episode and step.

    `progress` counts steps of single windows. Finished batches are cached in `results`.
    """
    shuffled = _shuffled_batches(windows)
    total = (len(windows.starts) + len(windows.shuffled())) * windows.horizon
    measurer = _BatchMeasurer(models, windows, metrics, results, lambda done: progress(done, total))
    for first in range(0, len(windows.starts), windows.batch_size):
        with suppress(OtherShardError):
            measurer.measure(windows.starts[first : first + windows.batch_size], first)
    for starts, actions in shuffled:
        with suppress(OtherShardError):
            measurer.measure_shuffled(starts, actions)
    return measurer.accumulators


class _BatchMeasurer:
    """Measures windows batch by batch into accumulators."""

    def __init__(
        self,
        models: Sequence[LoadedModel],
        windows: EvaluationWindows,
        metrics: FrameMetrics,
        results: ResultCache | None,
        progress: Callable[[int], None],
    ) -> None:
        self.models, self.windows, self.metrics = models, windows, metrics
        self.accumulators: Accumulators = {model.name: {} for model in models}
        self._results, self._progress = results, progress
        self._identity = {}
        if results is not None:
            own = {"metrics": fingerprints(metrics.own)} if metrics.own else {}
            self._identity = identity(models, windows.store) | windows.identity() | own
        self._part: Accumulators = {}
        self._paired = set(windows.shuffled())
        self._done = 0

    def measure(self, starts: Sequence[WindowStart], first: int) -> None:
        """Look ahead from a batch of windows, the first being number `first` of all."""
        paired = np.array([first + i in self._paired for i in range(len(starts))])
        self._take_in(starts, {"paired": paired.tolist()}, lambda rows: self._measure(starts, rows, paired))

    def measure_shuffled(self, starts: Sequence[WindowStart], actions: NDArray[np.int64]) -> None:
        """Look ahead from a batch of windows under other actions; only the error of learned models is measured."""
        digest = hashlib.sha256(actions.tobytes()).hexdigest()
        self._take_in(starts, {"actions": digest}, lambda rows: self._measure_shuffled(starts, rows, actions))

    def _take_in(self, starts: Sequence[WindowStart], which: dict[str, Any], measure: Callable[[Rows], None]) -> None:
        """Measure a batch into separate accumulators, unless it is cached, and merge them into those of all."""
        steps = self.windows.horizon
        episodes, rows = np.unique([start.episode for start in starts], return_inverse=True)

        def measured() -> dict[str, Any]:
            self._part = {model.name: {} for model in self.models}
            measure(rows)
            return {
                name: {metric: accumulator.to_plain() for metric, accumulator in accumulators.items()}
                for name, accumulators in self._part.items()
            }

        settings = self._identity | which | {"windows": [list(start) for start in starts]}
        part = measured() if self._results is None else self._results.part(settings, measured)
        for name, accumulators in part.items():
            for metric, plain in accumulators.items():
                whole = self.accumulators[name].setdefault(metric, Accumulator(len(self.windows.store), steps))
                whole.merge(episodes, Accumulator.from_plain(plain, len(episodes), steps))
        self._done += len(starts) * steps
        self._progress(self._done)

    def _measure(self, starts: Sequence[WindowStart], rows: Rows, paired: NDArray[np.bool_]) -> None:
        windows, truth = self.windows, self._truth(starts)
        given, actions = truth.frames(0, windows.context), truth.actions(0, windows.length - 1)
        rollouts = [model.look_ahead(given, actions) for model in self.models]
        alive = [_SoFar(len(starts)) for _ in self.models]
        before, meter = given[:, -1], self._meter(starts, actions[:, windows.context - 1 :])
        for t, frames in enumerate(truth.steps(windows.context, windows.horizon)):
            step = self.metrics.step(frames, before, self._positions(starts, windows.context + t))
            meter.true_step(step.frames.numpy(), as_pixels(before).numpy())
            for number, (model, rollout, still) in enumerate(zip(self.models, rollouts, alive, strict=True)):
                predicted = next(rollout)
                values = self.metrics.measure(step, predicted)
                values |= meter.measure(number, predicted.numpy(), values.get("object_distance"))
                values = self._so_far(values, still)
                values["unshuffled"] = np.where(paired, values["error"], np.nan)
                self._add(model, t, rows, values)
            before = frames
            self._progress(self._done + (t + 1) * len(starts))

    def _measure_shuffled(self, starts: Sequence[WindowStart], rows: Rows, actions: Actions) -> None:
        windows, truth = self.windows, self._truth(starts)
        learned = [model for model in self.models if not model.baseline]
        given, between = truth.frames(0, windows.context), truth.actions(0, windows.context - 1)
        rollouts = [model.look_ahead(given, np.concatenate((between, actions), 1)) for model in learned]
        for t, frames in enumerate(truth.steps(windows.context, windows.horizon)):
            pixels = as_pixels(frames)
            for model, rollout in zip(learned, rollouts, strict=True):
                self._add(model, t, rows, {"shuffled": self.metrics.error(pixels, next(rollout))})
            self._progress(self._done + (t + 1) * len(starts))

    def _so_far(self, values: Values, alive: _SoFar) -> Values:
        values["exact"] = alive.still_exact(values["wrong_pixels"])
        if self.metrics.finder is not None and "object_distance" in values:
            distance = values["object_distance"]
            values["object_kept"] = alive.still_kept(distance, self.metrics.finder.near)
            values |= found_and_exact(distance, self.metrics.finder.near)
            values["object_distance"] = np.minimum(distance, self.metrics.finder.search)
        return values

    def _meter(self, starts: Sequence[WindowStart], actions: NDArray[np.int64]) -> ClaimMeter:
        """Return what measures a batch for single claims of the paper; ``actions`` (B, T) are those of its steps."""
        windows, info = self.windows, self.windows.store.info
        places, first = windows.positions, windows.context - 1
        rows = (
            None
            if places is None
            else np.stack([places[e][frame + first :][: windows.horizon + 1] for e, frame in starts])
        )
        events = claim_events(info.env_id, rows, actions, info.action_meanings, info.frame_shape)
        mean = self.models[0].predictor.normalizer.mean.cpu().numpy()
        near = self.metrics.finder.near if self.metrics.finder else 0.0
        return ClaimMeter(info.env_id, mean, len(self.models), events, near)

    def _add(self, model: LoadedModel, step: int, rows: Rows, values: Values) -> None:
        accumulators = self._part[model.name]
        for name, value in values.items():
            if name not in accumulators:
                accumulators[name] = Accumulator(int(rows.max()) + 1, self.windows.horizon)
            accumulators[name].add(step, rows, value)

    def _truth(self, starts: Sequence[WindowStart]) -> WindowReader:
        return WindowReader(self.windows.store, starts, self.models[0].view)

    def _positions(self, starts: Sequence[WindowStart], t: int) -> NDArray[np.float64] | None:
        positions = self.windows.positions
        return None if positions is None else np.stack([positions[e][frame + t] for e, frame in starts])


def found_and_exact(distance: NDArray[np.float64], near: float) -> Values:
    """Return whether objects at distances (B,) in pixels are found, and whether exactly; NaN: they are not drawn."""
    unknown = np.isnan(distance)
    return {
        "object_found": np.where(unknown, np.nan, distance <= near),
        "object_exact": np.where(unknown, np.nan, distance < SAME_PIXEL),
    }


class _SoFar:
    """Which windows had no wrong pixel, and which kept the object, in all steps so far."""

    def __init__(self, count: int) -> None:
        self.exact, self.kept = np.ones(count, np.bool_), np.ones(count, np.bool_)

    def still_exact(self, wrong: NDArray[np.float64]) -> NDArray[np.float64]:
        self.exact &= wrong == 0
        return self.exact.astype(np.float64)

    def still_kept(self, distance: NDArray[np.float64], near: float) -> NDArray[np.float64]:
        self.kept &= ~(distance > near)  # where the object is not drawn, distance is NaN and nothing is lost
        return self.kept.astype(np.float64)


def _shuffled_batches(windows: EvaluationWindows) -> list[tuple[Sequence[WindowStart], Actions]]:
    """Return some of the windows with another one's actions: a random ring, so that none keeps its own."""
    starts = [windows.starts[i] for i in windows.shuffled()]
    ring = generator("shuffled", windows.seed).permutation(len(starts))
    donors = {int(ring[i]): starts[int(ring[i - 1])] for i in range(len(starts))}
    first, stop = windows.context - 1, windows.length - 1
    rows = [
        windows.store[donors[i].episode].actions[donors[i].frame + first : donors[i].frame + stop]
        for i in range(len(starts))
    ]
    actions = windows.store.info.blank_actions(len(rows), windows.horizon)
    if rows:
        actions[:] = rows
    size = windows.batch_size
    return [(batch, actions[i * size : i * size + size]) for i, batch in enumerate(batches(starts, size))]


PAIRED = ("error", "wrong_pixels", "object_kept", "object_found")
"""Metrics that are compared."""


def paired_differences(accumulators: Mapping[str, Mapping[str, Accumulator]], bootstrap: Bootstrap) -> dict[str, Any]:
    """Return the mean of "first − second" with its 95 % band for every two models, by metric and step.

    Where the band does not contain 0, the two differ by more than the choice of the episodes explains.
    """
    horizon = next(iter(accumulators.values()))["error"].sums.shape[1]
    steps = shown_steps(horizon)
    metrics = {}
    for metric in PAIRED:
        having = [name for name, metrics in accumulators.items() if metric in metrics]
        if len(having) > 1:
            metrics[metric] = [
                {"first": first, "second": second}
                | _at(bootstrap, accumulators[first][metric], accumulators[second][metric], steps)
                for first, second in combinations(having, 2)
            ]
    return {"steps": steps, "metrics": metrics}


def _at(bootstrap: Bootstrap, first: Accumulator, second: Accumulator, steps: list[int]) -> dict[str, Any]:
    curve = bootstrap.difference(first, second)
    return {part: numbers(values[[step - 1 for step in steps]]) for part, values in curve._asdict().items()}
