"""What every number means, in words that captions, tables and docs/metrics.md share.

x is the true frame, x̂ the prediction clamped to 0..255 (not rounded), both in pixel values; t is the step ahead.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from acvp.models.pixels import WRONG_BY

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
    """How it is computed; {scale} and {wrong} stand for the view's."""
    better: Literal["lower", "higher", "neither"]
    floor: float | None = None
    """Where its axis begins; None: wherever the values do."""


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
"""Curves whose sum over the steps is a number of steps, and its key in evaluation.json."""

WRONG_IN_PALETTE = "nearest color of the store's palette (by squared distance) is not the true one"
WRONG_BY_MORE = f"rounded value is off by more than {WRONG_BY} of 255 in any channel (this view has no palette)"


def frame_scale(gray: bool) -> float:
    """Return what the paper's squared error divides pixel values by."""
    return GRAY_SCALE if gray else COLOR_SCALE


def formula(name: str, *, scale: float, palette: bool) -> str:
    """Return how a metric is computed in a view."""
    return METRICS[name].formula.format(scale=f"{scale:g}", wrong=WRONG_IN_PALETTE if palette else WRONG_BY_MORE)
