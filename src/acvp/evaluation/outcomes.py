"""How well rewards and terminations are predicted, one step ahead from real frames.

Steps with a termination, with a reward and with neither are drawn separately, for most steps have neither; each drawn
step stands for as many of its kind as it was drawn from.

Shapes: n steps, B of a batch.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from acvp.console import Progress
from acvp.data.store import EpisodeStore
from acvp.data.windows import WindowReader, WindowStart
from acvp.evaluation.windows import batches
from acvp.loaded import LoadedModel
from acvp.seeding import generator

BINS = 10
"""Of the calibration, equally wide in probability."""
SIGNS = ("negative", "zero", "positive")

Floats = NDArray[np.float64]


def predicts_outcomes(subject: LoadedModel) -> bool:
    """Return whether a subject predicts rewards and terminations."""
    return bool(getattr(subject.predictor.config, "outcome_heads", False))


def measure_outcomes(
    subject: LoadedModel, store: EpisodeStore, *, count: int, seed: int, batch_size: int, progress: Progress
) -> dict[str, Any]:
    """Return balanced accuracy and calibration of a subject's reward and termination heads at up to `count` steps.

    What does not occur in the data, rewards or terminations, is left out.
    """
    places, weights = choose_steps(store, subject.predictor.context, count=count, seed=seed)
    truth = [_truth(store, place, subject.predictor.context) for place in places]
    signs, ends = np.array([sign for sign, _ in truth], np.int64), np.array([end for _, end in truth], np.int64)
    rewards, terminations = (signs != 1).any(), ends.any()
    if not rewards and not terminations:
        return {}
    parts: list[tuple[Floats, Floats]] = []
    for batch in batches(places, batch_size):
        progress(len(parts) * batch_size, len(places))
        parts.append(_foretold(subject, store, batch))
    reward, end = (np.concatenate([part[k] for part in parts]) for k in (0, 1))  # (n, 3), (n,)
    found: dict[str, Any] = {"steps": len(places)}
    if rewards:
        found["reward"] = score(reward, signs, weights, SIGNS)
    if terminations:
        found["end"] = score(np.stack((1 - end, end), 1), ends, weights, ("goes on", "ends"))
    return found


def choose_steps(store: EpisodeStore, context: int, *, count: int, seed: int) -> tuple[list[WindowStart], Floats]:
    """Return up to `count` windows of ``context`` frames before a step, and how many steps each of them stands for.

    Of steps with a termination, with a reward and with neither, about as many each, as far as there are. A place's
    start is the first of its frames. Not more than `count` episodes are read.
    """
    kinds: tuple[list[WindowStart], ...] = ([], [], [])
    draw = generator("outcomes", seed)
    for position in sorted(draw.permutation(len(store))[:count].tolist()):
        episode = store[position]
        for step in range(context - 1, len(episode) - 1):
            last = episode.header.terminated and step == len(episode) - 2
            kind = 0 if last else 1 if episode.rewards[step] else 2
            kinds[kind].append(WindowStart(position, step - context + 1))
    places: list[WindowStart] = []
    weights: list[float] = []
    for found, share in zip(kinds, _shares([len(found) for found in kinds], count), strict=True):
        drawn = draw.permutation(len(found))[:share]
        places += [found[k] for k in sorted(drawn.tolist())]
        weights += [len(found) / max(1, share)] * share
    return places, np.array(weights)


def _shares(sizes: Sequence[int], count: int) -> list[int]:
    """Deal a number to kinds of some sizes: as much to each, but what the smaller ones lack goes to the larger ones."""
    shares = [0] * len(sizes)
    for left, kind in zip(range(len(sizes), 0, -1), sorted(range(len(sizes)), key=sizes.__getitem__), strict=True):
        shares[kind] = min(sizes[kind], (count - sum(shares)) // left)
    return shares


def score(probabilities: Floats, truth: NDArray[np.int64], weights: Floats, names: Sequence[str]) -> dict[str, Any]:
    """Return how classes with probabilities (n, k) fit the true ones (n,): recall by class, its mean, calibration.

    The mean is over the classes that occur. The calibration error is the mean distance, over steps, between the share
    of right answers and the probability given to them, in bins of that probability.
    """
    chosen = probabilities.argmax(1)
    right = chosen == truth
    recall = {}
    for k, name in enumerate(names):
        if (truth == k).any():
            recall[name] = float(np.average(right[truth == k], weights=weights[truth == k]))
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
        "recall": recall,
        "count": {name: round(float(weights[truth == k].sum())) for k, name in enumerate(names)},
        "calibration": bins,
        "calibration_error": sum(each["share"] * abs(each["probability"] - each["right"]) for each in bins),
    }


def _truth(store: EpisodeStore, place: WindowStart, context: int) -> tuple[int, bool]:
    """Return class of the reward's sign and whether the play ends at the step after a window."""
    episode, step = store[place.episode], place.start + context - 1
    return int(np.sign(episode.rewards[step])) + 1, bool(episode.header.terminated and step == len(episode) - 2)


@torch.inference_mode()
def _foretold(subject: LoadedModel, store: EpisodeStore, places: Sequence[WindowStart]) -> tuple[Floats, Floats]:
    """Return probabilities of the reward's signs (B, 3) and of the end (B,)."""
    context, predictor = subject.predictor.context, subject.predictor
    truth = WindowReader(store, places, subject.view)
    frames = predictor.normalizer.to_float(torch.from_numpy(truth.frames(0, context)).to(subject.device))
    actions = torch.from_numpy(truth.actions(0, context)).to(subject.device)
    outcome = predictor.predict(predictor.observe(frames, actions[:, :-1]), actions[:, -1])[1].outcome
    assert outcome is not None
    return outcome.reward.double().softmax(1).numpy(force=True), outcome.end.double().sigmoid().numpy(force=True)
