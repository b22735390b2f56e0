"""Figures and tables of an analysis: action similarity, factor split, contingency maps, grids of frames.

Shapes: A actions, h height, w width of the view.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from acvp.actions import label, ordered, parse
from acvp.console import TextTable, banded, counted, number
from acvp.figures import (
    INK,
    LIGHT,
    LINE,
    PAPER,
    RUN_COLORS,
    Axes,
    Figure,
    Picture,
    arrow_font,
    canvas,
    caption,
    in_color,
    legend_below,
    paste,
    png,
    style,
)
from acvp.loaded import MEAN_FRAME

GAP, SIDE = 6, 116
"""Pixels between pictures, and for names beside them."""
HIGH, WIDE = 168, 1600
"""About how high a picture and how wide all columns are, in pixels."""
COLUMNS = 9
"""More columns than this are put below each other in bands."""
TEXT = 12

Row = tuple[str, Sequence[Picture]]
"""A name and pictures (h, w, C)."""


def grid(heads: Sequence[str], rows: Sequence[Row]) -> bytes:
    """Return a PNG of rows of pictures below the heads of their columns."""
    bands = [_band(heads, rows, part) for part in _parts(len(heads))]
    width = max(band.shape[1] for band in bands)
    return png(np.concatenate([_padded(band, width) for band in bands]))


def _parts(columns: int) -> list[slice]:
    """Return as few parts of the columns as COLUMNS allows, all of about the same size."""
    size = -(-columns // -(-columns // COLUMNS))
    return [slice(first, first + size) for first in range(0, columns, size)]


def _band(heads: Sequence[str], rows: Sequence[Row], part: slice) -> Picture:
    """Return a part of the columns, without the rows that have no picture there."""
    heads, rows = heads[part], [(name, pictures[part]) for name, pictures in rows if pictures[part]]
    height, width = rows[0][1][0].shape[:2]
    scale = max(1, min(round(HIGH / height), WIDE // (len(heads) * width)))
    across, down = width * scale + GAP, height * scale + GAP
    drawing, draw = canvas(SIDE + across * len(heads), LINE + down * len(rows))
    for column, head in enumerate(heads):
        draw.text((SIDE + column * across, 3), _fitted(head, across - GAP), INK, arrow_font(TEXT))
    for row, (name, pictures) in enumerate(rows):
        top = LINE + row * down
        draw.multiline_text((GAP, top), name, INK, arrow_font(TEXT))
        for column, picture in enumerate(pictures):
            colored = in_color(np.ascontiguousarray(picture))
            paste(drawing, colored, scale, (SIDE + column * across, top))
    return np.asarray(drawing)


def _padded(band: Picture, width: int) -> Picture:
    """Return a band filled up to a width at its right."""
    filled = np.full((band.shape[0], width, 3), PAPER, np.uint8)
    filled[:, : band.shape[1]] = band
    return filled


def action_heads(names: Sequence[str]) -> list[str]:
    """Return names of actions, each with its arrow in front, so that the arrow is left where a name is cut."""
    movements = [parse(name) for name in names]
    return [f"{move.label} {name}" if move else name for name, move in zip(names, movements, strict=True)]


def _fitted(text: str, width: int) -> str:
    """Return a text cut to a width in pixels."""
    while text and arrow_font(TEXT).getlength(text) > width:
        text = text[:-1]
    return text


KINDS = {"as_learned": "as learned", "centered": "less the mean over actions"}


def analysis_tables(body: Mapping[str, Any]) -> list[TextTable]:
    """Return the tables of what analysis.json holds, one for each part that has numbers."""
    makers = {"similarity": _similarity, "controlled": _explained, "contingency": _contingency}
    tables = [make(body[part]) for part, make in makers.items() if part in body]
    return [table for table in tables if table is not None]


def _similarity(part: Mapping[str, Any]) -> TextTable | None:
    rows = [
        (f"{name}, {title}", kind, str(mean["pairs"]), f"{mean['mean']:+.3f}", number(mean["p"]))
        for name, table in part["tables"].items()
        for key, title in KINDS.items()
        for kind, mean in table[key]["pairs"].items()
    ]
    heads = ("factors", "pairs of actions", "how many", "mean cosine", "p (relabeled)")
    return TextTable("Action similarity", heads, tuple(rows)) if rows else None


def _explained(part: Mapping[str, Any]) -> TextTable | None:
    if "explained" not in part:
        return None
    rows = [(name, banded(curve, 0), banded(curve, 1)) for name, curve in part["explained"].items()]
    band = ", 95 % band" if _has_bands(part) else ", no 95 % band of a single episode"
    title = f"Share of the true change explained{band}; Action: {factor_share(part)}"
    return TextTable(title, ("factors", "near the object", "elsewhere"), tuple(rows))


def _has_bands(part: Mapping[str, Any]) -> bool:
    """Return whether the shares have bands, which a single episode has not."""
    return any(value is not None for curve in part["explained"].values() for value in curve["low"])


def factor_share(part: Mapping[str, Any]) -> str:
    """Return the share of high-variance factors in words, beside that of the untrained network where it is known."""
    untrained = part.get("share_of_factors_untrained")
    beside = "" if untrained is None else f" (untrained network: {untrained:.0%})"
    return f"{part['share_of_factors']:.0%} of the factors{beside}"


def _contingency(part: Mapping[str, Any]) -> TextTable:
    correlation = part["correlation"]
    rows = (
        ("mean maps", number(correlation["mean_maps"]), "–"),
        ("state by state", number(correlation["by_state"]), number(correlation["by_state_of_mean_map"])),
    )
    return TextTable(
        f"Contingency, {counted(part['states'], 'state')}", ("correlation", "predicted", "mean true map"), rows
    )


WRITTEN = 6
"""Actions up to which each similarity is written into its square."""
PANEL = 3.4
"""Inches of a panel."""
RAW, CENTERED = "as learned", "less the mean over actions"


def similarity_figure(body: Mapping[str, Any], colors: dict[str, str] = LIGHT) -> Figure:
    """Return heat maps of what analysis.json holds: a column for each table, but for one table its two side by side."""
    similarity, names = body["similarity"], body["actions"]
    tables = similarity["tables"]
    panels = [(f"{name}, {kind}", table[key]) for key, kind in (("as_learned", RAW), ("centered", CENTERED))
              for name, table in tables.items()]  # fmt: skip
    across = max(2, len(tables))
    down = -(-len(panels) // across)
    figure = Figure(figsize=(PANEL * across, PANEL * down), facecolor=colors["paper"])
    for position, (title, panel) in enumerate(panels, 1):
        _heat_map(figure.add_subplot(down, across, position), title, panel["cosines"], names, colors)
    text = (
        f"Cosine similarity of the action factors of {body['run']} ({body['game']}); white arrows without fire, black "
        f"with. {'; '.join(_pairs_text(*panel) for panel in panels)}."
    )
    caption(figure, text, colors)
    return figure


def _heat_map(axes: Axes, title: str, cosines: list[list[float]], names: Sequence[str], colors: dict[str, str]) -> None:
    order = ordered(names)
    values = np.array(cosines)[np.ix_(order, order)]
    shown = axes.imshow(values, cmap="RdBu_r", vmin=-1, vmax=1)
    moves = [parse(names[action]) for action in order]
    short = [move.label if move else names[action] for move, action in zip(moves, order, strict=True)]
    axes.set_xticks(range(len(order)), short, fontsize=8)
    axes.set_yticks(range(len(order)), [label(names[action]) for action in order], fontsize=7)
    axes.tick_params(colors=colors["ink"], length=0)
    axes.set_title(title, color=colors["ink"], fontsize=9, loc="left")
    for spine in axes.spines.values():
        spine.set_visible(False)
    if len(order) <= WRITTEN:
        for row, column in np.ndindex(values.shape):
            dark = abs(values[row, column]) > 0.6
            text = f"{values[row, column]:.2f}"
            axes.text(column, row, text, ha="center", va="center", fontsize=7, color="white" if dark else "black")
    else:
        bar = axes.figure.colorbar(shown, ax=axes, fraction=0.04, pad=0.03, ticks=(-1, 0, 1))
        bar.ax.tick_params(colors=colors["ink"], labelsize=7, length=0)
        bar.outline.set_visible(False)


def _pairs_text(title: str, panel: Mapping[str, Any]) -> str:
    means = [f"{kind} {pairs['mean']:+.2f} (p {pairs['p']:.2g})" for kind, pairs in panel["pairs"].items()]
    return f"{title}: mean of pairs {', '.join(means)}" if means else f"{title}: no pairs of directions"


def controlled_figure(body: Mapping[str, Any], colors: dict[str, str] = LIGHT) -> Figure:
    """Return the variance that factors hold, and how much of the true change each part of the split explains."""
    split = body["controlled"]
    measured = "explained" in split
    figure = Figure(figsize=(8.2 if measured else 4.1, 3.5), facecolor=colors["paper"])
    _variances(figure.add_subplot(1, 2 if measured else 1, 1), split, colors)
    text = (
        f"Left: variance over actions held by the factors of highest variance; of {split['factors']:,} factors, "
        f"{factor_share(split)} hold {split['share_of_variance']:.0%} of the variance."
    )
    if measured:
        _explained_bars(figure.add_subplot(1, 2, 2), split, colors)
        bars = "bars: 95 %, bootstrap over episodes; " if _has_bands(split) else ""
        text += (
            f" Right: {split['formula']}; {bars}dashed: the mean image. "
            f"{counted(split['states'], 'state')} of {body['game']}."
        )
    caption(figure, text, colors)
    return figure


def _variances(axes: Axes, split: Mapping[str, Any], colors: dict[str, str]) -> None:
    held = np.array(split["variance_curve"])
    share = np.linspace(0, 1, len(held))
    inside = share <= split["share_of_factors"]
    axes.plot(share, held, color=RUN_COLORS[0], linewidth=1.6)
    axes.fill_between(share[inside], held[inside], color=RUN_COLORS[0], alpha=0.18, linewidth=0)
    axes.set_xlabel("share of factors", color=colors["ink"])
    axes.set_ylabel("share of their variance", color=colors["ink"])
    axes.set_xlim(0, 1)
    axes.set_ylim(0, 1.02)
    style(axes, colors)


def _explained_bars(axes: Axes, split: Mapping[str, Any], colors: dict[str, str]) -> None:
    shown = {name: curve for name, curve in split["explained"].items() if name != MEAN_FRAME}
    width = 0.84 / len(shown)
    groups = np.arange(len(split["changed_pixels"]))
    looks = [*((color, 1.0) for color in RUN_COLORS[:3]), (colors["faint"], 0.9), (colors["faint"], 0.5),
             *((color, 0.4) for color in RUN_COLORS[1:3])]  # fmt: skip
    for i, ((name, curve), (color, alpha)) in enumerate(zip(shown.items(), looks, strict=False)):
        mean, low, high = (np.array(curve[part], np.float64) for part in ("mean", "low", "high"))
        places = groups - 0.42 + (i + 0.5) * width
        axes.bar(places, mean, width * 0.9, color=color, alpha=alpha, label=name)
        axes.vlines(places, low, high, colors["ink"], linewidth=0.8)
    known_nothing = split["explained"][MEAN_FRAME]["mean"]
    axes.hlines(known_nothing, groups - 0.45, groups + 0.45, colors["ink"], linestyles="--", linewidth=1.2)
    axes.set_xticks(
        groups, [f"{name}\n{count:,} pixels" for name, count in split["changed_pixels"].items()], fontsize=8
    )
    axes.set_ylabel("share of the change explained", color=colors["ink"])
    axes.set_ylim(top=1.02)
    style(axes, colors)
    legend_below(axes, colors, columns=3, size=7)


def contingency_figure(
    frame: NDArray[np.uint8], panels: Mapping[str, NDArray[np.float64]], text: str, colors: dict[str, str] = LIGHT
) -> Figure:
    """Return maps (h, w) by title, two in a row, over a gray frame (h, w, C), each scaled to its greatest value."""
    down = -(-len(panels) // 2)
    high = 3.2 * frame.shape[0] / frame.shape[1]
    figure = Figure(figsize=(6.6, min(4.2, high + 0.3) * down), facecolor=colors["paper"])
    gray = frame.mean(-1)
    for position, (title, values) in enumerate(panels.items(), 1):
        axes = figure.add_subplot(down, 2, position)
        top = float(values.max()) or 1.0
        axes.imshow(gray, cmap="gray", vmin=0, vmax=320)
        axes.imshow(values, cmap="autumn", alpha=np.sqrt(values / top), vmin=0, vmax=top)
        axes.set_title(f"{title}: up to {top:.3g}", color=colors["ink"], fontsize=9, loc="left")
        axes.set_axis_off()
    caption(figure, text, colors)
    return figure
