"""Held-out error: during training beside both baselines, and at the end compared with copying the last frame.

The comparison is by a bootstrap over windows; the baselines are copying the last frame and the mean frame.

Two units, both from the prediction as the network gives it (neither clamped nor rounded), averaged over the windows:
``error`` is the squared error of (pixel − mean)/scale summed over the pixels and channels of a frame, the paper's;
``mse`` is the squared error in pixel values 0..255, per pixel and channel: error · scale² / (H·W·C).
If a predictor predicts a color for each pixel, ``wrong`` is the number of pixels of another color than the true one.

Shapes: B windows, T real frames, C channels, H height, W width, N windows of the comparison, R resamples.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from acvp.console import counted
from acvp.data.windows import WindowBatch
from acvp.models import Predictor, imagine
from acvp.seeding import generator
from acvp.training.data import TrainingData

STRIP_COLUMNS = 8
"""Steps shown in a strip of pictures."""


@dataclass(frozen=True, kw_only=True)
class HeldOutReport:
    """Errors by steps ahead."""

    error: dict[int, float]
    """Squared error summed over a frame, in normalized units."""
    copy_last: dict[int, float]
    """The same of repeating the last real frame."""
    mean_frame: dict[int, float]
    """The same of the mean of the training frames."""
    mse: dict[int, float]
    """Squared error per pixel in 0..255."""
    wrong: dict[int, float]
    """Wrong pixels of a frame; empty where predictions are real numbers."""
    copy_wrong: dict[int, float]
    """The same of repeating the last real frame."""
    score: float
    """Mean of the error over all steps up to the longest horizon: what patience and the best checkpoint go by."""
    strip: NDArray[np.uint8]
    """(2·H, n·W, C): the first window, truth above prediction, at growing distances."""

    def curves(self) -> dict[str, dict[int, float]]:
        """Return the errors by name and steps ahead."""
        curves = {"error": self.error, "copy_last": self.copy_last, "mean_frame": self.mean_frame, "mse": self.mse}
        return curves | ({"wrong": self.wrong, "copy_wrong": self.copy_wrong} if self.wrong else {})

    def to_dict(self) -> dict[str, Any]:
        """Return the numbers as JSON can hold them."""
        named = {name: {str(h): value for h, value in curve.items()} for name, curve in self.curves().items()}
        return named | {"score": self.score}

    def text(self) -> str:
        """Return the errors in a line, beside those of copying the last frame."""
        if self.wrong:
            wrong = [f"{h}-step {w:,.1f} (copy-last {self.copy_wrong[h]:,.1f})" for h, w in self.wrong.items()]
            return f"wrong pixels  {'  '.join(wrong)}"
        return "error  " + "  ".join(
            f"{h}-step {e:.3f} (copy-last {self.copy_last[h]:.3f})" for h, e in self.error.items()
        )

    def sentence(self, pixel_scale: float) -> str:
        """Return the errors as a card has them."""
        if self.wrong:
            wrong = [
                f"{w:,.1f} at {counted(h, 'step')} (copy-last-frame {self.copy_wrong[h]:,.1f})"
                for h, w in self.wrong.items()
            ]
            return f"wrong pixels {', '.join(wrong)}"
        errors = [
            f"{e:.3f} at {counted(h, 'step')} (copy-last-frame {self.copy_last[h]:.3f})" for h, e in self.error.items()
        ]
        return f"{', '.join(errors)}: squared error of (pixel − mean)/{pixel_scale:g} summed over a frame"


class HeldOut:
    """Held-out windows on which a predictor is measured during training."""

    def __init__(self, batch: WindowBatch, horizons: tuple[int, ...]) -> None:
        self.horizons = horizons
        self.context = batch.frames.shape[1] - max(horizons)
        self._frames = torch.from_numpy(batch.frames)
        self._palette = None if batch.palette is None else torch.from_numpy(batch.palette.copy())
        self._actions = torch.from_numpy(batch.actions)

    @torch.no_grad()
    def measure(self, predictor: Predictor) -> HeldOutReport:
        """Return the errors of a predictor that is fed its own predictions."""
        errors, baselines, pairs = [], [], []
        wrong: list[tuple[float, float]] = []
        for frame, last, truth in self._rollout(predictor):
            errors.append(_squared(frame, truth))
            baselines.append((_squared(last, truth), _squared(torch.zeros_like(truth), truth)))  # 0 is the mean frame
            if predictor.names_colors:
                wrong.append((_wrong(predictor, frame, truth), _wrong(predictor, last, truth)))
            pairs.append((truth[0], frame[0]))
        return self._report(predictor, errors, baselines, wrong, pairs)

    @torch.no_grad()
    def errors_by_window(self, predictor: Predictor) -> dict[int, NDArray[np.float64]]:
        """Return the errors (B, 2) of the predictor and of repeating the last frame, by steps ahead.

        Wrong pixels of a predictor that names colors, the squared error summed over a frame of the others.
        """
        measured = []
        for frame, last, truth in self._rollout(predictor):
            if predictor.names_colors:
                differences = [predictor.wrong_pixels(shown, truth).flatten(1) for shown in (frame, last)]
            else:
                differences = [(shown.float() - truth).square().flatten(1) for shown in (frame, last)]
            sums = torch.stack([values.double().sum(1) for values in differences], 1)  # (B, 2)
            measured.append(sums.numpy(force=True))
        return {h: measured[h - 1] for h in self.horizons}

    def _rollout(self, predictor: Predictor) -> Iterator[tuple[Tensor, Tensor, Tensor]]:
        """Yield, step by step, the predicted, the last given and the true frames, (B, C, H, W) each."""
        real = self._real(predictor, 0, self.context)  # (B, T, C, H, W)
        actions = self._actions.to(real.device)
        state = predictor.observe(real, actions[:, : self.context - 1])
        for step, (frame, _) in enumerate(imagine(predictor, state, actions[:, self.context - 1 :])):
            truth = self._real(predictor, self.context + step, self.context + step + 1)[:, 0]
            yield frame, real[:, -1], truth

    def _real(self, predictor: Predictor, start: int, stop: int) -> Tensor:
        return predictor.normalizer.stored_to_float(self._frames[:, start:stop], self._palette)

    def _report(
        self,
        predictor: Predictor,
        errors: list[float],
        baselines: list[tuple[float, float]],
        wrong: list[tuple[float, float]],
        pairs: list[tuple[Tensor, Tensor]],
    ) -> HeldOutReport:
        height, width, channels = predictor.config.frame
        to_mse = predictor.config.pixel_scale**2 / (height * width * channels)
        error = {h: errors[h - 1] for h in self.horizons}
        return HeldOutReport(
            error=error,
            copy_last={h: baselines[h - 1][0] for h in self.horizons},
            mean_frame={h: baselines[h - 1][1] for h in self.horizons},
            mse={h: value * to_mse for h, value in error.items()},
            wrong={h: wrong[h - 1][0] for h in self.horizons if wrong},
            copy_wrong={h: wrong[h - 1][1] for h in self.horizons if wrong},
            score=sum(errors) / len(errors),
            strip=_strip(predictor, pairs),
        )


def _squared(frames: Tensor, truth: Tensor) -> float:
    return float((frames.float() - truth).square().sum()) / len(frames)


def _wrong(predictor: Predictor, frames: Tensor, truth: Tensor) -> float:
    return int(predictor.wrong_pixels(frames, truth).sum()) / len(frames)


def _strip(predictor: Predictor, pairs: list[tuple[Tensor, Tensor]]) -> NDArray[np.uint8]:
    shown = sorted({round(k) for k in np.geomspace(1, len(pairs), STRIP_COLUMNS)})
    rows = [torch.stack([pairs[k - 1][row] for k in shown]) for row in (0, 1)]  # (n, C, H, W) each
    images = [predictor.normalizer.to_uint8(row).numpy(force=True) for row in rows]
    return np.concatenate([np.concatenate(list(row), axis=1) for row in images], axis=0)


WINDOWS = 64
"""Held-out windows, evenly spread over the test episodes, or all if there are fewer."""
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
            return f"too few windows ({self.windows}) to compare with copying the last frame"
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
        return any(item.windows < FEWEST or item.difference[1] < 0 for item in self.comparisons)

    @property
    def sentence(self) -> str:
        """The conclusions without their numbers."""
        return ", ".join(f"{item.steps}-step {item.conclusion}" for item in self.comparisons)

    def lines(self) -> list[str]:
        """Return a line per horizon."""
        return [
            f"{item.steps}-step: {item.conclusion} ({self.unit} {item.error:,.3f} against {item.copy_last:,.3f}, "
            f"difference {item.difference[0]:+,.3f} to {item.difference[1]:+,.3f}: 95 % band, "
            f"{counted(item.windows, 'held-out window')} of {counted(self.episodes, 'episode')})"
            for item in self.comparisons
        ]


def compare_with_copying(
    predictor: Predictor, data: TrainingData, progress: Callable[..., None] = lambda: None
) -> Conclusions:
    """Compare a predictor with copying the last frame, without any random number of training."""
    windows, horizons = data.test_windows()
    chosen = np.unique(np.linspace(0, len(windows) - 1, WINDOWS).astype(np.int64))
    parts = []
    for first in range(0, len(chosen), data.config.windows):
        progress()
        batch = windows.batch(chosen[first : first + data.config.windows])
        parts.append(HeldOut(batch, horizons).errors_by_window(predictor))
    seed, steps = data.config.seed, sorted({min(horizons), max(horizons)})
    return Conclusions(
        unit="wrong pixels" if predictor.names_colors else "squared error",
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
