"""What a finished run has learned, measured against copying the last frame on held-out windows.

Shapes: N windows, R resamples.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from acvp.models import PixelPredictor, Predictor
from acvp.seeding import generator
from acvp.training.batches import TrainingData
from acvp.training.heldout import HeldOut

WINDOWS = 64
"""Held-out windows, evenly spread over the test episodes, or all where there are fewer."""
FEWEST = 8
"""Windows below which a percentile bootstrap's band is too narrow to conclude anything from it."""
RESAMPLES = 1000
LEVEL = (2.5, 97.5)
"""Percentiles of the 95 % band."""


@dataclass(frozen=True, kw_only=True)
class Comparison:
    """A predictor beside copying the last frame, some steps ahead, window by window."""

    steps: int
    """Steps ahead."""
    error: float
    """Of the predictor, mean of the windows."""
    copy_last: float
    """Of copying the last frame."""
    difference: tuple[float, float]
    """95 % band of the mean difference between the two, by bootstrap over the windows; below 0 the predictor wins."""
    windows: int

    @property
    def conclusion(self) -> str:
        """Whether the predictor is better than copying the last frame."""
        low, high = self.difference
        if self.windows < FEWEST:
            return f"{self.windows} windows are too few to compare with copying the last frame"
        if high < 0:
            return "better than copying the last frame"
        return "worse than copying the last frame" if low > 0 else "not distinguishable from copying the last frame"


@dataclass(frozen=True, kw_only=True)
class Conclusions:
    """Comparisons at the first step and at the longest horizon."""

    unit: str
    episodes: int
    """Test episodes that the windows come from."""
    comparisons: tuple[Comparison, ...]

    @property
    def learned(self) -> bool:
        """Whether the predictor is better at any of the horizons, or that cannot be concluded."""
        return any(each.windows < FEWEST or each.difference[1] < 0 for each in self.comparisons)

    @property
    def sentence(self) -> str:
        """The conclusions without their numbers."""
        return ", ".join(f"{each.steps}-step {each.conclusion}" for each in self.comparisons)

    def lines(self) -> list[str]:
        """Return a line per horizon."""
        return [
            f"{each.steps}-step: {each.conclusion} ({self.unit} {each.error:,.3f} against {each.copy_last:,.3f}, "
            f"difference {each.difference[0]:+,.3f} to {each.difference[1]:+,.3f}: 95 % band, {each.windows} held-out "
            f"windows of {self.episodes} episode{'s' * (self.episodes > 1)})"
            for each in self.comparisons
        ]


def compare_with_copying(
    predictor: Predictor, data: TrainingData, progress: Callable[..., None] = lambda: None
) -> Conclusions:
    """Return how a predictor does beside copying the last frame; draws nothing that training draws."""
    windows, horizons = data.test_windows()
    chosen = np.unique(np.linspace(0, len(windows) - 1, WINDOWS).astype(np.int64))
    parts = []
    for first in range(0, len(chosen), data.recipe.windows):
        progress()
        batch = windows.batch(chosen[first : first + data.recipe.windows])
        parts.append(HeldOut(batch, horizons).errors_by_window(predictor))
    seed, steps = data.recipe.seed, sorted({min(horizons), max(horizons)})
    return Conclusions(
        unit="wrong pixels" if isinstance(predictor, PixelPredictor) else "squared error",
        episodes=len({windows.locate(int(number))[0] for number in chosen}),
        comparisons=tuple(paired(h, np.concatenate([part[h] for part in parts]), seed) for h in steps),
    )


def paired(steps: int, errors: NDArray[np.float64], seed: int) -> Comparison:
    """Return the comparison that errors (N, 2) of predictor and copy amount to."""
    difference = errors[:, 0] - errors[:, 1]
    draws = generator("copy-last", seed, steps).integers(len(errors), size=(RESAMPLES, len(errors)))
    low, high = np.percentile(difference[draws].mean(1), LEVEL)  # of (R, N)
    error, copy_last = errors.mean(0).tolist()
    return Comparison(
        steps=steps, error=error, copy_last=copy_last, difference=(float(low), float(high)), windows=len(errors)
    )
