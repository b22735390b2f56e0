"""The learning curve of a run: as numbers and as a picture."""

from __future__ import annotations

import io
import json
from pathlib import Path
from typing import Any

from matplotlib.figure import Figure

from acvp.agents.about import AgentAbout
from acvp.agents.references import References, constant_label
from acvp.durable import write_atomic
from acvp.runs import RunFolder, provenance

NUMBERS_NAME, PICTURE_NAME = "learning-curve.json", "learning-curve.png"
FIELDS = ("step", "updates", "seconds", "epsilon", "mean", "standard_error", "scores")


def write_curve(run: RunFolder, folder: Path, about: AgentAbout, references: References) -> None:
    """Write the learning curve of a finished run beside its agent, with the scores that it has to beat."""
    points = [{name: line[name] for name in FIELDS} for line in run.metrics() if line["kind"] == "evaluation"]
    body = {
        "what": "mean score of an agent while it learned; step counts decisions of all games, seconds are wall-clock",
        "env_id": about.env_id,
        "training": about.training,
        "points": points,
        "references": references,
        "provenance": provenance(),
    }
    write_atomic(folder / NUMBERS_NAME, json.dumps(body, indent=1).encode() + b"\n")
    write_atomic(folder / PICTURE_NAME, picture(points, about.env_id, references))


def picture(points: list[dict[str, Any]], env_id: str, references: References) -> bytes:
    """Return the curve as PNG: mean and standard error over decisions, every single play, and the references."""
    figure = Figure(figsize=(6.4, 3.6), layout="constrained")
    axes = figure.subplots()
    steps = [point["step"] / 1000 for point in points]
    means = [point["mean"] for point in points]
    errors = [point["standard_error"] or 0.0 for point in points]
    for step, point in zip(steps, points, strict=True):
        axes.plot([step] * len(point["scores"]), point["scores"], ".", color="0.75", markersize=4)
    axes.errorbar(steps, means, errors, color="C0", marker="o", markersize=4, capsize=2)
    lines = ((constant_label(references["constant"]), "constant", "-."), ("random", "random", ":"))
    for label, name, line in lines:
        axes.axhline(references[name]["mean"], color="0.4", linestyle=line, linewidth=1.2, label=label)
    axes.legend(fontsize=8, frameon=False)
    axes.set(title=f"DQN of {env_id}", xlabel="thousand decisions", ylabel="score")
    axes.grid(alpha=0.3)
    buffer = io.BytesIO()
    figure.savefig(buffer, dpi=120)
    return buffer.getvalue()
