"""Train and test parts of a store that share no play: whole episodes, and told apart by what they contain.

The emulator is close to deterministic, so two episodes of different number and seed can be the same play; such episodes
always land on the same side. Episodes are the same play when their first 32 frames and 31 actions are, or when one of
them is shorter and the other begins with it.
"""

from __future__ import annotations

import hashlib

from acvp.data.episode import OPENING_FRAMES
from acvp.data.store import EpisodeStore
from acvp.errors import UserError


def split(store: EpisodeStore, *, test_fraction: float = 0.1, seed: int = 0) -> tuple[EpisodeStore, EpisodeStore]:
    """(train, test); test gets whole plays, drawn by their hash, until it has `test_fraction` of the frames."""
    train, test = split_positions(store, test_fraction=test_fraction, seed=seed)
    return store.subset(train), store.subset(test)


def split_positions(store: EpisodeStore, *, test_fraction: float, seed: int = 0) -> tuple[list[int], list[int]]:
    """Positions of the train and of the test episodes."""
    if not 0.0 < test_fraction < 1.0:
        raise UserError(f"test fraction {test_fraction}: it must lie between 0 and 1")
    plays: dict[str, list[int]] = {}
    for position, play in enumerate(content_groups(store)[0]):
        plays.setdefault(play, []).append(position)
    if len(plays) < 2:
        raise UserError(
            f"{store.path}: {len(store)} episodes hold {len(plays)} different plays, a train and a test part need two; "
            "record more frames, or with more chance (--epsilon, another policy)"
        )
    test = _draw(store, plays, test_fraction, seed)
    return sorted(set(range(len(store))) - set(test)), sorted(test)


def _draw(store: EpisodeStore, plays: dict[str, list[int]], test_fraction: float, seed: int) -> list[int]:
    """Plays in the order of their hash, each that brings test nearer to its share; the shortest if none does."""
    frames = {play: sum(store.entries[i].frames for i in positions) for play, positions in plays.items()}
    drawn: list[str] = []
    left = test_fraction * store.frames
    for play in sorted(plays, key=lambda play: hashlib.sha256(f"{seed}:{play}".encode()).hexdigest()):
        if abs(left - frames[play]) < abs(left) and len(drawn) < len(plays) - 1:
            drawn.append(play)
            left -= frames[play]
    return [i for play in drawn or [min(frames, key=lambda play: frames[play])] for i in plays[play]]


def content_groups(*stores: EpisodeStore) -> list[list[str]]:
    """For each store a name of the play that each episode is of; equal names are the same play.

    An episode shorter than an opening is the same play as any episode that begins with it.
    """
    names = [[entry.opening for entry in store.entries] for store in stores]
    short = {entry.frames for store in stores for entry in store.entries if entry.frames < OPENING_FRAMES}
    for length in sorted(short, reverse=True):
        whole = {entry.content for store in stores for entry in store.entries if entry.frames == length}
        same: dict[str, str] = {}
        for i, store in enumerate(stores):
            for k, entry in enumerate(store.entries):
                if entry.frames >= length and (beginning := store[k].content_hash(length)) in whole:
                    same[names[i][k]] = same.setdefault(beginning, names[i][k])
        names = [[same.get(name, name) for name in each] for each in names]
    return names


def find_leaks(train: EpisodeStore, test: EpisodeStore) -> list[tuple[int, int]]:
    """Pairs (train episode, test episode) that are the same play."""
    trained, tested = content_groups(train, test)
    number = {play: entry.number for play, entry in zip(trained, train.entries, strict=True)}
    pairs = zip(tested, test.entries, strict=True)
    return [(number[play], entry.number) for play, entry in pairs if play in number]


def refuse_leaks(train: EpisodeStore, test: EpisodeStore) -> None:
    """Raise where a test episode is also trained on."""
    leaks = find_leaks(train, test)
    if leaks:
        pairs = ", ".join(f"{a} = {b}" for a, b in leaks[:5])
        raise UserError(
            f"{len(leaks)} of {len(test)} test episodes in {test.path} are also in {train.path} "
            f"(train = test: {pairs}); "
            "split one store, or record the test store with another seed"
        )
