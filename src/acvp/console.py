"""What a terminal shows: text, tables, progress (a bar, or a line every 30 seconds in a file), and options in the help.

Text is printed as given: names of paths, runs and actions may contain anything, and none of it is markup.
"""

from __future__ import annotations

import ast
import inspect
import time
import unicodedata
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cache
from itertools import pairwise
from pathlib import Path
from textwrap import dedent
from typing import Annotated, Any

from rich.box import SIMPLE
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, TextColumn, TimeRemainingColumn
from rich.progress import Progress as ProgressBar
from rich.table import Column, Table
from rich.text import Text
from tyro.conf import arg

Progress = Callable[[int, int], None]
"""Shows how many of how many parts of some work are done."""
Stage = Callable[[str], Progress]
"""Begins a stage of the work by its name and returns what shows its progress."""


def visible(text: str) -> str:
    """Return a text with control characters written out, such as \\x1b, \\n and \\u202e."""
    if text.isprintable():
        return text
    return "".join(
        char if char.isprintable() or unicodedata.category(char) == "Zs" else char.encode("unicode_escape").decode()
        for char in text
    )


def in_markdown(text: str) -> str:
    """Return a text for a line of Markdown in which names are no HTML, code, link or picture."""
    return visible(text).replace("<", "&lt;").replace("](", "]\\(").replace("`", "\\`")


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
def counting(what: str, units: str = "episodes") -> Iterator[Progress]:
    """Yield a function (done, total) that moves a progress bar."""
    with progress_bar(units) as bar:
        task = bar.add_task(what, total=None)
        yield progress_reporter(what, units, lambda done, total: bar.update(task, completed=done, total=total))


@contextmanager
def stages() -> Iterator[Stage]:
    """Yield a function that begins a named stage of one progress bar and returns the stage's (done, total) function."""
    with progress_bar("") as bar:
        task = bar.add_task("starting", total=None)

        lines = ProgressLines()

        def begin(name: str) -> Progress:
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


def progress_reporter(what: str, units: str, show: Progress, lines: ProgressLines | None = None) -> Progress:
    """Return `show`, which moves a bar, if stderr is a terminal; else a function that prints lines."""
    if err.is_terminal:
        return show
    written = lines or ProgressLines()
    return lambda done, total: written.write(what, done, total, units)


def progress_bar(text: str) -> ProgressBar:
    """Return a progress bar on stderr, hidden if that is not a terminal; stdout stays clean for pipes."""
    columns = (PlainColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), PlainColumn(text))
    return ProgressBar(*columns, TimeRemainingColumn(), console=err, transient=True, disable=not err.is_terminal)


@dataclass(frozen=True)
class TextTable:
    """A title, column heads and rows of text, for the terminal and for HTML."""

    title: str
    heads: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]


def banded(curve: Mapping[str, Sequence[float | None]], index: int, bands: bool = True) -> str:
    """Return a number of a curve with its band, such as 12.3 [11, 14]."""
    mean, low, high = (curve[part][index] for part in ("mean", "low", "high"))
    if mean is None:
        return "–"
    band = "" if not bands or low is None or high is None else f" [{number(low)}, {number(high)}]"
    return number(mean) + band


def counted(count: int, noun: str) -> str:
    """Return a count with its noun, such as 1 window or 2,000 windows."""
    return f"{count:,} {noun}{'' if count == 1 else 's'}"


def number(value: float) -> str:
    """Return a number with three figures."""
    if value == 0 or abs(value) >= 1e-4:
        return f"{value:,.0f}" if abs(value) >= 1000 else f"{value:.3g}"
    return f"{value:.1e}"


def print_skipped(body: dict[str, Any]) -> None:
    """Print which parts of the results are missing, and why."""
    for name, reason in body["left_out"].items():
        out.print(f"left out: {name}: {reason}")


def print_results(tables: Sequence[Any], body: dict[str, Any], folder: Path) -> None:
    """Print tables, a note on them where there is one, and the folder of the files."""
    for content in tables:
        print_table(content)
    if "note" in body:
        out.print(f"note: {body['note']}")
    out.print(f"written to {folder}")


def print_shard(body: dict[str, Any]) -> bool:
    """Print what a shard has measured, if results are those of one, and return whether they are."""
    if "shard" in body:
        parts = counted(body["parts"], "part")
        out.print(
            f"shard {body['shard']}: {parts} measured in {body['folder']}; after all shards, run the same command"
        )
        out.print("without --shard to join them")
    return "shard" in body


def print_table(content: TextTable) -> None:
    """Print a table."""
    heads = [Column(head, overflow="fold") for head in content.heads]
    table = Table(*heads, title=content.title, title_justify="left", title_style="bold", box=SIMPLE)
    for row in content.rows:
        table.add_row(*row)
    out.print(table)


Device = Annotated[
    str,
    arg(
        metavar="DEVICE",
        help="Device to compute on: auto, cpu, cuda, cuda:1 (the second GPU), mps. auto: the fastest one available.",
    ),
]
"""Name of a device, checked by `require_device`: the option --device."""
Module = Annotated[
    str | None,
    arg(
        name="import",
        metavar="MODULE",
        help_behavior_hint="(default: none)",
        help="Python module to import first: it registers a game, predictor or metric of your own. Its code runs: name "
        "only what you trust.",
    ),
]
"""Name of a Python module: the option --import."""


def optional(metavar: str, default: str, **more: Any) -> Any:
    """Return how the help shows an option that can be left out: its metavar, and what happens then."""
    return arg(metavar=metavar, help_behavior_hint=f"(default: {default})", **more)


@cache
def field_texts(kind: type) -> Mapping[str, str]:
    """Return what the source of a config class says below its fields, in one line each; nothing without a source."""
    texts: dict[str, str] = {}
    for part in reversed(kind.__mro__[:-1]):
        try:
            (definition,) = ast.parse(dedent(inspect.getsource(part))).body
        except (OSError, TypeError):
            continue
        for field, text in pairwise(getattr(definition, "body", [])):
            if isinstance(field, ast.AnnAssign) and isinstance(text, ast.Expr) and isinstance(text.value, ast.Constant):
                texts[ast.unparse(field.target)] = " ".join(str(text.value.value).split())
    return texts


EnvId = Annotated[str, arg(metavar="ENV_ID")]
"""A game, the option --env-id."""
DatasetFolder = Annotated[Path, arg(metavar="DATASET")]
"""A dataset, the option --data."""
ShardText = Annotated[
    str | None,
    optional(
        "NUMBER/TOTAL",
        "everything",
        help="Measure only a part, such as 3/16, for a job array. Then run the same command without --shard in the "
        "same --out: it takes over what all parts have measured.",
    ),
]
"""A shard, the option --shard, checked by `parse_shard`."""
