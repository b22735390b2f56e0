"""Printing and progress: a bar if stderr is a terminal, else a line every 30 seconds.

Text is printed as given: names of paths, runs and actions may contain anything, and none of it is markup.
"""

from __future__ import annotations

import time
import unicodedata
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn
from rich.text import Text


def visible(text: str) -> str:
    """Return a text with control characters written out, such as \\x1b, \\n and \\u202e."""
    if text.isprintable():
        return text
    return "".join(
        char if char.isprintable() or unicodedata.category(char) == "Zs" else char.encode("unicode_escape").decode()
        for char in text
    )


class PlainConsole(Console):
    """Prints strings, and tables of them, as they are: no markup, no emoji codes, no control characters."""

    def __init__(self, **options: Any) -> None:
        super().__init__(highlight=False, soft_wrap=True, markup=False, emoji=False, **options)

    def render_str(self, text: str, **options: Any) -> Text:
        """Render a string; rich passes every string through here, cells and titles too."""
        return super().render_str(visible(text), **(options | {"markup": False, "emoji": False}))


class PlainColumn(TextColumn):
    """A column of a progress bar that prints names as they are."""

    def __init__(self, text_format: str) -> None:
        super().__init__(text_format, markup=False)

    def render(self, task: Any) -> Text:
        """Render the state of a task."""
        return Text(visible(self.text_format.format(task=task)), style=self.style, justify=self.justify)


LINE_SECONDS = 30.0
"""Seconds between lines of progress if stderr is not a terminal."""

out = PlainConsole()
err = PlainConsole(stderr=True)


@contextmanager
def counting(what: str, units: str = "episodes") -> Iterator[Callable[[int, int], None]]:
    """Yield a function (done, total) that moves a progress bar."""
    with progress_bar(units) as bar:
        task = bar.add_task(what, total=None)
        yield progress_reporter(what, units, lambda done, total: bar.update(task, completed=done, total=total))


@contextmanager
def stages() -> Iterator[Callable[[str], Callable[[int, int], None]]]:
    """Yield a function that begins a named stage of one progress bar and returns the stage's (done, total) function."""
    with progress_bar("") as bar:
        task = bar.add_task("starting", total=None)

        lines = ProgressLines()

        def begin(name: str) -> Callable[[int, int], None]:
            bar.reset(task, description=name, total=None)
            return progress_reporter(name, "", lambda done, total: bar.update(task, completed=done, total=total), lines)

        yield begin


class ProgressLines:
    """Prints at most one line every 30 seconds, across stages."""

    def __init__(self) -> None:
        self._last = time.monotonic()

    def write(self, what: str, done: int, total: int, units: str) -> None:
        """Print a line if the last one is 30 seconds old."""
        if time.monotonic() - self._last >= LINE_SECONDS:
            self._last = time.monotonic()
            err.print(f"{what}: {done:,} of {total:,} {units}".rstrip())


def progress_reporter(
    what: str, units: str, show: Callable[[int, int], None], lines: ProgressLines | None = None
) -> Callable[[int, int], None]:
    """Return `show`, which moves a bar, if stderr is a terminal; else a function that prints lines."""
    if err.is_terminal:
        return show
    written = lines or ProgressLines()
    return lambda done, total: written.write(what, done, total, units)


def progress_bar(text: str) -> Progress:
    """Return a progress bar on stderr, hidden if that is not a terminal; stdout stays clean for pipes."""
    columns = (PlainColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), PlainColumn(text))
    return Progress(*columns, TimeRemainingColumn(), console=err, transient=True, disable=not err.is_terminal)
