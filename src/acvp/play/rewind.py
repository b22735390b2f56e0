"""The rewind buffer: old states of a session within a number of bytes."""

from __future__ import annotations

from typing import Generic, TypeVar

RECENT = 15
"""Newest items that are all kept: a second of play."""
EVERY = 5
"""Of the older items, one in this many is kept."""

T = TypeVar("T")


class RewindBuffer(Generic[T]):
    """A stack within a number of bytes: recent items one by one, older ones thinned out, the oldest dropped."""

    def __init__(self, max_bytes: int) -> None:
        self._max_bytes = max_bytes
        self._entries: list[tuple[int, T, int]] = []  # number, item and bytes of each
        self._pushed = self.nbytes = 0

    def __len__(self) -> int:
        return len(self._entries)

    def push(self, item: T, nbytes: int) -> None:
        """Keep an item of this many bytes; the newest one stays whatever its size."""
        self._entries.append((self._pushed, item, nbytes))
        self._pushed += 1
        self.nbytes += nbytes
        if len(self._entries) > RECENT and self._entries[-RECENT - 1][0] % EVERY:
            self._drop(-RECENT - 1)
        while self.nbytes > self._max_bytes and len(self._entries) > 1:
            self._drop(0)

    def pop(self) -> T | None:
        """Remove and return the newest item; None if the buffer is empty."""
        return self._drop(-1) if self._entries else None

    def clear(self) -> None:
        """Remove everything."""
        self._entries.clear()
        self.nbytes = 0

    def _drop(self, index: int) -> T:
        _, item, nbytes = self._entries.pop(index)
        self.nbytes -= nbytes
        return item
