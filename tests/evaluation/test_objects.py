"""Finding the controlled object in predictions."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from numpy.typing import NDArray

from acvp.data.replay import find_positions, replay
from acvp.data.store import EpisodeStore
from acvp.data.windows import WindowStart
from acvp.envs import make_game
from acvp.errors import UserError
from acvp.evaluation.windows import HeldOutPart
from acvp.models.pixels import ObjectFinder

MEAN = np.full((60, 80, 3), 50, np.float32)
FINDER = ObjectFinder((60, 80), MEAN)


def scene(row: int, column: int) -> NDArray[np.float32]:
    """A bright 4×4 object whose center is between pixels."""
    frame = MEAN.copy()
    frame[row - 2 : row + 2, column - 2 : column + 2] = (200, 180, 20)
    return frame


@pytest.mark.parametrize(("down", "right"), [(0, 0), (3, 0), (-2, 5), (6, -7)])
def test_the_distance_of_a_moved_object(down: int, right: int) -> None:
    target = FINDER.target(scene(30, 40), (29.5, 39.5))
    assert target is not None
    assert FINDER.distance(scene(30 + down, 40 + right), target) == pytest.approx(np.hypot(down, right))


def test_a_vanished_object_is_nowhere() -> None:
    target = FINDER.target(scene(30, 40), (29.5, 39.5))
    assert target is not None
    assert FINDER.distance(MEAN, target) == np.inf
    assert FINDER.distance(scene(30, 70), target) == np.inf  # beyond the search radius


def test_objects_at_the_edge_are_found() -> None:
    target = FINDER.target(scene(2, 78), (1.5, 77.5))
    assert target is not None
    assert FINDER.distance(scene(2, 78), target) == 0
    assert FINDER.distance(scene(5, 78), target) == 3


def test_what_cannot_be_seen_is_not_measured() -> None:
    assert FINDER.target(MEAN, (30.0, 40.0)) is None
    assert FINDER.target(scene(30, 40), (np.nan, np.nan)) is None


def test_distances_are_in_recorded_pixels() -> None:
    finder = ObjectFinder((120, 320), MEAN)  # the view is half as high and a quarter as wide
    target = finder.target(scene(30, 40), (59.5, 158.0))
    assert target is not None
    assert finder.distance(scene(33, 40), target) == 6
    assert finder.distance(scene(30, 42), target) == 8


def test_the_object_is_in_the_middle_of_its_patch() -> None:
    """The view is three times as large, and (10, 13) is the middle of a recorded pixel: the three from 30, 39 on."""
    mean = np.full((60, 81, 3), 50, np.float32)
    truth = mean.copy()
    truth[30:33, 39:42] = 200
    target = ObjectFinder((20, 27), mean).target(truth, (10.0, 13.0))
    assert target is not None
    assert target.mask.shape == (7, 7, 3)
    assert target.mask[2:5, 2:5].all()
    assert target.mask.sum() == 3 * 3 * 3


def test_positions_come_from_replaying_the_store(toy: EpisodeStore) -> None:
    found = find_positions(toy, [WindowStart(0, 3), WindowStart(0, 30), WindowStart(2, 0)], 12)
    assert {episode: len(rows) for episode, rows in found.items()} == {0: 42, 2: 12}
    for t in (0, 7, 41):
        player = np.argwhere((toy[0].frames(t, t + 1)[0] == 240).all(-1))
        np.testing.assert_allclose(found[0][t], player.mean(0))


def test_a_game_that_plays_differently_is_refused(toy: EpisodeStore) -> None:
    other = replace(toy[0], header=replace(toy[0].header, seed=toy[0].header.seed + 1))
    with make_game("toy", max_steps=5) as game:
        with pytest.raises(UserError, match="ends with action 4, before the recording does; acvp data verify --replay"):
            list(replay(toy[0], game))
        with pytest.raises(UserError, match="episode 0: frame 0 differs; acvp data verify --replay"):
            list(replay(other, game))


def test_a_store_without_a_game_has_no_positions(answers: HeldOutPart) -> None:
    with pytest.raises(UserError, match="settings"):
        find_positions(answers.store, [WindowStart(0, 0)], 5)
