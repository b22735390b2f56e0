"""Where to look ahead from: windows of the test episodes, drawn once by seed, without replacement, evenly spread.

True frames and actions of a batch of windows, decoded a few steps at a time.

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


class Place(NamedTuple):
    """A window of a store."""

    episode: int
    """Position of the episode in the store."""
    start: int
    """Its first frame."""


@dataclass(frozen=True, kw_only=True)
class Trained:
    """What a run says about its training data."""

    digest: str
    """Of the store."""
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
    own = [each for each in trained if each is not None and each.digest == store.digest]
    if not own:
        return _other_store(store, trained_on)
    held_out = set(range(len(store))).intersection(*(each.held_out for each in own))
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
    run = next((each for each in (own, *own.parents[:2]) if (each / "checkpoints").is_dir()), None)
    if run is None:
        return None
    config = RunFolder(run).read_config()
    if not {"store", "held_out"} <= config.keys():
        raise UserError(f"{run}: config.json does not say which episodes were held out; train it anew")
    return Trained(digest=config["store"], held_out=tuple(config["held_out"]))


def choose_places(store: EpisodeStore, window: Window, count: int, *, seed: int, option: str) -> list[Place]:
    """Return `count` places in the order of the store, or all there are; `option` is what an error should name."""
    legal = np.array([max(0, entry.frames - window.length + 1) for entry in store.entries], np.int64)
    if not legal.any():
        longest = max((entry.frames for entry in store.entries), default=0)
        raise UserError(
            f"--{option} {window.horizon}: the longest of {len(store)} test episodes in {store.path} has {longest} "
            f"frames, and {window.context} are given first; choose at most {max(0, longest - window.context)}, or "
            "record longer episodes"
        )
    places = []
    for position, share in enumerate(_shares(legal, count, seed)):
        drawn = generator("places", seed, store.entries[position].number)
        starts = drawn.choice(int(legal[position]), int(share), replace=False)
        places += [Place(position, int(start)) for start in sorted(starts)]
    return places


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


def evenly(count: int, wanted: int) -> list[int]:
    """Return `wanted` of the numbers 0 to count - 1, evenly spaced; all where there are fewer."""
    wanted = min(count, wanted)
    return [i * count // wanted for i in range(wanted)]


def batches(places: Sequence[Place], size: int) -> Iterator[Sequence[Place]]:
    """Yield places `size` at a time."""
    for first in range(0, len(places), size):
        yield places[first : first + size]


BLOCK = 16
"""Steps decoded at once: memory does not grow with the horizon."""

Pixels = NDArray[np.uint8]


class TrueWindows:
    """The truth of windows side by side: frames[t], actions[t] → frames[t + 1], t from the window's first frame."""

    def __init__(self, store: EpisodeStore, places: Sequence[Place], view: View) -> None:
        self.store, self.places, self.view = store, places, view

    def frames(self, first: int, stop: int) -> Pixels:
        """(B, n, h, w, C): frames `first` to `stop` - 1 of each window."""
        return np.stack([self._of(place, first, stop) for place in self.places])

    def steps(self, first: int, count: int) -> Iterator[Pixels]:
        """Yield `count` times the frames (B, h, w, C) of one moment, beginning with `first`."""
        for start in range(first, first + count, BLOCK):
            block = self.frames(start, min(start + BLOCK, first + count))
            yield from block.swapaxes(0, 1)

    def actions(self, first: int, stop: int) -> NDArray[np.int64]:
        """(B, n): actions `first` to `stop` - 1 of each window."""
        rows = [self.store[e].actions[start + first : start + stop] for e, start in self.places]
        return np.stack(rows).astype(np.int64)

    def _of(self, place: Place, first: int, stop: int) -> Pixels:
        episode = self.store[place.episode]
        stored = episode.stored(place.start + first, place.start + stop)
        return self.view.apply(stored, episode.palette)
