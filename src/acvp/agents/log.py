"""What a run writes down while an agent learns: metrics.jsonl and the same for TensorBoard.

What a person sees while an agent learns: a bar on a terminal, else a plain line every half minute.

The learning curve of a run: as numbers and as a picture.
"""

from __future__ import annotations

import io
import time
from math import isfinite
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from matplotlib.figure import Figure
from rich.console import Console
from rich.progress import BarColumn, Progress
from rich.text import Text
from stable_baselines3.common.logger import KVWriter
from torch.utils.tensorboard import SummaryWriter

from acvp.agents.agent import AgentAbout
from acvp.agents.play import Scores
from acvp.agents.references import References, constant_label
from acvp.console import PlainColumn, visible
from acvp.durable import write_atomic
from acvp.runs import RunFolder, clock, write_results


class AgentLog(KVWriter):
    """Takes what Stable-Baselines3 records, under its names; `step` counts decisions of all games."""

    def __init__(self, run: RunFolder, last_step: int = -1) -> None:
        """Continue after the step of a checkpoint."""
        self._run = run
        self._board = SummaryWriter(str(run.tensorboard), purge_step=last_step + 1)

    def write(self, key_values: dict[str, Any], key_excluded: dict[str, tuple[str, ...]], step: int = 0) -> None:
        """Write a line of training."""
        values = {name: float(value) for name, value in key_values.items() if isinstance(value, int | float)}
        self._run.add_metrics({"kind": "train", "step": step} | values)
        for name, value in values.items():
            if isfinite(value):
                self._board.add_scalar(name, value, step)

    def evaluation(self, step: int, updates: int, seconds: float, scores: Scores, *, epsilon: float) -> None:
        """Write a point of the learning curve; `seconds` is the wall-clock time of the run so far."""
        self._run.add_metrics(
            {
                "kind": "evaluation",
                "step": step,
                "updates": updates,
                "seconds": round(seconds, 1),
                "epsilon": epsilon,
                "mean": scores.mean,
                "standard_error": scores.standard_error,
                "scores": scores.scores,
            }
        )
        self._board.add_scalar("evaluation/score", scores.mean, step)
        self._board.flush()

    def flush(self) -> None:
        """Put what was logged on the disk, before a checkpoint that comes after it."""
        self._board.flush()

    def close(self) -> None:
        """Write the rest."""
        self._board.close()


LINE_SECONDS = 30.0


class Display:
    """Shows score, ε, decisions per second and time left."""

    def __init__(self, console: Console) -> None:
        self._console, self._live = console, console.is_terminal
        columns = (PlainColumn("learning"), BarColumn(), PlainColumn("{task.fields[text]}"))
        self._bar = Progress(*columns, console=console, transient=True, disable=not self._live)
        self._task = self._bar.add_task("learning", total=1.0, text="")
        self._said = time.monotonic()

    def __enter__(self) -> Self:
        self._bar.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._bar.stop()

    def say(self, text: str) -> None:
        """Print a line."""
        self._console.print(Text(visible(text)))

    def show(self, progress: float, decisions: int, seconds: float, score: float | None, epsilon: float) -> None:
        """Tell how far the run is, from 0 to 1; `score` is the mean of the last plays."""
        due = time.monotonic() - self._said >= LINE_SECONDS
        if not (self._live or due):
            return
        left = seconds * (1 - progress) / progress if progress > 0 else 0.0
        told = "no play over yet" if score is None else f"score {score:,.1f}"
        speed = decisions / max(seconds, 1e-9)
        text = f"{decisions:,} decisions  {told}  ε {epsilon:.2f}  {speed:,.0f} decisions/s  {clock(left)} left"
        self._bar.update(self._task, completed=progress, text=text)
        if due and not self._live:
            self._said = time.monotonic()
            self.say(f"{progress:.0%}  {text}")


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
    }
    write_results(folder / NUMBERS_NAME, body, seed=run.read_config().get("seed"))
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
