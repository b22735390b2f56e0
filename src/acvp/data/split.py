"""Train and test parts of a store that share no play: whole episodes, and told apart by what they contain.

The emulator is close to deterministic, so two episodes of different number and seed can be the same play; such episodes
always land on the same side. Episodes are the same play when their first 32 frames and 31 actions are.
"""

from __future__ import annotations

import hashlib

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
    for position, entry in enumerate(store.entries):
        plays.setdefault(entry.opening, []).append(position)
    if len(plays) < 2:
        raise UserError(
            f"{store.path}: {len(store)} episodes hold {len(plays)} different plays, a train and a test part need two; "
            "record more frames, or with more chance (--epsilon, another policy)"
        )
    drawn = sorted(plays, key=lambda opening: hashlib.sha256(f"{seed}:{opening}".encode()).hexdigest())
    test: list[int] = []
    for opening in drawn[:-1]:  # one play is always left to train on
        if test and sum(store.entries[i].frames for i in test) >= test_fraction * store.frames:
            break
        test.extend(plays[opening])
    return sorted(set(range(len(store))) - set(test)), sorted(test)


def find_leaks(train: EpisodeStore, test: EpisodeStore) -> list[tuple[int, int]]:
    """Pairs (train episode, test episode) that are the same play."""
    trained = {entry.opening: entry.number for entry in train.entries}
    return [(trained[entry.opening], entry.number) for entry in test.entries if entry.opening in trained]


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
