"""Shards of a collection, joined, are the collection that one process would have recorded, byte for byte."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from acvp.cli.main import main
from acvp.data.collect import CollectConfig, collect
from acvp.data.merge import merge
from acvp.data.recording import Recorded, open_writer
from acvp.data.store import GOAL_NAME, EpisodeStore
from acvp.data.verify import verify
from acvp.errors import UserError, parse_shard
from tests.data.answers import INFO, answer_episode
from tests.faults import contents

MIX: dict[str, Any] = {"policy": ("random", "sticky-random"), "epsilon": (0.1, 0.3)}


def record(out: Path, **options: Any) -> EpisodeStore:
    return collect(CollectConfig(env_id="acvp/Toy-v0", out=out, max_steps=20, **({"episodes": 7} | options)))


def numbers(store: EpisodeStore) -> list[int]:
    return [entry.number for entry in store.entries]


@pytest.mark.parametrize("options", [{}, MIX], ids=["one policy", "a mix"])
def test_joined_shards_are_one_collection_byte_for_byte(tmp_path: Path, options: dict[str, Any]) -> None:
    whole = record(tmp_path / "whole", **options)
    assert numbers(whole) == list(range(7))
    shards = [record(tmp_path / str(i), shard=f"{i}/3", **options) for i in (1, 2, 3)]
    assert [numbers(shard) for shard in shards] == [[0, 3, 6], [1, 4], [2, 5]]
    merge([shards[i].path for i in (2, 0, 1)], tmp_path / "joined")
    assert contents(tmp_path / "joined") == contents(whole.path)
    assert verify(tmp_path / "joined") == []


def test_a_shard_can_be_extended_and_resumed(tmp_path: Path) -> None:
    record(tmp_path / "s", shard="2/3")
    assert numbers(record(tmp_path / "s", shard="2/3", episodes=12)) == [1, 4, 7, 10]
    assert numbers(record(tmp_path / "s", shard="2/3", episodes=3)) == [1, 4, 7, 10]  # what is there stays
    with pytest.raises(UserError, match=r"shard is '2/3', asked for '1/3'"):
        record(tmp_path / "s", shard="1/3")


def test_episodes_after_a_gap_of_a_killed_collection_are_removed(tmp_path: Path) -> None:
    whole = record(tmp_path / "whole", episodes=4)
    record(tmp_path / "s", episodes=6)
    with open_writer(tmp_path / "s", EpisodeStore(tmp_path / "s").info) as writer:
        late = EpisodeStore(tmp_path / "s")[5]
        writer.remove_from(4)
        writer.add(late)  # as if another worker had finished it before the kill
    (tmp_path / "s" / GOAL_NAME).write_bytes(b"episodes")
    assert numbers(record(tmp_path / "s", episodes=4)) == [0, 1, 2, 3]
    assert contents(tmp_path / "s") == contents(whole.path)


@pytest.mark.parametrize("text", ["0/2", "3/2", "1", "1/0", "-1/2", "a/b", "1/2/3", ""])
def test_a_shard_out_of_range_is_refused(text: str) -> None:
    with pytest.raises(UserError, match=r"^--shard .*: write NUMBER/TOTAL"):
        parse_shard(text)


def test_a_shard_needs_a_number_of_episodes(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["collect", "--env-id", "toy", "--out", str(tmp_path / "s"), "--shard", "1/2"]) == 2
    assert "--shard 1/2: give --episodes" in capsys.readouterr().err


def test_the_join_names_what_is_missing(tmp_path: Path) -> None:
    shards = [record(tmp_path / str(i), shard=f"{i}/3").path for i in (1, 2, 3)]
    whole, out = record(tmp_path / "whole").path, tmp_path / "out"
    with pytest.raises(UserError, match="shard 2/3 is missing: name all 3 shards"):
        merge([shards[0], shards[2]], out)
    with pytest.raises(UserError, match="whole is no shard, but others are"):
        merge([*shards, whole], out)
    other = record(tmp_path / "other", shard="2/4").path
    with pytest.raises(UserError, match=r"other is shard 2/4, .*1 is 1/3"):
        merge([shards[0], other, shards[2]], out)
    record(shards[0], shard="1/3", episodes=12)
    with pytest.raises(UserError, match=r"2: episode 7 is missing: its --episodes was smaller"):
        merge(shards, out)
    (shards[1] / GOAL_NAME).write_bytes(b"episodes")
    with pytest.raises(UserError, match="shard 2/3 is unfinished; run its acvp collect again"):
        merge(shards, out)
    assert not out.exists()


def test_recorded_episodes_are_counted_up_to_the_first_gap(tmp_path: Path) -> None:
    with open_writer(tmp_path / "s", INFO) as writer:
        for number in (1, 3, 7):
            writer.add(answer_episode(number, 10))
        recorded = Recorded(writer, range(1, 100, 2))
        assert [recorded.enough(frames) for frames in (10, 20, 21)] == [True, True, False]
        assert recorded.next_number == 5
        writer.add(answer_episode(5, 10))
        assert recorded.enough(40)
        assert recorded.next_number == 9
        assert Recorded(writer, range(1, 8, 2)).enough(10**9)  # all that there can be
