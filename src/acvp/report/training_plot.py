"""The figure of a training: loss of every report, held-out error beside copy-last-frame."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from matplotlib.axes import Axes
from matplotlib.figure import Figure

from acvp.evaluation.plots import LIGHT, RUN_COLORS, SIZE, caption, legend_below, style


def training_figure(metrics: Sequence[Mapping[str, Any]], colors: dict[str, str] = LIGHT) -> Figure | None:
    """Return the held-out errors of a run by update, None where none was measured."""
    measured = [line for line in metrics if line.get("kind") == "held-out"]
    if not measured:
        return None
    figure = Figure(figsize=SIZE, facecolor=colors["paper"])
    axes = figure.add_subplot()
    for i, horizon in enumerate(measured[-1]["error"]):
        color = RUN_COLORS[i % len(RUN_COLORS)]
        _draw(axes, measured, "error", horizon, color, "-", f"{horizon} steps ahead")
        _draw(axes, measured, "copy_last", horizon, color, ":", None)
    axes.set_title("Held-out error during training", color=colors["ink"], fontsize=11, loc="left")
    axes.set_xlabel("updates", color=colors["ink"])
    axes.set_ylabel("squared error, sum over a frame", color=colors["ink"])
    axes.set_ylim(bottom=0)
    style(axes, colors)
    legend_below(axes, colors)
    text = (
        "Squared error of (pixel − mean)/scale summed over a frame, predictions not clamped; dotted: copy-last-frame."
    )
    caption(figure, text, colors)
    return figure


def _draw(
    axes: Axes, lines: Sequence[Mapping[str, Any]], part: str, horizon: str, color: str, line: str, label: str | None
) -> None:
    there = [each for each in lines if horizon in each[part]]
    steps, values = [each["step"] for each in there], [each[part][horizon] for each in there]
    axes.plot(steps, values, line, color=color, linewidth=1.4, marker=".", label=label)
