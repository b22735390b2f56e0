"""The words of the field: retired words are written no more often than words.json allows, and that only shrinks."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests import words


@pytest.fixture(scope="module")
def uses() -> list[words.Use]:
    return list(words.uses())


def test_no_retired_word_is_added(uses: list[words.Use]) -> None:
    now, allowed = words.count(uses), words.left()
    added = [use for use in uses if now[use.word][use.file] > allowed.get(use.word, {}).get(use.file, 0)]
    assert not added, "retired words, in files that have more of them than before:\n" + "\n".join(map(str, added))


def test_removed_words_leave_the_list(uses: list[words.Use]) -> None:
    now = words.count(uses)
    more = {
        f"{word} in {file}": number
        for word, counts in words.left().items()
        for file, number in counts.items()
        if number > now.get(word, {}).get(file, 0)
    }
    assert not more, "words.json allows more than there are; run python -m tests.words --write"


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


def test_the_list_is_never_written_longer(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(words, "ROOT", tmp_path)
    monkeypatch.setattr(words, "LEFT", tmp_path / "words.json")
    (tmp_path / "README.md").write_text("anew")
    words.LEFT.write_text(json.dumps({"anew": {"README.md": 1}, "mend": {"README.md": 2}}))
    (tmp_path / "README.md").rename(tmp_path / "CHANGELOG.md")
    words.write()
    assert words.left() == {"anew": {"CHANGELOG.md": 1}}
    (tmp_path / "CHANGELOG.md").write_text("anew, anew")
    with pytest.raises(SystemExit, match="anew"):
        words.write()
