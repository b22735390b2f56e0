"""The terminal shows what was given: a path, a run or an action may have any name."""

from __future__ import annotations

import io
import re
from pathlib import Path

import pytest
from rich.progress import Progress
from rich.table import Column, Table

import acvp
from acvp import console as progress
from acvp.cli.main import main
from acvp.console import PlainColumn, PlainConsole, TextTable, print_results, visible
from acvp.data.recording import open_writer
from acvp.data.store import StoreInfo
from tests.data.answers import answer_episode

NAMES = {
    "run[seed]": "run[seed]",
    "[/]": "[/]",
    "[bold red]x[/bold red]": "[bold red]x[/bold red]",
    ":smile:": ":smile:",
    "em:x:oji": "em:x:oji",
    "\\[x]": "\\[x]",
    "{task.description}": "{task.description}",
    "\x1b[31mred": "\\x1b[31mred",
    "a\nb\rc\td": "a\\nb\\rc\\td",
    "\x07\x00\x9b31m": "\\x07\\x00\\x9b31m",
    "abc\u202edcba\u2066": "abc\\u202edcba\\u2066",
    "lone \udc80 byte": "lone \\udc80 byte",
    "Grün × 的 🎮": "Grün × 的 🎮",
}
"""What is given, and what is to be seen."""
STYLES = re.compile(r"\x1b\[[0-9;]*m")


def shown(console: PlainConsole, text: io.StringIO) -> str:
    """What a person sees: without the styles that are ours."""
    assert console.file is text
    return STYLES.sub("", text.getvalue())


@pytest.mark.parametrize("terminal", [True, False])
@pytest.mark.parametrize("name", NAMES, ids=ascii)
def test_a_name_is_shown_as_it_is(name: str, terminal: bool) -> None:
    text = io.StringIO()
    console = PlainConsole(file=text, force_terminal=terminal, width=200)
    console.print(f"written to {name}")
    table = Table(Column(name), title=name, title_justify="left", title_style="bold")
    table.add_row(name)
    console.print(table)
    lines = shown(console, text)
    assert lines.count(NAMES[name]) == 4
    assert not set(lines) & set("\x1b\x07\x00\x9b\r\t\u202e\u2066\udc80")
    assert "\x1b[31m" not in text.getvalue()
    assert visible(name) == NAMES[name]


@pytest.mark.parametrize("name", NAMES, ids=ascii)
def test_a_progress_bar_shows_names_as_they_are(name: str) -> None:
    text = io.StringIO()
    console = PlainConsole(file=text, force_terminal=True, width=200)
    columns = PlainColumn("{task.description}"), PlainColumn("{task.fields[text]}")
    with Progress(*columns, console=console, auto_refresh=False) as bar:
        bar.add_task(name, total=1, text=name)
        bar.refresh()
    assert NAMES[name] + " " + NAMES[name] in STYLES.sub("", text.getvalue())


def test_all_that_prints_is_plain() -> None:
    """Two consoles, and no other way to print in the package."""
    assert all(isinstance(console, PlainConsole) for console in (progress.out, progress.err))
    for file in Path(acvp.__file__).parent.rglob("*.py"):
        if file.name != "console.py":
            source = file.read_text()
            assert not re.search(
                r"(?<!Plain)Console\(|(?<![\w.])(?<!def )print\(|TextColumn\(|markup=|\[/\]", source
            ), file


def test_the_results_of_a_verb_are_shown_as_they_are(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "200")
    hostile = list(NAMES)
    tables = [TextTable(name, (name, "x"), ((name, "1"),)) for name in hostile]
    print_results(tables, {"note": "[/]"}, Path("em:smile:oji") / "run[seed]")
    printed = capsys.readouterr().out
    assert all(printed.count(NAMES[name]) >= 3 for name in hostile)
    assert "note: [/]" in printed
    assert "written to em:smile:oji/run[seed]" in printed


def test_a_store_with_hostile_names_is_described_as_it_is(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    folder = tmp_path / "st:smile:ore[seed]\x1b[31m"
    meanings = ("[/]", ":smile:", "\x1b[31mred", "a\nb", *map(str, range(12)))
    info = StoreInfo(env_id="[red]", frame_shape=(6, 8, 3), action_meanings=meanings, policy="[/x]:smile:")
    with open_writer(folder, info) as writer:
        writer.add(answer_episode(0, 20))
    assert main(["data", "info", str(folder)]) == 0
    assert main(["data", "verify", str(folder / "nothing[/]")]) == 2
    printed = capsys.readouterr()
    for words in ("[red]", "[/x]:smile:", "[/]", ":smile:", "\\x1b[31mred", "a\\nb", "st:smile:ore[seed]\\x1b[31m"):
        assert words in printed.out, words
    assert "st:smile:ore[seed]\\x1b[31m/nothing[/]" in printed.err
    assert "\x1b" not in printed.out + printed.err
