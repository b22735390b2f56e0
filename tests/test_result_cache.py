"""Results that are kept: by what decides them, over stops, with the time that they took."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from acvp.errors import UserError
from acvp.runs import ResultCache


def test_a_torn_last_line_is_forgotten(tmp_path: Path) -> None:
    file = tmp_path / "x.jsonl"
    measured: list[int] = []

    def score(n: int) -> dict[str, Any]:
        def measure() -> dict[str, Any]:
            measured.append(n)
            return {"score": n + 1}

        return ResultCache(file).part({"n": n}, measure)

    assert score(1) == {"score": 2}
    file.write_bytes(file.read_bytes() + b'{"settings": {"n": 2}, "res')
    assert [score(n) for n in (1, 2, 1, 2)] == [{"score": 2}, {"score": 3}] * 2
    assert measured == [1, 2]
    file.write_bytes(b"nonsense\n")
    with pytest.raises(UserError, match="move it away"):
        ResultCache(file)


def test_parts_of_earlier_commands_count_with_the_time_they_took(tmp_path: Path) -> None:
    parts = [{"settings": {"n": n}, "result": {"score": n}, "seconds": 7.5 * n} for n in (1, 2)]
    del parts[1]["seconds"]  # as earlier versions wrote it
    (tmp_path / "x.jsonl").write_text("".join(json.dumps(part) + "\n" for part in parts))
    cache = ResultCache(tmp_path / "x.jsonl")
    assert cache.earlier_seconds == 0.0  # what nobody asks for does not count
    for _ in range(2):  # nor does what is asked for again
        assert [cache.part({"n": n}, dict) for n in (1, 2, 3)] == [{"score": 1}, {"score": 2}, {}]
        assert cache.earlier_seconds == 7.5
