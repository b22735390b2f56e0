"""How well rewards and terminations are predicted, one step ahead from real frames.

Steps with a termination, with a reward and with neither are sampled separately, because most steps have neither; each
sampled step is weighted by the number of steps it was sampled from.

Shapes: n steps, B of a batch.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch.nn import functional

from acvp.console import Progress
from acvp.data.store import EpisodeStore
from acvp.data.windows import Window, WindowReader, WindowStart, starts_of
from acvp.errors import UserError
from acvp.evaluation.windows import batches
from acvp.loaded import LoadedModel
from acvp.models.layers import REWARD_CLASSES, Calibration, Outcome, reward_class
from acvp.seeding import generator

BINS = 10
"""Of the calibration, equally wide in probability."""

Floats = NDArray[np.float64]


def predicts_outcomes(model: LoadedModel) -> bool:
    """Return whether a model predicts rewards and terminations."""
    return bool(getattr(model.predictor.config, "predict_rewards", False))


def measure_outcomes(
    model: LoadedModel, store: EpisodeStore, *, count: int, seed: int, batch_size: int, progress: Progress
) -> dict[str, Any]:
    """Return balanced accuracy and calibration of a model's reward and termination heads at up to `count` steps.

    Rewards or terminations that do not occur in the data are left out.
    """
    starts, weights = choose_steps(store, model.predictor.context, count=count, seed=seed)
    signs, ended = _truths(store, starts, model.predictor.context)
    rewards, terminations = (signs != 1).any(), ended.any()
    if not rewards and not terminations:
        return {}
    outcome = _outcomes(model, store, starts, batch_size, progress)
    reward = outcome.reward.double().softmax(1).numpy(force=True)  # (n, 3)
    end = outcome.termination.double().sigmoid().numpy(force=True)  # (n,)
    results: dict[str, Any] = {"steps": len(starts)}
    if rewards:
        results["reward"] = score(reward, signs, weights, REWARD_CLASSES)
    if terminations:
        results["termination"] = score(np.stack((1 - end, end), 1), ended, weights, ("continues", "terminates"))
    return results


def choose_steps(store: EpisodeStore, context: int, *, count: int, seed: int) -> tuple[list[WindowStart], Floats]:
    """Return up to `count` windows of ``context`` frames before a step, and the weight of each.

    Steps with a termination, with a reward and with neither are sampled in equal numbers where there are enough. Not
    more than `count` episodes are read.
    """
    kinds: tuple[list[WindowStart], ...] = ([], [], [])
    draw = generator("outcomes", seed)
    for position in sorted(draw.permutation(len(store))[:count].tolist()):
        episode = store[position]
        for start in starts_of(len(episode), Window(context, 1)):
            step = start + context - 1
            last = episode.header.terminated and step == len(episode) - 2
            kind = 0 if last else 1 if episode.rewards[step] else 2
            kinds[kind].append(WindowStart(position, start))
    starts: list[WindowStart] = []
    weights: list[float] = []
    for kind_starts, share in zip(kinds, _shares([len(kind) for kind in kinds], count), strict=True):
        drawn = draw.permutation(len(kind_starts))[:share]
        starts += [kind_starts[k] for k in sorted(drawn.tolist())]
        weights += [len(kind_starts) / max(1, share)] * share
    return starts, np.array(weights)


def _shares(sizes: Sequence[int], count: int) -> list[int]:
    """Split a number evenly over kinds of some sizes; what the smaller ones lack goes to the larger ones."""
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


def _truth(store: EpisodeStore, start: WindowStart, context: int) -> tuple[int, bool]:
    """Return the class of the reward's sign and whether the episode terminates at the step after a window."""
    episode, step = store[start.episode], start.frame + context - 1
    return reward_class(episode.rewards[step]), bool(episode.header.terminated and step == len(episode) - 2)


def _truths(
    store: EpisodeStore, starts: Sequence[WindowStart], context: int
) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Return reward classes and whether the episode terminates, (n,) each."""
    truth = [_truth(store, start, context) for start in starts]
    return np.array([sign for sign, _ in truth], np.int64), np.array([end for _, end in truth], np.int64)


def _outcomes(
    model: LoadedModel, store: EpisodeStore, starts: Sequence[WindowStart], batch_size: int, progress: Progress
) -> Outcome:
    """Return the logits (n, …) of the step after each window."""
    parts: list[Outcome] = []
    for batch in batches(starts, batch_size):
        progress(len(parts) * batch_size, len(starts))
        parts.append(_predicted(model, store, batch))
    return Outcome(*(torch.cat(logits) for logits in zip(*parts, strict=True)))


@torch.inference_mode()
def _predicted(model: LoadedModel, store: EpisodeStore, starts: Sequence[WindowStart]) -> Outcome:
    """Return the logits of the reward's signs (B, 3) and of the termination (B,)."""
    context, predictor = model.predictor.context, model.predictor
    truth = WindowReader(store, starts, model.view)
    frames = predictor.normalizer.to_float(torch.from_numpy(truth.frames(0, context)).to(model.device))
    actions = torch.from_numpy(truth.actions(0, context)).to(model.device)
    outcome = predictor.predict(predictor.observe(frames, actions[:, :-1]), actions[:, -1])[1].outcome
    assert outcome is not None
    return outcome


class NoRewardsError(UserError):
    """The data have no reward to learn from."""


PULL = 1.0
"""Weight of the pull toward no correction, in steps: decides where the data have few rewards or terminations."""


def calibrate(
    model: LoadedModel,
    store: EpisodeStore,
    *,
    count: int,
    seed: int,
    batch_size: int = 32,
    progress: Progress = lambda done, total: None,
) -> Calibration:
    """Return the calibration that makes a model's rewards and terminations likeliest at up to `count` steps.

    What does not occur in the data is left as it is; UserError if no reward occurs.
    """
    starts, weights = choose_steps(store, model.predictor.context, count=count, seed=seed)
    signs, ended = _truths(store, starts, model.predictor.context)
    if (signs == 1).all():
        raise NoRewardsError(
            f"{store.path}: no reward in {store.frames:,} frames, so none can be learned from; record episodes that "
            "reach one: a policy that gets farther (held, sticky-random, agent:NAME), or more frames"
        )
    outcome = _outcomes(model, store, starts, batch_size, progress)
    return fit_calibration(outcome, signs, ended, weights)


def fit_calibration(
    outcome: Outcome, signs: NDArray[np.int64], ended: NDArray[np.int64], weights: Floats
) -> Calibration:
    """Return the calibration of outcomes (n, …) by the true classes (n,), steps weighted (n,): Platt scaling."""
    share = torch.from_numpy(weights / weights.sum() * len(weights))
    occurs = torch.tensor([bool((signs == kind).any()) for kind in range(3)])
    reward, end = outcome.reward.double().cpu(), outcome.termination.double().cpu()
    logs, bias = torch.zeros(2, dtype=torch.float64), torch.zeros(4, dtype=torch.float64)
    logs.requires_grad_(), bias.requires_grad_()
    optimizer = torch.optim.LBFGS([logs, bias], max_iter=200, line_search_fn="strong_wolfe")
    true_signs, true_ends = torch.from_numpy(signs), torch.from_numpy(ended).double()

    def loss() -> torch.Tensor:
        optimizer.zero_grad()
        shifted = logs[0].exp() * reward + torch.where(occurs, bias[:3], 0.0)
        total = (share * functional.cross_entropy(shifted, true_signs, reduction="none")).sum()
        if ended.any():
            logits = logs[1].exp() * end + bias[3]
            per_step = functional.binary_cross_entropy_with_logits(logits, true_ends, reduction="none")
            total = total + (share * per_step).sum()
        total = total + PULL * (logs.square().sum() + bias.square().sum() / 100)
        total.backward()  # type: ignore[no-untyped-call]
        return total

    optimizer.step(loss)  # type: ignore[no-untyped-call]
    scales, biases = logs.detach().exp().tolist(), bias.detach().tolist()
    return Calibration(
        reward_scale=scales[0],
        reward_bias=(biases[0], biases[1], biases[2]),
        termination_scale=scales[1],
        termination_bias=biases[3],
    )
