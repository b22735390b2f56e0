"""Moments to rewind to: the newest one by one, older ones thinned out, all within a number of bytes."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Generic, TypeVar

RECENT = 15
"""Moments that are all kept: a second of play."""
EVERY = 5
"""Of the older ones, one in so many is kept."""

M = TypeVar("M")


@dataclass(frozen=True)
class _Kept(Generic[M]):
    number: int
    moment: M
    size: int


class Timeline(Generic[M]):
    """A stack of moments that forgets its oldest."""

    def __init__(self, budget: int) -> None:
        self._budget = budget
        self._kept: list[_Kept[M]] = []
        self._count = 0
        self.size = 0

    def __len__(self) -> int:
        return len(self._kept)

    def push(self, moment: M, size: int) -> None:
        """Keep a moment of so many bytes; the newest one stays whatever its size."""
        self._kept.append(_Kept(self._count, moment, size))
        self._count += 1
        self.size += size
        if len(self._kept) > RECENT and self._kept[-RECENT - 1].number % EVERY:
            self._drop(-RECENT - 1)
        while self.size > self._budget and len(self._kept) > 1:
            self._drop(0)

    def pop(self) -> M | None:
        """Return the newest moment and forget it; None where there is none."""
        return self._drop(-1).moment if self._kept else None

    def clear(self) -> None:
        """Forget everything."""
        self._kept.clear()
        self.size = 0

    def _drop(self, index: int) -> _Kept[M]:
        dropped = self._kept.pop(index)
        self.size -= dropped.size
        return dropped
