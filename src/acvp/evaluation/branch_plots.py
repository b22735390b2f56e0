"""Figures of counterfactual futures: accuracy by action, and example states with all their futures."""

from __future__ import annotations

import io
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from numpy.typing import NDArray
from PIL import Image

from acvp.evaluation.drawing import INK, LINE, canvas, enlarge, fitted, font
from acvp.evaluation.plots import LIGHT, RUN_COLORS, SIZE, caption, legend_below, style

PANEL, GAP, SIDE, MOST = 168, 6, 120, 9
"""Pixels of an example's panel, between panels, for names beside them; futures shown at most."""
MANY = 8
"""Groups of bars from which on their names are turned."""


def accuracy_figure(body: Mapping[str, Any], colors: dict[str, str] = LIGHT) -> Figure:
    """Return bars of accuracy, over all futures and by action, with chance as a line across each group."""
    figure = Figure(figsize=SIZE, facecolor=colors["paper"])
    axes = figure.add_subplot()
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
    axes.set_title("Counterfactual accuracy", color=colors["ink"], fontsize=11, loc="left")
    labels = ["all", *body["actions"]][:groups]
    axes.set_xticks(range(groups), labels, rotation=0 if groups < MANY else 60, fontsize=8)
    axes.set_ylabel("share of futures", color=colors["ink"])
    axes.set_ylim(0, 1.02)
    style(axes, colors)
    legend_below(axes, colors, 0.12 if groups < MANY else 0.28)


def _bars(scores: Mapping[str, Any]) -> tuple[NDArray[np.float64], NDArray[np.float64], NDArray[np.float64]]:
    """Return means and bands, first over all futures, then by action where there is such a thing."""
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
            drawing.paste(Image.fromarray(enlarge(frames[column], scale)), (SIDE + column * across, top))
    buffer = io.BytesIO()
    drawing.save(buffer, "PNG", optimize=True)
    return buffer.getvalue()
