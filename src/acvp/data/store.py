"""A dataset: a folder of episodes with one hashed part file each, and an index of them.

    store.json           what was recorded: game, settings, actions, policy, versions; contains its own checksum
    index.jsonl          a line per episode: number, frames, size, SHA-256, content, opening, palette
    episodes/000012.safetensors

A part is written first, then its index line. A killed writer leaves at most one finished part without its line, and the
next writer adds the line. Counts are computed from the index, and the index is checked against the parts.

Several datasets can be read as one (`join` in merge.py): such a dataset has several folders, and each of its episodes
is in one of them.
"""

from __future__ import annotations

import hashlib
import json
import sys
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass, field, fields, replace
from functools import cached_property
from pathlib import Path
from typing import Any, NamedTuple, overload

import numpy as np

from acvp.actions import ActionRange, Actions, blank_vectors, checked_range
from acvp.console import counted
from acvp.data.episode import MAX_ACTIONS, MAX_SIDE, Episode, EpisodeCache, EpisodeHeader, PolicyShare, parse
from acvp.data.frames import MAX_COLORS, Palette, merge_palettes
from acvp.durable import finished_lines, read_file, unseal
from acvp.errors import UserError

STORE_FORMAT = 1
CONTINUOUS_FORMAT = 2
"""Store format of datasets with continuous actions, which 0.1 cannot read."""
STORE_NAME = "store.json"
INDEX_NAME = "index.jsonl"
PARTS_NAME = "episodes"
GOAL_NAME = ".collecting"
"""In a dataset while a collection is unfinished: what was asked for, so that a later one removes surplus episodes."""
MAX_COUNT = 2**40
"""Larger numbers in an index are damage; they are refused before they can overflow."""


class StoreError(UserError):
    """A damaged or missing dataset; the message names the file and the reason."""


@dataclass(frozen=True, kw_only=True)
class StoreInfo:
    """What a dataset contains, and how to make its game again."""

    env_id: str
    """Gymnasium id of the game; of an import, the name it was given."""
    settings: dict[str, Any] = field(default_factory=dict)
    """Keyword arguments of make_game for the same game."""
    frame_shape: tuple[int, int, int]
    """Height, width, 3."""
    action_meanings: tuple[str, ...]
    """Names of the actions."""
    policy: str
    """Name of the policy that played; of a mix, all their names."""
    epsilon: float = 0.0
    """Probability of a random action instead of the policy's; of a mix, the mean."""
    seed: int = 0
    """Episode e is a pure function of this seed and e."""
    versions: dict[str, str] = field(default_factory=dict)
    """Versions of the libraries that made the frames."""
    mix: tuple[PolicyShare, ...] = ()
    """The policies of a mix with their ε; empty: one policy played all episodes."""
    action_range: ActionRange = ()
    """Lowest and highest value of each component of a continuous action, whose names `action_meanings` has; empty:
    actions are numbers."""
    shard: str = ""
    """Which part of a collection it is, such as 3/16; empty: all of it."""

    @property
    def played_by(self) -> str:
        """Who played, in words."""
        return "; ".join(map(str, self.mix or (PolicyShare(self.policy, self.epsilon),)))

    @property
    def store_format(self) -> int:
        """The format that its store.json names."""
        return CONTINUOUS_FORMAT if self.action_range else STORE_FORMAT

    def blank_actions(self, *leading: int) -> Actions:
        """Return what stands where no action was taken: number 0, or of each component the value nearest to 0."""
        return blank_vectors(self.action_range, *leading) if self.action_range else np.zeros(leading, np.int64)

    def to_json(self) -> dict[str, Any]:
        """Return the fields by name; those that datasets of 0.1.0 do not have only where they say something."""
        left_out = {name for name in ("mix", "shard", "action_range") if not getattr(self, name)}
        return {name: value for name, value in asdict(self).items() if name not in left_out}


@dataclass(frozen=True, kw_only=True)
class IndexEntry:
    """A line of the index: what the part file must contain."""

    number: int
    frames: int
    size: int
    """Bytes of the part file."""
    sha256: str
    content: str
    opening: str
    palette: str | None
    """Colors as hexadecimal digits, six each; None: raw RGB."""

    @classmethod
    def of(cls, episode: Episode, data: bytes) -> IndexEntry:
        """Return the entry of an episode and the bytes of its part file."""
        header, palette = episode.header, episode.palette
        return cls(
            number=header.number,
            frames=header.frames,
            size=len(data),
            sha256=hashlib.sha256(data).hexdigest(),
            content=header.content,
            opening=header.opening,
            palette=None if palette is None else palette.tobytes().hex(),
        )

    @property
    def colors(self) -> Palette | None:
        """The palette (K, 3); None: raw RGB."""
        return None if self.palette is None else _colors(self.palette)

    def to_line(self) -> str:
        return json.dumps(vars(self))  # asdict would copy each value


def _colors(palette: str) -> Palette:
    """Return the colors (K, 3) of hexadecimal digits."""
    return np.frombuffer(bytes.fromhex(palette), np.uint8).reshape(-1, 3)


def part_path(folder: Path, number: int) -> Path:
    return folder / PARTS_NAME / f"{number:06d}.safetensors"


class Origin(NamedTuple):
    """One of several datasets that are read as one."""

    path: Path
    info: StoreInfo
    digest: str
    episodes: int


class EpisodeStore(Sequence[Episode]):
    """A dataset as a sequence of episodes, read when needed; those read last stay in memory, compressed."""

    def __init__(
        self,
        path: str | Path,
        info: StoreInfo | None = None,
        entries: Sequence[IndexEntry] | None = None,
        *,
        origins: Sequence[Origin] = (),
        sources: Sequence[int] = (),
    ) -> None:
        """Open the dataset in a folder; store.json and the index are read now, episodes when they are asked for.

        `info` and `entries` replace what the folder says, for a subset or another description of the same episodes. Of
        several datasets read as one, `origins` are these datasets, and `sources` says which of them each episode is in.
        """
        self.path = Path(path)
        self.info = read_info(self.path) if info is None else info
        self.entries = tuple(read_index(self.path) if entries is None else entries)
        self.origins = tuple(origins)
        self.sources = tuple(sources) if origins else (0,) * len(self.entries)
        self._cache = EpisodeCache()

    def __len__(self) -> int:
        return len(self.entries)

    @overload
    def __getitem__(self, position: int) -> Episode: ...
    @overload
    def __getitem__(self, position: slice) -> EpisodeStore: ...
    def __getitem__(self, position: int | slice) -> Episode | EpisodeStore:
        if isinstance(position, slice):
            return self.subset(range(len(self))[position])
        key = self.sources[position], self.entries[position].number
        episode = self._cache.find(key)
        if episode is None:
            episode = self.read(position)
            self._cache.keep(key, episode, self.entries[position].size)
        return episode

    def read(self, position: int) -> Episode:
        """Read and check an episode without keeping it in memory."""
        folder = self.origins[self.sources[position]].path if self.origins else self.path
        episode = load_part(folder, self.entries[position])
        height, width, _ = self.info.frame_shape
        if (episode.header.height, episode.header.width) != (height, width):
            raise StoreError(
                f"{episode.origin}: frames of {episode.header.height}×{episode.header.width} "
                f"in a dataset of {height}×{width}"
            )
        if (episode.actions.ndim == 2) != bool(self.info.action_range):
            raise StoreError(
                f"{episode.origin}: its actions are {'vectors' * (episode.actions.ndim == 2) or 'numbers'}"
            )
        return episode

    def __iter__(self) -> Iterator[Episode]:
        """Yield all episodes; they are not kept, so that memory does not grow with the dataset."""
        return (self.read(i) for i in range(len(self)))

    def __repr__(self) -> str:
        height, width, _ = self.info.frame_shape
        colors = "RGB" if self.palette is None else f"{counted(len(self.palette), 'color')}"
        kind = "action component" if self.info.action_range else "action"
        return (
            f"EpisodeStore({str(self.path)!r}: {self.info.env_id}, {counted(len(self), 'episode')}, "
            f"{counted(self.frames, 'frame')} {height}×{width} {colors}, {counted(self.action_count, kind)}, "
            f"{self.size / 1e6:.1f} MB)"
        )

    def subset(self, positions: Sequence[int]) -> EpisodeStore:
        """Return a dataset of some of the episodes, which shares the cached ones."""
        part = EpisodeStore(
            self.path,
            self.info,
            [self.entries[i] for i in positions],
            origins=self.origins,
            sources=[self.sources[i] for i in positions],
        )
        part._cache = self._cache
        return part

    def played_by(self, position: int) -> PolicyShare:
        """Return the policy that played an episode, and its ε."""
        return self.player(position, self[position].header)

    def player(self, position: int, header: EpisodeHeader) -> PolicyShare:
        """Return the same for an episode that has been read."""
        if header.policy is not None and header.epsilon is not None:
            return PolicyShare(header.policy, header.epsilon)
        info = self.origins[self.sources[position]].info if self.origins else self.info
        return PolicyShare(info.policy, info.epsilon)

    @property
    def digests(self) -> tuple[str, ...]:
        """The digests of the whole datasets that are read as one, or of the only one."""
        return tuple(origin.digest for origin in self.origins) or (self.digest,)

    @property
    def folder(self) -> Path:
        """The folder of the dataset, or of the first one that is read."""
        return self.origins[0].path if self.origins else self.path

    @cached_property
    def frames(self) -> int:
        return sum(entry.frames for entry in self.entries)

    @cached_property
    def size(self) -> int:
        """Bytes of the part files."""
        return sum(entry.size for entry in self.entries)

    @property
    def action_count(self) -> int:
        """Number of actions, or of components of a continuous action."""
        return len(self.info.action_meanings)

    @cached_property
    def palette(self) -> Palette | None:
        """All colors, in order of appearance; None if there are over 256 and frames are RGB."""
        different = dict.fromkeys(entry.palette for entry in self.entries)  # in order; many episodes share one
        known = [_colors(palette) for palette in different if palette is not None]
        if len(known) < len(different):
            return None
        merged = merge_palettes(known)
        return merged if len(merged) <= MAX_COLORS else None

    @cached_property
    def digest(self) -> str:
        """A hash of the whole dataset: equal datasets have equal digests."""
        digest = hashlib.sha256(json.dumps(self.info.to_json(), sort_keys=True).encode())
        for source, entry in zip(self.sources, self.entries, strict=True):
            digest.update(f"{source or ''}{entry.to_line()}".encode())
        return digest.hexdigest()


def read_info(path: Path) -> StoreInfo:
    """Read and check store.json."""
    file = path / STORE_NAME
    if not path.is_dir():
        raise StoreError(f"{path}: no such folder; make a dataset with acvp collect or acvp data import")
    if not file.is_file():
        raise StoreError(f"{path} is not a dataset of acvp: it has no {STORE_NAME}")
    try:
        body = unseal(read_file(file, path))
        version = body.pop("store_format", None)
        if version not in (STORE_FORMAT, CONTINUOUS_FORMAT):
            raise ValueError(f"store format {version!r}, this acvp reads 1 and 2; a newer acvp may read it")
        info = checked_info(StoreInfo(**body))
        if version != info.store_format:
            raise ValueError(f"store format {version} with the range of actions {info.action_range!r:.80}")
        return info
    except OSError as error:
        raise StoreError(f"{file}: cannot be read ({error.strerror})") from error
    except (ValueError, TypeError) as error:
        raise StoreError(f"{file}: {error}") from error


def checked_info(info: StoreInfo) -> StoreInfo:
    """Return the same with tuples instead of JSON's lists; ValueError if something is wrong."""
    kinds: dict[str, Any] = {"env_id": str, "settings": dict, "policy": str, "epsilon": (int, float), "seed": int}
    for name, kind in (kinds | {"versions": dict, "shard": str}).items():
        if not isinstance(getattr(info, name), kind):
            raise ValueError(f"{name} = {getattr(info, name)!r:.80}")
    shape, meanings = info.frame_shape, info.action_meanings
    if len(shape) != 3 or shape[2] != 3 or any(type(side) is not int or not 1 <= side <= MAX_SIDE for side in shape):
        raise ValueError(f"frames of {shape!r:.80}: heights and widths from 1 to {MAX_SIDE} and 3 colors are possible")
    named = isinstance(meanings, list | tuple) and all(isinstance(meaning, str) for meaning in meanings)
    if not named or len(meanings) > MAX_ACTIONS:
        raise ValueError(f"actions {meanings!r:.80}: a name for each and at most {MAX_ACTIONS} are possible")
    limits = () if info.action_range in ((), []) else checked_range(info.action_range)  # none: numbered actions
    if limits and len(limits) != len(meanings):
        raise ValueError(f"{len(limits)} ranges for {len(meanings)} components of actions")
    size = shape[0], shape[1], 3
    return replace(info, frame_shape=size, action_meanings=tuple(meanings), action_range=limits, mix=_mix(info.mix))


def _mix(values: Any) -> tuple[PolicyShare, ...]:
    pairs = values if isinstance(values, list | tuple) else [values]
    for pair in pairs:
        kinds = tuple(map(type, pair)) if isinstance(pair, list | tuple) else ()
        if kinds not in {(str, float), (str, int)}:
            raise ValueError(f"mix of policies {values!r:.80}: each has a name and an ε")
    return tuple(PolicyShare(*pair) for pair in pairs)


def read_index(path: Path) -> list[IndexEntry]:
    """Return the entries of the index by number, without an unfinished last line."""
    file = path / INDEX_NAME
    try:
        lines = finished_lines(file)
    except OSError as error:
        raise StoreError(f"{file}: cannot be read ({error.strerror})") from error
    entries = []
    for i, line in enumerate(lines, 1):
        try:
            entries.append(parse_entry(line))
        except (ValueError, TypeError, RecursionError) as error:
            raise StoreError(f"{file}: line {i} is damaged ({error}); acvp data verify says what is left") from error
    entries.sort(key=lambda entry: entry.number)
    numbers = [entry.number for entry in entries]
    if len(set(numbers)) < len(numbers):
        raise StoreError(f"{file}: two lines for one episode")
    return entries


def parse_entry(line: bytes) -> IndexEntry:
    """Parse a line of the index; ValueError unless it is exactly as acvp writes it."""
    values = json.loads(line.decode())
    if isinstance(values, dict) and isinstance(values.get("palette"), str):
        values["palette"] = sys.intern(values["palette"])  # most episodes have the same one
    entry = IndexEntry(**values)
    kinds: dict[str, Any] = {"int": int, "str": str, "str | None": (str, type(None))}
    for field_ in fields(IndexEntry):
        value = getattr(entry, field_.name)
        if not isinstance(value, kinds[str(field_.type)]) or isinstance(value, bool):
            raise ValueError(f"{field_.name} = {value!r:.80}")
    valid = 0 <= entry.number < MAX_COUNT and 1 <= entry.frames < MAX_COUNT and 1 <= entry.size < MAX_COUNT
    if not valid or len(entry.palette or "") % 6:
        raise ValueError("impossible numbers")
    bytes.fromhex(entry.palette or "")
    if entry.to_line().encode() != line:
        raise ValueError("not written by acvp")
    return entry


def load_part(folder: Path, entry: IndexEntry) -> Episode:
    """Read and check a part file; StoreError unless it is what was recorded."""
    file = part_path(folder, entry.number)
    try:
        data = read_file(file, folder)
    except OSError as error:
        raise StoreError(f"{file}: cannot be read ({error.strerror}); acvp data verify lists all damage") from error
    if hashlib.sha256(data).hexdigest() != entry.sha256:
        raise StoreError(f"{file}: its checksum is not the one in the index: the file is damaged or was replaced")
    try:
        episode = parse(data)
    except UserError as error:
        raise StoreError(f"{file}: {error}") from error
    if IndexEntry.of(episode, data) != entry:
        raise StoreError(f"{file}: it is not the episode of its line in the index")
    return replace(episode, origin=str(file))
