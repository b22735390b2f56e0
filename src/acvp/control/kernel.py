"""How often a frame was visited (equation 7), and where the controlled object was: cells of a grid over the frame.

Shapes: A candidates, d remembered frames, h height, w width, N = h·w pixels.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import isqrt

import numpy as np
from numpy.typing import NDArray

from acvp.errors import UserError

Pixels = NDArray[np.uint8]
Floats = NDArray[np.float64]


@dataclass(frozen=True, kw_only=True)
class KernelConfig:
    """Settings of the kernel; the defaults are the paper's for most games."""

    memory: int = 20
    """Number of remembered frames d."""
    delta: int = 50
    """Threshold δ: squared differences of pixel values (0..255) up to this count as none."""
    sigma: float = 100.0
    """Bandwidth σ, in differing pixels."""

    def __post_init__(self) -> None:
        if self.memory < 1:
            raise UserError(f"--memory {self.memory}: at least 1 frame is remembered")
        if type(self.delta) is not int or self.delta < 0:
            raise UserError(f"--delta {self.delta}: a whole number, 0 or more")
        if not self.sigma > 0:
            raise UserError(f"--sigma {self.sigma}: above 0")


PAPER_KERNELS = {"ALE/Qbert-v5": KernelConfig(memory=200), "ALE/Freeway-v5": KernelConfig(delta=0)}
"""The paper's settings where they are not the defaults (§4.2)."""


def paper_kernel(env_id: str) -> KernelConfig:
    """Return the paper's settings for a game."""
    return PAPER_KERNELS.get(env_id, KernelConfig())


def similarity(x: Pixels, y: Pixels, config: KernelConfig) -> Floats:
    """Return k(x, y) of each candidate (A, N) and each remembered frame (d, N), (A, d).

    Of whole pixel values min(max((x−y)² − δ, 0), 1) is 1 where (x−y)² exceeds δ and 0 elsewhere, so the sum is a count.
    One candidate at a time against the whole memory: their differences stay in the processor's cache.
    """
    near = isqrt(config.delta)  # the largest |x−y| whose square does not exceed δ
    count = np.uint16 if x.shape[1] < 2**16 else np.int64
    different = np.stack(
        [(np.maximum(frame, y) - np.minimum(frame, y) > near).sum(1, dtype=count) for frame in x]
    )  # (A, d)
    similar: Floats = np.exp(different / -config.sigma)  # equation 7, right
    return similar


class TrajectoryMemory:
    """The last d frames of a trajectory, across the ends of episodes (algorithm 1)."""

    def __init__(self, config: KernelConfig) -> None:
        self.config = config
        self._frames: Pixels | None = None  # (d, N), a ring
        self._added = 0

    def __len__(self) -> int:
        return min(self._added, self.config.memory)

    def add(self, frame: Pixels) -> None:
        """Remember a frame (h, w), and forget the oldest one if there are d already."""
        if self._frames is None:
            self._frames = np.empty((self.config.memory, frame.size), np.uint8)
        self._frames[self._added % self.config.memory] = frame.reshape(-1)
        self._added += 1

    @property
    def frames(self) -> Pixels:
        """The remembered frames, oldest first, (d', N) with d' = len(self)."""
        if self._frames is None:
            return np.empty((0, 0), np.uint8)
        return np.roll(self._frames[: len(self)], -(self._added % self.config.memory), axis=0)

    def visit_frequency(self, candidates: Pixels) -> Floats:
        """Return n_D (A,) of candidate frames (A, h, w): the sum of their similarities to all remembered frames."""
        if self._frames is None:
            return np.zeros(len(candidates))
        flat = candidates.reshape(len(candidates), -1)
        return total(similarity(flat, self._frames[: len(self)], self.config))  # equation 7, left


def total(values: Floats) -> Floats:
    """Return the sums (A,) of rows (A, n): in order of size, so that rows of the same values have the same sum."""
    summed: Floats = np.sort(values, 1).sum(1)
    return summed


def least_visited(visits: Floats, rng: np.random.Generator) -> int:
    """Return the number of the smallest of (A,) values; one of several that are equal is drawn at random."""
    return int(rng.choice(np.flatnonzero(visits == visits.min())))


Position = Sequence[float] | None
"""(row, column) in pixels; None while it is not known."""
CELLS = 40
"""Default number of cells along the frame's longer side."""


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
    """Return the number of distinct cells visited after each agent step, (steps,)."""
    seen: set[tuple[int, int]] = set()
    counts = []
    for place in _cells(positions, cell):
        if place is not None:
            seen.add(place)
        counts.append(len(seen))
    return np.array(counts, np.int64)


def _cells(positions: Sequence[Position], cell: int) -> list[tuple[int, int] | None]:
    return [None if place is None else (int(place[0] // cell), int(place[1] // cell)) for place in positions]
