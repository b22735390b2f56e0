"""The rewind buffer: recent items one by one, older ones thinned out, all within a number of bytes."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Generic, TypeVar

RECENT = 15
"""Newest items that are all kept: a second of play."""
EVERY = 5
"""Of the older items, one in this many is kept."""

T = TypeVar("T")


@dataclass(frozen=True)
class _Entry(Generic[T]):
    number: int
    item: T
    nbytes: int


class RewindBuffer(Generic[T]):
    """A stack that drops its oldest items when it exceeds its bytes."""

    def __init__(self, max_bytes: int) -> None:
        self._max_bytes = max_bytes
        self._entries: list[_Entry[T]] = []
        self._pushed = 0
        self.nbytes = 0

    def __len__(self) -> int:
        return len(self._entries)

    def push(self, item: T, nbytes: int) -> None:
        """Keep an item of this many bytes; the newest one stays whatever its size."""
        self._entries.append(_Entry(self._pushed, item, nbytes))
        self._pushed += 1
        self.nbytes += nbytes
        if len(self._entries) > RECENT and self._entries[-RECENT - 1].number % EVERY:
            self._drop(-RECENT - 1)
        while self.nbytes > self._max_bytes and len(self._entries) > 1:
            self._drop(0)

    def pop(self) -> T | None:
        """Remove and return the newest item; None if the buffer is empty."""
        return self._drop(-1).item if self._entries else None

    def clear(self) -> None:
        """Remove everything."""
        self._entries.clear()
        self.nbytes = 0

    def _drop(self, index: int) -> _Entry[T]:
        dropped = self._entries.pop(index)
        self.nbytes -= dropped.nbytes
        return dropped
