"""Objects of frames in which it is known what is one."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import numpy as np
import pytest
from numpy.typing import NDArray

from acvp.data.collect import CollectConfig, collect
from acvp.envs.toy import TOY_ID
from acvp.pixel import objects as module
from acvp.pixel.objects import (
    BACKGROUND,
    MOVING,
    RARE,
    UNSEEN,
    FrameObjects,
    displacements,
    find_background,
    find_boxes,
    find_moves,
    follow,
    information,
    link,
)
from acvp.pixel.palette import color_numbers
from tests.pixel.small_objects import FLOOR, GREEN, HEIGHT, RED, SIDE, STRIPE, WIDTH, background, floor, squares

pytestmark = pytest.mark.usefixtures("statistics_not_cached")


def kinds(frame: NDArray[np.uint8]) -> NDArray[np.uint8]:
    rows, columns = np.indices(frame.shape)
    by_pixel: NDArray[np.uint8] = background().kinds_table()[frame, rows, columns]
    return by_pixel


def objects_of(frame: NDArray[np.uint8]) -> FrameObjects:
    return FrameObjects.find(frame, kinds(frame))


def test_boxes_are_exact_in_the_middle_and_at_every_edge() -> None:
    corners = [(0, 0), (0, WIDTH - SIDE), (HEIGHT - SIDE, 0), (HEIGHT - SIDE, WIDTH - SIDE), (20, 10)]
    boxes = find_boxes(kinds(squares(*corners)))
    found = {tuple(box) for box in boxes.tolist()}
    assert found == {(top, left, top + SIDE - 1, left + SIDE - 1, MOVING) for top, left in corners}


def test_a_gap_of_two_pixels_does_not_separate_and_one_of_three_does() -> None:
    assert len(find_boxes(kinds(squares((4, 2), (4, 2 + SIDE + 2))))) == 1
    assert len(find_boxes(kinds(squares((4, 2), (4, 2 + SIDE + 3))))) == 2


def test_moving_and_rare_colors_that_touch_are_two_objects() -> None:
    frame = squares((10, 4))
    frame[10:16, 10:14] = GREEN
    assert sorted(find_boxes(kinds(frame))[:, 4].tolist()) == [MOVING, RARE]


def test_regions_larger_than_an_object_are_left_out(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "LARGEST", SIDE)
    assert len(find_boxes(kinds(squares((4, 4))))) == 1
    wider = squares((4, 4))
    wider[4, 4 + SIDE] = RED
    assert len(find_boxes(kinds(wider))) == 0


def test_of_too_many_objects_the_largest_are_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "MOST", 1)
    frame = squares((4, 4))
    frame[30, 30] = RED
    assert find_boxes(kinds(frame)).tolist() == [[4, 4, 4 + SIDE - 1, 4 + SIDE - 1, MOVING]]


def moves_of(before: FrameObjects, after: FrameObjects) -> list[tuple[int, int] | None]:
    return displacements(before, after, link(before, after))


def test_an_object_that_flickers_is_remembered_and_followed() -> None:
    gone = [floor()] * (UNSEEN + 1)
    frames = np.stack([squares((10, 5)), *gone, squares((10, 8))])
    followed, last = follow(frames, np.stack([kinds(frame) for frame in frames]))
    assert [objects.unseen.tolist() for objects, _ in followed] == [[0], *[[step] for step in range(1, UNSEEN + 1)], []]
    assert last.unseen.tolist() == [0], "too late: it is another one"
    back = np.stack([squares((10, 5)), floor(), floor(), squares((14, 8))])
    followed, last = follow(back, np.stack([kinds(frame) for frame in back]))
    assert [moves for _, moves in followed] == [[None], [None], [(4, 3)]]
    assert followed[2].objects.boxes.tolist() == followed[0].objects.boxes.tolist(), "where it was last seen"
    assert last.unseen.tolist() == [0]


def test_a_seen_object_is_linked_before_one_that_is_not() -> None:
    seen = squares((10, 14))
    frames = np.stack([squares((10, 8)), floor(), seen, squares((10, 11))])
    before = objects_of(frames[0]).followed_by(objects_of(seen), np.array([-1]))
    assert before.unseen.tolist() == [0, 1]
    assert link(before, objects_of(frames[3])).tolist() == [0, -1], "both are as near"


def test_an_object_is_linked_to_the_nearest_of_its_color() -> None:
    before, after = objects_of(squares((10, 5))), squares((10, 8))
    after[10 : 10 + SIDE, 26 : 26 + SIDE] = RED
    assert moves_of(before, objects_of(after)) == [(0, 3)]
    assert moves_of(before, objects_of(floor())) == [None]


def test_a_far_object_is_another_one() -> None:
    assert link(objects_of(squares((0, 4))), objects_of(squares((17, 4)))).tolist() == [-1]
    assert link(objects_of(squares((0, 4))), objects_of(squares((16, 4)))).tolist() == [0]


def test_a_link_prefers_the_same_main_color() -> None:
    before = objects_of(squares((10, 8), color=GREEN))
    after = squares((10, 14), color=GREEN)
    after[10 : 10 + SIDE, 4 : 4 + SIDE] = STRIPE  # nearer, and rare there too
    there = objects_of(after)
    (linked,) = link(before, there)
    assert there.boxes[linked, 1] == 14


def test_background_and_moving_colors_follow_from_counts() -> None:
    counts = np.zeros((4, 10, 20), np.int64)
    counts[FLOOR] = 95
    counts[RED, :8] = 5  # everywhere, seldom
    counts[FLOOR, 0, 0], counts[RED, 0, 0] = 40, 60  # its home
    counts[GREEN, 9, 19], counts[FLOOR, 9, 19] = 9, 91
    counts[STRIPE, 9, 0], counts[FLOOR, 9, 0] = 10, 90
    result = module._background(counts, np.full(4, 100))
    assert result.moving == (RED,)
    assert result.usual[0, 0] == RED
    assert result.usual[5, 5] == FLOOR
    table = result.kinds_table()
    assert table[RED, 5, 5] == MOVING
    assert table[RED, 0, 0] == BACKGROUND
    assert table[FLOOR, 0, 0] == BACKGROUND
    assert table[GREEN, 9, 19] == RARE
    assert table[STRIPE, 9, 0] == BACKGROUND


def test_scenery_of_a_screen_that_is_seldom_seen_is_background() -> None:
    counts = np.zeros((2, 10, 20), np.int64)
    counts[0], counts[1, 5:] = 100, 2
    counts[0, 5:] = 98
    assert module._background(counts, np.array([100, 2])).kinds_table()[1, 7, 7] == BACKGROUND
    assert module._background(counts, np.array([100, 80])).kinds_table()[1, 7, 7] == MOVING, "seldom where it is"


@pytest.mark.parametrize(("each", "kind"), [(6, BACKGROUND), (4, RARE)])
def test_a_pixel_with_a_cycling_palette_shows_no_objects(each: int, kind: int) -> None:
    counts = np.zeros((12, 4, 4), np.int64)
    counts[0] = 100
    counts[0, 1, 1] = 100 - 9 * each  # at 6 %, nine colors have more than half of the frames
    counts[1:10, 1, 1] = each
    table = module._background(counts, np.full(12, 100)).kinds_table()
    assert table[5, 1, 1] == kind
    assert table[5, 0, 0] == RARE, "elsewhere the color is as before"
    assert table[11, 1, 1] == RARE, "a color that was never there is not background"


def test_statistics_of_a_dataset_are_those_of_its_frames(tmp_path: Path) -> None:
    store = collect(CollectConfig(env_id=TOY_ID, out=tmp_path / "s", frames=400, seed=3))
    assert store.palette is not None
    palette = [tuple(color) for color in reversed(store.palette.tolist())]  # another order than the dataset's
    numbers = color_numbers(store, palette)
    result = find_background(store, numbers, len(palette))
    frames = np.concatenate([numbers[episode.indices()] for episode in store])
    share = np.stack([(frames == color).mean(0) for color in range(len(palette))])
    assert np.array_equal(result.usual, share.argmax(0))
    moves, controlled = find_moves(store, numbers, result, 3)
    assert 1 <= len(moves) <= 3
    assert len(set(moves)) == len(moves)
    assert [palette[color] for color in controlled] == [(240, 240, 240)], "the player, not the ball"


def test_information_is_that_of_the_action_about_the_move() -> None:
    obeys = Counter({(0, (0, 1)): 200, (1, (0, -1)): 200})
    assert information(obeys) == pytest.approx(np.log(2) - 1 / 800)
    ignores = Counter({(action, move): 100 for action in (0, 1) for move in ((0, 1), (0, -1))})
    assert information(ignores) == pytest.approx(-1 / 800)
    assert information(Counter({(0, (0, 1)): 49, (1, (0, -1)): 49})) == 0, "too few to judge"
