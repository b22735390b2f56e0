"""What several verbs print: progress of work with a predictor, and tables of results."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from rich.box import SIMPLE
from rich.table import Column, Table

from acvp.console import out, stages


@contextmanager
def predictor_stages() -> Iterator[Callable[[str], Callable[[int, int], None]]]:
    """Show the progress of work with a predictor, whose memory is kept from one step to the next."""
    from acvp.models import keep_freed_memory

    keep_freed_memory()
    with stages() as stage:
        yield stage


def print_skipped(body: dict[str, Any]) -> None:
    """Print which parts of the results are missing, and why."""
    for name, reason in body["left_out"].items():
        out.print(f"left out: {name}: {reason}")


def print_results(tables: Sequence[Any], body: dict[str, Any], folder: Path) -> None:
    """Print tables, a note on them where there is one, and the folder of the files."""
    for content in tables:
        heads = [Column(head, overflow="fold") for head in content.heads]
        table = Table(*heads, title=content.title, title_justify="left", title_style="bold", box=SIMPLE)
        for row in content.rows:
            table.add_row(*row)
        out.print(table)
    if "note" in body:
        out.print(f"note: {body['note']}")
    out.print(f"written to {folder}")
