"""What `acvp agent learn` has learned: score by real agent steps, beside references and published results."""

from __future__ import annotations

from typing import Any

from matplotlib.figure import Figure

from acvp.agents.evaluate import References, constant_label
from acvp.durable import write_atomic
from acvp.figures import image
from acvp.runs import PLOTS_NAME, RunFolder, write_results

PUBLISHED = {
    "ALE/Freeway-v5": {"DIAMOND": 33.3, "IRIS": 31.1, "SimPLe": 16.7},
    "ALE/Seaquest-v5": {"SimPLe": 683.3, "IRIS": 661.3, "DIAMOND": 551.2},
    "ALE/Qbert-v5": {"DIAMOND": 4499.3, "SimPLe": 1288.8, "IRIS": 745.7},
    "ALE/MsPacman-v5": {"DIAMOND": 1958.2, "SimPLe": 1480.0, "IRIS": 999.1},
}
"""Mean scores over 5 seeds after 100,000 agent steps, on a GPU, by method.

DIAMOND (Alonso et al., 2024) and IRIS (Micheli et al., 2023): means of the scores by seed that their authors published
with the code (results/data/DIAMOND.json, results/data/IRIS.json). SimPLe (Kaiser et al., 2020): those of IRIS' authors
(results/data/SimPLe.json). Their games differ from acvp's: a maximum over two frames, among others."""
REPORT_NAME, FIGURE_NAME = "learning.json", "learning.png"


def write_report(run: RunFolder, env_id: str, references: References | None, *, seed: int) -> dict[str, Any]:
    """Write learning.json and its figure into a run folder, and return what it holds."""
    rounds = [line for line in run.metrics() if line["kind"] == "round"]
    seconds = [part for line in rounds for part in line["seconds"].values()]
    body = {
        "what": "score in the real game by recorded agent steps; evaluation episodes are not recorded or learned from",
        "env_id": env_id,
        "rounds": rounds,
        "core_minutes": round(sum(part["processor"] for part in seconds) / 60, 1),
        "wall_minutes": round(sum(part["wall"] for part in seconds) / 60, 1),
        "references": references,
        "published": PUBLISHED.get(env_id),
    }
    write_results(run.path / REPORT_NAME, body, seed=seed)
    write_atomic(run.path / PLOTS_NAME / FIGURE_NAME, image(learning_curve(body), "png"))
    return body


def learning_curve(body: dict[str, Any]) -> Figure:
    """Return the figure: mean and standard error of the score after each round, and the references as lines."""
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
