"""What every training run does, of a predictor or of an agent: start or resume, show progress, log, save, end.

with stop_signals() as stop, Display(console) as display, run.writing():
    start(run, config, resume=…, check=…)    config.json is written, or compared with that of the run to resume
    drop_later(run, step)                    what was written after the checkpoint will be written again
    log = MetricsLog(run, step)              metrics.jsonl and TensorBoard
    saver = Saver(run, minutes=…, keep=…)    checkpoints: the newest and the best
    exit_code(fit, display, …)               0, or the code of a stop or of a divergence
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from math import inf, isfinite
from types import TracebackType
from typing import Any, Self

import torch
from rich.console import Console
from rich.progress import BarColumn, Progress
from rich.text import Text
from torch.utils.tensorboard import SummaryWriter

from acvp.checkpoint import forget_after, prune, save_checkpoint
from acvp.console import PlainColumn, visible
from acvp.errors import UserError
from acvp.exits import StoppedError
from acvp.runs import RunFolder, clock, differences

EXIT_DONE, EXIT_DIVERGED = 0, 1
LINE_SECONDS = 30.0
"""Between two lines of progress where the console is not a terminal."""
SHORTEST = 1.0
"""Seconds of training below which the share of processor time means nothing."""
BUSY_BELOW = 0.8
"""Share of processor time below which a run reports that minutes are wall-clock minutes."""


class DivergenceError(Exception):
    """A number of training stopped being finite; nothing was updated with it."""


@dataclass(frozen=True)
class Result:
    """How a run ended."""

    exit_code: int
    run: RunFolder


class Display:
    """Prints lines, and shows progress as a bar on a terminal, else as a line every half minute."""

    def __init__(self, console: Console, *, silent: bool = False) -> None:
        """Take the console; `silent`: print nothing, as all processes but the first."""
        self._console, self._silent = console, silent
        self._live = console.is_terminal and not silent
        columns = (PlainColumn("{task.description}"), BarColumn(), PlainColumn("{task.fields[text]}"))
        self._bar = Progress(*columns, console=console, transient=True, disable=not self._live)
        self._task = self._bar.add_task("", total=1.0, text="")
        self._last_line = time.monotonic()

    def __enter__(self) -> Self:
        self._bar.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._bar.stop()

    def print(self, text: str) -> None:
        """Print a line."""
        if not self._silent:
            self._console.print(Text(visible(text)))

    def show(self, name: str, progress: float, text: Callable[[], str]) -> None:
        """Show that `name` has progressed so far, from 0 to 1; `text` is called only if it is shown."""
        if self._live:
            self._bar.update(self._task, description=name, completed=progress, text=text())
        elif time.monotonic() - self._last_line >= LINE_SECONDS:
            self._last_line = time.monotonic()
            self.print(f"{name}  {text()}")


class MetricsLog:
    """Writes metrics.jsonl, and the same for TensorBoard."""

    def __init__(self, run: RunFolder, last_step: int = -1) -> None:
        """Continue after the step of a checkpoint."""
        self._run = run
        self.board = SummaryWriter(str(run.tensorboard), purge_step=last_step + 1)

    def write(self, line: Mapping[str, Any], scalars: Mapping[str, float]) -> None:
        """Write a line of metrics.jsonl, and at its step the scalars that are finite for TensorBoard."""
        self._run.add_metrics(dict(line))
        for name, value in scalars.items():
            if isfinite(value):
                self.board.add_scalar(name, value, line["step"])

    def flush(self) -> None:
        """Put everything on the disk, before a checkpoint that is to come after it."""
        self.board.flush()

    def close(self) -> None:
        """Close the files."""
        self.board.close()


class Saver:
    """Writes the checkpoints of a run every few minutes; the newest and the best are kept."""

    def __init__(self, run: RunFolder, *, minutes: float, keep: int) -> None:
        """Take wall-clock minutes between checkpoints, and how many of the newest to keep besides the best."""
        self._run, self._minutes, self._keep = run, minutes, keep
        self._last = time.monotonic()

    def restart_clock(self) -> None:
        """Count the minutes to the next checkpoint from now."""
        self._last = time.monotonic()

    @property
    def due(self) -> bool:
        """Whether the minutes since the last checkpoint are over."""
        return time.monotonic() - self._last >= 60 * self._minutes

    def save(self, step: int, files: Mapping[str, bytes], *, score: float = inf) -> None:
        """Write a checkpoint and remove older ones."""
        save_checkpoint(self._run.checkpoints, step, files, score=score)
        prune(self._run.checkpoints, self._keep)
        self.restart_clock()


def start(
    run: RunFolder, config: dict[str, Any], *, resume: str, check: Callable[[dict[str, Any]], None] | None = None
) -> None:
    """Write config.json of a new run, or let `check` refuse the config of the run to resume; note the start.

    Without `check`, both configs must be equal.
    """
    if not run.begun:
        run.write_config(config)
    elif resume == "never":
        raise UserError(f"{run.path} has already begun; choose another --run, or resume it with --resume auto")
    elif check:
        check(run.read_config())
    else:
        require_same(run, run.read_config(), config)
    run.note_start()


def require_same(run: RunFolder, before: Any, now: Any) -> None:
    """Refuse to resume a run with another config, naming what differs."""
    if changed := differences(before, now):
        raise UserError(f"{run.path} was started with another config: {'; '.join(changed)}; choose another --run")


def drop_later(run: RunFolder, step: int = -1, lines: int | None = None) -> None:
    """Remove the checkpoints and metrics after a step, and metrics after the first `lines`: they are written again."""
    forget_after(run.checkpoints, step)
    run.forget_metrics_after(step, lines)


def exit_code(fit: Callable[[], None], display: Display, where: Callable[[], str]) -> int:
    """Train and return the exit code; `where` describes the last step, for the line about a stop."""
    try:
        fit()
    except DivergenceError as error:
        display.print(f"acvp: {error}; the last checkpoint is intact; try a lower learning rate")
        return EXIT_DIVERGED
    except StoppedError as stopped:
        display.print(f"acvp: stopped by {stopped} at {where()} and saved; run the same command again to resume")
        return stopped.exit_code
    return EXIT_DONE


def share_of_cores(device: torch.device, measure: str, busy: float, seconds: float) -> str | None:
    """Return a line on the share of processor time that a training has had; None on another device."""
    threads = torch.get_num_threads()
    if device.type != "cpu" or seconds < SHORTEST:
        return None
    share = min(1.0, busy / (seconds * threads))
    cores = "1 core" if threads == 1 else f"{threads} cores"
    line = f"processor: used {100 * share:.0f} % of the time of {cores} in {clock(seconds)} of wall-clock time"
    if share > BUSY_BELOW or measure == "core":
        return line
    return f"{line}; minutes count by the wall clock: a busy machine trains less in them than with --clock core"
