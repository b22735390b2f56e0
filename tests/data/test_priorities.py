"""Rarity of steps, against changes counted one by one."""

from collections import Counter
from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest
from numpy.typing import NDArray

from acvp.data.collect import CollectConfig, collect
from acvp.data.statistics import CELL, changed_cells, step_priorities, window_priorities
from acvp.data.store import EpisodeStore
from acvp.data.windows import Window, Windows
from tests.data.answers import answer_store, color_store

pytestmark = pytest.mark.usefixtures("statistics_not_cached")


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
    found = step_priorities(store)
    assert [len(each) for each in found] == [entry.frames - 1 for entry in store.entries]
    assert np.concatenate(found) == pytest.approx(np.concatenate(expected))
    assert np.concatenate(found).sum() == pytest.approx(len(counts))  # every kind weighs the same


@pytest.mark.parametrize(("context", "horizon"), [(1, 1), (3, 4), (30, 9)])
def test_a_window_is_as_rare_as_the_steps_it_predicts(store: EpisodeStore, context: int, horizon: int) -> None:
    of_steps = step_priorities(store)
    windows = Windows(store, Window(context, horizon))
    found = window_priorities(windows, of_steps)
    assert len(found) == len(windows)
    places = [windows.locate(number) for number in range(len(windows))]
    expected = [of_steps[p][start + context - 1 : start + context + horizon - 1].sum() for p, start in places]
    assert found == pytest.approx(expected)


def test_windows_are_counted_past_episodes_that_are_too_short(tmp_path: Path) -> None:
    windows = Windows(answer_store(tmp_path, [1, 9, 60, 3]), Window(4, 3))
    assert windows.left_out == 2
    of_steps = step_priorities(windows.store)
    found = window_priorities(windows, of_steps)
    assert found[0] == pytest.approx(of_steps[1][3:6].sum())
    assert found[3] == pytest.approx(of_steps[2][3:6].sum())
    assert len(found) == 3 + 54


RED, GREEN, BLUE = (255, 0, 0), (0, 255, 0), (0, 0, 255)


@pytest.mark.parametrize("kept", [10**6, 2, 0])
def test_kinds_are_the_same_whatever_the_palettes_of_the_episodes_and_the_memory(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, kept: int
) -> None:
    monkeypatch.setattr("acvp.data.statistics.KEPT", kept)
    store = color_store(tmp_path, [[RED, GREEN, RED], [BLUE], [BLUE, RED, GREEN], [GREEN, RED]])
    assert [each.tolist() for each in step_priorities(store)] == [[0.5, 0.5], [], [1.0, 0.5], [0.5]]


def test_a_store_of_too_many_colors_is_looked_at_by_its_pixels(tmp_path: Path) -> None:
    store = color_store(tmp_path, [[(e, t, 7) for t in range(200)] for e in range(2)] + [[(0, 0, 7), (0, 1, 7)]])
    assert store.palette is None
    first, second, again = step_priorities(store)
    assert first.tolist() == [0.5] + [1.0] * 198
    assert second.tolist() == [1.0] * 199
    assert again.tolist() == [0.5]


def test_long_episodes_are_read_in_blocks(store: EpisodeStore, monkeypatch: pytest.MonkeyPatch) -> None:
    whole = step_priorities(store)
    monkeypatch.setattr("acvp.data.statistics.BLOCK_BYTES", 5000)
    told: list[tuple[int, int]] = []
    assert all(
        np.array_equal(a, b) for a, b in zip(whole, step_priorities(store, lambda *d: told.append(d)), strict=True)
    )
    assert told[-1] == (len(store), len(store))


def test_pixels_beyond_the_last_whole_cell_do_not_count() -> None:
    frames = np.zeros((3, 12, 7), np.uint8)
    frames[1, 11, 6] = 1
    frames[2, 3, 3] = 1
    step, before, after = changed_cells(frames)
    assert step.tolist() == [1]
    assert before.tolist() == [[0] * 25]
    assert after.tolist() == [[0] * 18 + [1] + [0] * 6]


def test_colors_count_where_a_store_has_no_palette() -> None:
    frames = np.zeros((4, 5, 5, 3), np.uint8)
    frames[1, 2, 2, 0] = 9
    frames[3, 2, 2, 1] = 9
    step, before, after = changed_cells(frames)
    assert step.tolist() == [0, 1, 2]
    assert before.shape == after.shape == (3, 75)
    assert np.array_equal(before[1:], after[:-1])


@pytest.mark.parametrize("shape", [(4, 10, 10), (4, 3, 9), (1, 10, 10)])
def test_where_nothing_changes_nothing_is_rare(shape: tuple[int, int, int]) -> None:
    frames = np.zeros(shape, np.uint8)
    frames[:, 0, 0] = 3
    assert [len(each) for each in changed_cells(frames)] == [0, 0, 0]
