"""Progress on stderr: a bar where that is a terminal, else a line every half minute.

What is printed is what was given: a path, a run or an action may have any name, and none of them is markup.
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
    """Return a text with everything that would steer a terminal written out, such as \\x1b, \\n and \\u202e."""
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
        """Turn a string into what is shown; rich passes every string through here, cells and titles too."""
        return super().render_str(visible(text), **(options | {"markup": False, "emoji": False}))


class PlainColumn(TextColumn):
    """A column of a progress bar, with the names in it as they are."""

    def __init__(self, text_format: str) -> None:
        super().__init__(text_format, markup=False)

    def render(self, task: Any) -> Text:
        """Turn the state of a task into what is shown."""
        return Text(visible(self.text_format.format(task=task)), style=self.style, justify=self.justify)


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
