"""What the rewind buffer keeps."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from acvp.play.history import EVERY, RECENT, History, RewindBuffer


def pop_all(buffer: RewindBuffer[int]) -> list[int]:
    """Return all items, newest first."""
    items = []
    while (item := buffer.pop()) is not None:
        items.append(item)
    return items


@pytest.mark.parametrize("count", [1, RECENT, RECENT + 1, 96, 97, 98, 99, 100])
def test_the_newest_are_all_kept_and_older_ones_thinned(count: int) -> None:
    buffer: RewindBuffer[int] = RewindBuffer(10**9)
    for number in range(count):
        buffer.push(number, 1)
    numbers = range(count - 1, -1, -1)
    assert pop_all(buffer) == [*numbers[:RECENT], *(n for n in numbers[RECENT:] if n % EVERY == 0)]


@given(st.lists(st.integers(1, 50), max_size=100), st.integers(1, 200))
def test_it_stays_within_its_bytes_and_keeps_the_newest(sizes: list[int], budget: int) -> None:
    buffer: RewindBuffer[int] = RewindBuffer(budget)
    for number, size in enumerate(sizes):
        buffer.push(number, size)
        assert buffer.nbytes <= max(budget, size)
    kept = pop_all(buffer)
    assert kept[:1] == list(range(len(sizes)))[-1:]
    assert kept == sorted(kept, reverse=True)
    assert buffer.nbytes == 0


def test_after_a_rewind_new_items_follow_the_last_one_kept() -> None:
    buffer: RewindBuffer[str] = RewindBuffer(10**9)
    for name in ("a", "b", "c"):
        buffer.push(name, 1)
    buffer.pop()
    buffer.push("d", 1)
    assert [buffer.pop() for _ in range(4)] == ["d", "b", "a", None]


def history(steps: int) -> History[int]:
    """Return a history after some steps; an item is its step, its frame a text."""
    made: History[int] = History(10**9, lambda step: (step, f"frame {step}"))
    for step in range(steps):
        made.push(step, 2)
    return made


def test_one_can_go_back_and_forward_again() -> None:
    kept = history(40)
    before = kept.nbytes
    assert kept.range(40) == (0, 40)
    assert kept.go(40, 2, 12) == 10, "of older steps one in five is kept"
    assert kept.range(10) == (0, 40)
    assert kept.go(10, 2, 33) == 33
    assert kept.go(33, 2, 33) is None, "it is there"
    assert kept.go(33, 2, 99) == 40
    assert (kept.nbytes, kept.range(40)) == (before, (0, 40))
    assert kept.go(40, 2, -5) == 0
    assert kept.nbytes == 0


def test_another_action_leaves_the_frames_of_the_future_before_it() -> None:
    kept = history(20)
    assert kept.left == {}
    assert kept.go(20, 1, 17) == 17
    assert kept.left == {}, "nothing is left before another action is taken"
    kept.push(17, 1)
    assert kept.left == {18: "frame 18", 19: "frame 19", 20: "frame 20"}
    kept.push(18, 1)
    assert set(kept.left) == {18, 19, 20}
    assert kept.go(19, 1, 99) is None, "what was left cannot be returned to"
    kept.clear()
    assert (kept.left, kept.range(3)) == ({}, (3, 3))
