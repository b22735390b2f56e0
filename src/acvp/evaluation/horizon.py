"""Horizon curves: every predictor looks ahead from the same windows, and every step is compared with the truth.

It streams: true frames are decoded a few steps at a time, predictions are dropped once measured, and what is kept are
sums by episode. Memory does not grow with the number of windows or with their length.

Shapes: B windows of a batch, C channels, H height, W width.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from acvp.bootstrap import Tally
from acvp.console import Progress
from acvp.data.objects import Positions
from acvp.data.store import EpisodeStore
from acvp.data.windows import WindowReader, WindowStart
from acvp.evaluation.metrics import FrameMetrics, TrueStep, Values
from acvp.evaluation.windows import batches, evenly
from acvp.loaded import LoadedModel, identity
from acvp.models.pixels import as_pixels
from acvp.runs import ResultCache
from acvp.seeding import generator

Rows = NDArray[np.int64]
"""(B,): of each window of a batch, the number of its episode among those of the batch."""
Tallies = dict[str, dict[str, Tally]]
"""By subject, by metric; `shuffled` and `unshuffled` are the errors whose ratio is the action sensitivity."""


@dataclass(frozen=True, kw_only=True)
class Outlook:
    """Windows to look ahead from."""

    store: EpisodeStore
    places: Sequence[WindowStart]
    context: int
    """Real frames given: the most that any subject needs."""
    horizon: int
    batch_size: int = 32
    seed: int = 0
    shuffled_windows: int = 0
    positions: Positions | None = None
    """Of the controlled object; None: not measured."""

    @property
    def length(self) -> int:
        return self.context + self.horizon

    def identity(self) -> dict[str, Any]:
        """Return what decides the measurements of a batch, besides its windows."""
        known = self.positions is not None
        return {"context": self.context, "horizon": self.horizon, "object": known}

    def shuffled(self) -> list[int]:
        """Return which of the places are predicted under another window's actions too."""
        return evenly(len(self.places), self.shuffled_windows) if len(self.places) > 1 else []


@torch.inference_mode()
def look_ahead(
    subjects: Sequence[LoadedModel],
    outlook: Outlook,
    metrics: FrameMetrics,
    progress: Progress = lambda done, total: None,
    results: ResultCache | None = None,
) -> Tallies:
    """Return what was measured of every subject, by episode and step.

    `progress` counts steps of single windows. Finished batches are kept in `results` and taken from there.
    """
    shuffled = _shuffled_batches(outlook)
    total = (len(outlook.places) + len(outlook.shuffled())) * outlook.horizon
    survey = _Survey(subjects, outlook, metrics, results, lambda done: progress(done, total))
    for first in range(0, len(outlook.places), outlook.batch_size):
        survey.measure(outlook.places[first : first + outlook.batch_size], first)
    for places, actions in shuffled:
        survey.measure_shuffled(places, actions)
    return survey.tallies


class _Survey:
    """Measures batch after batch into tallies."""

    def __init__(
        self,
        subjects: Sequence[LoadedModel],
        outlook: Outlook,
        metrics: FrameMetrics,
        results: ResultCache | None,
        progress: Callable[[int], None],
    ) -> None:
        self.subjects, self.outlook, self.metrics = subjects, outlook, metrics
        self.tallies: Tallies = {subject.name: {} for subject in subjects}
        self._results, self._progress = results, progress
        self._identity = {} if results is None else identity(subjects, outlook.store) | outlook.identity()
        self._part: Tallies = {}
        self._paired = set(outlook.shuffled())
        self._done = 0

    def measure(self, places: Sequence[WindowStart], first: int) -> None:
        """Look ahead from a batch of places, the first being number `first` of all."""
        paired = np.array([first + i in self._paired for i in range(len(places))])
        self._take_in(places, {"paired": paired.tolist()}, lambda rows: self._measure(places, rows, paired))

    def measure_shuffled(self, places: Sequence[WindowStart], actions: NDArray[np.int64]) -> None:
        """Look ahead from a batch of places under other actions; only the error is measured, and not of baselines."""
        digest = hashlib.sha256(actions.tobytes()).hexdigest()
        self._take_in(places, {"actions": digest}, lambda rows: self._measure_shuffled(places, rows, actions))

    def _take_in(self, places: Sequence[WindowStart], which: dict[str, Any], measure: Callable[[Rows], None]) -> None:
        """Measure a batch into tallies of its own, unless it was measured before, and add them to those of all."""
        steps = self.outlook.horizon
        episodes, rows = np.unique([place.episode for place in places], return_inverse=True)

        def measured() -> dict[str, Any]:
            self._part = {subject.name: {} for subject in self.subjects}
            measure(rows)
            return {
                name: {metric: tally.to_plain() for metric, tally in tallies.items()}
                for name, tallies in self._part.items()
            }

        settings = self._identity | which | {"windows": [list(place) for place in places]}
        part = measured() if self._results is None else self._results.part(settings, measured)
        for name, tallies in part.items():
            for metric, plain in tallies.items():
                whole = self.tallies[name].setdefault(metric, Tally(len(self.outlook.store), steps))
                whole.merge(episodes, Tally.from_plain(plain, len(episodes), steps))
        self._done += len(places) * steps
        self._progress(self._done)

    def _measure(self, places: Sequence[WindowStart], rows: Rows, paired: NDArray[np.bool_]) -> None:
        outlook, truth = self.outlook, self._truth(places)
        given, actions = truth.frames(0, outlook.context), truth.actions(0, outlook.length - 1)
        walks = [subject.look_ahead(given, actions) for subject in self.subjects]
        alive = [_Alive(len(places)) for _ in self.subjects]
        before = given[:, -1]
        for t, frames in enumerate(truth.steps(outlook.context, outlook.horizon)):
            step = self.metrics.step(frames, before, self._positions(places, outlook.context + t))
            for subject, walk, still in zip(self.subjects, walks, alive, strict=True):
                values = self._values(step, next(walk), still)
                values["unshuffled"] = np.where(paired, values["error"], np.nan)
                self._add(subject, t, rows, values)
            before = frames
            self._progress(self._done + (t + 1) * len(places))

    def _measure_shuffled(self, places: Sequence[WindowStart], rows: Rows, actions: NDArray[np.int64]) -> None:
        outlook, truth = self.outlook, self._truth(places)
        learned = [subject for subject in self.subjects if not subject.baseline]
        given, between = truth.frames(0, outlook.context), truth.actions(0, outlook.context - 1)
        walks = [subject.look_ahead(given, np.concatenate((between, actions), 1)) for subject in learned]
        for t, frames in enumerate(truth.steps(outlook.context, outlook.horizon)):
            pixels = as_pixels(frames)
            for subject, walk in zip(learned, walks, strict=True):
                self._add(subject, t, rows, {"shuffled": self.metrics.error(pixels, next(walk))})
            self._progress(self._done + (t + 1) * len(places))

    def _values(self, step: TrueStep, predicted: Tensor, alive: _Alive) -> Values:
        values = self.metrics.measure(step, predicted)
        values["exact"] = alive.still_exact(values["wrong_pixels"])
        if self.metrics.finder is not None and "object_distance" in values:
            distance = values["object_distance"]
            values["object_kept"] = alive.still_kept(distance, self.metrics.finder.near)
            values["object_found"] = np.where(np.isnan(distance), np.nan, distance <= self.metrics.finder.near)
            values["object_distance"] = np.minimum(distance, self.metrics.finder.search)
        return values

    def _add(self, subject: LoadedModel, step: int, rows: Rows, values: Values) -> None:
        tallies = self._part[subject.name]
        for name, each in values.items():
            if name not in tallies:
                tallies[name] = Tally(int(rows.max()) + 1, self.outlook.horizon)
            tallies[name].add(step, rows, each)

    def _truth(self, places: Sequence[WindowStart]) -> WindowReader:
        return WindowReader(self.outlook.store, places, self.subjects[0].view)

    def _positions(self, places: Sequence[WindowStart], t: int) -> NDArray[np.float64] | None:
        positions = self.outlook.positions
        return None if positions is None else np.stack([positions[e][start + t] for e, start in places])


class _Alive:
    """Which windows have had no wrong pixel, and which have not lost the object, in all steps so far."""

    def __init__(self, count: int) -> None:
        self.exact, self.kept = np.ones(count, np.bool_), np.ones(count, np.bool_)

    def still_exact(self, wrong: NDArray[np.float64]) -> NDArray[np.float64]:
        self.exact &= wrong == 0
        return self.exact.astype(np.float64)

    def still_kept(self, distance: NDArray[np.float64], near: float) -> NDArray[np.float64]:
        self.kept &= ~(distance > near)  # where the object is not drawn, distance is NaN and nothing is lost
        return self.kept.astype(np.float64)


def _shuffled_batches(outlook: Outlook) -> list[tuple[Sequence[WindowStart], NDArray[np.int64]]]:
    """Return some of the places with another one's actions: a random ring, so that none keeps its own."""
    places = [outlook.places[i] for i in outlook.shuffled()]
    ring = generator("shuffled", outlook.seed).permutation(len(places))
    donors = {int(ring[i]): places[int(ring[i - 1])] for i in range(len(places))}
    first, stop = outlook.context - 1, outlook.length - 1
    rows = [outlook.store[donors[i].episode].actions[donors[i].start :][first:stop] for i in range(len(places))]
    actions = np.stack(rows).astype(np.int64) if rows else np.empty((0, outlook.horizon), np.int64)
    size = outlook.batch_size
    return [(each, actions[i * size : i * size + size]) for i, each in enumerate(batches(places, size))]
