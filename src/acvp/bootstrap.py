"""Sums of measured values by episode and step, and 95 % bands by resampling episodes (percentile bootstrap).

Values of one episode depend on each other, so whole episodes are drawn. Memory: episodes × steps, however many windows.

Shapes: E episodes, T steps, R resamples.
"""

from __future__ import annotations

import base64
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from acvp.seeding import generator

RESAMPLES = 1000
LEVEL = (2.5, 97.5)
"""Percentiles of a 95 % band."""

Floats = NDArray[np.float64]


class Curve(NamedTuple):
    """A mean with its band by step; NaN where nothing was measured, and for the band of a single episode."""

    mean: Floats  # (T,)
    low: Floats  # (T,)
    high: Floats  # (T,)


class Accumulator:
    """Sums and counts of one measured quantity, by episode and step."""

    def __init__(self, episodes: int, steps: int) -> None:
        self.sums = np.zeros((episodes, steps))
        self.counts = np.zeros((episodes, steps))

    def add(self, step: int, episodes: NDArray[np.int64], values: Floats) -> None:
        """Add a value for each window of a batch at a step, 0 being the first; NaN is left out."""
        known = ~np.isnan(values)
        np.add.at(self.sums[:, step], episodes[known], values[known])
        np.add.at(self.counts[:, step], episodes[known], 1.0)

    def merge(self, episodes: NDArray[np.int64], part: Accumulator) -> None:
        """Add what another accumulator holds of some of the episodes, a row each."""
        self.sums[episodes] += part.sums
        self.counts[episodes] += part.counts

    def to_plain(self) -> list[str]:
        """Return everything as JSON can hold it, to the last bit."""
        return [base64.b64encode(values.tobytes()).decode() for values in (self.sums, self.counts)]

    @classmethod
    def from_plain(cls, plain: Sequence[str], episodes: int, steps: int) -> Accumulator:
        """Return the accumulator that `to_plain` was called on."""
        accumulator = cls(episodes, steps)
        for values, text in zip((accumulator.sums, accumulator.counts), plain, strict=True):
            values[:] = np.frombuffer(base64.b64decode(text)).reshape(episodes, steps)
        return accumulator

    def of(self, episodes: NDArray[np.int64]) -> Accumulator:
        """Return the part that belongs to some of the episodes."""
        part = Accumulator(0, 0)
        part.sums, part.counts = self.sums[episodes], self.counts[episodes]
        return part


class Bootstrap:
    """The same resampled episodes for every quantity, so that ratios are resampled together."""

    def __init__(self, episodes: int, *, seed: int, resamples: int = RESAMPLES) -> None:
        drawn = generator("bootstrap", seed).multinomial(episodes, [1 / episodes] * episodes, size=resamples)
        self.weights = drawn.astype(np.float64)  # (R, E): how often each episode was drawn
        self.episodes = episodes

    def curve(self, accumulator: Accumulator) -> Curve:
        """Return the mean over windows."""
        return self._curve(*_means(accumulator.sums, accumulator.counts, self.weights))

    def ratio(self, above: Accumulator, below: Accumulator) -> Curve:
        """Return the ratio of two means."""
        over, under = (_means(part.sums, part.counts, self.weights) for part in (above, below))
        return self._curve(_divide(over[0], under[0]), _divide(over[1], under[1]))

    def difference(self, first: Accumulator, second: Accumulator) -> Curve:
        """Return the difference of two means over the same resampled episodes: a paired comparison."""
        means, others = (_means(part.sums, part.counts, self.weights) for part in (first, second))
        return self._curve(means[0] - others[0], means[1] - others[1])

    def total(self, accumulator: Accumulator) -> Curve:
        """Return the sum over the steps of the mean over windows, as a curve of one step."""
        mean, resampled = _means(accumulator.sums, accumulator.counts, self.weights)
        return self._curve(mean.sum(keepdims=True), resampled.sum(1, keepdims=True))

    def _curve(self, mean: Floats, resampled: Floats) -> Curve:
        low, high = np.full_like(mean, np.nan), np.full_like(mean, np.nan)
        known = ~np.isnan(resampled).all(0)
        if self.episodes > 1 and known.any():
            low[known], high[known] = np.nanpercentile(resampled[:, known], LEVEL, axis=0)
        return Curve(mean, low, high)


def _means(sums: Floats, counts: Floats, weights: Floats) -> tuple[Floats, Floats]:
    """Return the mean (T,) and the resampled means (R, T)."""
    return _divide(sums.sum(0), counts.sum(0)), _divide(weights @ sums, weights @ counts)


def _divide(above: Floats, below: Floats) -> Floats:
    return np.divide(above, below, out=np.full_like(above, np.nan), where=below > 0)
