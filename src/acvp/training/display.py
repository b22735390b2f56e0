"""What a person sees while a run trains: a bar on a terminal, else a plain line every half minute."""

from __future__ import annotations

import time
from collections.abc import Callable
from types import TracebackType
from typing import Self

from rich.console import Console
from rich.progress import BarColumn, Progress
from rich.text import Text

from acvp.runs import clock
from acvp.terminal import PlainColumn, visible
from acvp.training.heldout import HeldOutReport
from acvp.training.log import StepReport

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
