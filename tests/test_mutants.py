"""The table of mutants fits the source and the tests of today; `python -m tests.mutants` runs it."""

from __future__ import annotations

import ast
import subprocess
import sys
from functools import cache

import pytest

from tests.mutants import Mutant
from tests.mutants import __main__ as runner
from tests.mutants.__main__ import PACKAGE, ROOT, complaints
from tests.mutants.table import MUTANTS

HARMLESS = Mutant(
    "a comment",
    "seeding.py",
    "import zlib\n",
    "import zlib  # a comment\n",
    "test_seeding.py::test_streams_stay_the_same",
)


@cache
def functions(file: str) -> set[str]:
    """Names of the tests in a file below tests."""
    tree = ast.parse((ROOT / "tests" / file).read_text())
    return {node.name for node in tree.body if isinstance(node, ast.FunctionDef)}


def test_every_original_text_occurs_exactly_once() -> None:
    assert len(MUTANTS) >= 43
    assert complaints(MUTANTS) == []


def test_every_mutant_changes_something_and_is_still_python() -> None:
    assert len({mutant.name for mutant in MUTANTS}) == len(MUTANTS)
    for mutant in MUTANTS:
        assert mutant.mutated != mutant.original, mutant.name
        ast.parse((PACKAGE / mutant.file).read_text().replace(mutant.original, mutant.mutated))


def test_every_named_test_exists() -> None:
    for mutant in MUTANTS:
        file, name = mutant.test.split("::")
        assert name in functions(file), mutant.name


def test_the_runner_distinguishes_killed_and_live_mutants() -> None:
    flipped = HARMLESS._replace(original="integers(2**31)", mutated="integers(2**31) + 1")
    broken = HARMLESS._replace(original="import zlib\n", mutated="")
    # In a process of its own: it is forked, and this one has imported acvp.
    script = (
        "from tests.mutants import Mutant; from tests.mutants.__main__ import verdicts\n"
        f"for _, *found in verdicts({[flipped, HARMLESS, broken]}): print(found)"
    )
    done = subprocess.run([sys.executable, "-c", script], cwd=ROOT, capture_output=True, text=True, check=True)
    assert done.stdout.splitlines() == [
        "[True, 'assertion failed']",
        "[False, 'passed']",
        "[False, 'NameError in call']",  # an error is not an assertion
    ]


@pytest.mark.parametrize(("second", "code"), [(True, 0), (False, 1)])
def test_a_live_mutant_is_tried_again_and_the_table_says_so(
    second: bool, code: int, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    tries = iter([False, second])
    monkeypatch.setattr(runner, "preload", lambda: None)
    monkeypatch.setattr(runner, "failing", lambda *_: [])
    monkeypatch.setattr(runner, "verdicts", lambda mutants, jobs=1: [(each, next(tries), "passed") for each in mutants])
    monkeypatch.setattr(runner, "MUTANTS", [HARMLESS])
    monkeypatch.setattr(sys, "argv", ["mutants"])
    assert runner.main() == code
    said = capsys.readouterr().out
    assert "ALIVE (tried again at the end)" in said
    assert ("ALIVE (both times)" in said) is not second
    assert ("depend on timing, repair them:\n  a comment" in said) is second
