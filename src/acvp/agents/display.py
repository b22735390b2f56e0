"""What a person sees while an agent learns: a bar on a terminal, else a plain line every half minute."""

from __future__ import annotations

import time
from types import TracebackType
from typing import Self

from rich.console import Console
from rich.progress import BarColumn, Progress
from rich.text import Text

from acvp.runs import clock
from acvp.terminal import PlainColumn, visible

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
