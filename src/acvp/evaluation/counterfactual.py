"""Does the prediction of an action look more like that action's true future than like any other's?

Actions whose true futures are equal in every pixel are one future; a moment with one future only tells nothing and is
left out. Within a moment every future counts the same, so whoever ignores the action gets exactly one over the number
of futures: chance.

Shapes: P plans, G different futures, L decisions, T given frames, C channels, H height, W width.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from acvp.evaluation.futures import Moment
from acvp.evaluation.metrics import as_pixels
from acvp.evaluation.places import Place
from acvp.evaluation.subjects import Subject, to_pixels
from acvp.evaluation.tally import Tally

Floats = NDArray[np.float64]
EXAMPLES = 3
"""Moments kept for pictures."""


@dataclass(frozen=True)
class Verdict:
    """How well the predictions of one moment tell its futures apart."""

    hits: Floats  # (P,): 1 where a plan's own future is the nearest, 1/k where it is one of k nearest, else 0
    margins: Floats  # (P,): (other − own) / (other + own) of squared errors, −1 to 1, above 0 where it is a hit
    own: Floats  # (P,): squared error to the own future, pixel values, summed over its frames
    groups: NDArray[np.int64]  # (P,): which plans have the same future

    def mean(self, values: Floats) -> float:
        """Return the mean over futures of values (P,)."""
        return float(np.mean([values[self.groups == g].mean() for g in range(self.groups.max() + 1)]))


@dataclass
class Scores:
    """What was measured of one subject, by episode."""

    accuracy: Tally
    margin: Tally
    error: Tally
    by_plan: Tally
    """Hits by plan; only plans that are the same at every moment have a meaning."""


@dataclass
class Comparison:
    """What was measured of all subjects."""

    scores: dict[str, Scores]
    chance: Tally
    chance_by_plan: Tally
    futures: list[int] = field(default_factory=list)
    """Number of different futures at each moment that tells something."""
    same: int = 0
    """Moments at which all plans lead to the same frames."""
    ended: int = 0
    """Moments left out since a plan ends the game."""
    examples: list[Place] = field(default_factory=list)
    """Some moments that tell something."""

    def take_in(self, measured: Sequence[dict[str, Any]]) -> None:
        """Take in what `measure_moments` returned."""
        for each in measured:
            if each["futures"] == 0:
                self.ended += 1
            elif each["futures"] == 1:
                self.same += 1
            else:
                self._take_in(Place(*each["place"]), each["futures"], each["scores"])

    def _take_in(self, place: Place, futures: int, measured: dict[str, dict[str, Any]]) -> None:
        episode = np.array([place.episode])
        self.futures.append(futures)
        self.chance.add(0, episode, np.array([1 / futures]))
        for name, values in measured.items():
            scores = self.scores[name]
            scores.accuracy.add(0, episode, np.array([values["accuracy"]]))
            scores.margin.add(0, episode, np.array([values["margin"]]))
            scores.error.add(0, episode, np.array([values["error"]]))
            for plan, hit in enumerate(values["hits"]):
                scores.by_plan.add(plan, episode, np.array([hit]))
        for plan in range(len(values["hits"])):
            self.chance_by_plan.add(plan, episode, np.array([1 / futures]))
        if len(self.examples) < EXAMPLES:
            self.examples.append(place)


@torch.inference_mode()
def measure_moments(
    subjects: Sequence[Subject],
    moments: Iterable[Moment | None],
    *,
    scale: float,
    progress: Callable[[int], None] = lambda done: None,
) -> list[dict[str, Any]]:
    """Compare predicted with true futures, moment by moment, as JSON can hold it; errors are in units of scale².

    `futures` is the number of different futures, 0 where a plan ends the game.
    """
    measured: list[dict[str, Any]] = []
    for moment in moments:
        if moment is None:
            measured.append({"futures": 0})
        else:
            measured.append(_measure(subjects, moment, scale))
        progress(len(measured))
    return measured


def _measure(subjects: Sequence[Subject], moment: Moment, scale: float) -> dict[str, Any]:
    groups, scores = same_futures(moment.futures), {}
    if not groups.any():
        return {"futures": 1}
    for subject in subjects:
        verdict = judge(distances(subject, moment)[0], groups)
        scores[subject.name] = {
            "accuracy": verdict.mean(verdict.hits),
            "margin": verdict.mean(verdict.margins),
            "error": verdict.mean(verdict.own) / scale**2,
            "hits": verdict.hits.tolist(),
        }
    return {"futures": int(groups.max()) + 1, "place": list(moment.place), "scores": scores}


def same_futures(futures: NDArray[np.uint8]) -> NDArray[np.int64]:
    """Return for each of P futures the number, from 0, of the first one that equals it in every pixel."""
    known: dict[bytes, int] = {}
    return np.array([known.setdefault(future.tobytes(), len(known)) for future in futures])


def distances(subject: Subject, moment: Moment) -> tuple[Floats, NDArray[np.uint8]]:
    """Return the squared error (P, P) of each plan's prediction to each true future, and the last predictions."""
    apart = np.zeros((len(moment.plans), len(moment.plans)))
    for step, predicted in enumerate(_predictions(subject, moment)):
        truth = as_pixels(moment.futures[:, step])  # (P, C, H, W)
        for plan, frame in enumerate(predicted):
            apart[plan] += (truth - frame).square().flatten(1).sum(1, dtype=torch.float64).numpy()
    return apart, predicted.round().to(torch.uint8).permute(0, 2, 3, 1).numpy()


def _predictions(subject: Subject, moment: Moment) -> Iterator[Tensor]:
    """Yield what each plan leads to, (P, C, H, W) in clamped pixel values, step by step."""
    plans, predictor = moment.plans, subject.predictor
    if plans.shape[1] == 1 and np.array_equal(plans[:, 0], np.arange(predictor.actions)):
        given = torch.from_numpy(moment.given[None]).to(subject.device)
        between = torch.from_numpy(moment.between[None]).to(subject.device)
        state = predictor.observe(predictor.normaliser.to_float(given), between)
        yield to_pixels(predictor, predictor.predict_all(state)[0]).cpu()
        return
    given_rows = np.repeat(moment.given[None], len(plans), 0)
    between_rows = np.repeat(moment.between[None], len(plans), 0)
    yield from subject.look_ahead(given_rows, np.concatenate((between_rows, plans), 1))


def judge(apart: Floats, groups: NDArray[np.int64]) -> Verdict:
    """Return how often and by how much each plan's own future is the nearest, from squared errors (P, P)."""
    different = apart[:, np.unique(groups, return_index=True)[1]]  # (P, G)
    rows = np.arange(len(groups))
    own = different[rows, groups]
    others = different.copy()
    others[rows, groups] = np.inf
    other = others.min(1)
    nearest = different == different.min(1, keepdims=True)
    hits = nearest[rows, groups] / nearest.sum(1)
    return Verdict(hits, (other - own) / (other + own), own, groups)


def empty_comparison(names: Sequence[str], episodes: int, plans: int) -> Comparison:
    """Return a comparison of nothing yet, on a store of so many episodes."""
    scores = {
        name: Scores(Tally(episodes, 1), Tally(episodes, 1), Tally(episodes, 1), Tally(episodes, plans))
        for name in names
    }
    return Comparison(scores, Tally(episodes, 1), Tally(episodes, plans))
