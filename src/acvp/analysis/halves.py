"""Factors of high variance and the rest (§4.3), and how much of the true change predictions with some of them explain.

Shapes: F factors, A actions, S scenes, C channels, h height, w width of the view.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from acvp.analysis.factors import Factors, all_factors
from acvp.analysis.scenes import Scenes
from acvp.errors import UserError
from acvp.evaluation.metrics import as_pixels
from acvp.evaluation.tally import Bootstrap, Curve, Tally
from acvp.models import Predictor, build_predictor

Mask = NDArray[np.bool_]  # (F,), or (S, h, w)
REGIONS = ("object", "elsewhere")


def high_variance(factors: Factors, share: float) -> Mask:
    """Return the fewest of factors (F, A) that hold at least a share of the variance over actions."""
    variances = factors.var(1)
    if not variances.any():
        raise UserError("no factor varies with the action: the network is untrained, or blind to actions")
    order = np.argsort(-variances, kind="stable")
    held = np.cumsum(variances[order]) / variances.sum()
    high = np.zeros(len(factors), np.bool_)
    high[order[: int(np.searchsorted(held, share)) + 1]] = True
    return high


def untrained_share(predictor: Predictor, share: float) -> float | None:
    """Return the share of factors that `high_variance` chooses in the same network before training.

    The reference for the share of a trained network: random weights spread their variance over many factors, the more
    actions the more evenly. None where no factor varies before training.
    """
    factors = all_factors(build_predictor(predictor.config))  # type: ignore[arg-type]
    return float(high_variance(factors, share).mean()) if factors.var(1).any() else None


def variance_curve(factors: Factors, points: int = 101) -> NDArray[np.float64]:
    """Return the share of the variance that the first 0 %, 1 %, … of the factors hold, highest variance first."""
    falling = np.sort(factors.var(1))[::-1]
    held = np.concatenate(([0.0], np.cumsum(falling) / falling.sum()))
    return np.interp(np.linspace(0, len(falling), points), np.arange(len(held)), held)


@dataclass(frozen=True)
class Explained:
    """How much of the true change predictions explain; 1: all of it, 0: no more than repeating the last frame."""

    by_name: dict[str, Curve]
    """A value for each of REGIONS, with bands over episodes."""
    changed: tuple[int, ...]
    """How many pixels changed in each of REGIONS."""


def explain(predictions: dict[str, Tensor], scenes: Scenes, regions: Mask, *, episodes: int, seed: int) -> Explained:
    """Return how much of the change in the object's regions (S, h, w), and elsewhere, predictions (S, C, h, w) explain.

    1 − Σ (x̂ − x')² / Σ (x − x')² over the pixels of all scenes in which the true next frame x' differs from the last
    frame x.
    """
    changed = scenes.changed()
    parts = torch.from_numpy(np.stack((changed & regions, changed & ~regions), 1))  # (S, 2, h, w)
    truth = as_pixels(scenes.after)
    numbers = np.array([place.episode for place in scenes.places])

    def tally(frames: Tensor) -> Tally:
        squared = (frames - truth).square().sum(1, keepdim=True)  # (S, 1, h, w)
        sums = (squared * parts).flatten(2).sum(2, dtype=torch.float64).numpy()  # (S, 2)
        result = Tally(episodes, len(REGIONS))
        for region in range(len(REGIONS)):
            result.add(region, numbers, sums[:, region])
        return result

    nothing = tally(as_pixels(scenes.now))
    used = np.flatnonzero(nothing.counts.any(1))
    bootstrap = Bootstrap(len(used), seed=seed)
    by_name = {}
    for name, frames in predictions.items():
        left = bootstrap.ratio(tally(frames).of(used), nothing.of(used))
        by_name[name] = Curve(1 - left.mean, 1 - left.high, 1 - left.low)
    return Explained(by_name, tuple(parts.sum((0, 2, 3)).tolist()))
