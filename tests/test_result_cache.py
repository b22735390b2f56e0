"""Results that are kept: by what decides them, over stops, with the time that they took."""

from __future__ import annotations

import json
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from acvp.errors import UserError
from acvp.result_cache import OtherShardError, ResultCache, locked_results


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


def measure_parts(file: Path, shard: str | None, count: int = 5) -> list[int]:
    """Ask for some parts, and return those that were measured here."""
    measured: list[int] = []

    def score(n: int) -> dict[str, Any]:
        measured.append(n)
        return {"score": n * n}

    with locked_results(file, shard) as results:
        for n in range(count):
            with suppress(OtherShardError):
                assert results.part({"n": n}, partial(score, n)) == {"score": n * n}
    return measured


def test_shards_measure_each_part_once_and_the_join_measures_none(tmp_path: Path) -> None:
    file = tmp_path / "x.jsonl"
    assert [measure_parts(file, shard) for shard in ("1/2", "2/2")] == [[0, 2, 4], [1, 3]]
    assert measure_parts(file, "1/2") == []  # run again
    assert measure_parts(file, None) == []
    assert measure_parts(file, None, 6) == [5]
    assert not file.with_suffix(".shards").exists()


def test_a_join_needs_every_shard_to_its_end(tmp_path: Path) -> None:
    file = tmp_path / "x.jsonl"
    measure_parts(file, "1/2")
    with pytest.raises(UserError, match=r"shard 2/2 is missing or unfinished"):
        measure_parts(file, None)
    with pytest.raises(KeyboardInterrupt), locked_results(file, "2/2"):
        raise KeyboardInterrupt
    with pytest.raises(UserError, match=r"shard 2/2 is missing or unfinished"):
        measure_parts(file, None)
    measure_parts(file, "1/3")
    with pytest.raises(UserError, match="shards of 2 and of 3"):
        measure_parts(file, None)


def test_shards_are_measured_side_by_side(tmp_path: Path) -> None:
    file = tmp_path / "x.jsonl"
    with locked_results(file, "1/2"), locked_results(file, "2/2"), pytest.raises(UserError, match="is being written"):
        measure_parts(file, "1/2")


def test_shards_in_a_folder_behind_a_link_are_not_taken(tmp_path: Path) -> None:
    measure_parts(tmp_path / "a" / "x.jsonl", "1/1")
    (tmp_path / "b").mkdir()
    (tmp_path / "b" / "x.shards").symlink_to(tmp_path / "a" / "x.shards")
    assert measure_parts(tmp_path / "b" / "x.jsonl", None) == [0, 1, 2, 3, 4]
    assert (tmp_path / "a" / "x.shards" / "1-of-1").is_dir()
