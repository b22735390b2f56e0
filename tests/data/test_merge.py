"""Several datasets as one, and copies of episodes: nothing is lost, mixed up or copied twice."""

from __future__ import annotations

import errno
import shutil
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from acvp.cli.main import main
from acvp.data.collect import CollectConfig, collect
from acvp.data.episode import EpisodeCache, PolicyShare
from acvp.data.frames import colorize
from acvp.data.merge import join, merge, parse_range, split_positions
from acvp.data.recording import open_writer
from acvp.data.store import EpisodeStore, StoreInfo
from acvp.data.verify import verify
from acvp.data.windows import Window, Windows, choose_starts
from acvp.durable import DiskError
from acvp.errors import UserError
from tests.data.answers import INFO, answer_episode, answer_store, color_store, read_answer
from tests.faults import Trap, contents, fail_with


def store_of(path: Path, names: list[int], info: StoreInfo = INFO, frames: int = 40) -> EpisodeStore:
    """A store whose episode e has frames that say names[e]."""
    with open_writer(path, info) as writer:
        for number, name in enumerate(names):
            writer.add(answer_episode(number, frames + name, name=name))
    return EpisodeStore(path)


def names_of(store: EpisodeStore) -> list[int]:
    return [read_answer(episode.frames(0, 1)[0])[0] for episode in store]


@pytest.fixture
def two(tmp_path: Path) -> tuple[Path, Path]:
    store_of(tmp_path / "a", [1, 2, 3])
    store_of(tmp_path / "b", [4, 5], replace(INFO, policy="other", epsilon=0.5, seed=3))
    return tmp_path / "a", tmp_path / "b"


def test_several_datasets_are_read_as_one(two: tuple[Path, Path]) -> None:
    store = join(two)
    assert names_of(store) == [1, 2, 3, 4, 5]
    assert [read_answer(store[i].frames(7, 8)[0]) for i in (0, 3)] == [(1, 7), (4, 7)]
    assert names_of(store.subset([4, 1])) == [5, 2]
    assert [store.played_by(i) for i in (0, 3)] == [PolicyShare("test", 0.0), PolicyShare("other", 0.5)]
    assert store.info.mix == (PolicyShare("test", 0.0), PolicyShare("other", 0.5))
    assert (store.frames, str(store.path)) == (5 * 40 + 15, f"{two[0]} + {two[1]}")
    assert join(two[:1]).digest == EpisodeStore(two[0]).digest


def test_episodes_of_different_datasets_are_numbered_again_though_their_numbers_differ(two: tuple[Path, Path]) -> None:
    for path, kept in zip(two, ("0:0", "1:1"), strict=True):
        main(["data", "filter", str(path), "--episodes", kept, "--out", f"{path}-part"])
    merged = merge([Path(f"{path}-part") for path in reversed(two)], two[0].parent / "out")
    assert [entry.number for entry in merged.entries] == [0, 1]
    assert names_of(merged) == [5, 1]


def test_datasets_of_different_seeds_have_none_together(two: tuple[Path, Path], tmp_path: Path) -> None:
    assert join(two[::-1]).info.seed == 0
    store_of(tmp_path / "c", [6], replace(INFO, seed=3))
    assert join([two[1], tmp_path / "c"]).info.seed == 3


def test_the_digest_of_joined_datasets_follows_from_their_episodes_and_order(
    two: tuple[Path, Path], tmp_path: Path
) -> None:
    moved = [tmp_path / "elsewhere" / path.name for path in two]
    for old, new in zip(two, moved, strict=True):
        shutil.copytree(old, new)
    assert join(two).digest == join(moved).digest
    assert join(two).digest != join(two[::-1]).digest
    assert join(two).digests == tuple(EpisodeStore(path).digest for path in two)


def test_joined_windows_have_one_palette(tmp_path: Path) -> None:
    red, green, blue = (255, 0, 0), (0, 255, 0), (0, 0, 255)
    color_store(tmp_path / "a", [[red, green]])
    color_store(tmp_path / "b", [[blue, red]])
    store = join([tmp_path / "a", tmp_path / "b"])
    batch = Windows(store, Window(1, 1)).batch(np.arange(2))
    assert store.palette is not None
    assert store.palette.tolist() == [list(red), list(green), list(blue)]
    assert colorize(batch.frames, store.palette)[:, :, 0, 0].tolist() == [[[*red], [*green]], [[*blue], [*red]]]


def test_windows_of_episodes_with_the_same_number_are_drawn_apart(two: tuple[Path, Path]) -> None:
    starts = choose_starts(join(two), Window(2, 2), 10, seed=1, option="horizon")
    by_episode = [[start.frame for start in starts if start.episode == episode] for episode in range(5)]
    assert by_episode[0] != by_episode[3]


def test_shares_decide_how_often_a_dataset_is_drawn(two: tuple[Path, Path]) -> None:
    windows = Windows(join(two), Window(2, 2))
    first = sum(40 + name - 3 for name in (1, 2, 3))  # windows of the first dataset
    weights = windows.share_out(np.ones(len(windows)), (3.0, 1.0))
    assert weights[:first].sum() == pytest.approx(3.0)
    assert weights[first:].sum() == pytest.approx(1.0)
    drawn = windows.draw(4000, seed=1, step=0, priorities=windows.priority(1.0, weights))
    assert (drawn < first).mean() == pytest.approx(0.75, abs=0.03)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"frame_shape": (6, 9, 3)}, r"a has frames of 6×8, .*b of 6×9: only datasets of one frame size"),
        ({"action_meanings": ("NOOP", "UP")}, r"a has 3 actions \(NOOP, LEFT, RIGHT\), .*b 2 \(NOOP, UP\)"),
    ],
)
def test_other_frame_sizes_and_actions_are_refused(tmp_path: Path, changes: dict[str, object], message: str) -> None:
    store_of(tmp_path / "a", [1])
    with open_writer(tmp_path / "b", replace(INFO, **changes)):  # type: ignore[arg-type]
        pass
    for use in (join, lambda paths: merge(paths, tmp_path / "out")):
        with pytest.raises(UserError, match=message):
            use([tmp_path / "a", tmp_path / "b"])
    assert not (tmp_path / "out").exists()


def test_a_dataset_named_twice_is_refused(two: tuple[Path, Path]) -> None:
    with pytest.raises(UserError, match="a is named twice"):
        join([two[0], two[1], two[0] / ".." / "a"])


def test_merged_episodes_are_numbered_from_0_and_say_who_played(two: tuple[Path, Path], tmp_path: Path) -> None:
    merged = merge(two, tmp_path / "out")
    assert [entry.number for entry in merged.entries] == [0, 1, 2, 3, 4]
    assert names_of(merged) == [1, 2, 3, 4, 5]
    assert [merged.played_by(i).policy for i in range(5)] == ["test"] * 3 + ["other"] * 2
    assert [merged[i].header.seed for i in (0, 3)] == [100, 100]
    assert verify(tmp_path / "out") == []


def test_parts_of_one_dataset_become_that_dataset_again(tmp_path: Path) -> None:
    whole = answer_store(tmp_path / "whole", [40, 50, 60, 70, 80])
    assert main(["data", "split", str(whole.path), "--out", str(tmp_path / "p"), "--test-fraction", "0.4"]) == 0
    train, test = (EpisodeStore(tmp_path / "p" / name) for name in ("train", "test"))
    expected = split_positions(whole, test_fraction=0.4, seed=1)
    assert [[entry.number for entry in part.entries] for part in (train, test)] == list(expected)
    merge([test.path, train.path], tmp_path / "again")
    assert contents(tmp_path / "again") == contents(whole.path)


@pytest.mark.parametrize(
    ("criteria", "kept"),
    [
        (["--returns", "741:"], [1, 3]),
        (["--returns", ":741"], [0, 1, 2]),
        (["--length", "39:40"], [0, 1]),
        (["--episodes", "1:2"], [1, 2]),
        (["--policy", "test", "--length", ":39"], [0, 2]),
    ],
)
def test_a_filter_keeps_the_episodes_that_meet_all_criteria(
    tmp_path: Path, criteria: list[str], kept: list[int]
) -> None:
    answer_store(tmp_path / "s", [39, 40, 30, 50])  # episodes of n frames have the return 0 + 1 + … + n - 2
    assert main(["data", "filter", str(tmp_path / "s"), "--out", str(tmp_path / "out"), *criteria]) == 0
    assert [entry.number for entry in EpisodeStore(tmp_path / "out").entries] == kept
    assert verify(tmp_path / "out") == []


@pytest.mark.parametrize(
    ("criteria", "message"),
    [
        ([], "give --policy, --returns, --length or --episodes"),
        (["--returns", "500:"], "no episode meets all criteria"),
        (["--policy", "held"], "--policy held: s was played by test"),
        (["--length", "5"], "--length 5: write MIN:MAX"),
        (["--length", "9:5"], "--length 9:5: no number is from 9 to 5"),
        (["--returns", "nan:"], "--returns nan:: write MIN:MAX"),
    ],
)
def test_bad_criteria_get_one_line(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    criteria: list[str],
    message: str,
) -> None:
    monkeypatch.chdir(tmp_path)
    answer_store(Path("s"), [20])
    assert main(["data", "filter", "s", "--out", "out", *criteria]) == 2
    assert message in capsys.readouterr().err
    assert not Path("out").exists()


def test_ranges_include_both_ends() -> None:
    assert [value in parse_range("length", "2:4") for value in (1.9, 2, 4, 4.1)] == [False, True, True, False]
    assert [value in parse_range("returns", "-2.5:") for value in (-3, -2.5, 1e9)] == [False, True, True]


def test_policies_of_a_mix_can_be_filtered(tmp_path: Path) -> None:
    options = CollectConfig(env_id="acvp/Toy-v0", out=tmp_path / "s", frames=400, policy=("random", "sticky-random"))
    store = collect(options)
    assert main(["data", "filter", str(store.path), "--policy", "random", "--out", str(tmp_path / "out")]) == 0
    expected = [store.entries[i].number for i in range(len(store)) if store.played_by(i).policy == "random"]
    assert [entry.number for entry in EpisodeStore(tmp_path / "out").entries] == expected
    assert 0 < len(expected) < len(store)


@pytest.mark.parametrize(
    "trap",
    [
        Trap("write", "*/out/episodes/.*.tmp", 3, 0.5),
        Trap("write", "*/out/index.jsonl", 3, 0.5),
        Trap("replace", "*/out/episodes/*.safetensors", 3),
    ],
    ids=str,
)
def test_a_full_disk_while_merging_destroys_nothing(two: tuple[Path, Path], tmp_path: Path, trap: Trap) -> None:
    before = [contents(path) for path in two]
    with pytest.MonkeyPatch.context() as patch:
        trap.arm(fail_with(errno.ENOSPC), patch.setattr)
        with pytest.raises(DiskError, match="could not write"):
            merge(two, tmp_path / "out")
    assert [contents(path) for path in two] == before
    assert [read_answer(episode.frames(5, 6)[0]) for episode in EpisodeStore(tmp_path / "out")] == [(1, 5), (2, 5)]
    merge(two, tmp_path / "out")
    merge(two, tmp_path / "at once")
    assert contents(tmp_path / "out") == contents(tmp_path / "at once")


def test_too_little_space_is_seen_before_the_first_episode(
    two: tuple[Path, Path], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    needed = sum(EpisodeStore(path).size for path in two)
    free = 16 * 2**20 + needed - 1  # enough for each single file
    monkeypatch.setattr(shutil, "disk_usage", lambda path: shutil._ntuple_diskusage(2**40, 0, free))
    with pytest.raises(DiskError, match=f"not enough disk space: {needed:,} bytes needed"):
        merge(two, tmp_path / "out")
    assert len(EpisodeStore(tmp_path / "out")) == 0


def test_a_folder_with_other_episodes_is_refused(two: tuple[Path, Path], tmp_path: Path) -> None:
    answer_store(tmp_path / "out", [30])
    with pytest.raises(UserError, match=r"records something else"):
        merge(two, tmp_path / "out")
    store_of(tmp_path / "c", [9])
    with pytest.raises(UserError, match=r"its episode 0 .* is not one to copy there"):
        merge([two[0], tmp_path / "c"], tmp_path / "out")
    with pytest.raises(UserError, match="is one of the datasets to copy"):
        merge([two[0], tmp_path / "c"], two[0])


def test_a_cache_keeps_the_episodes_read_last() -> None:
    cache = EpisodeCache(most=10)
    episodes = [answer_episode(number, 3) for number in range(3)]
    for number, episode in enumerate(episodes[:2]):
        cache.keep((0, number), episode, 5)
    assert cache.find((0, 0)) is episodes[0]
    cache.keep((0, 2), episodes[2], 5)
    assert [cache.find((0, number)) for number in range(3)] == [episodes[0], None, episodes[2]]
    assert cache.find((1, 0)) is None
    cache.keep((0, 1), episodes[1], 11)  # larger than all: kept alone
    assert [cache.find((0, number)) for number in range(3)] == [None, episodes[1], None]
