"""Datasets joined and divided: several read or copied as one, copies of some episodes, and train and test parts.

Palettes are merged; frame sizes and actions must agree. Copies are written like recordings: an episode is whole or
absent, and the same command run again copies the rest.

Train and test parts share no content. The emulator is close to deterministic, so episodes of different numbers and
seeds can be duplicates; duplicates always land in the same part. Episodes are duplicates if their first 32 frames and
31 actions agree, or if one of them is shorter and the other begins with it.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from math import inf, isnan
from pathlib import Path
from statistics import fmean
from typing import NamedTuple

from acvp.data.episode import OPENING_FRAMES, Episode, PolicyShare
from acvp.data.recording import StoreWriter, open_writer
from acvp.data.store import GOAL_NAME, PARTS_NAME, EpisodeStore, Origin, StoreInfo
from acvp.durable import check_space
from acvp.errors import Shard, UserError, parse_shard

Progress = Callable[[int, int], None]
"""Called with (episodes done, all episodes)."""


def join(paths: Sequence[Path]) -> EpisodeStore:
    """Open one dataset, or several as one in the order named; UserError if frame sizes or actions differ."""
    if not paths:
        raise UserError("--data is empty: name at least one dataset")
    stores = [EpisodeStore(path) for path in paths]
    if len(stores) == 1:
        return stores[0]
    _refuse_twice(stores)
    return EpisodeStore(
        " + ".join(map(str, paths)),
        joined_info(stores),
        [entry for store in stores for entry in store.entries],
        origins=[Origin(store.path, store.info, store.digest, len(store)) for store in stores],
        sources=[number for number, store in enumerate(stores) for _ in store.entries],
    )


def joined_info(stores: Sequence[EpisodeStore]) -> StoreInfo:
    """Return the description of several datasets together; UserError if frame sizes or actions differ."""
    first, *others = stores
    for other in others:
        _refuse_different(first, other)
    infos = [replace(store.info, shard="") for store in stores]
    if all(info == infos[0] for info in infos):
        return infos[0]
    settings, seeds = infos[0].settings, {info.seed for info in infos}
    same_game = all((info.env_id, info.settings) == (infos[0].env_id, settings) for info in infos)
    shares = tuple(dict.fromkeys(share for info in infos for share in shares_of(info)))
    versions: dict[str, dict[str, None]] = {}
    for info in infos:
        for library, version in info.versions.items():
            versions.setdefault(library, {})[version] = None
    return replace(
        infos[0],
        env_id=" + ".join(dict.fromkeys(info.env_id for info in infos)),
        settings=settings if same_game else {},
        policy=", ".join(dict.fromkeys(share.policy for share in shares)),
        epsilon=fmean(share.epsilon for share in shares),
        seed=infos[0].seed if len(seeds) == 1 else 0,
        versions={library: " / ".join(named) for library, named in versions.items()},
        mix=shares if len(shares) > 1 else (),
    )


def shares_of(info: StoreInfo) -> tuple[PolicyShare, ...]:
    """Return the policies of a dataset with their ε."""
    return info.mix or (PolicyShare(info.policy, info.epsilon),)


def _refuse_twice(stores: Sequence[EpisodeStore]) -> None:
    folders = [store.path.resolve() for store in stores]
    for number, store in enumerate(stores):
        if folders.index(store.path.resolve()) < number:
            raise UserError(f"{store.path} is named twice; name each dataset once (--shares draws one more often)")


def _refuse_different(first: EpisodeStore, other: EpisodeStore) -> None:
    """Refuse a dataset whose frames or actions are not those of the first one."""
    sizes = ["×".join(map(str, store.info.frame_shape[:2])) for store in (first, other)]
    if sizes[0] != sizes[1]:
        raise UserError(
            f"{first.path} has frames of {sizes[0]}, {other.path} of {sizes[1]}: only datasets of one frame size can "
            "be joined"
        )
    ours, theirs = first.info.action_meanings, other.info.action_meanings
    if ours != theirs:
        raise UserError(
            f"{first.path} has {len(ours)} actions ({_listed(ours)}), {other.path} {len(theirs)} ({_listed(theirs)}): "
            "only datasets with the same actions can be joined"
        )
    if first.info.action_range != other.info.action_range:
        raise UserError(
            f"{first.path} has actions {_ranges(first.info)}, {other.path} {_ranges(other.info)}: only datasets with "
            "the same actions can be joined"
        )


def _ranges(info: StoreInfo) -> str:
    limits = [f"from {low:g} to {high:g}" for low, high in info.action_range]
    return _listed(limits) if limits else "that are numbers"


def _listed(names: Sequence[str]) -> str:
    return ", ".join(names[:8]) + ", …" * (len(names) > 8)


class Copy(NamedTuple):
    """An episode to be copied."""

    store: EpisodeStore
    position: int
    number: int
    """Its number in the new dataset."""


def merge(paths: Sequence[Path], out: Path, progress: Progress = lambda done, total: None) -> EpisodeStore:
    """Copy all episodes of several datasets into a new one.

    Datasets with the same description and no episode number in common, such as shards of a collection, keep their
    numbers. Otherwise episodes are numbered from 0 in the order of the datasets.
    """
    if len(paths) < 2:
        raise UserError(f"merge needs at least two datasets, and {len(paths)} is named")
    stores = [EpisodeStore(path) for path in paths]
    _refuse_twice(stores)
    if any(store.info.shard for store in stores):
        _require_all_shards(stores)
    info = joined_info(stores)
    copies = [Copy(store, i, entry.number) for store in stores for i, entry in enumerate(store.entries)]
    numbers = {copy.number for copy in copies}
    if len(numbers) < len(copies) or any(replace(store.info, shard="") != info for store in stores):
        copies = [copy._replace(number=number) for number, copy in enumerate(copies)]
    return copy_episodes(sorted(copies, key=lambda copy: copy.number), info, out, progress)


def _require_all_shards(stores: Sequence[EpisodeStore]) -> None:
    """Refuse shards of a collection unless they are all that there are, each whole."""
    for store in stores:
        if not store.info.shard:
            raise UserError(f"{store.path} is no shard, but others are: merge the shards first, and then both")
        if (store.path / GOAL_NAME).exists():
            raise UserError(f"{store.path}: shard {store.info.shard} is unfinished; run its acvp collect again")
    shards = [parse_shard(store.info.shard) for store in stores]
    count = shards[0].total
    for store, shard in zip(stores, shards, strict=True):
        if shard.total != count or shards.count(shard) > 1:
            raise UserError(f"{store.path} is shard {shard}, {stores[0].path} is {shards[0]}: name each shard once")
    missing = [str(Shard(number, count)) for number in range(1, count + 1) if Shard(number, count) not in shards]
    if missing:
        raise UserError(f"shard {', '.join(missing[:8])} is missing: name all {count} shards of the collection")
    numbers = sorted(entry.number for store in stores for entry in store.entries)
    gap = next((i for i, number in enumerate(numbers) if i != number), None)
    if gap is not None:
        raise UserError(
            f"{stores[shards.index(Shard(gap % count + 1, count))].path}: episode {gap} is missing: its --episodes was "
            "smaller than that of another shard; run its acvp collect with the same --episodes"
        )


def copy_split(
    store: EpisodeStore, out: Path, *, test_fraction: float, seed: int, progress: Progress
) -> tuple[EpisodeStore, EpisodeStore]:
    """Copy a dataset into the datasets out/train and out/test, split as `acvp train` would split it."""
    train, test = split_positions(store, test_fraction=test_fraction, seed=seed)

    def copy(name: str, positions: Sequence[int], before: int) -> EpisodeStore:
        copies = [Copy(store, i, store.entries[i].number) for i in positions]
        return copy_episodes(copies, store.info, out / name, lambda done, _: progress(before + done, len(store)))

    return copy("train", train, 0), copy("test", test, len(train))


class Range(NamedTuple):
    """Numbers from the lowest to the highest, both included."""

    lowest: float
    highest: float

    def __contains__(self, value: object) -> bool:
        return isinstance(value, int | float) and self.lowest <= value <= self.highest


def parse_range(option: str, text: str) -> Range:
    """Return the range that MIN:MAX stands for; either can be left out."""
    match = re.fullmatch(r"([^:]*):([^:]*)", text)
    try:
        lowest, highest = (float(side) if side.strip() else None for side in match.groups()) if match else (None, None)
    except ValueError:
        lowest = highest = None
    known = [side for side in (lowest, highest) if side is not None]
    if not known or any(isnan(side) for side in known):
        raise UserError(f"--{option} {text}: write MIN:MAX, such as 10:200, or one of them, such as 10: or :200")
    range_ = Range(-inf if lowest is None else lowest, inf if highest is None else highest)
    if range_.lowest > range_.highest:
        raise UserError(f"--{option} {text}: no number is from {range_.lowest:g} to {range_.highest:g}; swap them")
    return range_


EVERY = Range(-inf, inf)


@dataclass(frozen=True, kw_only=True)
class Criteria:
    """Which episodes a filter keeps: those that meet all criteria."""

    policies: tuple[str, ...] = ()
    """Names of the policies that may have played; empty: any."""
    returns: Range = EVERY
    """Sum of an episode's rewards."""
    length: Range = EVERY
    """Frames of an episode."""
    episodes: Range = EVERY
    """Number of an episode."""

    def meets(self, episode: Episode, policy: str) -> bool:
        """Return whether an episode that a policy played is kept."""
        return (
            (not self.policies or policy in self.policies)
            and float(episode.rewards.sum()) in self.returns
            and len(episode) in self.length
            and episode.header.number in self.episodes
        )


def copy_filtered(store: EpisodeStore, criteria: Criteria, out: Path, progress: Progress) -> EpisodeStore:
    """Copy the episodes that meet the criteria into a new dataset; they keep their numbers."""
    unknown = set(criteria.policies) - {share.policy for share in shares_of(store.info)}
    if unknown:
        played = ", ".join(dict.fromkeys(share.policy for share in shares_of(store.info)))
        raise UserError(f"--policy {min(unknown)}: {store.path} was played by {played}")
    kept = []
    for position, episode in enumerate(store):
        if criteria.meets(episode, store.player(position, episode.header).policy):
            kept.append(Copy(store, position, episode.header.number))
    if not kept:
        raise UserError(f"{store.path}: no episode meets all criteria; acvp data info shows them")
    return copy_episodes(kept, store.info, out, progress)


def copy_episodes(copies: Sequence[Copy], info: StoreInfo, out: Path, progress: Progress) -> EpisodeStore:
    """Copy episodes into the dataset at `out`, without those that it has already."""
    for store in {id(copy.store): copy.store for copy in copies}.values():
        if store.path.resolve() == out.resolve():
            raise UserError(f"--out {out} is one of the datasets to copy; choose another folder")
    with open_writer(out, info) as writer:
        missing = _missing(copies, writer)
        check_space(out / PARTS_NAME, sum(copy.store.entries[copy.position].size for copy in missing))
        progress(len(copies) - len(missing), len(copies))
        for done, copy in enumerate(missing, len(copies) - len(missing) + 1):
            writer.add(_copied(copy, info))
            progress(done, len(copies))
        writer.rewrite_index()
    return EpisodeStore(out)


def _missing(copies: Sequence[Copy], writer: StoreWriter) -> list[Copy]:
    """Return the episodes that the dataset does not have yet; UserError if it has others."""
    planned = {copy.number: copy.store.entries[copy.position] for copy in copies}
    for entry in writer.entries:
        source = planned.get(entry.number)
        if source is None or source.content != entry.content:
            raise UserError(
                f"{writer.path}: its episode {entry.number} ({entry.frames} frames) is not one to copy there: "
                "it is another dataset; choose another --out"
            )
    return [copy for copy in copies if writer.entry(copy.number) is None]


def _copied(copy: Copy, info: StoreInfo) -> Episode:
    """Return an episode under its new number; it says who played it where the new dataset does not."""
    episode = copy.store.read(copy.position)
    header = replace(episode.header, number=copy.number)
    if copy.store.info != info and info.mix:
        header = replace(header, **copy.store.player(copy.position, header)._asdict())
    return replace(episode, header=header)


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

    If none does, the group with the fewest frames. Several datasets are drawn from in their order: a dataset added at
    the end leaves the parts of those before as they were, and duplicates follow the first one.
    """
    drawn: list[str] = []
    seen: set[str] = set()
    left = 0.0
    for frames in _frames_by_dataset(store, groups):
        left += test_fraction * sum(frames.values()) - sum(frames.get(group, 0) for group in drawn)
        new = [group for group in frames if group not in seen]
        seen.update(new)
        for group in sorted(new, key=lambda group: hashlib.sha256(f"{seed}:{group}".encode()).hexdigest()):
            if abs(left - frames[group]) < abs(left) and len(drawn) < len(seen) - 1:
                drawn.append(group)
                left -= frames[group]
        if not drawn and len(seen) > 1:
            drawn.append(min(new, key=frames.__getitem__))
            left -= frames[drawn[0]]
    return [i for group in drawn for i in groups[group]]


def _frames_by_dataset(store: EpisodeStore, groups: dict[str, list[int]]) -> list[dict[str, int]]:
    """Return the frames of each group in each of the datasets that have episodes."""
    frames: dict[int, dict[str, int]] = {}
    for group, positions in groups.items():
        for i in positions:
            of_dataset = frames.setdefault(store.sources[i], {})
            of_dataset[group] = of_dataset.get(group, 0) + store.entries[i].frames
    return [frames[source] for source in sorted(frames)]


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
            hashes = store.read(k).prefix_hashes(lengths) if lengths else {}  # not kept: memory stays flat
            matches += [(length, i, k, name) for length, name in hashes.items() if name in short[length]]
    return matches


def find_leaks(train: EpisodeStore, test: EpisodeStore) -> list[tuple[int, int]]:
    """Return the pairs (train episode, test episode) that are duplicates."""
    trained, tested = content_groups(train, test)
    number = {group: entry.number for group, entry in zip(trained, train.entries, strict=True)}
    pairs = zip(tested, test.entries, strict=True)
    return [(number[group], entry.number) for group, entry in pairs if group in number]


def openings(store: EpisodeStore) -> list[str]:
    """Return the opening of each episode, by 64 bits of its hash: what a run remembers of its training part."""
    return [entry.opening[:16] for entry in store.entries]


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
