"""Figures of horizon curves: one per metric, baselines gray and dashed, the formula in the caption."""

from __future__ import annotations

import io
import textwrap
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any

import matplotlib
import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from acvp.evaluation.definitions import METRICS

RUN_COLORS = ("#0072B2", "#D55E00", "#009E73", "#CC79A7", "#E69F00", "#56B4E9")  # Okabe & Ito: told apart by everyone
BASELINE_LINES = ("--", ":")
LIGHT = {"ink": "#1c1c1c", "faint": "#767676", "paper": "#ffffff"}
DARK = {"ink": "#e8e8e8", "faint": "#9a9a9a", "paper": "#1b1d21"}
SIZE, CAPTION_WIDTH = (5.2, 4.3), 96


def curve_figure(body: Mapping[str, Any], metric: str, colors: dict[str, str] = LIGHT) -> Figure:
    """Return the figure of one metric of what evaluation.json holds."""
    figure = Figure(figsize=SIZE, facecolor=colors["paper"])
    axes = figure.add_subplot()
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
    _label(axes, metric, colors)
    _fit(axes, metric)
    caption(figure, _caption(body, metric), colors)
    return figure


def _draw(axes: Axes, name: str, curve: Mapping[str, Any], color: str, line: str) -> None:
    mean, low, high = (np.array(curve[part], np.float64) for part in ("mean", "low", "high"))
    steps = np.arange(1, len(mean) + 1)
    marker = "o" if len(steps) == 1 else None
    axes.plot(steps, mean, line, color=color, label=name, linewidth=1.6, marker=marker)
    axes.fill_between(steps, low, high, color=color, alpha=0.18, linewidth=0)


def _label(axes: Axes, metric: str, colors: dict[str, str]) -> None:
    definition = METRICS[metric]
    better = "" if definition.better == "neither" else f", {definition.better} is better"
    axes.set_title(definition.title, color=colors["ink"], fontsize=11, loc="left")
    axes.set_xlabel("steps ahead (decisions)", color=colors["ink"])
    axes.set_ylabel(f"{definition.unit}{better}", color=colors["ink"])
    style(axes, colors)
    legend_below(axes, colors)


def legend_below(axes: Axes, colors: dict[str, str], away: float = 0.2) -> None:
    """Put the legend under the axes, where it hides no curve."""
    place: dict[str, Any] = {"loc": "upper left", "bbox_to_anchor": (0, -away), "borderaxespad": 0.0}
    axes.legend(fontsize=8, frameon=False, labelcolor=colors["ink"], ncols=2, **place)


def _fit(axes: Axes, metric: str) -> None:
    """Begin the axis where the metric does; a gain far below nothing would hide all others."""
    floor = METRICS[metric].floor
    if floor is not None:
        axes.set_ylim(bottom=floor)
    if METRICS[metric].unit == "share":
        axes.set_ylim(top=1.02)
    if metric == "gain":
        axes.set_ylim(bottom=max(-1.0, axes.get_ylim()[0]), top=1.02)


def style(axes: Axes, colors: dict[str, str]) -> None:
    """Give axes the quiet look that all figures share."""
    axes.set_facecolor(colors["paper"])
    axes.tick_params(colors=colors["ink"], labelsize=9)
    axes.grid(color=colors["faint"], alpha=0.25, linewidth=0.6)
    for name, spine in axes.spines.items():
        spine.set_visible(name in ("left", "bottom"))
        spine.set_color(colors["faint"])


def caption(figure: Figure, text: str, colors: dict[str, str]) -> None:
    """Put a caption under a figure, and make room for it."""
    lines = textwrap.wrap(text, CAPTION_WIDTH)
    height = figure.get_size_inches()[1] + 0.14 * len(lines)
    figure.set_size_inches(figure.get_size_inches()[0], height)
    room = (0.14 * len(lines) + 0.02) / height
    figure.text(0.02, 0.06 / height, "\n".join(lines), fontsize=7, color=colors["faint"], va="bottom", linespacing=1.25)
    figure.tight_layout(rect=(0, room, 1, 1))


def _caption(body: Mapping[str, Any], metric: str) -> str:
    below = " Drawn down to −1." if metric == "gain" else ""
    return (
        f"{body['metrics'][metric]['formula']}.{below} x̂ clamped to 0..255, fed back unclamped. {body['game']}, view "
        f"{body['view']}, {body['windows']} windows of {body['episodes']} test episodes; bands: 95 %, bootstrap "
        "over episodes."
    )


def image(figure: Figure, kind: str) -> bytes:
    """Return a figure as the bytes of a png or svg file, the same bytes for the same figure."""
    buffer = io.BytesIO()
    with _repeatable():
        figure.savefig(buffer, format=kind, dpi=160, metadata={"Date": None} if kind == "svg" else None)
    return buffer.getvalue()


@contextmanager
def _repeatable() -> Iterator[None]:
    with matplotlib.rc_context({"svg.hashsalt": "acvp", "svg.fonttype": "path"}):
        yield
