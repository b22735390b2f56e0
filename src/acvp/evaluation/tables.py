"""Results of `acvp evaluate` and `acvp counterfactual` as tables of text, for the terminal and for the report."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from acvp.console import TextTable, banded, number

STEPS = (1, 5, 10, 30, 50, 100, 200, 300, 500)
"""Steps that tables show."""
MOST_WITH_BANDS = 4
"""Columns of numbers with bands that a terminal has room for."""
AT_STEPS = ("error", "gain")
"""Metrics with a separate table by step, besides the leading one."""
OUTCOMES = ("reward", "termination")
"""What is predicted besides frames."""
TITLES = {"exact_steps": "Exact steps", "kept_steps": "Steps object kept"}


def horizon_tables(body: Mapping[str, Any], *, bands: bool | None = None) -> list[TextTable]:
    """Return the tables of what evaluation.json holds: errors by step, everything at the last step.

    Where `bands` is None, bands are shown if there are few enough models for the width of a terminal.
    """
    wide = len(body["curves"]) <= MOST_WITH_BANDS if bands is None else bands
    steps = shown_steps(body["horizon"])
    by_step = [_by_step(body, metric, steps, wide) for metric in dict.fromkeys((leading_metric(body), *AT_STEPS))]
    return [*by_step, _at_the_end(body, wide), *_claims(body, wide), *_outcomes(body)]


def leading_metric(body: Mapping[str, Any]) -> str:
    """Return the metric to show first; early files do not name one."""
    metric: str = body.get("leading_metric", "error")
    return metric


def ordered_metrics(body: Mapping[str, Any]) -> list[str]:
    """Return all metrics of what evaluation.json holds, the leading one first."""
    return list(dict.fromkeys((leading_metric(body), *body["metrics"])))


def _claims(body: Mapping[str, Any], bands: bool) -> list[TextTable]:
    """Return the table of the measures for single claims of the paper; early files have none."""
    rows, names = [], list(body["curves"])
    for measure in body.get("claims", {}).values():
        for index, (first, last) in enumerate(measure["steps"]):
            values = [_claimed(measure["models"].get(name), index, bands) for name in names]
            rows.append((f"{measure['title']} ({measure['unit']})", f"{first}–{last}", *values))
    heads = ("measure", "steps", *names)
    return [TextTable("Claims of the paper: mean over what happens in these steps", heads, tuple(rows))] if rows else []


def _claimed(values: Mapping[str, Any] | None, index: int, bands: bool) -> str:
    return "–" if values is None or not values["count"][index] else banded(values, index, bands)


def _outcomes(body: Mapping[str, Any]) -> list[TextTable]:
    """Return the table of rewards and terminations one step ahead, of runs that predict them."""
    rows = [
        (name, what, number(scores["balanced_accuracy"]), recall, number(scores["calibration_error"]))
        for name, outcome in body["outcomes"].items()
        for what, scores in ((what, outcome[what]) for what in OUTCOMES if what in outcome)
        for recall in [", ".join(f"{kind} {number(share)}" for kind, share in scores["recall"].items())]
    ]
    heads = ("run", "what", "balanced accuracy", "recall", "calibration error")
    return [TextTable("Rewards and terminations one step ahead, from real frames", heads, tuple(rows))] if rows else []


def counterfactual_table(body: Mapping[str, Any]) -> TextTable:
    """Return the table of what counterfactual.json holds."""
    rows = [
        (name, *(banded(scores[part], 0) for part in ("accuracy", "margin", "error")))
        for name, scores in body["runs"].items()
    ]
    rows.append(("chance", banded(body["chance"], 0), "–", "–"))
    title = f"Counterfactual futures: {body['plans']}, {body['states']} states"
    return TextTable(title, ("run", "accuracy", "margin", "error"), tuple(rows))


def shown_steps(horizon: int) -> list[int]:
    """Return the steps that a table of some horizon shows."""
    return sorted({step for step in STEPS if step < horizon} | {horizon})


def _by_step(body: Mapping[str, Any], metric: str, steps: Sequence[int], bands: bool) -> TextTable:
    described, names = body["metrics"][metric], list(body["curves"])
    rows = tuple((str(step), *_row(body["curves"], names, metric, step - 1, bands)) for step in steps)
    title = f"{described['title']} ({described['unit']})" + (", 95 % band" if bands else "")
    return TextTable(title, ("step", *names), rows)


def _at_the_end(body: Mapping[str, Any], bands: bool) -> TextTable:
    names, horizon = list(body["curves"]), body["horizon"]
    rows = [
        (body["metrics"][metric]["title"], *_row(body["curves"], names, metric, horizon - 1, bands))
        for metric in ordered_metrics(body)
    ]
    totals = [total for total in TITLES if any(total in body["steps"][name] for name in names)]
    rows += [(TITLES[total], *_row(body["steps"], names, total, 0, bands)) for total in totals]
    return TextTable(f"Everything at step {horizon}", ("metric", *names), tuple(rows))


def _row(curves: Mapping[str, Any], names: Sequence[str], metric: str, index: int, bands: bool) -> list[str]:
    return [banded(curves[name][metric], index, bands) if metric in curves[name] else "–" for name in names]
