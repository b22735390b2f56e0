"""The motions of a store, where it is known how things move."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from numpy.typing import NDArray

from acvp.data.collect import CollectConfig, collect
from acvp.data.frames import get_view
from acvp.envs.toy import TOY_ID
from acvp.pixel import statistics as module
from acvp.pixel.config import Motion
from acvp.pixel.statistics import MOST_MOTIONS, _cover, motions_of
from tests.data.answers import recorded

pytestmark = pytest.mark.usefixtures("statistics_not_cached")


def pairs(motion: tuple[int, int], count: int = 4) -> tuple[NDArray[np.uint8], NDArray[np.uint8]]:
    """Frames with a patterned patch, and the same with the patch moved."""
    rng = np.random.default_rng(3)
    before, after = (np.zeros((count, 40, 40, 1), np.uint8) for _ in range(2))
    for row in range(count):
        y, x = rng.integers(13, 19, 2)
        patch = rng.integers(1, 9, (9, 9, 1))
        before[row, y : y + 9, x : x + 9] = patch
        after[row, y + motion[0] : y + motion[0] + 9, x + motion[1] : x + motion[1] + 9] = patch
    return before, after


def explained(before: NDArray[np.uint8], after: NDArray[np.uint8]) -> dict[Motion, NDArray[np.bool_]]:
    return module._explained(before, module._changed(before, after, 5, np.random.default_rng(0)))


@pytest.mark.parametrize("motion", [(3, 0), (0, -4), (-2, 7), (12, -12)])
def test_a_motion_is_found(motion: tuple[int, int]) -> None:
    found = explained(*pairs(motion))
    assert _cover(found, MOST_MOTIONS)[0] == motion
    assert found[motion].mean() > 0.3  # a cell that lost a part of the patch is not explained by its motion


def test_motions_come_by_what_each_explains_beyond_the_others() -> None:
    many, few = pairs((0, 2), 9), pairs((5, 0), 3)
    before, after = (np.concatenate(each) for each in zip(many, few, strict=True))
    found = explained(before, after)
    assert _cover(found, MOST_MOTIONS)[:2] == [(0, 2), (5, 0)]
    assert _cover(found, 1) == [(0, 2)]
    assert _cover(found, MOST_MOTIONS, left=~found[0, 2])[0] == (5, 0)


def test_of_many_cells_some_are_looked_at(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "CELLS", 7)
    found = explained(*pairs((3, 0)))
    assert {len(cells) for cells in found.values()} == {7}


def test_nothing_moves_at_all() -> None:
    still = np.zeros((2, 40, 40, 3), np.uint8)
    assert _cover(explained(still, still), MOST_MOTIONS) == []


def test_what_shows_two_poses_by_turns_is_copied_from_the_older_frame(tmp_path: Path) -> None:
    """Something moves right by 3 a frame and has its first pose again in the third frame: 6 away from the first."""
    rng = np.random.default_rng(5)
    poses = rng.integers(1, 9, (2, 9, 9))
    frames = np.zeros((9, 40, 40), np.uint8)
    for time, frame in enumerate(frames):
        frame[15:24, 3 * time : 3 * time + 9] = poses[time % 2]
    palette = np.arange(27, dtype=np.uint8).reshape(9, 3)
    found = motions_of(recorded(tmp_path / "store", palette[frames]), 5, seed=1)
    assert (0, 3) not in found.newest
    assert (0, 6) not in found.newest
    assert found.older[0] == (0, 6)


def test_a_store_by_seed_and_by_view(tmp_path: Path) -> None:
    store = collect(CollectConfig(env_id=TOY_ID, out=tmp_path / "store", frames=400, seed=1))
    found = motions_of(store, 4, seed=1)
    assert found.newest[0] == (0, 0)
    assert len(found.newest) > 1
    assert found == motions_of(store, 4, seed=1)
    assert motions_of(store, 4, seed=1, view=get_view("gray84")).newest[0] == (0, 0)
