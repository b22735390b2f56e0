"""How well rewards, terminations and lost lives are predicted, one step ahead from real frames.

Probabilities are calibrated, and thresholds applied, if they are stored with the predictor.

Shapes: n steps.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict
from typing import Any

import numpy as np
from numpy.typing import NDArray
from torch import Tensor

from acvp.console import Progress
from acvp.data.store import EpisodeStore
from acvp.loaded import LoadedModel
from acvp.models.calibration import Steps, choose_steps, predicted_outcome, recalls
from acvp.models.layers import REWARD_CLASSES, Calibration, Flags

BINS = 10
"""Of the calibration, equally wide in probability."""

Floats = NDArray[np.float64]


def predicts_outcomes(model: LoadedModel) -> bool:
    """Return whether a model predicts rewards and terminations."""
    return bool(getattr(model.predictor.config, "predict_rewards", False))


def measure_outcomes(
    model: LoadedModel, store: EpisodeStore, *, count: int, seed: int, batch_size: int, progress: Progress
) -> dict[str, Any]:
    """Return how well a model predicts rewards, terminations and lost lives at up to `count` steps.

    What does not occur in the data, or is not predicted, is left out.
    """
    predictor, calibration = model.predictor, model.predictor.calibration
    lives = bool(getattr(predictor.config, "predict_lives", False))
    steps = choose_steps(store, predictor.context, count=count, seed=seed, lives=lives)
    rewards, terminations = (steps.rewards != 1).any(), steps.terminations.any()
    if not rewards and not terminations and not (lives and steps.lost_lives.any()):
        return {}
    options: dict[str, Any] = {"batch_size": batch_size, "progress": progress}
    outcome = calibration.apply(predicted_outcome(predictor, model.view, store, steps.starts, **options))
    results: dict[str, Any] = {"steps": len(steps.starts)}
    if rewards:
        reward, signs = outcome.reward.double().softmax(1).numpy(force=True), calibration.reward_signs(outcome)
        results["reward"] = score(reward, steps.rewards, steps.weights, REWARD_CLASSES, signs + 1)
    if terminations:
        chosen = calibration.terminated(outcome)
        results["termination"] = _flag_score(outcome.termination, steps.terminations, steps, TERMINATIONS, chosen)
    lost = calibration.lost_lives(outcome)
    if outcome.lost_life is not None and lost is not None and steps.lost_lives.any():
        results["lost_life"] = _flag_score(outcome.lost_life, steps.lost_lives, steps, LIVES, lost)
    if calibration != Calibration():
        results["calibrated"] = asdict(calibration)
    return results


TERMINATIONS, LIVES = ("continues", "terminates"), ("kept", "lost")


def _flag_score(
    logits: Tensor, truth: NDArray[np.int64], steps: Steps, names: Sequence[str], chosen: Flags
) -> dict[str, Any]:
    """Return how logits (n,) of a termination or a lost life fit the truth (n,)."""
    probability = logits.double().sigmoid().numpy(force=True)  # (n,)
    return score(np.stack((1 - probability, probability), 1), truth, steps.weights, names, chosen.astype(np.int64))


def score(
    probabilities: Floats,
    truth: NDArray[np.int64],
    weights: Floats,
    names: Sequence[str],
    decided: NDArray[np.int64] | None = None,
) -> dict[str, Any]:
    """Return how classes with probabilities (n, k) fit the true ones (n,): recall by class, its mean, calibration.

    ``decided`` are the classes by the thresholds (n,); None: the likeliest. The mean is over the classes that occur.
    The calibration error is the mean distance, over steps, between the share of right answers of the likeliest class
    and the probability given to them, in bins of that probability.
    """
    chosen = probabilities.argmax(1)
    right = chosen == truth
    recall = {names[k]: share for k, share in recalls(chosen if decided is None else decided, truth, weights).items()}
    bins = []
    confidence = probabilities.max(1)
    number = np.minimum((confidence * BINS).astype(int), BINS - 1)
    for k in range(BINS):
        inside = number == k
        if inside.any():
            weight = weights[inside]
            bins.append(
                {
                    "probability": float(np.average(confidence[inside], weights=weight)),
                    "right": float(np.average(right[inside], weights=weight)),
                    "share": float(weight.sum() / weights.sum()),
                }
            )
    return {
        "balanced_accuracy": sum(recall.values()) / len(recall),
        "area_under_curve": {
            name: area_under_curve(probabilities[:, k], truth == k, weights)
            for k, name in enumerate(names)
            if 0 < (truth == k).sum() < len(truth)
        },
        "recall": recall,
        "count": {name: round(float(weights[truth == k].sum())) for k, name in enumerate(names)},
        "calibration": bins,
        "calibration_error": sum(bin["share"] * abs(bin["probability"] - bin["right"]) for bin in bins),
    }


def area_under_curve(scores: Floats, positive: NDArray[np.bool_], weights: Floats) -> float:
    """Return the area under the ROC curve: how probably a positive step has a higher score than a negative one."""
    levels, level = np.unique(scores, return_inverse=True)
    above, below = (np.bincount(level[part], weights[part], len(levels)) for part in (positive, ~positive))
    lower = np.concatenate(([0.0], below.cumsum()[:-1]))
    return float((above * (lower + below / 2)).sum() / (above.sum() * below.sum()))
