"""What rewinding keeps."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from acvp.play.rewind import EVERY, RECENT, Timeline


def everything(timeline: Timeline[int]) -> list[int]:
    """Return all moments, newest first."""
    found = []
    while (moment := timeline.pop()) is not None:
        found.append(moment)
    return found


@pytest.mark.parametrize("count", [1, RECENT, RECENT + 1, 96, 97, 98, 99, 100])
def test_the_newest_are_all_kept_and_older_ones_thinned(count: int) -> None:
    timeline: Timeline[int] = Timeline(10**9)
    for number in range(count):
        timeline.push(number, 1)
    numbers = range(count - 1, -1, -1)
    assert everything(timeline) == [*numbers[:RECENT], *(n for n in numbers[RECENT:] if n % EVERY == 0)]


@given(st.lists(st.integers(1, 50), max_size=100), st.integers(1, 200))
def test_it_stays_within_its_bytes_and_keeps_the_newest(sizes: list[int], budget: int) -> None:
    timeline: Timeline[int] = Timeline(budget)
    for number, size in enumerate(sizes):
        timeline.push(number, size)
        assert timeline.size <= max(budget, size)
    kept = everything(timeline)
    assert kept[:1] == list(range(len(sizes)))[-1:]
    assert kept == sorted(kept, reverse=True)
    assert timeline.size == 0


def test_after_going_back_time_goes_on_from_there() -> None:
    timeline: Timeline[str] = Timeline(10**9)
    for name in ("a", "b", "c"):
        timeline.push(name, 1)
    timeline.pop()
    timeline.push("d", 1)
    assert [timeline.pop() for _ in range(4)] == ["d", "b", "a", None]
