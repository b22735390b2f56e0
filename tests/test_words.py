"""The words of the field: no retired word is used."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests import words


def test_no_retired_word_is_used() -> None:
    assert list(map(str, words.uses())) == []


@pytest.mark.parametrize(
    ("text", "word"),
    [
        ("it goes on where it was stopped", "go on"),
        ("GOES_ON = 1", "go on"),
        ("the number of plays", "plays"),
        ("max_decisions: int", "decision"),
        ("DqnSettings()", "recipe"),
        ("optimiser_state = 1", "British spelling"),
        ("OnnxDream", "Dreamer"),
    ],
)
def test_a_retired_word_is_found(text: str, word: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "docs").mkdir()
    (tmp_path / "docs" / "page.md").write_text(f"first line\n{text}\n")
    monkeypatch.setattr(words, "ROOT", tmp_path)
    assert {(use.word, use.line) for use in words.uses()} == {(word, 2)}


@pytest.mark.parametrize("text", ["ground truth", "an agent plays", "in_place", "os.walk", "background", "parameters"])
def test_other_words_are_not(text: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "README.md").write_text(text)
    monkeypatch.setattr(words, "ROOT", tmp_path)
    assert list(words.uses()) == []


def test_names_in_code_and_names_of_tests_are_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name, text in {
        "src/a.py": 'def f(one: int) -> None:\n    "found: one"\n    for each in [one]:\n        wanted = each\n',
        "tests/test_a.py": "def test_it_goes_on() -> None:\n    told = 1  # anew\n",
        "tests/test_timeline.py": "",
    }.items():
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text(text)
    monkeypatch.setattr(words, "ROOT", tmp_path)
    lines = sorted((use.file, use.line, use.word) for use in words.uses())
    assert lines == [
        *[("src/a.py", line, "variables") for line in (1, 3, 4)],
        ("tests/test_a.py", 1, "go on"),
        ("tests/test_timeline.py", 0, "timeline"),
    ]
