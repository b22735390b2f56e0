"""Windows of the test episodes: which episodes no run was trained on, where windows start, and their true frames.

Windows are drawn once by seed, without replacement, evenly spread over the episodes. Their frames are decoded a few
steps at a time.

Shapes: B windows, n frames asked for, h height, w width and C channels of the view.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from acvp.data.split import refuse_leaks
from acvp.data.store import EpisodeStore
from acvp.data.views import View
from acvp.data.windows import Window
from acvp.errors import UserError
from acvp.loaded import LoadedModel
from acvp.runs import RunFolder
from acvp.seeding import generator


class WindowStart(NamedTuple):
    """Where a window begins."""

    episode: int
    """Position of the episode in the store."""
    frame: int
    """Number of its first frame."""


@dataclass(frozen=True, kw_only=True)
class Trained:
    """The training data of a run."""

    digest: str
    """Of the dataset."""
    held_out: tuple[int, ...]
    """Positions of the episodes it was not trained on."""


@dataclass(frozen=True, kw_only=True)
class HeldOutPart:
    """Episodes that no run was trained on."""

    store: EpisodeStore
    how: str
    """How they were chosen, in a sentence."""


def held_out_part(
    store: EpisodeStore, trained: Sequence[Trained | None], trained_on: EpisodeStore | None
) -> HeldOutPart:
    """Return the episodes of a store that every run has held out; all of a store that none was trained on."""
    own = [run for run in trained if run is not None and run.digest == store.digest]
    if not own:
        return _other_store(store, trained_on)
    held_out = set(range(len(store))).intersection(*(run.held_out for run in own))
    if not held_out:
        raise UserError(
            f"{store.path}: the runs were split by different seeds and have no held-out episode in common; "
            "train them with one --seed, or record a test store with another seed and pass it as --data"
        )
    how = f"held out in training by every run: {len(held_out)} of {len(store)} episodes"
    return HeldOutPart(store=store.subset(sorted(held_out)), how=how)


def _other_store(store: EpisodeStore, trained_on: EpisodeStore | None) -> HeldOutPart:
    if trained_on is None:
        how = "not compared with the training store: name it with --trained-on"
    else:
        refuse_leaks(trained_on, store)
        how = f"none of them is in the training store {trained_on.path}"
    return HeldOutPart(store=store, how=f"all {len(store)} episodes of a store that no run was trained on ({how})")


def refuse_unknown_split(model: LoadedModel, trained: Trained | None, store: EpisodeStore) -> None:
    """Refuse a bare predictor on the store it was trained on: nothing says which episodes it has not seen."""
    about = model.predictor.about
    if trained is None and about is not None and store.digest[:16] in about.data:
        raise UserError(
            f"{model.name} was trained on {store.path} and does not say which episodes were held out: name its run's "
            "folder, or pass another store as --data"
        )


def training_of(path: Path) -> Trained | None:
    """Return what the run that a folder is, or is part of, says about its training data; None for a bare predictor."""
    own = path.resolve()
    run = next((folder for folder in (own, *own.parents[:2]) if (folder / "checkpoints").is_dir()), None)
    if run is None:
        return None
    config = RunFolder(run).read_config()
    if not {"store", "held_out"} <= config.keys():
        raise UserError(f"{run}: config.json does not say which episodes were held out; train it again")
    return Trained(digest=config["store"], held_out=tuple(config["held_out"]))


def choose_windows(store: EpisodeStore, window: Window, count: int, *, seed: int, option: str) -> list[WindowStart]:
    """Return the starts of `count` windows, or of all there are, by episode; errors name the `option`."""
    legal = np.array([max(0, entry.frames - window.length + 1) for entry in store.entries], np.int64)
    if not legal.any():
        longest = max((entry.frames for entry in store.entries), default=0)
        raise UserError(
            f"--{option} {window.horizon}: the longest of {len(store)} test episodes in {store.path} has {longest} "
            f"frames, and {window.context} are given first; choose at most {max(0, longest - window.context)}, or "
            "record longer episodes"
        )
    starts = []
    for position, share in enumerate(_shares(legal, count, seed)):
        drawn = generator("places", seed, store.entries[position].number)
        frames = drawn.choice(int(legal[position]), int(share), replace=False)
        starts += [WindowStart(position, int(frame)) for frame in sorted(frames)]
    return starts


def _shares(legal: np.ndarray[tuple[int], np.dtype[np.int64]], count: int, seed: int) -> list[int]:
    """Deal `count` windows to episodes in turns, the first turn in random order; no episode gets more than it has."""
    order = generator("shares", seed).permutation(len(legal))
    shares = [0] * len(legal)
    left = min(count, int(legal.sum()))
    while left:
        for position in order.tolist():
            if left and shares[position] < legal[position]:
                shares[position] += 1
                left -= 1
    return shares


def evenly(count: int, size: int) -> list[int]:
    """Return `size` of the numbers 0 to count - 1, evenly spaced, or all of them."""
    size = min(count, size)
    return [i * count // size for i in range(size)]


def batches(starts: Sequence[WindowStart], size: int) -> Iterator[Sequence[WindowStart]]:
    """Yield window starts, `size` at a time."""
    for first in range(0, len(starts), size):
        yield starts[first : first + size]


BLOCK = 16
"""Steps decoded at once: memory does not grow with the horizon."""

Pixels = NDArray[np.uint8]


class TrueWindows:
    """True frames and actions of windows: frames[t], actions[t] → frames[t + 1], t counted from a window's start."""

    def __init__(self, store: EpisodeStore, starts: Sequence[WindowStart], view: View) -> None:
        self.store, self.starts, self.view = store, starts, view

    def frames(self, first: int, stop: int) -> Pixels:
        """(B, n, h, w, C): frames `first` to `stop` - 1 of each window."""
        return np.stack([self._of(start, first, stop) for start in self.starts])

    def steps(self, first: int, count: int) -> Iterator[Pixels]:
        """Yield the frames (B, h, w, C) of `count` steps, one step at a time, from `first` on."""
        for start in range(first, first + count, BLOCK):
            block = self.frames(start, min(start + BLOCK, first + count))
            yield from block.swapaxes(0, 1)

    def actions(self, first: int, stop: int) -> NDArray[np.int64]:
        """(B, n): actions `first` to `stop` - 1 of each window."""
        rows = [self.store[e].actions[frame + first : frame + stop] for e, frame in self.starts]
        return np.stack(rows).astype(np.int64)

    def _of(self, start: WindowStart, first: int, stop: int) -> Pixels:
        episode = self.store[start.episode]
        stored = episode.stored(start.frame + first, start.frame + stop)
        return self.view.apply(stored, episode.palette)
