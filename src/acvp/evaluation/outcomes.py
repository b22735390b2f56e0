"""How well rewards and ends are foretold, one step ahead from real frames.

Every step of the test part that brings a reward or an end is taken, and a sample of the others, which stand for all.

Shapes: n steps, B of a batch.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from acvp.data.store import EpisodeStore
from acvp.evaluation.horizon import Progress
from acvp.evaluation.places import Place, batches
from acvp.evaluation.subjects import Subject
from acvp.evaluation.truth import TrueWindows
from acvp.seeding import generator

OTHERS = 2000
"""Steps without a reward or an end that are looked at."""
BINS = 10
"""Of the calibration, equally wide in probability."""
SIGNS = ("negative", "zero", "positive")

Floats = NDArray[np.float64]


def measure_outcomes(
    subject: Subject, store: EpisodeStore, *, seed: int, batch_size: int, progress: Progress
) -> dict[str, Any] | None:
    """Return balanced accuracy and calibration of a subject's reward and end heads; None where it has none."""
    if not getattr(subject.predictor.config, "outcome_heads", False):
        return None
    places, weights = choose_steps(store, subject.predictor.context, seed=seed)
    signs, ends = zip(*(_truth(store, place, subject.predictor.context) for place in places), strict=True)
    parts: list[tuple[Floats, Floats]] = []
    for batch in batches(places, batch_size):
        progress(len(parts) * batch_size, len(places))
        parts.append(_foretold(subject, store, batch))
    reward, end = (np.concatenate([part[k] for part in parts]) for k in (0, 1))  # (n, 3), (n,)
    return {
        "steps": len(places),
        "reward": score(reward, np.array(signs), weights, SIGNS),
        "end": score(np.stack((1 - end, end), 1), np.array(ends, np.int64), weights, ("goes on", "ends")),
    }


def choose_steps(store: EpisodeStore, context: int, *, seed: int) -> tuple[list[Place], Floats]:
    """Return windows of ``context`` frames before a step: all with a reward or an end, some others; and their weights.

    A place's start is the first of those frames. The weights of the others add up to their number in the store.
    """
    events, others = [], []
    for position, entry in enumerate(store.entries):
        episode = store[position]
        rewarded = np.flatnonzero(episode.rewards).tolist()
        last = [entry.frames - 2] if episode.header.terminated else []
        eventful = {step for step in (*rewarded, *last) if step >= context - 1}
        events += [Place(position, step - context + 1) for step in sorted(eventful)]
        others += [
            Place(position, step - context + 1) for step in range(context - 1, entry.frames - 1) if step not in eventful
        ]
    drawn = generator("outcomes", seed).permutation(len(others))[:OTHERS]
    kept = [others[k] for k in sorted(drawn.tolist())]
    weights = [1.0] * len(events) + [len(others) / max(1, len(kept))] * len(kept)
    return [*events, *kept], np.array(weights)


def score(probabilities: Floats, truth: NDArray[np.int64], weights: Floats, names: Sequence[str]) -> dict[str, Any]:
    """Return how classes with probabilities (n, k) fit the true ones (n,): recall by class, its mean, calibration.

    The mean is over the classes that occur. The calibration error is the mean distance, over steps, between the share
    of right answers and the probability given to them, in bins of that probability.
    """
    chosen = probabilities.argmax(1)
    right = chosen == truth
    recall = {name: float(right[truth == k].mean()) for k, name in enumerate(names) if (truth == k).any()}
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


def _truth(store: EpisodeStore, place: Place, context: int) -> tuple[int, bool]:
    """Return class of the reward's sign and whether the play ends at the step after a window."""
    episode, step = store[place.episode], place.start + context - 1
    return int(np.sign(episode.rewards[step])) + 1, bool(episode.header.terminated and step == len(episode) - 2)


@torch.inference_mode()
def _foretold(subject: Subject, store: EpisodeStore, places: Sequence[Place]) -> tuple[Floats, Floats]:
    """Return probabilities of the reward's signs (B, 3) and of the end (B,)."""
    context, predictor = subject.predictor.context, subject.predictor
    truth = TrueWindows(store, places, subject.view)
    frames = predictor.normaliser.to_float(torch.from_numpy(truth.frames(0, context)).to(subject.device))
    actions = torch.from_numpy(truth.actions(0, context)).to(subject.device)
    outcome = predictor.predict(predictor.observe(frames, actions[:, :-1]), actions[:, -1])[1].outcome
    assert outcome is not None
    return outcome.reward.double().softmax(1).numpy(force=True), outcome.end.double().sigmoid().numpy(force=True)
