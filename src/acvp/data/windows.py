"""Windows: short runs of consecutive frames of one episode, drawn at random or spread over the episodes.

The batch of step s is a pure function of (seed, s, rank): a resumed or distributed run needs no loader state.

An episode that is shorter than a window is padded: before its start, its first frame is repeated, with action 0 (which
is NOOP in Atari) and no rewards in between. So all of its frames but the first can be predicted. Longer episodes are
not padded. Where actions are continuous, the one in between has the values nearest to 0.

Shapes: B windows, L = context + horizon frames, n frames asked for, H height, W width; h, w, C of a view.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from itertools import count
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from acvp.actions import Actions
from acvp.data.episode import CHUNK_FRAMES, Episode
from acvp.data.frames import Palette, Translation, View, translation
from acvp.data.store import EpisodeStore
from acvp.errors import UserError
from acvp.seeding import generator


@dataclass(frozen=True)
class Window:
    """The shape of a window."""

    context: int
    """Frames that are given."""
    horizon: int
    """Frames that are to be predicted."""

    def __post_init__(self) -> None:
        if self.context < 1 or self.horizon < 0:
            raise UserError(f"a window of {self.context} given and {self.horizon} predicted frames is not possible")

    @property
    def length(self) -> int:
        return self.context + self.horizon


class WindowStart(NamedTuple):
    """Where a window begins."""

    episode: int
    """Position of the episode in the dataset."""
    frame: int
    """Number of its first frame; below 0 where the start of a short episode is padded."""


class WindowBatch(NamedTuple):
    """Windows side by side: frames[:, t], actions[:, t] → frames[:, t + 1]."""

    frames: NDArray[np.uint8]
    """(B, L, H, W) indices into `palette`, or (B, L, H, W, channels) pixels where that is None."""
    actions: Actions
    """int64 (B, L - 1), or float32 (B, L - 1, A)"""
    rewards: NDArray[np.float32]
    """(B, L - 1)"""
    terminated: NDArray[np.bool_]
    """(B, L - 1): the game ended by its own rules with this action."""
    palette: Palette | None
    lost_lives: NDArray[np.bool_]
    """(B, L - 1): a life was lost with this action."""


class Priority(NamedTuple):
    """A sampling priority: a share of all windows is drawn by weights instead of uniformly."""

    share: float
    """Share of the draws, 0 to 1."""
    cumulative: NDArray[np.float64]
    """Cumulative weights of the windows, (len(windows),)."""


class Windows:
    """All windows of one shape in a dataset, numbered from 0 to len(windows) - 1."""

    def __init__(self, store: EpisodeStore, window: Window, view: View | None = None) -> None:
        """Without a view frames come as stored, which is fastest: palette indices if the dataset has a palette."""
        self.store, self.window, self.view = store, window, view
        counts = count_starts(store, window)
        self.left_out = int((counts == 0).sum())
        """Number of episodes that are too short for the window, even padded."""
        self._stops = np.cumsum(counts)
        if not len(self):
            longest = max((entry.frames for entry in store.entries), default=0)
            raise UserError(
                f"{store.path}: no episode has the {window.horizon + 1} frames that a window "
                f"needs at least (1 given, {window.horizon} predicted); the longest has {longest}"
            )
        self._tables: dict[str | None, Translation | None] = {}  # by the palette of an episode

    def __len__(self) -> int:
        return int(self._stops[-1]) if len(self._stops) else 0

    def locate(self, number: int) -> WindowStart:
        """Return where a window begins."""
        if not 0 <= number < len(self):
            raise IndexError(f"window {number} of {len(self)}")
        position = int(np.searchsorted(self._stops, number, side="right"))
        before = int(self._stops[position - 1]) if position else 0
        return WindowStart(position, starts_of(self.store.entries[position].frames, self.window)[number - before])

    def event_weights(self, *, lost_lives: bool = False) -> NDArray[np.float64]:
        """Return weights (len(windows),) by the events to predict: a reward above 0, one below 0, a termination.

        Lost lives are events too, where they are asked for.

        The windows of each kind of event have the same total weight, so that terminations, which are few, are not lost
        among rewards. Windows without events have weight 0.
        """
        windows_by_kind: tuple[list[int], ...] = ([], [], [], [])
        first = 0
        for position, entry in enumerate(self.store.entries):
            starts, episode = starts_of(entry.frames, self.window), self.store[position]
            last_step = [entry.frames - 2] if episode.header.terminated else []
            rewards = np.flatnonzero(episode.rewards > 0).tolist(), np.flatnonzero(episode.rewards < 0).tolist()
            lost = np.flatnonzero(episode.lost_lives).tolist() if lost_lives else []
            for numbers, events in zip(windows_by_kind, (*rewards, last_step, lost), strict=True):
                numbers += [first + start - starts.start for start in self._before(events, starts)]
            first = int(self._stops[position])
        weights = np.zeros(len(self))
        for numbers in windows_by_kind:
            weights[numbers] += 1 / max(len(numbers), 1)
        return weights

    def _before(self, events: Sequence[int], starts: range) -> list[int]:
        """Return those of the starts whose windows have one of the events to predict."""
        length, context = self.window.length, self.window.context
        ranges = (
            range(max(starts.start, event - length + 2), min(starts.stop, event - context + 2)) for event in events
        )
        return sorted({start for starts in ranges for start in starts})

    def share_out(self, weights: NDArray[np.float64], shares: Sequence[float]) -> NDArray[np.float64]:
        """Return weights (len(windows),) scaled so that the windows of each dataset have its share of the total.

        A dataset whose windows all have weight 0 gets nothing.
        """
        sources = np.repeat(np.array(self.store.sources, np.int64), np.diff(self._stops, prepend=0))
        totals = np.bincount(sources, weights, minlength=len(shares))
        factors = np.divide(shares, totals, out=np.zeros(len(shares)), where=totals > 0)
        return np.asarray(weights * factors[sources], np.float64)

    def priority(self, share: float, weights: NDArray[np.float64]) -> tuple[Priority, ...]:
        """Return a priority by weights (len(windows),), or none if the share or all weights are 0."""
        if len(weights) != len(self):
            raise ValueError(f"{len(weights)} weights for {len(self)} windows")
        cumulative = np.cumsum(weights)
        return (Priority(share, cumulative),) if share and cumulative[-1] else ()

    def draw(
        self,
        size: int,
        *,
        seed: int,
        step: int,
        rank: int = 0,
        world_size: int = 1,
        priorities: Sequence[Priority] = (),
    ) -> NDArray[np.int64]:
        """Return the window numbers of this rank's part of a step's batch: W ranks of B draw what one of W·B would.

        Each priority draws its share; the rest is drawn uniformly.
        """
        if not 0 <= rank < world_size:
            raise ValueError(f"rank {rank} of {world_size}: ranks count from 0 to world_size - 1")
        numbers = generator("windows", seed, step).integers(len(self), size=size * world_size)
        rng, taken = generator("emphases", seed, step), 0.0
        coins, quantiles = rng.random((2, len(numbers)))
        for share, cumulative in priorities:
            chosen = (taken <= coins) & (coins < taken + share)
            numbers[chosen] = np.searchsorted(cumulative, quantiles[chosen] * cumulative[-1], side="right")
            taken += share
        return numbers[rank * size : (rank + 1) * size]

    @property
    def stored_shape(self) -> tuple[int, ...]:
        """Shape of a stored frame: (H, W) indices in the dataset's palette, or (H, W, 3) RGB."""
        shape = self.store.info.frame_shape
        return shape[:2] if self.store.palette is not None else shape

    def batch(self, numbers: NDArray[np.int64]) -> WindowBatch:
        """Return windows as one batch."""
        length = self.window.length
        frames = np.empty((len(numbers), length, *self.stored_shape), np.uint8)
        actions = self.store.info.blank_actions(len(numbers), length - 1)
        rewards = np.zeros((len(numbers), length - 1), np.float32)
        terminated, lost = np.zeros((2, len(numbers), length - 1), np.bool_)
        for row, number in enumerate(numbers.tolist()):
            position, start = self.locate(number)
            episode, stop, padding = self.store[position], start + length, max(0, -start)
            self._decode(position, episode, start + padding, frames[row, padding:])
            frames[row, :padding] = frames[row, padding]
            actions[row, padding:] = episode.actions[start + padding : stop - 1]
            rewards[row, padding:] = episode.rewards[start + padding : stop - 1]
            lost[row, padding:] = episode.lost_lives[start + padding : stop - 1]
            if length > 1:
                terminated[row, -1] = episode.header.terminated and stop == len(episode)
        palette = self.store.palette
        if self.view is None:
            return WindowBatch(frames, actions, rewards, terminated, palette, lost)
        return WindowBatch(self.view.apply(frames, palette), actions, rewards, terminated, None, lost)

    def frames(self, position: int, start: int, stop: int) -> NDArray[np.uint8]:
        """Return frames of an episode as stored: (n, H, W) indices in the dataset's palette, or (n, H, W, 3) RGB."""
        out = np.empty((stop - start, *self.stored_shape), np.uint8)
        self._decode(position, self.store[position], start, out)
        return out

    def _decode(self, position: int, episode: Episode, start: int, out: NDArray[np.uint8]) -> None:
        """Decode frames into `out`, in the dataset's palette, or as RGB if it has none."""
        palette, stop = self.store.palette, start + len(out)
        if palette is None:
            out[:] = episode.frames(start, stop)
            return
        episode.stored(start, stop, out)
        own = self.store.entries[position].palette
        if own not in self._tables and episode.palette is not None:
            self._tables[own] = translation(episode.palette, palette)
        table = self._tables[own]
        if table is not None and out.max() >= table.first_change:
            out[:] = np.frombuffer(out.tobytes().translate(table.table), np.uint8).reshape(out.shape)


def starts_of(frames: int, window: Window) -> range:
    """Return the first frames of the windows of an episode; below 0 where it is shorter than the window and padded."""
    return range(0 if frames >= window.length else 1 - window.context, frames - window.length + 1)


def count_starts(store: EpisodeStore, window: Window) -> NDArray[np.int64]:
    """Return how many windows begin in each episode, (episodes,)."""
    return np.array([len(starts_of(entry.frames, window)) for entry in store.entries], np.int64)


def choose_starts(store: EpisodeStore, window: Window, count: int, *, seed: int, option: str) -> list[WindowStart]:
    """Return `count` window starts, or all there are, spread evenly over episodes, in the order of the dataset.

    They are drawn by seed, without replacement; `option` is what an error names.
    """
    counts = count_starts(store, window)
    if not counts.any():
        longest = max((entry.frames for entry in store.entries), default=0)
        raise UserError(
            f"--{option} {window.horizon}: the longest of {len(store)} test episodes in {store.path} has {longest} "
            f"frames, and at least 1 is given first; choose at most {max(0, longest - 1)}, or record longer episodes"
        )
    chosen = []
    for position, share in enumerate(_deal(counts, count, seed)):
        source = store.sources[position]  # of several datasets, each counts its episodes from 0
        rng = generator("places", seed, store.entries[position].number, *([source] if source else []))
        first = starts_of(store.entries[position].frames, window).start
        starts = rng.choice(int(counts[position]), int(share), replace=False)
        chosen += [WindowStart(position, first + int(start)) for start in sorted(starts)]
    return chosen


def _deal(available: NDArray[np.int64], count: int, seed: int) -> list[int]:
    """Deal `count` windows to the episodes in turns, in random order; no episode gets more than it has."""
    order = generator("shares", seed).permutation(len(available))
    shares = [0] * len(available)
    left = min(count, int(available.sum()))
    while left:
        for position in order.tolist():
            if left and shares[position] < available[position]:
                shares[position] += 1
                left -= 1
    return shares


def pad_start(frames: NDArray[np.uint8], count: int) -> NDArray[np.uint8]:
    """Return frames (T, …) with the first repeated `count` times before it."""
    return np.concatenate((np.repeat(frames[:1], count, 0), frames)) if count else frames


class WindowReader:
    """Reads windows side by side, a few steps at a time: frames[t], actions[t] → frames[t + 1]."""

    def __init__(self, store: EpisodeStore, starts: Sequence[WindowStart], view: View) -> None:
        self.store, self.starts, self.view = store, starts, view

    def frames(self, first: int, stop: int) -> NDArray[np.uint8]:
        """Return frames `first` to `stop` - 1 of each window, (B, n, h, w, C)."""
        return np.stack([self._read(start, first, stop) for start in self.starts])

    def steps(self, first: int, count: int) -> Iterator[NDArray[np.uint8]]:
        """Yield the frames (B, h, w, C) of `count` steps, beginning with `first`; memory does not grow with `count`."""
        for start in range(first, first + count, CHUNK_FRAMES):
            block = self.frames(start, min(start + CHUNK_FRAMES, first + count))
            yield from block.swapaxes(0, 1)

    def actions(self, first: int, stop: int) -> Actions:
        """Return actions `first` to `stop` - 1 of each window, (B, n) or (B, n, A)."""
        actions = self.store.info.blank_actions(len(self.starts), stop - first)
        for row, (episode, frame) in zip(actions, self.starts, strict=True):
            padding = min(stop - first, max(0, -frame - first))
            row[padding:] = self.store[episode].actions[frame + first + padding : frame + stop]
        return actions

    def _read(self, start: WindowStart, first: int, stop: int) -> NDArray[np.uint8]:
        episode, begin, end = self.store[start.episode], start.frame + first, start.frame + stop
        pixels = self.view.apply(episode.stored(max(0, begin), max(1, end)), episode.palette)
        return pad_start(pixels, max(0, -begin))[: stop - first]


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
    priorities: Sequence[Priority] = (),
) -> Iterator[WindowBatch]:
    """Yield the batches of steps first_step, first_step + 1, … without end, decoded ahead of need by threads.

    Threads are enough: decoding is C code that releases the interpreter lock, and no batch has to be copied.
    """

    def make(step: int) -> WindowBatch:
        drawn = windows.draw(size, seed=seed, step=step, rank=rank, world_size=world_size, priorities=priorities)
        return windows.batch(drawn)

    steps = count(first_step)
    with ThreadPoolExecutor(threads, thread_name_prefix="windows") as pool:
        waiting: list[Future[WindowBatch]] = [pool.submit(make, next(steps)) for _ in range(ahead)]
        while True:
            batch = waiting.pop(0).result()
            waiting.append(pool.submit(make, next(steps)))
            yield batch
