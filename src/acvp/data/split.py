"""Splits a dataset into train and test parts of whole episodes that share no content.

The emulator is close to deterministic, so episodes of different numbers and seeds can be duplicates; duplicates always
land in the same part. Episodes are duplicates if their first 32 frames and 31 actions agree, or if one of them is
shorter and the other begins with it.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence

from acvp.data.episode import OPENING_FRAMES
from acvp.data.store import EpisodeStore
from acvp.errors import UserError


def split(store: EpisodeStore, *, test_fraction: float = 0.1, seed: int = 0) -> tuple[EpisodeStore, EpisodeStore]:
    """Return (train, test); test gets whole episodes, drawn by their hash, up to `test_fraction` of the frames."""
    train, test = split_positions(store, test_fraction=test_fraction, seed=seed)
    return store.subset(train), store.subset(test)


def split_positions(store: EpisodeStore, *, test_fraction: float, seed: int = 0) -> tuple[list[int], list[int]]:
    """Return the positions of the train and of the test episodes."""
    if not 0.0 < test_fraction < 1.0:
        raise UserError(f"test fraction {test_fraction}: it must lie between 0 and 1")
    groups: dict[str, list[int]] = {}
    for position, group in enumerate(content_groups(store)[0]):
        groups.setdefault(group, []).append(position)
    if len(groups) < 2:
        raise UserError(
            f"{store.path}: a train and a test part need two different episodes, and it has {len(groups)} (of "
            f"{len(store)}, without duplicates); record more frames, or with more chance (--epsilon, another policy)"
        )
    test = _draw(store, groups, test_fraction, seed)
    return sorted(set(range(len(store))) - set(test)), sorted(test)


def _draw(store: EpisodeStore, groups: dict[str, list[int]], test_fraction: float, seed: int) -> list[int]:
    """Return the test episodes: groups, in the order of their hash, that bring test nearer to its share of frames.

    If none does, the group with the fewest frames.
    """
    frames = {group: sum(store.entries[i].frames for i in positions) for group, positions in groups.items()}
    drawn: list[str] = []
    left = test_fraction * store.frames
    for group in sorted(groups, key=lambda group: hashlib.sha256(f"{seed}:{group}".encode()).hexdigest()):
        if abs(left - frames[group]) < abs(left) and len(drawn) < len(groups) - 1:
            drawn.append(group)
            left -= frames[group]
    return [i for group in drawn or [min(frames, key=lambda group: frames[group])] for i in groups[group]]


def content_groups(*stores: EpisodeStore) -> list[list[str]]:
    """Return for each dataset the group of each episode, by a name; duplicates are in the same group.

    An episode of under 32 frames is a duplicate of any episode that begins with it.
    """
    names = [[entry.opening for entry in store.entries] for store in stores]
    short: dict[int, set[str]] = {}
    for entry in (entry for store in stores for entry in store.entries if entry.frames < OPENING_FRAMES):
        short.setdefault(entry.frames, set()).add(entry.content)
    beginnings = _beginnings(stores, short) if short else []
    for length in sorted(short, reverse=True):
        same: dict[str, str] = {}
        for i, k, beginning in (match[1:] for match in beginnings if match[0] == length):
            same[names[i][k]] = same.setdefault(beginning, names[i][k])
        names = [[same.get(name, name) for name in of_store] for of_store in names]
    return names


def _beginnings(stores: Sequence[EpisodeStore], short: dict[int, set[str]]) -> list[tuple[int, int, int, str]]:
    """Return the episodes that begin with a short one: its length, dataset and position of the episode, its hash."""
    matches = []
    for i, store in enumerate(stores):
        for k, entry in enumerate(store.entries):
            lengths = [length for length in short if length <= entry.frames]
            hashes = store[k].prefix_hashes(lengths) if lengths else {}
            matches += [(length, i, k, name) for length, name in hashes.items() if name in short[length]]
    return matches


def find_leaks(train: EpisodeStore, test: EpisodeStore) -> list[tuple[int, int]]:
    """Return the pairs (train episode, test episode) that are duplicates."""
    trained, tested = content_groups(train, test)
    number = {group: entry.number for group, entry in zip(trained, train.entries, strict=True)}
    pairs = zip(tested, test.entries, strict=True)
    return [(number[group], entry.number) for group, entry in pairs if group in number]


def refuse_leaks(
    train: EpisodeStore,
    test: EpisodeStore,
    cure: str = "split one dataset, or record the test dataset with another seed",
) -> None:
    """Raise UserError, which ends with the cure, if a test episode is also in the train part."""
    leaks = find_leaks(train, test)
    if leaks:
        pairs = ", ".join(f"{a} = {b}" for a, b in leaks[:5])
        raise UserError(
            f"{len(leaks)} of {len(test)} test episodes in {test.path} are also in {train.path} "
            f"(train = test: {pairs}); {cure}"
        )
