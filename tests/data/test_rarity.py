"""Rarity of steps, against changes counted one by one."""

from collections import Counter
from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest
from numpy.typing import NDArray

from acvp.data.collect import CollectConfig, collect
from acvp.data.rarity import CELL, changes, rarity_of, rarity_of_windows
from acvp.data.store import EpisodeStore
from acvp.data.windows import Window, Windows


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> EpisodeStore:
    folder: Path = tmp_path_factory.mktemp("rarity") / "s"
    return collect(CollectConfig(env_id="acvp/Toy-v0", out=folder, frames=1200, seed=3))


def plain_changes(frames: NDArray[np.uint8]) -> list[list[tuple[bytes, bytes]]]:
    """The changes of each step, cell by cell."""
    found: list[list[tuple[bytes, bytes]]] = []
    for before, after in pairwise(frames):
        found.append([])
        for top in range(0, frames.shape[1] - CELL + 1, CELL):
            for left in range(0, frames.shape[2] - CELL + 1, CELL):
                pair = [each[top : top + CELL, left : left + CELL].tobytes() for each in (before, after)]
                if pair[0] != pair[1]:
                    found[-1].append((pair[0], pair[1]))
    return found


def test_a_step_is_as_rare_as_its_changes_are_in_the_whole_store(store: EpisodeStore) -> None:
    plain = [plain_changes(np.asarray(episode.frames(0, len(episode)))) for episode in store]
    counts = Counter(change for episode in plain for step in episode for change in step)
    expected = [[sum(1 / counts[change] for change in step) for step in episode] for episode in plain]
    found = rarity_of(store)
    assert [len(each) for each in found] == [entry.frames - 1 for entry in store.entries]
    assert np.concatenate(found) == pytest.approx(np.concatenate(expected))
    assert np.concatenate(found).sum() == pytest.approx(len(counts))  # every kind weighs the same


@pytest.mark.parametrize(("context", "horizon"), [(1, 1), (3, 4), (30, 9)])
def test_a_window_is_as_rare_as_the_steps_it_predicts(store: EpisodeStore, context: int, horizon: int) -> None:
    of_steps = rarity_of(store)
    windows = Windows(store, Window(context, horizon))
    found = rarity_of_windows(windows, of_steps)
    assert len(found) == len(windows)
    for number in (0, 1, len(windows) // 2, len(windows) - 1):
        position, start = windows.locate(number)
        first = start + context - 1
        assert found[number] == pytest.approx(of_steps[position][first : first + horizon].sum())


def test_pixels_beyond_the_last_whole_cell_do_not_count() -> None:
    frames = np.zeros((3, 12, 7), np.uint8)
    frames[1, 11, 6] = 1
    frames[2, 3, 3] = 1
    step, kind = changes(frames)
    assert step.tolist() == [1]
    assert kind.shape == (1,)


def test_colours_count_where_a_store_has_no_palette() -> None:
    frames = np.zeros((4, 5, 5, 3), np.uint8)
    frames[1, 2, 2, 0] = 9
    frames[3, 2, 2, 1] = 9
    step, kind = changes(frames)
    assert step.tolist() == [0, 1, 2]
    assert len(set(kind.tolist())) == 3


@pytest.mark.parametrize("shape", [(4, 10, 10), (4, 3, 9), (1, 10, 10)])
def test_where_nothing_changes_nothing_is_rare(shape: tuple[int, int, int]) -> None:
    frames = np.zeros(shape, np.uint8)
    frames[:, 0, 0] = 3
    assert [len(each) for each in changes(frames)] == [0, 0]
