"""Chooses the calibration of rewards, terminations and lost lives on data that a predictor was not trained on.

Steps with a termination, a lost life, a reward and with none are sampled separately, because most steps have none; each
sampled step is weighted by the number of steps it was sampled from.

Shapes: n steps, B of a batch.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor
from torch.nn import functional

from acvp.data.frames import View
from acvp.data.store import EpisodeStore
from acvp.data.windows import Window, WindowReader, WindowStart, starts_of
from acvp.models.config import Progress
from acvp.models.layers import Calibration, Outcome, reward_class
from acvp.models.predictor import Predictor
from acvp.seeding import generator

STEPS = 1_000
"""Steps that decide, at most."""
BATCH_SIZE = 32
"""Steps predicted at once."""
PULL = 1.0
"""Weight of the pull toward no correction, in steps: decides where the data have few rewards or terminations."""
LARGEST_LOGIT = 15.0
"""Of a threshold: it stays a probability above 0 and below 1."""
ROUNDS = 2
"""Times that the thresholds of negative and of positive rewards are chosen in turns."""

Floats = NDArray[np.float64]
Numbers = NDArray[np.int64]


@dataclass(frozen=True)
class Steps:
    """Some steps of a dataset, and what they bring."""

    starts: list[WindowStart]
    """The window of ``context`` frames before each."""
    weights: Floats
    """Number of steps that each stands for, (n,)."""
    rewards: Numbers
    """Classes of the rewards, (n,)."""
    terminations: Numbers
    """Whether the episode terminates, (n,)."""
    lost_lives: Numbers
    """Whether a life is lost, (n,)."""


def choose_steps(store: EpisodeStore, context: int, *, count: int, seed: int, lives: bool = False) -> Steps:
    """Return up to `count` steps.

    Steps with a termination, with a reward and with neither are sampled in equal numbers where there are enough, and
    with `lives` also those with a lost life. Not more than `count` episodes are read.
    """
    kinds: tuple[list[WindowStart], ...] = ([], [], [], [])
    draw = generator("outcomes", seed)
    for position in sorted(draw.permutation(len(store))[:count].tolist()):
        episode = store[position]
        lost = episode.lost_lives
        for start in starts_of(len(episode), Window(context, 1)):
            step = start + context - 1
            last = episode.header.terminated and step == len(episode) - 2
            kind = 0 if last else 1 if episode.rewards[step] else 3 if lives and lost[step] else 2
            kinds[kind].append(WindowStart(position, start))
    starts: list[WindowStart] = []
    weights: list[float] = []
    for kind_starts, share in zip(kinds, _shares([len(kind) for kind in kinds], count), strict=True):
        drawn = draw.permutation(len(kind_starts))[:share]
        starts += [kind_starts[k] for k in sorted(drawn.tolist())]
        weights += [len(kind_starts) / max(1, share)] * share
    truth = np.array([_truth(store, start, context) for start in starts], np.int64).reshape(-1, 3)
    return Steps(starts, np.array(weights), *truth.T)


def _shares(sizes: Sequence[int], count: int) -> list[int]:
    """Split a number evenly over kinds of some sizes; what the smaller ones lack goes to the larger ones."""
    shares = [0] * len(sizes)
    for left, kind in zip(range(len(sizes), 0, -1), sorted(range(len(sizes)), key=sizes.__getitem__), strict=True):
        shares[kind] = min(sizes[kind], (count - sum(shares)) // left)
    return shares


def _truth(store: EpisodeStore, start: WindowStart, context: int) -> tuple[int, bool, bool]:
    """Return the class of the reward, whether the episode terminates and whether a life is lost after a window."""
    episode, step = store[start.episode], start.frame + context - 1
    last = bool(episode.header.terminated and step == len(episode) - 2)
    return reward_class(episode.rewards[step]), last, bool(episode.lost_lives[step])


def predicted_outcome(
    predictor: Predictor,
    view: View,
    store: EpisodeStore,
    starts: Sequence[WindowStart],
    *,
    batch_size: int = BATCH_SIZE,
    progress: Progress = lambda done, total: None,
) -> Outcome:
    """Return the logits (n, …) of the step after each window, not calibrated."""
    return Outcome.combined(list(_outcomes(predictor, view, store, starts, batch_size, progress)), torch.cat)


@torch.inference_mode()
def _outcomes(
    predictor: Predictor,
    view: View,
    store: EpisodeStore,
    starts: Sequence[WindowStart],
    batch_size: int,
    progress: Progress,
) -> Iterator[Outcome]:
    """Yield the logits (B, …) of some steps after others."""
    context, device = predictor.context, predictor.normalizer.mean.device
    for first in range(0, len(starts), batch_size):
        progress(first, len(starts))
        truth = WindowReader(store, starts[first : first + batch_size], view)
        frames = predictor.normalizer.to_float(torch.from_numpy(truth.frames(0, context)).to(device))
        actions = torch.from_numpy(truth.actions(0, context)).to(device)
        outcome = predictor.predict(predictor.observe(frames, actions[:, :-1]), actions[:, -1])[1].outcome
        assert outcome is not None
        yield outcome


def calibrate(
    predictor: Predictor,
    view: View,
    store: EpisodeStore,
    *,
    count: int = STEPS,
    seed: int = 0,
    thresholds: bool = True,
    progress: Progress = lambda done, total: None,
) -> Calibration:
    """Return the calibration that makes a predictor's outcomes likeliest at up to `count` steps, and its thresholds.

    What does not occur in the data is left as it is.
    """
    lives = bool(getattr(predictor.config, "predict_lives", False))
    steps = choose_steps(store, predictor.context, count=count, seed=seed, lives=lives)
    outcome = predicted_outcome(predictor, view, store, steps.starts, progress=progress)
    calibration = fit_calibration(outcome, steps)
    return with_thresholds(calibration, outcome, steps) if thresholds else calibration


def fit_calibration(outcome: Outcome, steps: Steps) -> Calibration:
    """Return the calibration of outcomes (n, …) without thresholds: Platt scaling."""
    share = torch.from_numpy(steps.weights / steps.weights.sum() * len(steps.weights))
    occurs = torch.tensor([bool((steps.rewards == kind).any()) for kind in range(3)])
    reward, signs, rewarded = outcome.reward.double().cpu(), torch.from_numpy(steps.rewards), bool(occurs[[0, 2]].any())
    flags = [  # logits and truth, by the number of their scale
        (number, logits.double().cpu(), torch.from_numpy(truth).double())
        for number, logits, truth in (
            (1, outcome.termination, steps.terminations),
            (2, outcome.lost_life, steps.lost_lives),
        )
        if logits is not None and truth.any()
    ]
    logs, bias = torch.zeros(3, dtype=torch.float64), torch.zeros(5, dtype=torch.float64)
    logs.requires_grad_(), bias.requires_grad_()
    optimizer = torch.optim.LBFGS([logs, bias], max_iter=200, line_search_fn="strong_wolfe")

    def loss() -> Tensor:
        optimizer.zero_grad()
        total = PULL * (logs.square().sum() + bias.square().sum() / 100)
        if rewarded:
            shifted = logs[0].exp() * reward + torch.where(occurs, bias[:3], 0.0)
            total = total + (share * functional.cross_entropy(shifted, signs, reduction="none")).sum()
        for number, logits, truth in flags:
            corrected = logs[number].exp() * logits + bias[2 + number]
            per_step = functional.binary_cross_entropy_with_logits(corrected, truth, reduction="none")
            total = total + (share * per_step).sum()
        total.backward()  # type: ignore[no-untyped-call]
        return total

    optimizer.step(loss)  # type: ignore[no-untyped-call]
    scales, biases = logs.detach().exp().tolist(), bias.detach().tolist()
    return Calibration(
        reward_scale=scales[0],
        reward_bias=(biases[0], biases[1], biases[2]),
        termination_scale=scales[1],
        termination_bias=biases[3],
        lost_life_scale=scales[2],
        lost_life_bias=biases[4],
    )


def with_thresholds(calibration: Calibration, outcome: Outcome, steps: Steps) -> Calibration:
    """Return a calibration with the thresholds of the best balanced accuracy for outcomes (n, …).

    What does not occur in the data keeps its threshold.
    """
    calibrated = calibration.apply(outcome)
    odds = torch.logit(calibrated.reward.double().softmax(1), eps=1e-9).numpy(force=True)  # (n, 3)

    def of_rewards(changed: Calibration) -> float:
        return balanced_accuracy(changed.reward_signs(calibrated) + 1, steps.rewards, steps.weights)

    def of_terminations(changed: Calibration) -> float:
        return balanced_accuracy(changed.terminated(calibrated), steps.terminations, steps.weights)

    def of_lost_lives(changed: Calibration) -> float:
        lost = changed.lost_lives(calibrated)
        assert lost is not None
        return balanced_accuracy(lost, steps.lost_lives, steps.weights)

    for kind, threshold in ((0, "negative"), (2, "positive")) * ROUNDS:
        if (steps.rewards == kind).any():
            calibration = _with_best(calibration, threshold, odds[:, kind], of_rewards)
    if steps.terminations.any():
        logits = calibrated.termination.double().numpy(force=True)
        calibration = _with_best(calibration, "termination_threshold", logits, of_terminations)
    if calibrated.lost_life is not None and steps.lost_lives.any():
        logits = calibrated.lost_life.double().numpy(force=True)
        calibration = _with_best(calibration, "lost_life_threshold", logits, of_lost_lives)
    return calibration


def _with_best(
    calibration: Calibration, threshold: str, logits: Floats, accuracy: Callable[[Calibration], float]
) -> Calibration:
    """Return a calibration with the most accurate one of the thresholds between two of the logits (n,)."""
    levels = np.unique(logits.clip(-LARGEST_LOGIT, LARGEST_LOGIT))
    between = (1 / (1 + np.exp(-(levels[1:] + levels[:-1]) / 2))).tolist()
    changed = [_with_threshold(calibration, threshold, value) for value in between]
    accuracies = np.array([accuracy(candidate) for candidate in changed])
    if not len(accuracies):
        return calibration
    best = np.flatnonzero(accuracies == accuracies.max())
    return changed[int(best[len(best) // 2])]


def _with_threshold(calibration: Calibration, name: str, value: float) -> Calibration:
    """Return a calibration with another threshold."""
    negative, positive = calibration.reward_thresholds or (0.5, 0.5)
    changes: dict[str, Any] = {
        "negative": {"reward_thresholds": (value, positive)},
        "positive": {"reward_thresholds": (negative, value)},
    }
    return replace(calibration, **changes.get(name, {name: value}))


def recalls(chosen: NDArray[Any], truth: Numbers, weights: Floats) -> dict[int, float]:
    """Return the share of each class (n,) that occurs that was decided for, steps weighted (n,)."""
    return {
        int(kind): float(np.average(chosen[truth == kind] == kind, weights=weights[truth == kind]))
        for kind in np.unique(truth)
    }


def balanced_accuracy(chosen: NDArray[Any], truth: Numbers, weights: Floats) -> float:
    """Return the mean recall of the classes that occur."""
    by_class = recalls(chosen, truth, weights)
    return sum(by_class.values()) / len(by_class)
