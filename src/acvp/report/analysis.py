"""The section about what a run has learned: acvp analyze's numbers and pictures."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

from matplotlib.figure import Figure

from acvp.analysis.plots import controlled_figure, similarity_figure
from acvp.analysis.tables import analysis_tables
from acvp.report import markup
from acvp.report.sources import Analysis, read_media

FIGURES: dict[str, tuple[Callable[..., Figure], str]] = {
    "similarity": (similarity_figure, "which actions are alike"),
    "controlled": (controlled_figure, "what the factors that vary with the action explain"),
}
PICTURES = (
    (
        "controlled-examples",
        "Action: the factors that vary most with the action alone; Non-Action: all others.",
        "wide",
    ),
    ("contingency", "Where the action tells: by the emulator and by the run.", "wide"),
    ("different-actions", "Every action's future: the emulator's above the run's.", "strip"),
)
"""How file names begin, what they show, and the look of the figure."""


def analysis_section(run: str, analysis: Analysis, themed: Callable[[Any, str], str]) -> str:
    """Return the section of one run; `themed` turns a drawing function into an image."""
    body = analysis.body
    figures = [
        markup.figure(themed(lambda colors, d=draw: d(body, colors), words), "", "wide")
        for name, (draw, words) in FIGURES.items()
        if name in body
    ]
    notes = [markup.text(f"Left out: {name}: {why}", "note") for name, why in body["left_out"].items()]
    tables = [markup.table(table) for table in analysis_tables(body)]
    pictures = [_pictures(analysis, *picture) for picture in PICTURES]
    return markup.section(f"analysis-{run}", f"What {run} has learned", *notes, *figures, *tables, *pictures)


def _pictures(analysis: Analysis, start: str, caption: str, look: str) -> str:
    """Return the PNG files whose names begin so, the first at once and the others folded away."""
    names = [Path(name).name for name in analysis.body["files"] if name.startswith(start) and name.endswith(".png")]
    pictures = [read_media(analysis.folder, Path("plots") / name) for name in names]
    shown = [markup.figure(markup.image(data, "png", caption), caption, look) for data in pictures if data is not None]
    return "".join(shown[:1]) + (markup.folded("more", "".join(shown[1:])) if len(shown) > 1 else "")
