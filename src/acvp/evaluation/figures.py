"""Figures of horizon curves: one per metric, baselines gray and dashed, the formula in the caption.

Small pictures enlarged without blur, with text and borders around them.

Figures of counterfactual futures: accuracy by action, and example states with all their futures.
"""

from __future__ import annotations

import io
import textwrap
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import cache
from typing import Any

import matplotlib
import numpy as np
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from numpy.typing import NDArray
from PIL import Image, ImageDraw, ImageFont

from acvp.evaluation.definitions import METRICS

INK, FAINT, PAPER = (240, 240, 240), (150, 150, 150), (24, 26, 30)
GIVEN, PREDICTED = (46, 158, 79), (222, 82, 20)
"""Border while real frames are given (green), and once the predictor is on its own (orange)."""
TEXT_SIZE, LINE = 14, 20
"""Pixels; a line is even, so that enlarged pixels stay aligned with a video's chroma samples."""

Picture = NDArray[np.uint8]  # (H, W, 3)
Color = tuple[int, int, int]


@cache
def font(size: int = TEXT_SIZE) -> ImageFont.FreeTypeFont | ImageFont.ImageFont:
    """Return Pillow's own font."""
    return ImageFont.load_default(size)


def enlarge(picture: Picture, scale: int) -> Picture:
    """Return a picture with every pixel as a square."""
    return picture.repeat(scale, 0).repeat(scale, 1)


def even_scale(height: int, wanted: int) -> int:
    """Return the even number that enlarges a picture to about the wanted height, at least 2."""
    return max(2, 2 * round(wanted / height / 2))


def canvas(width: int, height: int, color: Color = PAPER) -> tuple[Image.Image, ImageDraw.ImageDraw]:
    """Return an empty picture of even size, and what draws on it."""
    image = Image.new("RGB", (width + width % 2, height + height % 2), color)
    return image, ImageDraw.Draw(image)


def fitted(text: str, width: int, size: int = TEXT_SIZE) -> str:
    """Return a text cut to a width in pixels."""
    if font(size).getlength(text) <= width:
        return text
    while text and font(size).getlength(f"{text}..") > width:
        text = text[:-1]
    return f"{text}.."


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
