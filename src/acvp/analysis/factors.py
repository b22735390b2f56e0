"""The factors of a predictor: action similarity (§4.3, figure 7, appendix C) and the factor split (figure 8).

Factors are where in a network the action multiplies; each predictor names its own (`Predictor.action_factors`). In the
paper's networks they are the rows of W^a (equation 4), in the pixel-exact one the gains γ and shifts β of the U-Net's
blocks, by scale. The split is between the factors that vary most with the action and the others, the controlled and
uncontrolled parts of a frame: predictions with only one of the two sets show how much of the true change each explains.
Similarity is the cosine of every pair of actions' factors, with a permutation test.

Shapes: F factors, A actions, P pairs, R relabelings, S samples, C channels, h height, w width of the view.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from copy import deepcopy
from dataclasses import asdict, dataclass, replace
from functools import partial
from itertools import permutations
from math import factorial
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from acvp.actions import Pair, opposite_pairs, same_direction_pairs
from acvp.analysis.figures import grid
from acvp.analysis.samples import Part, Samples, Study, object_regions, predict_next, read_samples
from acvp.bootstrap import Accumulator, Bootstrap, Curve
from acvp.console import Progress
from acvp.errors import UserError
from acvp.loaded import MEAN_FRAME
from acvp.models import ActionFactors, Predictor, build_predictor
from acvp.models.pixels import as_pixels, to_frames
from acvp.runs import numbers
from acvp.seeding import generator

Factors = NDArray[np.float64]  # (F, A): the value of each factor under each action, without what all have in common
POOLED = "pooled"

Matrix = NDArray[np.float64]  # (A, A)
RELABELINGS = 10_000
"""Drawn for the test; with up to 7 actions all there are."""
TOLERANCE = 1e-12
"""Two means of the same pairs may differ by so much, in the order of summing."""


def factor_tables(predictor: Predictor) -> dict[str, Factors]:
    """Return the factors of a predictor by name: one table, or one for each scale and all of them pooled."""
    tables: dict[str, list[Factors]] = {}
    for factors in predictor.action_factors():
        tables.setdefault(factors.name, []).append(_numbers(factors.weight))
    if not tables:
        raise UserError(f"a {type(predictor).__name__} has no factors: actions do not multiply in it")
    joined = {name: np.concatenate(parts) for name, parts in tables.items()}
    return joined if len(joined) == 1 else joined | {POOLED: np.concatenate(list(joined.values()))}


def all_factors(predictor: Predictor) -> Factors:
    """Return all factors of a predictor that can be switched off, those that `with_only` chooses from."""
    divisible = _divisible(predictor)
    if not divisible:
        raise UserError(f"a {type(predictor).__name__} has no factors that could be divided")
    return np.concatenate([_numbers(factors.weight) for factors in divisible])


def _divisible(predictor: Predictor) -> list[ActionFactors]:
    return [factors for factors in predictor.action_factors() if factors.gates is not None]


def with_only(predictor: Predictor, kept: NDArray[np.bool_], *, hold: bool = False) -> Predictor:
    """Return a copy of a predictor in which all factors but the kept ones (F,) are switched off.

    Switched off is 0 where factors are gates, as in the paper, and else, or with ``hold``, their mean over actions.
    """
    copy = deepcopy(predictor)
    divisible = _divisible(copy)
    sizes = [len(factors.weight) for factors in divisible]
    assert kept.shape == (sum(sizes),), f"{kept.shape} for {sizes} factors"
    for factors, part in zip(divisible, np.split(kept, np.cumsum(sizes)[:-1]), strict=True):
        _switch_off(factors, ~part, hold=hold or not factors.gates)
    return copy


@torch.no_grad()
def _switch_off(factors: ActionFactors, which: NDArray[np.bool_], *, hold: bool) -> None:
    """Set some factors (F,) to their mean over actions, or to 0, bias included, in place."""
    if hold:
        factors.weight[which] = factors.weight[which].mean(1, keepdim=True)
        return
    factors.weight[which] = 0.0
    if factors.bias is not None:
        factors.bias[which] = 0.0


def _numbers(weight: torch.Tensor) -> Factors:
    return weight.detach().cpu().double().numpy()


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
    factors = all_factors(build_predictor(predictor.config))
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


def explain(predictions: dict[str, Tensor], samples: Samples, regions: Mask, *, episodes: int, seed: int) -> Explained:
    """Return how much of the change in the object's regions (S, h, w), and elsewhere, predictions (S, C, h, w) explain.

    1 − Σ (x̂ − x')² / Σ (x − x')² over the pixels of all samples in which the true next frame x' differs from the last
    frame x.
    """
    changed = samples.changed()
    parts = torch.from_numpy(np.stack((changed & regions, changed & ~regions), 1))  # (S, 2, h, w)
    truth = as_pixels(samples.after)
    numbers = np.array([start.episode for start in samples.starts])

    def accumulated(frames: Tensor) -> Accumulator:
        squared = (frames - truth).square().sum(1, keepdim=True)  # (S, 1, h, w)
        sums = (squared * parts).flatten(2).sum(2, dtype=torch.float64).numpy()  # (S, 2)
        result = Accumulator(episodes, len(REGIONS))
        for region in range(len(REGIONS)):
            result.add(region, numbers, sums[:, region])
        return result

    nothing = accumulated(as_pixels(samples.now))
    used = np.flatnonzero(nothing.counts.any(1))
    bootstrap = Bootstrap(len(used), seed=seed)
    by_name = {}
    for name, frames in predictions.items():
        left = bootstrap.ratio(accumulated(frames).of(used), nothing.of(used))
        by_name[name] = Curve(1 - left.mean, 1 - left.high, 1 - left.low)
    return Explained(by_name, tuple(parts.sum((0, 2, 3)).tolist()))


PREDICTION, ACTION, NON_ACTION = "prediction", "Action", "Non-Action"
RANDOM, OTHERS = "as many at random", "all but those"
"""A control: as many factors as Action has, but drawn at random, and the rest."""
ACTION_HELD, NON_ACTION_HELD = "Action's at mean", "Non-Action's at mean"
"""All factors, but some at their mean over actions: what is lost if only the action is hidden from them."""
FORMULA = (
    "1 − Σ (x̂ − x')² / Σ (x − x')² over the pixels in which the true next frame x' differs from the last frame x, near "
    "the controlled object and elsewhere"
)


def controlled(study: Study, progress: Progress) -> Part:
    """Predict with the factors of high variance alone and with the others alone."""
    factors = all_factors(study.model.predictor)
    high = high_variance(factors, study.config.variance_share)
    samples, regions = study.samples, _regions(study)
    shown = read_samples(study.store, study.examples, study.model.view, study.model.predictor.context)
    predictions: dict[str, Tensor] = {}
    pictures: dict[str, Tensor] = {}
    variants = _variants(study, high)
    for done, (name, make) in enumerate(variants.items()):
        progress(done, len(variants))
        model = replace(study.model, predictor=make(study.model.predictor))
        if regions is not None:
            predictions[name] = predict_next(model, samples)
        if name in (PREDICTION, ACTION, NON_ACTION):
            pictures[name] = predict_next(model, shown)
    body = {
        "factors": len(factors),
        "share_of_factors": float(high.mean()),
        "share_of_factors_untrained": untrained_share(study.model.predictor, study.config.variance_share),
        "share_of_variance": float(factors[high].var(1).sum() / factors.var(1).sum()),
        "variance_curve": numbers(variance_curve(factors)),
    }
    if regions is not None:
        body |= _explained(study, predictions, regions)
    return Part(body, {"controlled-examples.png": _example_grid(study, shown, pictures)})


def _variants(study: Study, high: Mask) -> dict[str, Callable[[Predictor], Predictor]]:
    """Return by name how to make the predictors with only some of the factors (F,)."""
    random = generator("random factors", study.config.seed).permutation(high)
    kept = {ACTION: high, NON_ACTION: ~high, RANDOM: random, OTHERS: ~random}
    variants = {name: partial(with_only, kept=mask) for name, mask in kept.items()}
    if any(factors.gates for factors in study.model.predictor.action_factors()):
        variants |= {ACTION_HELD: partial(with_only, kept=~high, hold=True)}
        variants |= {NON_ACTION_HELD: partial(with_only, kept=high, hold=True)}
    return {PREDICTION: lambda predictor: predictor} | variants


def _regions(study: Study) -> Mask | None:
    """Return the controlled object's surroundings (S, h, w), None where its position is not known."""
    try:
        positions = study.positions
    except UserError as error:
        study.left_out["explained change"] = str(error)
        return None
    return object_regions(positions, study.model.predictor.config.frame, study.store.info.frame_shape)


def _explained(study: Study, predictions: dict[str, Tensor], regions: Mask) -> dict[str, Any]:
    samples = study.samples
    mean = study.model.predictor.normalizer.mean.cpu().movedim(-1, 0)  # (C, h, w)
    everything = predictions | {MEAN_FRAME: mean.expand(len(samples.starts), -1, -1, -1)}
    result = explain(everything, samples, regions, episodes=len(study.store), seed=study.config.seed)
    return {
        "formula": FORMULA,
        "states": len(samples.starts),
        "changed_pixels": dict(zip(REGIONS, result.changed, strict=True)),
        "explained": {
            name: {part: numbers(values) for part, values in curve._asdict().items()}
            for name, curve in result.by_name.items()
        },
    }


def _example_grid(study: Study, shown: Samples, pictures: dict[str, Tensor]) -> bytes:
    """Return figure 8: a row for each sample."""
    frames = [to_frames(picture) for picture in pictures.values()]
    rows = []
    for sample, start in enumerate(shown.starts):
        name = f"{study.title(start)}, {study.actions[shown.actions[sample, -1]]}".replace(", ", "\n")
        rows.append((name, [shown.now[sample], shown.after[sample], *(predicted[sample] for predicted in frames)]))
    return grid(["last frame", "true next frame", *pictures], rows)


def cosines(factors: Factors) -> Matrix:
    """Return the cosine similarity (A, A) of the actions' factors (F, A); 0 with an action whose factors are all 0."""
    lengths = np.linalg.norm(factors, axis=0)
    unit = np.divide(factors, lengths, out=np.zeros_like(factors), where=lengths > 0)
    similarity: Matrix = unit.T @ unit
    return similarity


def centered(factors: Factors) -> Factors:
    """Return factors less their mean over actions: what a bias, which can take any of it over, does not change."""
    less_mean: Factors = factors - factors.mean(1, keepdims=True)
    return less_mean


@dataclass(frozen=True)
class PairMean:
    """The mean similarity of some pairs of actions."""

    pairs: int
    mean: float
    p: float
    """Share of relabelings of the actions under which the mean is at least as extreme in the expected direction."""


def pair_means(similarity: Matrix, names: Sequence[str], *, seed: int) -> dict[str, PairMean]:
    """Return the mean over same-direction pairs (expected high) and over opposite pairs (expected low), where there."""
    orders = relabelings(len(names), seed)
    kinds = {"same direction": (same_direction_pairs(names), 1), "opposite": (opposite_pairs(names), -1)}
    return {kind: _tested(similarity, pairs, sign, orders) for kind, (pairs, sign) in kinds.items() if pairs}


def relabelings(actions: int, seed: int) -> NDArray[np.int64]:
    """Return permutations (R, A) of the actions: all of them where they are few, the given order among them."""
    if factorial(actions) <= RELABELINGS:
        return np.array(list(permutations(range(actions))))
    drawn = generator("relabel", seed).permuted(np.tile(np.arange(actions), (RELABELINGS - 1, 1)), axis=1)
    return np.concatenate((np.arange(actions)[None], drawn))


def _tested(similarity: Matrix, pairs: list[Pair], sign: int, orders: NDArray[np.int64]) -> PairMean:
    """Return the mean of pairs and how rare it is; the given order counts as one of the relabelings."""
    first, second = np.array(pairs).T
    means = similarity[orders[:, first], orders[:, second]].mean(1)  # (R,)
    observed = float(similarity[first, second].mean())
    extreme = sign * means >= sign * observed - TOLERANCE
    return PairMean(len(pairs), observed, float(extreme.mean()))


def action_similarity(study: Study, progress: Progress) -> Part:
    """Compare the factors of every pair of actions."""
    body = {}
    for name, factors in factor_tables(study.model.predictor).items():
        kinds = {"as_learned": factors, "centered": centered(factors)}
        body[name] = {"factors": len(factors)} | {
            kind: _described(cosines(values), study) for kind, values in kinds.items()
        }
    return Part({"tables": body}, {})


def _described(similarity: Matrix, study: Study) -> dict[str, Any]:
    means = pair_means(similarity, study.actions, seed=study.config.seed)
    return {
        "cosines": [numbers(row) for row in similarity],
        "pairs": {kind: asdict(mean) for kind, mean in means.items()},
    }
