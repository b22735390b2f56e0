"""What a run writes down while it trains: metrics.jsonl and the same for TensorBoard.

What a person sees while a run trains: a bar on a terminal, else a plain line every half minute.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from math import isfinite
from types import TracebackType
from typing import Self

from rich.console import Console
from rich.progress import BarColumn, Progress
from rich.text import Text
from torch.utils.tensorboard import SummaryWriter

from acvp.console import PlainColumn, visible
from acvp.runs import RunFolder, clock
from acvp.training.validation import HeldOutReport

LOG_EVERY = 25
"""Updates that a line of training metrics is the mean of."""


@dataclass(frozen=True, kw_only=True)
class StepReport:
    """One update."""

    step: int
    """Updates done, this one included."""
    phase: int
    """From 0."""
    loss: float
    lr: float
    gradient: float
    """Norm of all gradients."""
    samples: int
    """Windows in the batch."""
    seconds: float
    """Wall-clock seconds since the update before."""


class TrainingLog:
    """The log of one process that writes; makes no difference to training."""

    def __init__(self, run: RunFolder, last_step: int = -1, unlogged: Sequence[StepReport] = ()) -> None:
        """Continue after the step of a checkpoint, with the updates before it that no line had yet."""
        self.run = run
        self._reports: list[StepReport] = list(unlogged)
        self._board = SummaryWriter(str(run.tensorboard), purge_step=last_step + 1)

    def step(self, report: StepReport) -> None:
        """Take in an update; every 25th writes a line with the means."""
        self._reports.append(report)
        if report.step % LOG_EVERY == 0:
            self.flush()

    def flush(self) -> None:
        """Write what has come in since the last line."""
        if not self._reports:
            return
        last, count = self._reports[-1], len(self._reports)
        seconds = sum(each.seconds for each in self._reports)
        values = {
            "loss": sum(each.loss for each in self._reports) / count,
            "lr": last.lr,
            "gradient_norm": sum(each.gradient for each in self._reports) / count,
            "samples_per_second": sum(each.samples for each in self._reports) / max(seconds, 1e-9),
        }
        self._write("train", last.step, last.phase, values)
        self._reports = []

    def held_out(self, step: int, phase: int, seconds: float, report: HeldOutReport) -> None:
        """Write a held-out evaluation; `seconds` is the wall-clock time of all training so far."""
        self.flush()
        where = {"step": step, "phase": phase, "seconds": round(seconds, 1)}
        self.run.add_metrics({"kind": "held-out"} | where | report.to_dict())
        curves = {"error": report.error, "copy_last": report.copy_last, "mse": report.mse}
        curves |= {"wrong": report.wrong, "copy_wrong": report.copy_wrong}
        for name, values in curves.items():
            for horizon, value in values.items():
                self._board.add_scalar(f"held-out/{name}-{horizon}", value, step)
        self._board.add_image("held-out/truth-above-prediction", report.strip, step, dataformats="HWC")
        self._board.flush()

    def unlogged(self) -> list[StepReport]:
        """Return what a checkpoint must hold of the log; what was logged before it is on the disk by then."""
        self._board.flush()
        return list(self._reports)

    def close(self) -> None:
        """Close the files; updates that no line has yet are left to the run that resumes."""
        self._board.close()

    def _write(self, kind: str, step: int, phase: int, values: dict[str, float]) -> None:
        self.run.add_metrics({"kind": kind, "step": step, "phase": phase} | values)
        for name, value in values.items():
            if isfinite(value):
                self._board.add_scalar(f"{kind}/{name}", value, step)


LINE_SECONDS = 30.0
SMOOTHING = 0.98
"""Share of the old mean that each update leaves in the shown loss and speed."""


class Display:
    """Shows phase, loss, samples per second and time left; silent in processes that do not speak."""

    def __init__(self, console: Console, phases: int, *, speaks: bool = True) -> None:
        self._console, self._phases, self._speaks = console, phases, speaks
        self._live = speaks and console.is_terminal
        columns = (PlainColumn("{task.description}"), BarColumn(), PlainColumn("{task.fields[text]}"))
        self._bar = Progress(*columns, console=console, transient=True, disable=not self._live)
        self._task = self._bar.add_task("phase", total=1.0, text="")
        self._loss = self._speed = 0.0
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
        if self._speaks:
            self._console.print(Text(visible(text)))

    def step(self, report: StepReport, progress: float, seconds_left: Callable[[], float | None]) -> None:
        """Take in an update; `progress` is the phase's, from 0 to 1."""
        speed = report.samples / max(report.seconds, 1e-9)
        old = SMOOTHING if self._speed else 0.0
        self._loss = old * self._loss + (1 - old) * report.loss
        self._speed = old * self._speed + (1 - old) * speed
        if self._live:
            name = f"phase {report.phase + 1}/{self._phases}"
            self._bar.update(self._task, description=name, completed=progress, text=self._text(report, seconds_left()))
        elif time.monotonic() - self._said >= LINE_SECONDS:
            self._said = time.monotonic()
            self.say(f"phase {report.phase + 1}/{self._phases}  {self._text(report, seconds_left())}")

    def held_out(self, step: int, report: HeldOutReport) -> None:
        """Print a held-out evaluation beside copy-last-frame."""
        errors = "  ".join(f"{h}-step {e:.3f} (copy-last {report.copy_last[h]:.3f})" for h, e in report.error.items())
        wrong = "  ".join(f"{h}-step {w:,.1f} (copy-last {report.copy_wrong[h]:,.1f})" for h, w in report.wrong.items())
        self.say(f"step {step:,}: held-out " + (f"wrong pixels  {wrong}" if wrong else f"error  {errors}"))

    def _text(self, report: StepReport, left: float | None) -> str:
        time_left = "" if left is None else f"  {clock(left)} left"
        return f"step {report.step:,}  loss {self._loss:.4g}  {self._speed:,.1f} samples/s{time_left}"
