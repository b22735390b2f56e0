"""From tallies to what is published: curves with bands, numbers of steps, and the JSON that holds them all."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from acvp.evaluation.definitions import METRICS, TOTALS, formula
from acvp.evaluation.horizon import Tallies
from acvp.evaluation.subjects import COPY_LAST
from acvp.evaluation.tally import LEVEL, RESAMPLES, Bootstrap, Curve, Tally

FEW_EPISODES = 10
"""Below this many episodes a percentile bootstrap's bands are too narrow, and the result says so."""

Curves = dict[str, dict[str, Curve]]


@dataclass(frozen=True, kw_only=True)
class Evaluation:
    """Horizon curves of all subjects, and what is needed to read them."""

    curves: Curves
    """By subject, by metric."""
    totals: Curves
    """By subject: numbers of steps, as curves of one step."""
    baselines: tuple[str, ...]
    facts: dict[str, Any]
    """Game, view, windows, how they were chosen, and the like."""
    left_out: dict[str, str]
    """Metrics that could not be measured, and why."""

    @property
    def metrics(self) -> list[str]:
        """Names of the metrics that at least one subject has."""
        return [name for name in METRICS if any(name in curves for curves in self.curves.values())]

    def formula(self, metric: str) -> str:
        """Return how a metric was computed here."""
        return formula(metric, scale=self.facts["scale"], palette=self.facts["palette"])

    def to_dict(self) -> dict[str, Any]:
        """Return everything as JSON can hold it."""
        return {
            **self.facts,
            "left_out": self.left_out,
            "metrics": {name: _described(name, self.formula(name)) for name in self.metrics},
            "baselines": list(self.baselines),
            "curves": _plain(self.curves),
            "steps": _plain(self.totals),
        }


def summarise(
    tallies: Tallies, *, seed: int, baselines: tuple[str, ...], facts: dict[str, Any], left_out: dict[str, str]
) -> Evaluation:
    """Return means and 95 % bands over episodes of everything that was tallied."""
    used = _episodes_used(tallies)
    bootstrap = Bootstrap(len(used), seed=seed)
    picked = {name: {metric: tally.of(used) for metric, tally in each.items()} for name, each in tallies.items()}
    curves = {name: _curves(each, picked[COPY_LAST]["error"], bootstrap) for name, each in picked.items()}
    totals = {
        name: {TOTALS[metric]: bootstrap.total(tally) for metric, tally in each.items() if metric in TOTALS}
        for name, each in picked.items()
    }
    bands = {
        "bands": f"95 %: percentiles {LEVEL[0]} and {LEVEL[1]} of {RESAMPLES} bootstrap resamples of the episodes",
        "episodes": len(used),
    }
    facts = facts | bands | few_episodes(len(used))
    return Evaluation(curves=curves, totals=totals, baselines=baselines, facts=facts, left_out=left_out)


def few_episodes(count: int) -> dict[str, str]:
    """Return a note where there are too few episodes to trust the bands."""
    if count >= FEW_EPISODES:
        return {}
    return {"note": f"{count} test episodes are few: 95 % bands over fewer than {FEW_EPISODES} are too narrow"}


def _curves(tallies: dict[str, Tally], copy_last: Tally, bootstrap: Bootstrap) -> dict[str, Curve]:
    curves = {name: bootstrap.curve(tally) for name, tally in tallies.items() if name in METRICS}
    ratio = bootstrap.ratio(tallies["error"], copy_last)
    curves["gain"] = Curve(1 - ratio.mean, 1 - ratio.high, 1 - ratio.low)
    if "shuffled" in tallies:
        curves["sensitivity"] = bootstrap.ratio(tallies["shuffled"], tallies["unshuffled"])
    return curves


def _episodes_used(tallies: Tallies) -> NDArray[np.int64]:
    """Return the episodes that have windows: only they are resampled."""
    counts = tallies[COPY_LAST]["error"].counts
    return np.flatnonzero(counts.any(1))


def _described(name: str, how: str) -> dict[str, str]:
    metric = METRICS[name]
    return {"title": metric.title, "unit": metric.unit, "formula": how, "better": metric.better}


def _plain(curves: Curves) -> dict[str, Any]:
    return {
        subject: {
            metric: {part: numbers(getattr(curve, part)) for part in Curve._fields} for metric, curve in each.items()
        }
        for subject, each in curves.items()
    }


def numbers(values: NDArray[np.float64]) -> list[float | None]:
    """Return numbers for JSON, which has no NaN."""
    return [float(f"{value:.9g}") if math.isfinite(value) else None for value in values]
