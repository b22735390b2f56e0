"""Figures of control, exploration and learning curves."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.ticker import LogLocator, NullLocator, StrMethodFormatter
from numpy.typing import NDArray

from acvp.agents.evaluate import constant_label
from acvp.console import counted
from acvp.figures import LIGHT, RUN_COLORS, SIZE, caption, legend_below, style

SOURCE_COLORS = {
    "random": "#767676", "constant": "#009E73", "informed-emulator": "#0072B2", "informed-model": "#D55E00",
}  # fmt: skip
SOURCE_LINES = {"informed-model": (0, (3, 2))}
"""Dashed, so that a line below another one stays visible; all others are solid."""
REFERENCE_LINES = {"emulator": "--", "constant": "-.", "random": ":"}
REFERENCE_LABELS = {"emulator": "real frames", "random": "random actions"}
STRATEGY_LABELS = {
    "random": "random exploration", "informed-model": "informed by the predictor",
    "informed-emulator": "informed by the emulator",
}  # fmt: skip
"""What legends call references and exploration strategies; others by their own name."""
MANY_DECADES = 300
"""Ratio of the limits of an axis from which on only powers of ten fit under it."""
MAP_WIDTH, MAP_HEIGHT = 2.3, 3.4
"""Inches of one heat map."""
TITLE_HEIGHT = 0.5
"""Inches above heat maps."""


def control_figure(body: Mapping[str, Any], colors: dict[str, str] = LIGHT) -> Figure:
    """Return the score against the horizon of predictions: figure 5 of the paper."""
    figure = Figure(figsize=SIZE, facecolor=colors["paper"])
    axes = figure.add_subplot()
    horizons = body["horizons"]
    for i, (name, curve) in enumerate(body["runs"].items()):
        color = RUN_COLORS[i % len(RUN_COLORS)]
        mean, error = _means(curve)
        shown = [point["horizon"] for point in curve]
        axes.errorbar(shown, mean, error, color=color, label=name, linewidth=1.6, marker="o", markersize=3.5)
    _draw_references(axes, body, colors)
    axes.set_title("Playing by predicted frames", color=colors["ink"], fontsize=11, loc="left")
    axes.set_xscale("log")
    axes.set_xticks(horizons, [str(horizon) for horizon in horizons])
    axes.xaxis.set_minor_locator(NullLocator())
    axes.set_xlabel("agent steps predicted between real frames", color=colors["ink"])
    axes.set_ylabel("score, higher is better", color=colors["ink"])
    style(axes, colors)
    legend_below(axes, colors)
    text = (
        f"Mean score of agent {body['agent']} in {body['game']}, {counted(body['episodes'], 'episode')}, with its "
        f"standard error, ε = {body['epsilon']:g}. The agent sees predicted frames only; the emulator executes its "
        f"actions. Real frames: it sees the game's own. Holding {body['constant']['action']}: throughout, the best "
        "action to hold."
    )
    caption(figure, text, colors)
    return figure


def _draw_references(axes: Axes, references: Mapping[str, Any], colors: dict[str, str]) -> None:
    """Draw the reference scores as horizontal lines with their standard errors."""
    for name, line in REFERENCE_LINES.items():
        if name in references:
            (mean,), (error,) = _means([references[name]])
            label = f"holding {references[name]['action']}" if name == "constant" else REFERENCE_LABELS[name]
            axes.axhline(mean, color=colors["faint"], linestyle=line, linewidth=1.4, label=label)
            axes.axhspan(mean - error, mean + error, color=colors["faint"], alpha=0.15, linewidth=0)


def _means(points: list[Mapping[str, Any]]) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Return means and standard errors; 0 for the error of a single episode."""
    errors = [point["standard_error"] or 0.0 for point in points]
    return np.array([point["mean"] for point in points], np.float64), np.array(errors, np.float64)


def learning_figure(body: Mapping[str, Any], colors: dict[str, str] = LIGHT) -> Figure:
    """Return learning curves: a line for each strategy, a thin one for each seed."""
    figure = Figure(figsize=SIZE, facecolor=colors["paper"])
    axes = figure.add_subplot()
    for i, (name, strategy) in enumerate(body["strategies"].items()):
        color = SOURCE_COLORS.get(name, RUN_COLORS[i % len(RUN_COLORS)])
        for run in strategy["runs"]:
            steps, scores = ([point[key] for point in run["points"]] for key in ("step", "mean"))
            axes.plot(steps, scores, color=color, linewidth=0.7, alpha=0.5)
        mean, error = _means(strategy["curve"])
        steps = [point["step"] for point in strategy["curve"]]
        label = f"{STRATEGY_LABELS.get(name, name)}, {counted(len(strategy['runs']), 'seed')}"
        axes.errorbar(steps, mean, error, color=color, label=label, linewidth=1.8, marker="o", markersize=3.5)
    references = body.get("references", {})
    _draw_references(axes, references, colors)
    axes.set_title("Learning curves", color=colors["ink"], fontsize=11, loc="left")
    axes.set_xlabel("agent steps of all games", color=colors["ink"])
    axes.set_ylabel("score, higher is better", color=colors["ink"])
    axes.xaxis.set_major_formatter(StrMethodFormatter("{x:,.0f}"))
    style(axes, colors)
    legend_below(axes, colors)
    episodes = len(next(iter(body["strategies"].values()))["runs"][0]["points"][0]["scores"])
    text = (
        f"DQN in {body['game']}, by exploration strategy. Thin: a seed, mean of {counted(episodes, 'episode')} a "
        "point; thick: mean over seeds with its standard error."
    )
    if references:
        text += f" Holding {references['constant']['action']}: this action throughout, the best of all."
    caption(figure, text, colors)
    return figure


def source_label(source: str, result: Mapping[str, Any]) -> str:
    """Return the label of an exploration strategy; of the constant one with its action."""
    return constant_label(result) if source == "constant" else source


def _legend_name(source: str, result: Mapping[str, Any]) -> str:
    return f"holding {result['action']}" if source == "constant" else STRATEGY_LABELS.get(source, source)


def first_reward_figure(body: Mapping[str, Any], colors: dict[str, str] = LIGHT) -> Figure:
    """Return the agent steps to the first reward, a dot for each seed and a bar at the median."""
    figure = Figure(figsize=(SIZE[0], 1.6 + 0.5 * len(body["sources"])), facecolor=colors["paper"])
    axes = figure.add_subplot()
    most = body["max_steps"]
    for row, (source, result) in enumerate(body["sources"].items()):
        values = [most if value is None else value for value in result["first_reward"]]
        never = [value is None for value in result["first_reward"]]
        height = row + np.linspace(-0.22, 0.22, len(values)) if len(values) > 1 else np.array([row])
        face = ["none" if unrewarded else SOURCE_COLORS[source] for unrewarded in never]
        axes.scatter(values, height, s=16, facecolors=face, edgecolors=SOURCE_COLORS[source], linewidths=0.9)
        axes.vlines(result["median"], row - 0.36, row + 0.36, colors["ink"], linewidth=1.6)
        median = f"{'≥ ' if result['median'] >= most else ''}{result['median']:,.0f}"
        axes.text(result["median"], row - 0.38, median, color=colors["ink"], fontsize=8, ha="center", va="bottom")
    axes.set_title("Agent steps to the first reward", color=colors["ink"], fontsize=11, loc="left")
    axes.set_yticks(range(len(body["sources"])), [_legend_name(*item) for item in body["sources"].items()])
    axes.set_ylim(len(body["sources"]) - 0.4, -0.7)
    axes.set_xscale("log")
    low, _ = axes.get_xlim()
    axes.set_xlim(low / 2, most * 1.5)
    few = most / low < MANY_DECADES
    axes.xaxis.set_major_locator(LogLocator(subs=(1, 3) if few else (1,)))
    axes.xaxis.set_major_formatter(StrMethodFormatter("{x:,.0f}"))
    axes.xaxis.set_minor_locator(NullLocator())
    style(axes, colors)
    text = (
        f"{body['game']}, {counted(body['seeds'], 'seed')} each; bars: medians; hollow: no reward within "
        f"{most:,} agent steps. {_kernel(body)}"
    )
    caption(figure, text, colors)
    return figure


def heat_figure(body: Mapping[str, Any], background: NDArray[np.uint8], colors: dict[str, str] = LIGHT) -> Figure:
    """Return a map of visits for each source over a gray frame (H, W) of the game."""
    mapped = {source: result for source, result in body["sources"].items() if "visits" in result}
    figure = Figure(figsize=(max(SIZE[0], MAP_WIDTH * len(mapped)), MAP_HEIGHT), facecolor=colors["paper"])
    most = max(int(np.max(result["visits"])) for result in mapped.values())
    for i, (source, result) in enumerate(mapped.items(), 1):
        axes = figure.add_subplot(1, len(mapped), i)
        _heat(axes, np.array(result["visits"]), background, body["cell"], most)
        axes.set_title(
            f"{_legend_name(source, result)}\n{np.mean(result['cells']):.0f} cells", color=colors["ink"], fontsize=10
        )
    text = (
        f"Where the controlled object of {body['game']} was over {body['map_steps']:,} agent steps, "
        f"{counted(body['map_seeds'], 'seed')} each; cells of {body['cell']}×{body['cell']} pixels, colors by the "
        f"logarithm of visits, the same in all maps; number of cells: mean over seeds. {_kernel(body)}"
    )
    caption(figure, text, colors)
    figure.subplots_adjust(top=1 - TITLE_HEIGHT / figure.get_size_inches()[1])
    return figure


def _heat(axes: Axes, visits: NDArray[np.int64], background: NDArray[np.uint8], cell: int, most: int) -> None:
    height, width = background.shape
    axes.imshow(background / 255 * 0.45 + 0.5, cmap="gray", vmin=0, vmax=1, extent=(0, width, height, 0))
    shown = np.ma.masked_equal(visits, 0)
    across, down = visits.shape[1] * cell, visits.shape[0] * cell
    axes.imshow(
        np.log1p(shown), cmap="inferno", vmin=0, vmax=np.log1p(most), alpha=0.85, extent=(0, across, down, 0),
        interpolation="nearest",
    )  # fmt: skip
    axes.set_xlim(0, width)
    axes.set_ylim(height, 0)
    axes.set_xticks([])
    axes.set_yticks([])


def coverage_figure(body: Mapping[str, Any], colors: dict[str, str] = LIGHT) -> Figure:
    """Return the distinct cells that the controlled object has visited, against agent steps."""
    figure = Figure(figsize=SIZE, facecolor=colors["paper"])
    axes = figure.add_subplot()
    for source, result in body["sources"].items():
        if "coverage" not in result:
            continue
        curve = result["coverage"]
        at, mean = np.array(curve["steps"]), np.array(curve["mean"], np.float64)
        line = SOURCE_LINES.get(source, "-")
        axes.plot(
            at, mean, color=SOURCE_COLORS[source], label=_legend_name(source, result), linewidth=1.6, linestyle=line
        )
        if curve["standard_error"] is not None:
            error = np.array(curve["standard_error"], np.float64)
            axes.fill_between(at, mean - error, mean + error, color=SOURCE_COLORS[source], alpha=0.18, linewidth=0)
    axes.set_title("Coverage", color=colors["ink"], fontsize=11, loc="left")
    axes.set_xlabel("agent steps", color=colors["ink"])
    axes.set_ylabel("distinct cells", color=colors["ink"])
    axes.set_ylim(bottom=0)
    style(axes, colors)
    legend_below(axes, colors)
    text = (
        f"Distinct cells of {body['cell']}×{body['cell']} pixels in which the controlled object of {body['game']} has "
        f"been; mean over {counted(body['map_seeds'], 'seed')} with its standard error. {_kernel(body)}"
    )
    caption(figure, text, colors)
    return figure


def _kernel(body: Mapping[str, Any]) -> str:
    kernel = body["kernel"]
    ahead = "" if body["look_ahead"] == 1 else f", each action held for {body['look_ahead']} agent steps"
    return (
        f"Informed: least visited of the last {kernel['memory']} frames, δ = {kernel['delta']}, "
        f"σ = {kernel['sigma']:g}{ahead}."
    )


def rounds_figure(body: Mapping[str, Any]) -> Figure:
    """Return the figure of `acvp agent learn`: the score after each round with its standard error, and references."""
    figure = Figure(figsize=(6.4, 3.6), layout="constrained")
    axes = figure.subplots()
    steps = [line["step"] / 1000 for line in body["rounds"]]
    for name, label, color in (("recorded", "recorded, with exploration", "0.6"), ("evaluation", "agent", "C0")):
        rows = [line[name] for line in body["rounds"]]
        errors = [row["standard_error"] or 0.0 for row in rows]
        axes.errorbar(steps, [row["mean"] for row in rows], errors, marker="o", markersize=4, capsize=2, color=color,
                      label=label)  # fmt: skip
    if references := body["references"]:
        rows_of_lines = ((constant_label(references["constant"]), "constant", "-."), ("random", "random", ":"))
        for label, name, line in rows_of_lines:
            axes.axhline(references[name]["mean"], color="0.4", linestyle=line, linewidth=1.2, label=label)
    for name, score in (body["published"] or {}).items():
        axes.axhline(score, color="C1", linestyle="--", linewidth=0.8, alpha=0.7)
        axes.annotate(f"{name}, 100k, GPU", (1, score), xycoords=("axes fraction", "data"), ha="right", va="bottom",
                      fontsize=7, color="C1")  # fmt: skip
    axes.legend(fontsize=8, frameon=False)
    axes.set(title=f"{body['env_id']}, learned in imagination", xlabel="thousand real agent steps", ylabel="score")
    axes.grid(alpha=0.3)
    return figure
