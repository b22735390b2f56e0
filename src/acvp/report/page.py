"""The report: the main numbers first, then all results, then how they were made."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from matplotlib.ticker import StrMethodFormatter

from acvp.analysis.figures import analysis_tables, controlled_figure, similarity_figure
from acvp.console import TextTable, counted, number
from acvp.durable import make_folder, write_atomic
from acvp.errors import UserError
from acvp.evaluation.figures import (
    DECADES,
    accuracy_figure,
    conclusions,
    counterfactual_table,
    curve_figure,
    horizon_tables,
    leading_metric,
    ordered_metrics,
)
from acvp.figures import DARK, LIGHT, RUN_COLORS, Axes, Figure, caption, chart, image, legend_below, style
from acvp.report import markup
from acvp.report.sources import OTHER_SHAPE, Analysis, ReportConfig, RunSource, Sources, read_media, read_sources

BASELINES = {
    "copy_last": ("--", "dashed: copying the last frame"),
    "mean_frame": (":", "dotted: mean of the training frames"),
}
"""How the errors of the baselines are drawn beside those of a run, as in `acvp evaluate`; early runs have the first."""


def training_figure(metrics: Sequence[Mapping[str, Any]], colors: dict[str, str] = LIGHT) -> Figure | None:
    """Return the held-out errors of a run by update, None where none was measured."""
    measured = [line for line in metrics if line.get("kind") == "held-out"]
    if not measured:
        return None
    figure, axes = chart(colors, "Held-out error during training")
    for i, horizon in enumerate(measured[-1]["error"]):
        color = RUN_COLORS[i % len(RUN_COLORS)]
        _draw(axes, measured, "error", horizon, color, "-", f"{counted(int(horizon), 'step')} ahead")
        for part, (line, _) in BASELINES.items():
            _draw(axes, measured, part, horizon, color, line, None)
    for line, label in (BASELINES[part] for part in BASELINES if part in measured[-1]):
        axes.plot([], [], line, color=colors["faint"], label=label)
    axes.set_xlabel("updates", color=colors["ink"])
    axes.set_ylabel("squared error, sum over a frame", color=colors["ink"])
    errors = [value for line in measured for part in ("error", *BASELINES) for value in line.get(part, {}).values()]
    if 0 < min(errors) * DECADES < max(errors):
        axes.set_yscale("log")
        axes.yaxis.set_major_formatter(StrMethodFormatter("{x:,g}"))
    else:
        axes.set_ylim(bottom=0)
    style(axes, colors)
    legend_below(axes, colors)
    text = "Squared error of (pixel − mean)/scale summed over a frame, predictions not clamped."
    caption(figure, text, colors)
    return figure


def _draw(
    axes: Axes, lines: Sequence[Mapping[str, Any]], part: str, horizon: str, color: str, dashes: str, label: str | None
) -> None:
    measured = [line for line in lines if horizon in line.get(part, {})]
    if not measured:
        return
    steps, values = [line["step"] for line in measured], [line[part][horizon] for line in measured]
    axes.plot(steps, values, dashes, color=color, linewidth=1.4, marker=".", label=label)


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
    ("contingency", "Where the next frame depends on the action: emulator and run.", "wide"),
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


def write_report(config: ReportConfig) -> Path:
    """Write the page of a configuration and return where it is."""
    sources = read_sources(config)
    out = config.out or config.folder / "report.html"
    try:
        page = make_page(sources, config.title).encode(errors="backslashreplace")
    except OTHER_SHAPE as error:
        raise UserError(
            f"{config.folder}: its results, or those of a run, are not as this version of acvp writes them "
            f"({type(error).__name__}: {error}); make them again"
        ) from error
    make_folder(out.parent)
    write_atomic(out, page)
    return out


def make_page(sources: Sources, title: str | None = None) -> str:
    """Return the whole page as text."""
    game = sources.runs[0].config.get("data", "a game")
    heading = title or f"{game}: {', '.join(run.name for run in sources.runs)}"
    sections: list[str] = []
    if sources.evaluation:
        sections += _evaluation(sources, sources.evaluation)
    else:
        sections.append(markup.text("Not evaluated yet: acvp evaluate adds curves, tables and videos.", "note"))
    if sources.counterfactual:
        sections.append(_counterfactual(sources, sources.counterfactual))
    sections += [analysis_section(run.name, run.analysis, _themed) for run in sources.runs if run.analysis]
    sections += [_run(run) for run in sources.runs]
    if sources.claims:
        sections.append(_claims(sources.claims, sources.claims_file))
    sections.append(_provenance(sources))
    return markup.page(heading, [markup.heading(heading, 1), *_glance(sources), *sections])


def _glance(sources: Sources) -> Iterator[str]:
    """Yield what to see first: how each run compares with the baselines, then the main numbers."""
    body, futures = sources.evaluation, sources.counterfactual
    yield from (markup.text(sentence, "conclusion") for sentence in (conclusions(body) if body else ()))
    for run in sources.runs:
        values: list[tuple[str, str]] = []
        if body and run.name in body["curves"]:
            values += _horizon_cards(body, run.name)
        if futures and run.name in futures["runs"]:
            accuracy, chance = futures["runs"][run.name]["accuracy"], futures["chance"]
            share = number(accuracy["mean"][0])
            values.append((share, f"counterfactual accuracy, chance {number(chance['mean'][0])}"))
        if values:
            yield markup.heading(run.name) + markup.cards(values)


def _horizon_cards(body: dict[str, Any], name: str) -> list[tuple[str, str]]:
    titles, cards = {"wrong_pixels": "wrong pixels", "error": "squared error"}, []
    for metric in dict.fromkeys((leading_metric(body), "error")):
        means = {model: curves[metric]["mean"] for model, curves in body["curves"].items()}
        for step in dict.fromkeys((1, min(10, body["horizon"]), body["horizon"])):
            others = ", ".join(f"{model} {number(means[model][step - 1])}" for model in body["baselines"])
            cards.append((number(means[name][step - 1]), f"{titles[metric]} at step {step} ({others})"))
    cards.append((number(body["steps"][name]["exact_steps"]["mean"][0]), f"exact steps of {body['horizon']}"))
    if "kept_steps" in body["steps"][name]:
        cards.append((number(body["steps"][name]["kept_steps"]["mean"][0]), "steps until the object is lost"))
    return cards


def _evaluation(sources: Sources, body: dict[str, Any]) -> Iterator[str]:
    clips = body.get("clips", [])
    if clips:
        yield markup.section("videos", "Videos", *(_video(sources.folder, clip) for clip in clips))
    curves = [
        markup.figure(_themed(lambda colors, m=metric: curve_figure(body, m, colors), body["metrics"][metric]["title"]))
        for metric in ordered_metrics(body)
    ]
    notes = [markup.text(f"Left out: {name}: {why}", "note") for name, why in body["left_out"].items()]
    notes += [markup.text(f"Note: {body['note']}.", "note")] if "note" in body else []
    yield markup.section("curves", "Looking ahead", *notes, f'<div class="grid">{"".join(curves)}</div>')
    yield markup.section("tables", "Tables", *(markup.table(table) for table in horizon_tables(body, bands=True)))
    if clips:
        yield markup.section("strips", "Strips", *(_strips(sources.folder, clip) for clip in clips))


def _video(folder: Path, clip: dict[str, str]) -> str:
    caption = (
        f"{clip['title']}: truth, then prediction and difference of each run; the border is green while real frames "
        "are given and violet once the run predicts from its own frames."
    )
    if "mp4" in clip and (data := read_media(folder, clip["mp4"])) is not None:
        return markup.figure(markup.video(data, clip["title"]), caption, "wide")
    if "gif" in clip and (data := read_media(folder, clip["gif"])) is not None:
        return markup.figure(markup.image(data, "gif", clip["title"]), caption, "wide")
    return markup.text(f"{clip['title']}: its video is no longer in {folder}", "note")


def _strips(folder: Path, clip: dict[str, str]) -> str:
    parts = []
    for kind, what in (("crop", "a part of the frame, enlarged"), ("strip", "the controlled object is boxed")):
        if kind in clip and (data := read_media(folder, clip[kind])) is not None:
            picture = markup.image(data, "png", f"{clip['title']}, {what}", "pixels")
            parts.append(markup.figure(picture, f"{clip['title']}: {what}", "strip"))
    return "\n".join(parts)


def _counterfactual(sources: Sources, body: dict[str, Any]) -> str:
    figure = markup.figure(_themed(lambda colors: accuracy_figure(body, colors), "counterfactual accuracy"))
    files = sorted((sources.folder / "plots").glob("counterfactual-*.png"))
    pictures = [read_media(sources.folder, file.relative_to(sources.folder)) for file in files]
    examples = [
        markup.figure(markup.image(data, "png", "futures of one state", "pixels"), "", "wide")
        for data in pictures
        if data is not None
    ]
    return markup.section(
        "counterfactual",
        "Every action's future",
        markup.text(
            "From the same saved state every plan is played in the emulator and predicted. Accuracy: "
            f"{body['accuracy']}. Margin: {body['margin']}."
        ),
        f'<div class="grid">{figure}</div>',
        markup.table(counterfactual_table(body)),
        *examples[:1],
        *([markup.folded("more states", "".join(examples[1:]))] if len(examples) > 1 else []),
    )


def _claims(body: dict[str, Any], file: Path | None) -> str:
    """Return the section of the paper's claims and their conclusions."""
    try:
        return markup.section("claims", "The paper's claims", markup.table(_claims_table(body)))
    except OTHER_SHAPE as error:
        raise UserError(
            f"--claims {file}: not as this version of acvp writes it ({type(error).__name__}: {error}); "
            "make it again with acvp claims"
        ) from error


def _claims_table(body: dict[str, Any]) -> TextTable:
    rows = []
    for claim in body["claims"]:
        ours = "; ".join(
            f"{game}: {finding['number']}" if game else finding["number"] for game, finding in claim["games"].items()
        )
        conclusion = claim["conclusion"] + (f"; {claim['coverage']}" if claim["coverage"] else "")
        rows.append(
            (str(claim["number"]), f"{claim['where']}: {claim['text']}", claim["paper"], ours or "–", conclusion)
        )
    counts = ", ".join(f"{count} {conclusion}" for conclusion, count in body["conclusions"].items() if count)
    return TextTable(f"Conclusions: {counts}", ("#", "claim", "paper", "ours", "conclusion"), tuple(rows))


def _run(run: RunSource) -> str:
    parts = []
    if run.about:
        parts.append(markup.facts(_plain(run.about)))
    if training_figure(run.metrics) is not None:
        figure = _themed(lambda colors: training_figure(run.metrics, colors), f"training of {run.name}")
        parts.append(f'<div class="grid">{markup.figure(figure)}</div>')
    parts += [markup.facts(_plain(start)) for start in run.starts]
    parts.append(markup.facts(_compute(run)))
    parts.append(markup.folded("configuration", markup.source(json.dumps(run.config, indent=1, ensure_ascii=False))))
    return markup.section(f"run-{run.name}", f"Run {run.name}", *parts)


def _provenance(sources: Sources) -> str:
    parts = []
    analyzed = [(f"Analysis of {run.name}", run.analysis.body) for run in sources.runs if run.analysis]
    measured = [("Evaluation", sources.evaluation), ("Counterfactual futures", sources.counterfactual)]
    for title, body in (*measured, *analyzed):
        if body is not None:
            facts = {name: value for name, value in body.items() if isinstance(value, str | int | float)}
            parts += [markup.heading(title), markup.facts(_plain(body["provenance"] | facts))]
    if sources.evaluation:
        formulas = {metric["title"]: metric["formula"] for metric in sources.evaluation["metrics"].values()}
        parts += [markup.heading("What the numbers mean"), markup.facts(formulas)]
    return markup.section("how", "How this was made", *parts) if parts else ""


def _themed(draw: Any, alternative: str) -> str:
    light, dark = (_svg(draw(colors)) for colors in (LIGHT, DARK))
    return markup.themed_image(light, dark, alternative)


def _svg(figure: Figure) -> bytes:
    return image(figure, "svg")


def _compute(run: RunSource) -> dict[str, Any]:
    """Return what the training has cost so far."""
    seconds = [line["seconds"] for line in run.metrics if "seconds" in line]
    cost = {"updates": max((line.get("step", 0) for line in run.metrics), default=0)}
    return cost | ({"minutes of training": number(seconds[-1] / 60)} if seconds else {})


def _plain(values: dict[str, Any]) -> dict[str, str]:
    return {name.replace("_", " "): _listed(name, value) for name, value in values.items()}


def _listed(name: str, value: Any) -> str:
    if isinstance(value, dict):
        return ", ".join(f"{key} {part}" for key, part in value.items())
    return (" " if name == "command" else ", ").join(map(str, value)) if isinstance(value, list) else str(value)
