"""What names of actions say."""

from __future__ import annotations

import ale_py
import pytest
from hypothesis import given
from hypothesis import strategies as st

from acvp.actions import label, opposite_pairs, ordered, parse, same_direction_pairs

ATARI = [action.name for action in ale_py.Action.__members__.values()][:18]


def test_all_atari_actions_are_different() -> None:
    assert len(ATARI) == 18
    movements = [parse(name) for name in ATARI]
    assert None not in movements
    assert len(set(movements)) == 18
    assert len({move.label for move in movements if move}) == 18


def test_each_direction_has_one_pair_and_four_opposite_ones() -> None:
    same = {(ATARI[i], ATARI[j]) for i, j in same_direction_pairs(ATARI)}
    assert len(same) == 8
    assert ("UP", "UPFIRE") in same
    assert not any("NOOP" in pair for pair in same)
    opposite = {frozenset((ATARI[i], ATARI[j])) for i, j in opposite_pairs(ATARI)}
    assert len(opposite) == 4 * 4
    assert frozenset(("UPLEFT", "DOWNRIGHTFIRE")) in opposite
    assert frozenset(("UP", "DOWNLEFT")) not in opposite


def test_order_is_by_movement() -> None:
    names = ["jump", *ATARI]
    assert [names[i] for i in ordered(names)][:8] == [
        "NOOP", "FIRE", "UP", "UPFIRE", "UPRIGHT", "UPRIGHTFIRE", "RIGHT", "RIGHTFIRE",
    ]  # fmt: skip
    assert names[ordered(names)[-1]] == "jump"


@given(st.lists(st.sampled_from([*ATARI, "jump", "turn left"]), unique=True, min_size=1))
def test_order_keeps_every_action(names: list[str]) -> None:
    assert sorted(ordered(names)) == list(range(len(names)))


@pytest.mark.parametrize(("name", "wanted"), [("up_left", "up_left ⬁"), ("noop", "noop N"), ("thrust", "thrust")])
def test_labels_of_other_spellings(name: str, wanted: str) -> None:
    assert label(name) == wanted
