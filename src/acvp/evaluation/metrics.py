"""The metrics of single frames: what each number means, how it is computed, and how to register another one.

In the formulas x is the true frame, x̂ the prediction clamped to 0..255 (not rounded), both in pixel values; t is the
step ahead. Captions, tables and docs/metrics.md share these words. What all predictors share is computed once per step.
Structural similarity uses OpenCV's Gaussian filter: what torchmetrics computes, in a fraction of the time.

Shapes: B windows, C channels, H height, W width.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from hashlib import sha256
from importlib.metadata import entry_points
from inspect import getsource
from typing import Any, Literal, NamedTuple

import cv2
import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from acvp.data.frames import Palette
from acvp.errors import UserError
from acvp.models.pixels import WRONG_BY, Frame, ObjectFinder, Target, WrongPixels, as_pixels

Measure = Callable[[Tensor, Tensor], Any]
"""Predicted and true frames (B, C, H, W) in pixel values 0..255 → one number for each, (B,); NaN is left out."""

PSNR_CAP = 60.0
"""dB; about what rounding to whole pixel values alone costs, and what an exact frame gets."""
COLOR_SCALE, GRAY_SCALE = 255.0, 128.0
"""What the paper divides pixel values by: §4 for color, appendix B for the gray network."""


@dataclass(frozen=True, kw_only=True)
class Metric:
    """One measured quantity."""

    name: str
    """Its key in evaluation.json."""
    title: str
    unit: str
    formula: str
    """How it is computed; {scale} and {wrong} stand for what they are in the view."""
    better: Literal["lower", "higher", "neither"]
    floor: float | None = None
    """Where its axis begins; None: wherever the values do."""
    measure: Measure | None = None
    """The function of a registered metric; None: built in."""


METRICS = {
    metric.name: metric
    for metric in (
        Metric(
            name="error",
            title="Squared error (paper's scale)",
            unit="sum over a frame",
            formula="Σ over pixels and channels of ((x̂ − x)/{scale})²; mean over windows, no factor ½",
            better="lower",
            floor=0.0,
        ),
        Metric(
            name="mse",
            title="Squared error per pixel",
            unit="(pixel value)²",
            formula="mean over pixels and channels of (x̂ − x)², pixel values 0..255; mean over windows",
            better="lower",
            floor=0.0,
        ),
        Metric(
            name="psnr",
            title="PSNR",
            unit="dB",
            formula="10 · log10(255² / mse) of each frame, at most 60 dB; mean over windows",
            better="higher",
        ),
        Metric(
            name="ssim",
            title="SSIM",
            unit="1 = equal",
            formula="SSIM (Wang et al., 2004), Gaussian window 11×11 with σ = 1.5, K1 = 0.01, K2 = 0.03, range 255, "
            "frame reflected at its edges, mean over pixels and channels; mean over windows",
            better="higher",
        ),
        Metric(
            name="wrong_pixels",
            title="Wrong pixels",
            unit="pixels of a frame",
            formula="number of pixels whose {wrong}; mean over windows",
            better="lower",
            floor=0.0,
        ),
        Metric(
            name="exact",
            title="Exact so far",
            unit="share",
            formula="share of windows without a wrong pixel in steps 1..t; its sum over t is the mean number of exact "
            "steps",
            better="higher",
            floor=0.0,
        ),
        Metric(
            name="moving_mse",
            title="Error on moving pixels",
            unit="(pixel value)²",
            formula="mean of (x̂ − x)² over the pixels where the true frames of steps t and t − 1 differ; mean over the "
            "windows that have such pixels",
            better="lower",
            floor=0.0,
        ),
        Metric(
            name="object_distance",
            title="Object's distance",
            unit="recorded pixels",
            formula="distance from where the emulator's RAM says the controlled object is to where its true patch fits "
            "best in x̂; the search radius (12 % of the frame's longer side) where it is not found",
            better="lower",
            floor=0.0,
        ),
        Metric(
            name="object_kept",
            title="Object kept so far",
            unit="share",
            formula="share of windows whose controlled object was within 4 % of the frame's longer side in all of "
            "steps 1..t in which it is drawn; its sum over t is the mean number of steps until the object is lost",
            better="higher",
            floor=0.0,
        ),
        Metric(
            name="object_found",
            title="Object found",
            unit="share",
            formula="share of windows whose controlled object is within 4 % of the frame's longer side at step t, "
            "whatever was before; of those in which it is drawn",
            better="higher",
            floor=0.0,
        ),
        Metric(
            name="object_exact",
            title="Object exact",
            unit="share",
            formula="share of windows whose controlled object is at its true place to the pixel at step t; of those in "
            "which it is drawn",
            better="higher",
            floor=0.0,
        ),
        Metric(
            name="gain",
            title="Gain over copy-last",
            unit="1 = no error, 0 = no better",
            formula="1 − (mean error) / (mean error of repeating the last real frame)",
            better="higher",
        ),
        Metric(
            name="sensitivity",
            title="Action sensitivity",
            unit="ratio",
            formula="(mean error under another window's actions) / (mean error under the true actions), same windows; "
            "1 = blind to actions",
            better="neither",
        ),
    )
}

TOTALS = {"exact": "exact_steps", "object_kept": "kept_steps"}
"""Curves whose sum over the steps is a number of steps → the key of that sum in evaluation.json."""

WRONG_IN_PALETTE = "nearest color of the store's palette (by squared distance) is not the true one"
WRONG_BY_MORE = f"rounded value is off by more than {WRONG_BY} of 255 in any channel (this view has no palette)"


def frame_scale(gray: bool) -> float:
    """Return what the paper's squared error divides pixel values by."""
    return GRAY_SCALE if gray else COLOR_SCALE


def formula(name: str, *, scale: float, palette: bool) -> str:
    """Return how a metric is computed in a view."""
    how = METRICS[name].formula.replace("{scale}", f"{scale:g}")
    return how.replace("{wrong}", WRONG_IN_PALETTE if palette else WRONG_BY_MORE)


ENTRY_POINTS = "acvp.metrics"
"""Group of entry points whose modules register metrics."""
RESERVED = ("shuffled", "unshuffled", "counterfactual")
"""Names that evaluation uses for other things."""


def register(
    name: str,
    *,
    title: str,
    unit: str,
    formula: str,
    better: Literal["lower", "higher", "neither"] = "neither",
    floor: float | None = None,
) -> Callable[[Measure], Measure]:
    """Register a function as a metric of `acvp evaluate`, with what its table, its axis and its caption say.

    >>> @register("brightness", title="Brightness", unit="pixel values", formula="mean of x̂ − mean of x")
    ... def brightness(predicted, truth):
    ...     return predicted.mean((1, 2, 3)) - truth.mean((1, 2, 3))
    """
    if not name.isidentifier() or name in RESERVED:
        raise UserError(f"a metric cannot be called {name!r}: its name becomes a key and a file name; choose another")

    def add(measure: Measure) -> Measure:
        known = METRICS.get(name)
        if known is not None and (known.measure is None or _code(known.measure) != _code(measure)):
            raise UserError(f"there is a metric {name!r} already; choose another name")
        METRICS[name] = Metric(
            name=name, title=title, unit=unit, formula=formula, better=better, floor=floor, measure=measure
        )
        return measure

    return add


def registered() -> dict[str, Measure]:
    """Return the functions of all registered metrics by name, those of installed packages included."""
    for entry in entry_points(group=ENTRY_POINTS):
        entry.load()
    return {name: metric.measure for name, metric in METRICS.items() if metric.measure is not None}


def fingerprints(measures: Mapping[str, Measure]) -> dict[str, str]:
    """Return a digest of the code of each metric: cached results of other code do not count."""
    return {name: _code(measure) for name, measure in measures.items()}


def _code(measure: Measure) -> str:
    try:
        text = getsource(measure)
    except (OSError, TypeError):  # no file, or no plain function
        text = repr(getattr(getattr(measure, "__code__", None), "co_code", type(measure)))
    return sha256(text.encode()).hexdigest()


SIGMA, SIDE, RANGE = 1.5, 11, 255.0
C1, C2 = (0.01 * RANGE) ** 2, (0.03 * RANGE) ** 2
MIDDLE = 128.0
"""Subtracted before squaring: variances do not change, and rounding errors get smaller."""


class Blurred(NamedTuple):
    """Local statistics of frames, (B, C, H, W) each."""

    shifted: Tensor
    """Pixel values − MIDDLE."""
    mean: Tensor
    """Of the shifted values."""
    level: Tensor
    """Of the pixel values."""
    variance: Tensor


class Ssim:
    """SSIM of frames of one size, reflected at their edges; the window shrinks for frames that are smaller than it."""

    def __init__(self, height: int, width: int) -> None:
        self._side = min(SIDE, 2 * min(height, width) - 1)

    def blur(self, frames: Tensor) -> Blurred:
        """Return the local statistics of frames (B, C, H, W) in pixel values."""
        shifted = frames - MIDDLE
        mean = self._filter(shifted)
        variance = self._filter(shifted.square()).addcmul_(mean, mean, value=-1).clamp_(min=0)
        return Blurred(shifted, mean, mean + MIDDLE, variance)

    def compare(self, a: Blurred, b: Blurred) -> Tensor:
        """Return the similarity (B,) of frames."""
        covariance = self._filter(a.shifted * b.shifted).addcmul_(a.mean, b.mean, value=-1)
        above = (a.level * b.level).mul_(2).add_(C1).mul_(covariance.mul_(2).add_(C2))
        levels = a.level.square().addcmul_(b.level, b.level).add_(C1)
        below = levels.mul_((a.variance + b.variance).add_(C2))
        return above.div_(below).flatten(1).mean(1, dtype=torch.float64)

    def _filter(self, frames: Tensor) -> Tensor:
        planes = frames.contiguous().numpy().reshape(-1, *frames.shape[-2:])  # (B·C, H, W)
        blurred = np.empty_like(planes)
        for plane, out in zip(planes, blurred, strict=True):
            cv2.GaussianBlur(plane, (self._side, self._side), SIGMA, dst=out, borderType=cv2.BORDER_REFLECT_101)
        return torch.from_numpy(blurred).view(frames.shape)


Values = dict[str, NDArray[np.float64]]
"""By metric, one value (B,) for each window; NaN where there is nothing to measure."""


@dataclass(frozen=True)
class TrueStep:
    """A true frame of each window with what the metrics need of it."""

    frames: Tensor  # (B, C, H, W), pixel values
    moved: Tensor  # (B, 1, H, W), 1 where the frame differs from the one before
    moved_values: NDArray[np.float64]  # (B,), how many values the pixels that moved have
    blurred: Blurred
    targets: list[Target | None] | None


class FrameMetrics:
    """Compares predictions with true frames of one view."""

    def __init__(
        self,
        shape: tuple[int, int, int],
        *,
        gray: bool,
        palette: Palette | None,
        finder: ObjectFinder | None = None,
        own: Mapping[str, Measure] | None = None,
    ) -> None:
        """Measure the built-in metrics and those in ``own``.

        ``palette`` is the store's, None in a view that blends colors; without a finder no object is looked for.
        """
        self.scale = frame_scale(gray)
        self.finder, self.own = finder, own or {}
        self._ssim = Ssim(*shape[:2])
        self._wrong = WrongPixels(palette)

    def step(
        self, frames: NDArray[np.uint8], before: NDArray[np.uint8], positions: NDArray[np.float64] | None = None
    ) -> TrueStep:
        """Prepare true frames (B, H, W, C) of a step, those before them, and positions (B, 2) of the object."""
        moved = torch.from_numpy((frames != before).any(-1)).unsqueeze(1).float()
        pixels = as_pixels(frames)
        targets = None
        if self.finder is not None and positions is not None:
            pairs = zip(frames.astype(np.float32), positions.tolist(), strict=True)
            targets = [self.finder.target(frame, position) for frame, position in pairs]
        return TrueStep(pixels, moved, _sum(moved) * pixels.shape[1], self._ssim.blur(pixels), targets)

    def error(self, truth: Tensor, predicted: Tensor) -> NDArray[np.float64]:
        """Return the squared error (B,) in the paper's scale."""
        return _sum((predicted - truth).square()) / self.scale**2

    def measure(self, step: TrueStep, predicted: Tensor) -> Values:
        """Return all metrics of predictions (B, C, H, W) in pixel values."""
        squared = (predicted - step.frames).square()
        total = _sum(squared)
        mse = total / squared[0].numel()
        moved, moving = step.moved_values, _sum(squared * step.moved)
        values = {
            "error": total / self.scale**2,
            "mse": mse,
            "psnr": 10 * np.log10(255**2 / np.maximum(mse, 255**2 / 10 ** (PSNR_CAP / 10))),
            "ssim": self._ssim.compare(self._ssim.blur(predicted), step.blurred).numpy(),
            "wrong_pixels": self._wrong.count(predicted, step.frames).numpy().astype(np.float64),
            "moving_mse": np.divide(moving, moved, out=np.full_like(moving, np.nan), where=moved > 0),
        }
        if step.targets is not None:
            values["object_distance"] = self._distances(step.targets, predicted)
        return values | {name: _measured(name, own, predicted, step.frames) for name, own in self.own.items()}

    def _distances(self, targets: list[Target | None], predicted: Tensor) -> NDArray[np.float64]:
        assert self.finder is not None
        frames: list[Frame] = list(predicted.permute(0, 2, 3, 1).numpy())
        distances = [
            np.nan if target is None else self.finder.distance(frame, target)
            for frame, target in zip(frames, targets, strict=True)
        ]
        return np.array(distances, np.float64)


def _measured(name: str, measure: Measure, predicted: Tensor, truth: Tensor) -> NDArray[np.float64]:
    """Return what a registered metric gives for each window, or refuse what is not one number for each."""
    values = np.asarray(measure(predicted.clone(), truth.clone()), np.float64)
    if values.shape != (len(truth),):
        raise UserError(f"metric {name} returns shape {values.shape}; expected one number for each of {len(truth)}")
    return values


def _sum(values: Tensor) -> NDArray[np.float64]:
    return values.flatten(1).sum(1).double().numpy()
