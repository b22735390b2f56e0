"""Figures of `acvp evaluate` and `acvp counterfactual`.

Horizon curves: one chart per metric, baselines gray and dashed, the formula in the caption. Counterfactual futures:
accuracy by action, and example states with all their futures.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

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
    _fit(axes, metric, body["metrics"][metric])
    caption(figure, _caption(body, metric), colors)
    return figure


def _draw(axes: Axes, name: str, curve: Mapping[str, Any], color: str, line: str) -> None:
    mean, low, high = (np.array(curve[part], np.float64) for part in ("mean", "low", "high"))
    steps = np.arange(1, len(mean) + 1)
    marker = "o" if len(steps) == 1 else None
    axes.plot(steps, mean, line, color=color, label=name, linewidth=1.6, marker=marker)
    axes.fill_between(steps, low, high, color=color, alpha=0.18, linewidth=0)


def _label(axes: Axes, described: Mapping[str, Any], colors: dict[str, str]) -> None:
    better = "" if described["better"] == "neither" else f", {described['better']} is better"
    axes.set_xlabel("steps ahead (agent steps)", color=colors["ink"])
    axes.set_ylabel(f"{described['unit']}{better}", color=colors["ink"])
    axes.locator_params(axis="x", integer=True)
    style(axes, colors)
    legend_below(axes, colors)


def _fit(axes: Axes, metric: str, described: Mapping[str, Any]) -> None:
    """Begin the axis where the metric does; a gain far below 0 would hide all others."""
    known = METRICS.get(metric)  # a registered metric may be unknown to the process that draws a report
    if known is not None and known.floor is not None:
        axes.set_ylim(bottom=known.floor)
    if described["unit"] == "share":
        axes.set_ylim(top=1.02)
    if metric == "gain":
        axes.set_ylim(bottom=max(-1.0, axes.get_ylim()[0]), top=1.02)


def _caption(body: Mapping[str, Any], metric: str) -> str:
    below = " Drawn down to −1." if metric == "gain" else ""
    return (
        f"{body['metrics'][metric]['formula']}.{below} x̂ clamped to 0..255, fed back unclamped. {body['game']}, view "
        f"{body['view']}, {body['windows']} windows of {body['episodes']} test episodes; bands: 95 %, bootstrap "
        "over episodes."
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
        axes.bar(places, mean, width * 0.92, color=color, alpha=shade, label=name)
        axes.vlines(places, low, high, colors["ink"], linewidth=0.8)
    chance, *_ = _bars({"accuracy": body["chance"], "accuracy_by_action": body.get("chance_by_action")})
    middles = np.arange(len(chance))
    axes.hlines(chance, middles - 0.45, middles + 0.45, colors["ink"], linestyles="--", linewidth=1.2, label="chance")
    _finish(axes, body, len(chance), colors)
    text = (
        f"{body['accuracy']}. {body['plans']}; {body['states']} states of {body['episodes']} test episodes of "
        f"{body['game']}, {body['different_futures']['mean']:.2g} different futures on average; bars: 95 %, "
        "bootstrap over episodes."
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
