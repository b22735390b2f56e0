"""No test data in training: planted copies of plays are caught, and any split keeps plays apart."""

from __future__ import annotations

import tempfile
from dataclasses import replace
from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from acvp.data.episode import OPENING_FRAMES, Episode
from acvp.data.merge import find_leaks, join, refuse_leaks, split, split_positions
from acvp.data.recording import EpisodeRecorder, open_writer
from acvp.data.store import EpisodeStore, StoreInfo
from acvp.data.verify import verify
from acvp.errors import UserError
from tests.faults import Trials, counted

SIDE = 8
INFO = StoreInfo(env_id="test/Leaks-v0", frame_shape=(SIDE, SIDE, 3), action_meanings=("A", "B"), policy="test")

Frames = NDArray[np.uint8]  # (T + 1, 8, 8, 3)


def play(rng: np.random.Generator, length: int, *, many_colors: bool = False) -> tuple[Frames, list[int]]:
    """Frames and actions of a play; with many colors it has over 256, but not in its first 32 frames."""
    frames = rng.integers(3, size=(length, SIDE, SIDE, 3)).astype(np.uint8) * 80
    if many_colors:
        frames[OPENING_FRAMES:] = rng.integers(256, size=frames[OPENING_FRAMES:].shape)
    return frames, rng.integers(2, size=length - 1).tolist()


def record(number: int, seed: int, frames: Frames, actions: list[int]) -> Episode:
    recorder = EpisodeRecorder()
    recorder.start(frames[0])
    for action, frame in zip(actions, frames[1:], strict=True):
        recorder.step(action, 0.0, frame)
    return recorder.finish(number=number, seed=seed, terminated=True, truncated=False)


def store_of(path: Path, episodes: list[Episode]) -> EpisodeStore:
    with open_writer(path, INFO) as writer:
        for number, episode in enumerate(episodes):
            writer.add(replace(episode, header=replace(episode.header, number=number)))
    return EpisodeStore(path)


def plant(kind: int, rng: np.random.Generator) -> tuple[Episode, Episode]:
    """An episode and a copy of it under another seed: exact, cut, or cut short; few colors, or many after a while."""
    length = int(rng.integers(OPENING_FRAMES, 80)) + 10
    frames, actions = play(rng, length, many_colors=kind >= 3)
    kept = (length, int(rng.integers(OPENING_FRAMES, length)), int(rng.integers(2, OPENING_FRAMES)))[kind % 3]
    return record(0, 1, frames, actions), record(0, 2, frames[:kept], actions[: kept - 1])


@counted("6 planted leaks are caught", quick=8, full=20)
def test_planted_leaks_are_caught(trials: Trials, tmp_path: Path) -> None:
    def leak(i: int, rng: np.random.Generator) -> None:
        original, copy = plant(i % 6, rng)
        others = [record(0, 10 + n, *play(rng, 50)) for n in range(6)]
        places = rng.permutation(8).tolist()
        mixed = [[original, copy, *others][place] for place in places]
        both = store_of(tmp_path / f"{i}", mixed)
        for seed in range(5):
            train, test = split(both, test_fraction=0.3, seed=seed)
            assert find_leaks(train, test) == []
            tested = {entry.number for entry in test.entries}
            assert (places.index(0) in tested) == (places.index(1) in tested)
        assert_caught(store_of(tmp_path / f"{i}-train", [*others[:3], original]), tmp_path / f"{i}-test", copy, others)

    trials.run(leak)


def assert_caught(train: EpisodeStore, path: Path, copy: Episode, others: list[Episode]) -> None:
    """Fail unless a copy in another store is named, and the store is fine without it."""
    test = store_of(path, [*others[3:], copy])
    assert find_leaks(train, test) == [(3, 3)]
    with pytest.raises(UserError, match=r"1 of 4 test episodes .* are also in .*train = test: 3 = 3"):
        refuse_leaks(train, test)
    refuse_leaks(train, test[:3])
    assert verify(path) == []


@pytest.mark.parametrize("changed", ["frame", "action"])
def test_plays_that_differ_in_their_beginning_are_no_leak(tmp_path: Path, changed: str) -> None:
    frames, actions = play(np.random.default_rng(0), 60)
    other_frames, other_actions = frames.copy(), list(actions)
    if changed == "frame":
        other_frames[31, 0, 0] ^= 80
    else:
        other_actions[30] ^= 1
    one = store_of(tmp_path / "one", [record(0, 1, frames, actions)])
    two = store_of(tmp_path / "two", [record(0, 1, other_frames, other_actions)])
    assert find_leaks(one, two) == []


def test_the_seed_chooses_the_test_part(tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    store = store_of(tmp_path, [record(0, n, *play(rng, 40)) for n in range(12)])
    parts = {
        tuple(entry.number for entry in split(store, test_fraction=0.25, seed=seed)[1].entries) for seed in range(8)
    }
    assert len(parts) > 4
    assert {len(part) for part in parts} == {3}


plays = st.lists(st.tuples(st.integers(0, 9), st.integers(1, 45)), min_size=2, max_size=14)
"""Per episode: which of ten plays it is of, and how many of its frames it has."""


@settings(max_examples=25)
@given(plays=plays, fraction=st.floats(0.01, 0.99), seed=st.integers(0, 2**31))
def test_any_split_is_disjoint_whole_and_repeatable(plays: list[tuple[int, int]], fraction: float, seed: int) -> None:
    made = {name: play(np.random.default_rng(name), 45) for name, _ in plays}
    episodes = [record(0, n, made[name][0][:k], made[name][1][: k - 1]) for n, (name, k) in enumerate(plays)]
    with tempfile.TemporaryDirectory() as folder:
        store = store_of(Path(folder), episodes)
        if len(made) < 2:
            with pytest.raises(UserError, match="a train and a test part need two different episodes, and it has 1 "):
                split(store, test_fraction=fraction, seed=seed)
            return
        train, test = split(store, test_fraction=fraction, seed=seed)
        again = split(store, test_fraction=fraction, seed=seed)
        assert find_leaks(train, test) == []
    assert [part.entries for part in again] == [train.entries, test.entries]
    assert len(train) > 0 < len(test)
    assert sorted(e.number for part in (train, test) for e in part.entries) == list(range(len(store)))
    assert not {plays[e.number][0] for e in train.entries} & {plays[e.number][0] for e in test.entries}
    for kind in ("opening", "content"):
        assert not {getattr(e, kind) for e in train.entries} & {getattr(e, kind) for e in test.entries}


@pytest.mark.parametrize("seed", range(5))
def test_a_dataset_added_at_the_end_changes_no_part_before_it(tmp_path: Path, seed: int) -> None:
    rng = np.random.default_rng(seed)
    plays = [play(rng, 40 + 3 * number) for number in range(24)]
    plays[9] = plays[18] = plays[2]  # duplicates in later datasets
    folders = []
    for first in range(0, len(plays), 6):
        episodes = [record(number, first + number, *taken) for number, taken in enumerate(plays[first : first + 6])]
        folders.append(store_of(tmp_path / str(first), episodes).path)
    parts = [split_positions(join(folders[:count]), test_fraction=0.2, seed=seed) for count in range(1, 5)]
    for (train, test), (later_train, later_test) in pairwise(parts):
        assert set(train) <= set(later_train)
        assert set(test) <= set(later_test)
    lengths = np.array([len(frames) for frames, _ in plays])
    assert abs(lengths[parts[-1][1]].sum() / lengths.sum() - 0.2) < 0.06
    assert {number in parts[-1][1] for number in (2, 9, 18)} in ({True}, {False})


def test_datasets_of_one_episode_each_are_split_too(tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    folders = [store_of(tmp_path / str(i), [record(0, i, *play(rng, 40 + i))]).path for i in range(2)]
    assert split_positions(join(folders), test_fraction=0.1) == ([0], [1])


def test_duplicates_of_held_out_episodes_count_as_held_out(tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    plays = [play(rng, 40) for _ in range(8)]
    first = store_of(tmp_path / "a", [record(i, i, *taken) for i, taken in enumerate(plays[:4])])
    held_out = split_positions(first, test_fraction=0.25)[1]
    again = [plays[held_out[0]], *plays[4:7]]
    store_of(tmp_path / "b", [record(i, i, *taken) for i, taken in enumerate(again)])
    both = join([tmp_path / "a", tmp_path / "b"])
    assert split_positions(both, test_fraction=0.25)[1] == [*held_out, 4]
