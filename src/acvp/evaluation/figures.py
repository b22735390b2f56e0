"""Figures and tables of `acvp evaluate` and `acvp counterfactual`.

Horizon curves: one chart per metric, baselines gray and dashed, the formula in the caption. Counterfactual futures:
accuracy by action, and example states with all their futures.
"""

from __future__ import annotations

import textwrap
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from matplotlib.ticker import StrMethodFormatter
from numpy.typing import NDArray

from acvp.console import TextTable, banded, counted, number
from acvp.evaluation.config import shown_steps
from acvp.evaluation.metrics import METRICS
from acvp.figures import (
    INK,
    LIGHT,
    LINE,
    RUN_COLORS,
    Axes,
    Figure,
    canvas,
    caption,
    chart,
    fitted,
    font,
    legend_below,
    paste,
    png,
    style,
)

BASELINE_LINES = ("--", ":")
BASELINE_LABELS = {"copy-last-frame": "copying the last frame", "mean-frame": "mean of the training frames"}
DECADES = 30
"""Ratio of the largest to the smallest error from which on an axis is logarithmic."""
MARGIN = 0.8
"""A logarithmic axis begins at this share of the lowest value."""
LABEL_WIDTH = 36
"""Characters of a line of an axis label."""


def curve_figure(body: Mapping[str, Any], metric: str, colors: dict[str, str] = LIGHT) -> Figure:
    """Return the figure of one metric of what evaluation.json holds."""
    figure, axes = chart(colors, body["metrics"][metric]["title"])
    baselines = body["baselines"]
    runs = [name for name in body["curves"] if name not in baselines]
    for name, curves in body["curves"].items():
        if metric not in curves:
            continue
        if name in baselines:
            line = BASELINE_LINES[baselines.index(name) % len(BASELINE_LINES)]
            _draw(axes, name, curves[metric], colors["faint"], line)
        else:
            _draw(axes, name, curves[metric], RUN_COLORS[runs.index(name) % len(RUN_COLORS)], "-")
    _label(axes, body["metrics"][metric], colors)
    _fit(axes, metric, body)
    caption(figure, _caption(body, metric), colors)
    return figure


def _draw(axes: Axes, name: str, curve: Mapping[str, Any], color: str, line: str) -> None:
    mean, low, high = (np.array(curve[part], np.float64) for part in ("mean", "low", "high"))
    steps = np.arange(1, len(mean) + 1)
    marker = "o" if len(steps) == 1 else None
    axes.plot(steps, mean, line, color=color, label=BASELINE_LABELS.get(name, name), linewidth=1.6, marker=marker)
    axes.fill_between(steps, low, high, color=color, alpha=0.18, linewidth=0)


def _label(axes: Axes, described: Mapping[str, Any], colors: dict[str, str]) -> None:
    better = "" if described["better"] == "neither" else f", {described['better']} is better"
    axes.set_xlabel("steps ahead (agent steps)", color=colors["ink"])
    axes.set_ylabel(textwrap.fill(f"{described['unit']}{better}", LABEL_WIDTH), color=colors["ink"])
    axes.locator_params(axis="x", integer=True)
    style(axes, colors)
    legend_below(axes, colors)


def _fit(axes: Axes, metric: str, body: Mapping[str, Any]) -> None:
    """Begin the axis where the metric does, or take logarithms; a gain far below 0 would hide all others."""
    known = METRICS.get(metric)  # a registered metric may be unknown to the process that draws a report
    smallest = smallest_of_decades(body, metric)
    if smallest is not None:
        if (lowest := lowest_band(body, metric)) > 0:
            axes.set_yscale("log")
            axes.set_ylim(bottom=MARGIN * lowest)
        else:
            axes.set_yscale("symlog", linthresh=smallest, linscale=0.5)
            axes.set_ylim(bottom=0)
        axes.yaxis.set_major_formatter(StrMethodFormatter("{x:,g}"))
    elif known is not None and known.floor is not None:
        axes.set_ylim(bottom=known.floor)
    if body["metrics"][metric]["unit"] == "share":
        axes.set_ylim(top=1.02)
    if metric == "gain":
        axes.set_ylim(bottom=max(-1.0, axes.get_ylim()[0]), top=1.02)


def smallest_of_decades(body: Mapping[str, Any], metric: str) -> float | None:
    """Return the power of ten below the smallest error if errors span decades; None where a linear axis shows them."""
    known = METRICS.get(metric)
    if known is None or known.floor != 0 or known.better != "lower":
        return None
    values = _values(body, metric, "mean")
    positive = values[values > 0]  # not NaN
    if not positive.size or positive.max() < DECADES * positive.min():
        return None
    return float(10 ** np.floor(np.log10(positive.min())))


def lowest_band(body: Mapping[str, Any], metric: str) -> float:
    """Return the lowest value of a band or, where there are none, of a curve."""
    return float(np.nanmin([_values(body, metric, part) for part in ("low", "mean")]))


def _values(body: Mapping[str, Any], metric: str, part: str) -> NDArray[np.float64]:
    """Return the means, or lower or upper ends of bands, of all curves of a metric."""
    curves = [curves[metric][part] for curves in body["curves"].values() if metric in curves]
    return np.concatenate([np.array(values, np.float64) for values in curves])


def _test_episodes(body: Mapping[str, Any], bands: str) -> str:
    """Return how many episodes were used, and what their bands are; a single episode has none."""
    if body["episodes"] == 1:
        return f"1 test episode; no {bands}, which need at least 2"
    return f"{counted(body['episodes'], 'test episode')}; {bands}: 95 %, bootstrap over episodes"


def _caption(body: Mapping[str, Any], metric: str) -> str:
    below = " Drawn down to −1." if metric == "gain" else ""
    smallest = smallest_of_decades(body, metric)
    if smallest is not None:
        below = " Axis: logarithmic."
        if lowest_band(body, metric) <= 0:
            below = f" Axis: logarithmic above {smallest:g}, linear below."
    return (
        f"{body['metrics'][metric]['formula']}.{below} x̂ clamped to 0..255, fed back unclamped. {body['game']}, view "
        f"{body['view']}, {counted(body['windows'], 'window')} of {_test_episodes(body, 'bands')}."
    )


PANEL, GAP, SIDE, MOST = 168, 6, 120, 9
"""Height of a panel, gap between panels and width of the names beside them, in pixels; most futures shown."""
MANY = 8
"""Groups of bars from which on their names are rotated."""


def accuracy_figure(body: Mapping[str, Any], colors: dict[str, str] = LIGHT) -> Figure:
    """Return bars of accuracy, over all futures and by action, with chance as a line across each group."""
    figure, axes = chart(colors, "Counterfactual accuracy")
    names = list(body["runs"])
    learned = [name for name in names if name not in body["baselines"]]
    width = 0.8 / len(names)
    for i, name in enumerate(names):
        color = RUN_COLORS[learned.index(name) % len(RUN_COLORS)] if name in learned else colors["faint"]
        mean, low, high = _bars(body["runs"][name])
        places = np.arange(len(mean)) - 0.4 + (i + 0.5) * width
        shade = 1.0 if name in learned else 0.5 + 0.3 * (i % 2)
        axes.bar(places, mean, width * 0.92, color=color, alpha=shade, label=BASELINE_LABELS.get(name, name))
        axes.vlines(places, low, high, colors["ink"], linewidth=0.8)
    chance, *_ = _bars({"accuracy": body["chance"], "accuracy_by_action": body.get("chance_by_action")})
    middles = np.arange(len(chance))
    axes.hlines(chance, middles - 0.45, middles + 0.45, colors["ink"], linestyles="--", linewidth=1.2, label="chance")
    _finish(axes, body, len(chance), colors)
    text = (
        f"{body['accuracy']}. {body['plans']}; {body['different_futures']['mean']:.2g} different futures on average; "
        f"{body['game']}, {counted(body['states'], 'state')} of {_test_episodes(body, 'bars')}."
    )
    caption(figure, text, colors)
    return figure


def _finish(axes: Axes, body: Mapping[str, Any], groups: int, colors: dict[str, str]) -> None:
    labels = ["all", *body["actions"]][:groups]
    axes.set_xticks(range(groups), labels, rotation=0 if groups < MANY else 60, fontsize=8)
    axes.set_ylabel("share of futures", color=colors["ink"])
    axes.set_ylim(0, 1.02)
    style(axes, colors)
    legend_below(axes, colors, 0.12 if groups < MANY else 0.28)


def _bars(scores: Mapping[str, Any]) -> tuple[NDArray[np.float64], NDArray[np.float64], NDArray[np.float64]]:
    """Return means and bands, first over all futures, then by action where plans are single actions."""
    by_action = scores.get("accuracy_by_action") or {"mean": [], "low": [], "high": []}
    mean, low, high = (
        np.array([*scores["accuracy"][part], *by_action[part]], np.float64) for part in ("mean", "low", "high")
    )
    return mean, low, high


def example_picture(rows: Mapping[str, NDArray[np.uint8]], labels: Sequence[str]) -> bytes:
    """Return a PNG of one state: a row for each name with its pictures (P, H, W, 3), a column for each of P labels."""
    count = min(MOST, len(labels))
    height, width = next(iter(rows.values())).shape[1:3]
    scale = max(1, round(PANEL / height))
    across, down = width * scale + GAP, height * scale + GAP
    drawing, draw = canvas(SIDE + across * count, LINE + GAP + down * len(rows))
    for column in range(count):
        draw.text((SIDE + column * across, 2), fitted(labels[column], across - GAP), INK, font())
    for row, (name, frames) in enumerate(rows.items()):
        top = LINE + GAP + row * down
        draw.text((GAP, top), fitted(name, SIDE - 2 * GAP), INK, font())
        for column in range(count):
            paste(drawing, frames[column], scale, (SIDE + column * across, top))
    return png(drawing)


MOST_WITH_BANDS = 4
"""Columns of numbers with bands that a terminal has room for."""
AT_STEPS = ("error", "gain")
"""Metrics with a separate table by step, besides the leading one."""
OUTCOMES = ("reward", "termination", "lost_life")
"""What is predicted besides frames."""
TITLES = {"exact_steps": "Exact steps", "kept_steps": "Steps object kept"}


def horizon_tables(body: Mapping[str, Any], *, bands: bool | None = None) -> list[TextTable]:
    """Return the tables of what evaluation.json holds: errors by step, everything at the last step.

    Where `bands` is None, bands are shown if there are few enough models for the width of a terminal.
    """
    wide = len(body["curves"]) <= MOST_WITH_BANDS if bands is None else bands
    steps = shown_steps(body["horizon"])
    by_step = [_by_step(body, metric, steps, wide) for metric in dict.fromkeys((leading_metric(body), *AT_STEPS))]
    return [*by_step, _at_the_end(body, wide), *_claims(body, wide), *_keys(body, wide), *_outcomes(body)]


def leading_metric(body: Mapping[str, Any]) -> str:
    """Return the metric to show first; early files do not name one."""
    metric: str = body.get("leading_metric", "error")
    return metric


def conclusions(body: Mapping[str, Any]) -> list[str]:
    """Return a sentence for each run: by the leading metric, from which step on it is worse than the baselines."""
    metric, (copying, mean) = leading_metric(body), body["baselines"][:2]
    curves = {name: np.array(curve[metric]["mean"], np.float64) for name, curve in body["curves"].items()}
    names = [name for name in curves if name not in body["baselines"]]
    by = body["metrics"][metric]["title"].lower()
    return [f"{name}, by {by}: {_conclusion(curves[name], curves[copying], curves[mean])}" for name in names]


def _conclusion(run: NDArray[np.float64], copying: NDArray[np.float64], mean: NDArray[np.float64]) -> str:
    for baseline, other, cure in ((copying, "copying the last frame", ": train longer"), (mean, "the mean frame", "")):
        step = worse_from(run, baseline)
        if step is not None:
            when = "at every step" if step == 1 else f"from step {step} on"
            compared = "worse" if (run[step - 1 :] > baseline[step - 1 :]).any() else "no better"
            return f"{compared} than {other} {when}{cure}"
    better = int(((run < copying) & (run < mean)).sum())
    steps = "every step" if better == len(run) else f"{better} of {len(run)} steps, also at the last"
    return f"better than copying the last frame and than the mean frame at {steps}"


def worse_from(run: NDArray[np.float64], other: NDArray[np.float64]) -> int | None:
    """Return the first step from which on all errors are at least those of the other; None if the last is smaller."""
    better = np.flatnonzero(~(run >= other))
    first = int(better[-1]) + 2 if len(better) else 1
    return None if first > len(run) else first


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


def _keys(body: Mapping[str, Any], bands: bool) -> list[TextTable]:
    """Return the table of how often keys work, where that was tested; early files have none."""
    if not (keys := body.get("keys")):
        return []
    names = list(keys["works"])
    rows = tuple(
        (str(step), *(banded(keys["works"][name], index, bands) for name in names))
        for index, step in enumerate(keys["steps"])
    )
    title = f"Keys work (share): opposite actions, each held for {keys['held']} steps, lead where they do in the game"
    return [TextTable(title, ("after step", *names), rows)]


def _outcomes(body: Mapping[str, Any]) -> list[TextTable]:
    """Return the table of rewards and terminations one step ahead, of runs that predict them."""
    rows = [
        (
            name,
            what.replace("_", " "),
            number(scores["balanced_accuracy"]),
            recall,
            _areas(scores),
            number(scores["calibration_error"]),
        )
        for name, outcome in body["outcomes"].items()
        for what, scores in ((what, outcome[what]) for what in OUTCOMES if what in outcome)
        for recall in [", ".join(f"{kind} {number(share)}" for kind, share in scores["recall"].items())]
    ]
    heads = ("run", "what", "balanced accuracy", "recall", "area under the curve", "calibration error")
    return [TextTable("Rewards and terminations one step ahead, from real frames", heads, tuple(rows))] if rows else []


def _areas(scores: Mapping[str, Any]) -> str:
    """Return the areas under the ROC curves of rewards, terminations or lost lives; early files have none."""
    areas = scores.get("area_under_curve", {})
    shown = [
        f"{kind} {number(areas[kind])}" for kind in ("negative", "positive", "terminates", "lost") if kind in areas
    ]
    return ", ".join(shown) or "–"


def counterfactual_table(body: Mapping[str, Any]) -> TextTable:
    """Return the table of what counterfactual.json holds."""
    rows = [
        (name, *(banded(scores[part], 0) for part in ("accuracy", "margin", "error")))
        for name, scores in body["runs"].items()
    ]
    rows.append(("chance", banded(body["chance"], 0), "–", "–"))
    title = f"Counterfactual futures: {body['plans']}, {counted(body['states'], 'state')}{_band_note(body)}"
    return TextTable(title, ("run", "accuracy", "margin", "error"), tuple(rows))


def _by_step(body: Mapping[str, Any], metric: str, steps: Sequence[int], bands: bool) -> TextTable:
    described, names = body["metrics"][metric], list(body["curves"])
    rows = tuple((str(step), *_row(body["curves"], names, metric, step - 1, bands)) for step in steps)
    title = f"{described['title']} ({described['unit']})" + (_band_note(body) if bands else "")
    return TextTable(title, ("step", *names), rows)


def _band_note(body: Mapping[str, Any]) -> str:
    """Return what a title says about bands: a single episode has none."""
    return ", no 95 % band of a single test episode" if body["episodes"] == 1 else ", 95 % band"


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
