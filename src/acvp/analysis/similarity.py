"""Action similarity (§4.3, figure 7, appendix C): cosine of every pair of action factors, and a permutation test.

Shapes: F factors, A actions, P pairs, R relabelings.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from itertools import permutations
from math import factorial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from acvp.analysis.factors import Factors, factor_tables
from acvp.analysis.samples import Part, Study
from acvp.console import Progress
from acvp.envs.actions import Pair, opposite_pairs, same_direction_pairs
from acvp.runs import numbers
from acvp.seeding import generator

Matrix = NDArray[np.float64]  # (A, A)
RELABELINGS = 10_000
"""Drawn for the test; with up to 7 actions all there are."""
TOLERANCE = 1e-12
"""Two means of the same pairs may differ by so much, in the order of summing."""


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
