"""Progress on stderr: a bar where that is a terminal, else a line every half minute."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from rich.progress import BarColumn, MofNCompleteColumn, Progress, TimeRemainingColumn

from acvp.terminal import PlainColumn, PlainConsole

LINE_SECONDS = 30.0
"""Between lines of progress where stderr is no terminal."""

out = PlainConsole()
err = PlainConsole(stderr=True)


@contextmanager
def counting(what: str, units: str = "episodes") -> Iterator[Callable[[int, int], None]]:
    """A bar that counts what is done."""
    with progress_bar(units) as bar:
        task = bar.add_task(what, total=None)
        yield told(what, units, lambda done, total: bar.update(task, completed=done, total=total))


@contextmanager
def stages() -> Iterator[Callable[[str], Callable[[int, int], None]]]:
    """One bar that goes through named stages."""
    with progress_bar("") as bar:
        task = bar.add_task("starting", total=None)

        lines = Lines()

        def begin(name: str) -> Callable[[int, int], None]:
            bar.reset(task, description=name, total=None)
            return told(name, "", lambda done, total: bar.update(task, completed=done, total=total), lines)

        yield begin


class Lines:
    """Where stderr is no terminal: a line every half minute, however short the stages are that follow each other."""

    def __init__(self) -> None:
        self._last = time.monotonic()

    def write(self, what: str, done: int, total: int, units: str) -> None:
        """Write a line if it is time for one."""
        if time.monotonic() - self._last >= LINE_SECONDS:
            self._last = time.monotonic()
            err.print(f"{what}: {done:,} of {total:,} {units}".rstrip())


def told(
    what: str, units: str, show: Callable[[int, int], None], lines: Lines | None = None
) -> Callable[[int, int], None]:
    """The bar's own function where stderr is a terminal; else one that writes lines."""
    if err.is_terminal:
        return show
    written = lines or Lines()
    return lambda done, total: written.write(what, done, total, units)


def progress_bar(text: str) -> Progress:
    """A progress bar on stderr, where that is a terminal; stdout stays clean for pipes."""
    columns = (PlainColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), PlainColumn(text))
    return Progress(*columns, TimeRemainingColumn(), console=err, transient=True, disable=not err.is_terminal)
