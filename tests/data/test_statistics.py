"""Statistics are computed once for a dataset, and never taken from another dataset or a damaged file."""

from __future__ import annotations

import os
import threading
import time
from pathlib import Path

import numpy as np
import pytest

from acvp.data import statistics
from acvp.data.statistics import FOLDER_NAME, Arrays, cached, in_order, step_priorities
from acvp.data.store import EpisodeStore
from acvp.durable import DiskError
from acvp.errors import UserError
from tests.data.answers import answer_store


class Counter:
    """Counts how often a statistic is computed: the number of episodes, and which computation it was."""

    def __init__(self) -> None:
        self.times = 0

    def of(self, store: EpisodeStore, **settings: object) -> list[int]:
        def compute() -> Arrays:
            self.times += 1
            return {"numbers": np.array([len(store), self.times])}

        found: list[int] = cached(store, "count", settings, compute)["numbers"].tolist()
        return found


def files(store: EpisodeStore) -> list[Path]:
    return sorted((store.path / FOLDER_NAME).glob("*.safetensors"))


def test_a_statistic_is_computed_once_for_episodes_and_settings(tmp_path: Path) -> None:
    store, counter = answer_store(tmp_path / "s", [5, 6, 7]), Counter()
    assert counter.of(store) == counter.of(EpisodeStore(store.path)) == [3, 1]
    assert counter.of(store, seed=1) == [3, 2]
    assert counter.of(store.subset([0, 2])) == [2, 3]
    assert counter.of(store) == [3, 1]
    store.path.rename(tmp_path / "moved")
    assert counter.of(EpisodeStore(tmp_path / "moved")) == [3, 1]


def test_a_statistic_of_another_digest_is_ignored(tmp_path: Path) -> None:
    store, other, counter = answer_store(tmp_path / "s", [5, 6]), answer_store(tmp_path / "t", [9]), Counter()
    counter.of(store)
    counter.of(other)
    files(store)[0].write_bytes(files(other)[0].read_bytes())  # a sound file under a wrong name
    assert counter.of(store) == [2, 3]


@pytest.mark.parametrize("where", [0, 9, 60, -1])
def test_a_damaged_statistic_is_computed_again(tmp_path: Path, where: int) -> None:
    store, counter = answer_store(tmp_path / "s", [5]), Counter()
    counter.of(store)
    data = bytearray(files(store)[0].read_bytes())
    data[where] ^= 4
    files(store)[0].write_bytes(data)
    assert counter.of(store) == [1, 2]
    files(store)[0].write_bytes(data[:10])
    assert counter.of(store) == [1, 3]
    assert counter.of(store) == [1, 3]


def test_a_folder_that_cannot_be_written_is_read_all_the_same(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    store, counter = answer_store(tmp_path / "s", [5]), Counter()

    def refuse(path: Path, *_: object) -> None:
        raise DiskError(f"{path}: read-only")

    with monkeypatch.context() as patch:
        patch.setattr(statistics, "make_folder", refuse)
        assert [counter.of(store), counter.of(store)] == [[1, 1], [1, 2]]
        assert not (store.path / FOLDER_NAME).exists()
    with monkeypatch.context() as patch:
        patch.setattr(statistics, "write_atomic", refuse)  # a full disk
        assert counter.of(store) == [1, 3]
    assert counter.of(store) == [1, 4]


def test_a_planted_link_leads_no_write_elsewhere(tmp_path: Path) -> None:
    store, counter = answer_store(tmp_path / "s", [5]), Counter()
    (tmp_path / "elsewhere").mkdir()
    (store.path / FOLDER_NAME).symlink_to(tmp_path / "elsewhere")
    assert counter.of(store) == [1, 1]
    assert list((tmp_path / "elsewhere").iterdir()) == []


def test_others_wait_for_the_one_that_computes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(statistics, "WAIT_SECONDS", 0.001)
    store, begun, go_on, times = answer_store(tmp_path / "s", [5]), threading.Event(), threading.Event(), []

    def compute() -> Arrays:
        times.append(1)
        begun.set()
        go_on.wait()
        return {"one": np.ones(1)}

    first = threading.Thread(target=cached, args=(store, "x", {}, compute))
    first.start()
    begun.wait()
    assert cached(store, "x", {}, compute, waiting=go_on.set)["one"].tolist() == [1.0]
    first.join()
    assert times == [1]


def test_only_the_newest_statistics_are_kept(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(statistics, "MOST_FILES", 2)
    store, counter = answer_store(tmp_path / "s", [5]), Counter()
    for seed in range(3):
        counter.of(store, seed=seed)
        os.utime(max(files(store), key=lambda path: path.stat().st_mtime_ns), (seed + 10**9,) * 2)
    assert len(files(store)) <= 3
    assert counter.of(store, seed=2) == [1, 3]


def test_cached_priorities_are_those_computed(tmp_path: Path) -> None:
    store = answer_store(tmp_path / "s", [5, 1, 9])
    computed, again = step_priorities(store), step_priorities(EpisodeStore(store.path))
    assert [len(each) for each in again] == [4, 0, 8]
    assert all(np.array_equal(one, two) for one, two in zip(computed, again, strict=True))


def test_results_come_in_order_and_little_is_computed_ahead() -> None:
    begun: list[int] = []

    def slow_first(number: int) -> int:
        begun.append(number)
        if number == 0:
            time.sleep(0.05)
        return number

    results = in_order(slow_first, 50, threads=3)
    assert [next(results) for _ in range(2)] == [0, 1]
    assert max(begun) <= 5
    assert list(results) == list(range(2, 50))
    assert sorted(begun) == list(range(50))


def test_an_error_in_a_thread_is_raised_and_ends_the_others() -> None:
    begun: list[int] = []

    def fail(number: int) -> int:
        begun.append(number)
        if number == 2:
            raise UserError("damaged")
        return number

    with pytest.raises(UserError, match="damaged"):
        list(in_order(fail, 50, threads=2))
    assert max(begun) < 10
