"""What the rewind buffer keeps."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from acvp.play.rewind import EVERY, RECENT, RewindBuffer


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
