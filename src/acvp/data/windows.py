"""Windows: short runs of consecutive frames, drawn over all legal places, never across an episode's end.

The batch of step s is a pure function of (seed, s, rank): a resumed or distributed run needs no loader state.

Shapes: B windows, L = context + horizon frames, H height, W width.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from itertools import count
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from acvp.data.episode import Episode
from acvp.data.palette import Palette, Translation, translation
from acvp.data.store import EpisodeStore
from acvp.data.views import View
from acvp.errors import UserError
from acvp.seeding import generator


@dataclass(frozen=True)
class Window:
    """How many frames are given and how many are to be predicted."""

    context: int
    horizon: int

    def __post_init__(self) -> None:
        if self.context < 1 or self.horizon < 0:
            raise UserError(f"a window of {self.context} given and {self.horizon} predicted frames is not possible")

    @property
    def length(self) -> int:
        return self.context + self.horizon


class WindowBatch(NamedTuple):
    """Windows side by side: frames[:, t], actions[:, t] → frames[:, t + 1]."""

    frames: NDArray[np.uint8]
    """(B, L, H, W) indices into `palette`, or (B, L, H, W, channels) pixels where that is None."""
    actions: NDArray[np.int64]
    """(B, L - 1)"""
    rewards: NDArray[np.float32]
    """(B, L - 1)"""
    ends: NDArray[np.bool_]
    """(B, L - 1): the game ended by its own rules with this action."""
    palette: Palette | None


class Emphasis(NamedTuple):
    """Windows to draw more often: a share of all is drawn by their weights."""

    share: float
    cumulative: NDArray[np.float64]
    """Weights of the windows up to each, (len(windows),)."""


class Windows:
    """All windows of one shape in a store; number k stands for one place, k from 0 to len(windows) - 1."""

    def __init__(self, store: EpisodeStore, window: Window, view: View | None = None) -> None:
        """Without a view frames come as they are stored: indices where the store has a palette, which is fastest."""
        self.store, self.window, self.view = store, window, view
        legal = [max(0, entry.frames - window.length + 1) for entry in store.entries]
        self.left_out = legal.count(0)
        """Episodes too short for the window."""
        self._ends = np.cumsum(legal, dtype=np.int64)
        if not len(self):
            longest = max((entry.frames for entry in store.entries), default=0)
            raise UserError(
                f"{store.path}: none of its {len(store)} episodes has the {window.length} frames of a window "
                f"({window.context} given, {window.horizon} predicted); the longest has {longest}"
            )
        self._tables: dict[int, Translation | None] = {}

    def __len__(self) -> int:
        return int(self._ends[-1]) if len(self._ends) else 0

    def locate(self, number: int) -> tuple[int, int]:
        """(position of the episode in the store, first frame) of a window."""
        if not 0 <= number < len(self):
            raise IndexError(f"window {number} of {len(self)}")
        position = int(np.searchsorted(self._ends, number, side="right"))
        before = int(self._ends[position - 1]) if position else 0
        return position, number - before

    def eventful(self) -> NDArray[np.float64]:
        """Weights of windows by what comes in their predicted part: a reward above 0, one below 0, the end of the game.

        Each of the three, where there is any, has the same weight in all, so that ends, of which there are few, are
        not lost among rewards. Windows with none of them weigh nothing.
        """
        found: tuple[list[int], ...] = ([], [], [])
        first = 0
        for position, entry in enumerate(self.store.entries):
            last = int(self._ends[position]) - first - 1  # start of the last window of the episode
            episode = self.store[position]
            ends = [entry.frames - 2] if episode.header.terminated else []
            kinds = (np.flatnonzero(episode.rewards > 0).tolist(), np.flatnonzero(episode.rewards < 0).tolist(), ends)
            for numbers, events in zip(found, kinds, strict=True):
                numbers += [first + start for start in self._before(events, last)]
            first = int(self._ends[position])
        weights = np.zeros(len(self))
        for numbers in found:
            weights[numbers] += 1 / max(len(numbers), 1)
        return weights

    def _before(self, events: Sequence[int], last: int) -> list[int]:
        """First frames, at most ``last``, of the windows in whose predicted part one of the events comes."""
        length, context = self.window.length, self.window.context
        starts = (range(max(0, event - length + 2), min(last, event - context + 1) + 1) for event in events)
        return sorted({start for each in starts for start in each})

    def emphasis(self, share: float, weights: NDArray[np.float64]) -> tuple[Emphasis, ...]:
        """An emphasis on windows by their weights (len(windows),), or none where the share or all weights are zero."""
        if len(weights) != len(self):
            raise ValueError(f"{len(weights)} weights for {len(self)} windows")
        cumulative = np.cumsum(weights)
        return (Emphasis(share, cumulative),) if share and cumulative[-1] else ()

    def draw(
        self,
        size: int,
        *,
        seed: int,
        step: int,
        rank: int = 0,
        world_size: int = 1,
        emphases: Sequence[Emphasis] = (),
    ) -> NDArray[np.int64]:
        """The window numbers of this rank's share of step's batch: W ranks of B see what one rank of W·B would.

        Each emphasis has its share, and what is left is drawn uniformly.
        """
        if not 0 <= rank < world_size:
            raise ValueError(f"rank {rank} of {world_size}: ranks count from 0 to world_size - 1")
        numbers = generator("windows", seed, step).integers(len(self), size=size * world_size)
        rng, taken = generator("emphases", seed, step), 0.0
        coins, places = rng.random((2, len(numbers)))
        for share, cumulative in emphases:
            chosen = (taken <= coins) & (coins < taken + share)
            numbers[chosen] = np.searchsorted(cumulative, places[chosen] * cumulative[-1], side="right")
            taken += share
        return numbers[rank * size : (rank + 1) * size]

    @property
    def stored_shape(self) -> tuple[int, ...]:
        """Of a frame: (H, W) indices in the store's palette, or (H, W, C)."""
        shape = self.store.info.frame_shape
        return shape[:2] if self.store.palette is not None else shape

    def batch(self, numbers: NDArray[np.int64]) -> WindowBatch:
        """Decode windows into one batch."""
        length = self.window.length
        frames = np.empty((len(numbers), length, *self.stored_shape), np.uint8)
        actions = np.empty((len(numbers), length - 1), np.int64)
        rewards = np.empty((len(numbers), length - 1), np.float32)
        ends = np.zeros((len(numbers), length - 1), np.bool_)
        for row, number in enumerate(numbers.tolist()):
            position, start = self.locate(number)
            episode, stop = self.store[position], start + length
            self._decode(position, episode, start, frames[row])
            actions[row] = episode.actions[start : stop - 1]
            rewards[row] = episode.rewards[start : stop - 1]
            if length > 1:
                ends[row, -1] = episode.header.terminated and stop == len(episode)
        palette = self.store.palette
        if self.view is None:
            return WindowBatch(frames, actions, rewards, ends, palette)
        return WindowBatch(self.view.apply(frames, palette), actions, rewards, ends, None)

    def frames(self, position: int, start: int, stop: int) -> NDArray[np.uint8]:
        """Frames of an episode as they are stored: (T, H, W) indices in the store's palette, or (T, H, W, C)."""
        out = np.empty((stop - start, *self.stored_shape), np.uint8)
        self._decode(position, self.store[position], start, out)
        return out

    def _decode(self, position: int, episode: Episode, start: int, out: NDArray[np.uint8]) -> None:
        """The frames in the store's palette, or as RGB where the store has none."""
        palette, stop = self.store.palette, start + len(out)
        if palette is None:
            out[:] = episode.frames(start, stop)
            return
        episode.stored(start, stop, out)
        if position not in self._tables and episode.palette is not None:
            self._tables[position] = translation(episode.palette, palette)
        table = self._tables[position]
        if table is not None and out.max() >= table.first_change:
            out[:] = np.frombuffer(out.tobytes().translate(table.table), np.uint8).reshape(out.shape)


def stream(
    windows: Windows,
    size: int,
    *,
    seed: int,
    first_step: int = 0,
    rank: int = 0,
    world_size: int = 1,
    threads: int = 1,
    ahead: int = 2,
    emphases: Sequence[Emphasis] = (),
) -> Iterator[WindowBatch]:
    """Batches of steps first_step, first_step + 1, … for ever, decoded `ahead` of need by threads.

    Threads, not processes: decoding is C code that lets others run, and a batch need not be copied between processes.
    """

    def make(step: int) -> WindowBatch:
        drawn = windows.draw(size, seed=seed, step=step, rank=rank, world_size=world_size, emphases=emphases)
        return windows.batch(drawn)

    steps = count(first_step)
    with ThreadPoolExecutor(threads, thread_name_prefix="windows") as pool:
        waiting: list[Future[WindowBatch]] = [pool.submit(make, next(steps)) for _ in range(ahead)]
        while True:
            batch = waiting.pop(0).result()
            waiting.append(pool.submit(make, next(steps)))
            yield batch
