"""Where the controlled object was: visits and distinct cells of a grid over the frame."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

Position = Sequence[float] | None
"""(row, column) in pixels; None while it is not known."""
CELLS = 40
"""Cells along the frame's longer side, where nothing else is asked for."""


def default_cell(frame_shape: tuple[int, int, int]) -> int:
    """Return the side of a cell in pixels."""
    return max(1, max(frame_shape[:2]) // CELLS)


def visits(positions: Sequence[Position], frame_shape: tuple[int, int, int], cell: int) -> NDArray[np.int64]:
    """Return how often each cell of the frame was visited, (rows, columns)."""
    height, width, _ = frame_shape
    grid = np.zeros((-(-height // cell), -(-width // cell)), np.int64)
    for place in _cells(positions, cell):
        if place is not None:
            row, column = (min(max(at, 0), size - 1) for at, size in zip(place, grid.shape, strict=True))
            grid[row, column] += 1
    return grid


def covered(positions: Sequence[Position], cell: int) -> NDArray[np.int64]:
    """Return the number of distinct cells visited after each decision, (decisions,)."""
    seen: set[tuple[int, int]] = set()
    counts = []
    for place in _cells(positions, cell):
        if place is not None:
            seen.add(place)
        counts.append(len(seen))
    return np.array(counts, np.int64)


def _cells(positions: Sequence[Position], cell: int) -> list[tuple[int, int] | None]:
    return [None if place is None else (int(place[0] // cell), int(place[1] // cell)) for place in positions]
