"""Recording: an episode step by step, compressed while it is played, and its addition to a dataset, whole or absent.

One writer at a time adds episodes to a dataset.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from acvp.actions import Action, ActionRange, Actions, checked_vector
from acvp.data.episode import (
    CHUNK_FRAMES,
    MAX_ACTIONS,
    OPENING_FRAMES,
    Episode,
    EpisodeHeader,
    compress,
    decompress,
    finish_content_hash,
    parse,
    serialize,
    wrong_actions,
)
from acvp.data.frames import MAX_COLORS, Frame, PaletteEncoder, TooManyColorsError, colorize
from acvp.data.store import (
    INDEX_NAME,
    PARTS_NAME,
    STORE_NAME,
    IndexEntry,
    StoreError,
    StoreInfo,
    checked_info,
    part_path,
    read_index,
    read_info,
)
from acvp.durable import (
    append_line,
    exclusive_writer,
    make_folder,
    read_file,
    seal,
    sync_folder,
    whole_lines,
    write_atomic,
)
from acvp.errors import UserError

MAX_LIVES = 2**15 - 1
MAX_REWARD = float(np.finfo(np.float32).max)


class EpisodeRecorder:
    """Records episodes one after another; memory holds at most 16 raw frames."""

    def __init__(self, action_range: ActionRange = ()) -> None:
        """Record numbered actions, or continuous ones in a range."""
        self._encoder, self._range = PaletteEncoder(), action_range

    def start(self, frame: Frame, keys: NDArray[np.uint8] | None = None, lives: int = -1) -> None:
        """Begin an episode with its first frame; for `keys` see PaletteEncoder.encode."""
        _check_lives(lives, 0)
        self._encoder.reset()
        self._raw_rgb = False
        self._height, self._width = frame.shape[:2]
        self._pending: list[NDArray[np.uint8]] = []
        self._chunks: list[bytes] = []
        self._actions: list[Action] = []
        self._rewards: list[float] = []
        self._lives = [lives]
        self._content = hashlib.sha256()
        self._opening = ""
        self._append(frame, keys)

    def step(
        self, action: Action, reward: float, frame: Frame, keys: NDArray[np.uint8] | None = None, lives: int = -1
    ) -> None:
        """Add a step; UserError for numbers that a part file cannot hold."""
        if self._range:
            action = checked_vector(action, self._range, f"step {self.frames}")
        elif not 0 <= action < MAX_ACTIONS:
            raise UserError(f"step {self.frames}: action {action}; actions are numbers from 0 to {MAX_ACTIONS - 1}")
        if not abs(reward) <= MAX_REWARD:
            raise UserError(f"step {self.frames}: reward {reward}; rewards are finite and fit into 32 bits")
        _check_lives(lives, self.frames)
        self._actions.append(action)
        self._rewards.append(reward)
        self._lives.append(lives)
        self._append(frame, keys)

    @property
    def frames(self) -> int:
        """Frames recorded so far."""
        return len(self._lives)

    def finish(
        self,
        *,
        number: int,
        seed: int,
        terminated: bool,
        truncated: bool,
        policy: str | None = None,
        epsilon: float | None = None,
    ) -> Episode:
        """Return the finished episode; of a mix of policies, with the one that played it."""
        self._flush()
        content = self._hash(len(self._actions))
        header = EpisodeHeader(
            number=number,
            seed=seed,
            height=self._height,
            width=self._width,
            frames=self.frames,
            terminated=terminated,
            truncated=truncated,
            content=content,
            opening=self._opening or content,
            policy=policy,
            epsilon=epsilon,
        )
        return Episode(
            header,
            self._stored_actions(len(self._actions)),
            np.array(self._rewards, np.float32),
            np.array(self._lives, np.int16),
            None if self._raw_rgb else self._encoder.palette,
            tuple(self._chunks),
        )

    def _stored_actions(self, count: int) -> Actions:
        """Return the first actions as they are stored: int16 (count,), or float32 (count, A)."""
        if self._range:
            return np.array(self._actions[:count], np.float32).reshape(-1, len(self._range))
        return np.array(self._actions[:count], np.int16)

    def _append(self, frame: Frame, keys: NDArray[np.uint8] | None) -> None:
        if not self._raw_rgb:
            try:
                self._pending.append(self._encoder.encode(frame, keys))
            except TooManyColorsError:
                self._change_to_rgb()
        if self._raw_rgb:
            self._pending.append(np.array(frame))
        if len(self._pending) == CHUNK_FRAMES:
            self._flush()

    def _flush(self) -> None:
        if not self._pending:
            return
        chunk = np.stack(self._pending)
        self._content.update(chunk.data)
        self._chunks.append(compress(chunk))
        self._pending = []
        if len(self._chunks) * CHUNK_FRAMES == OPENING_FRAMES:
            self._opening = self._opening or self._hash(OPENING_FRAMES - 1)  # before a later color changes it

    def _hash(self, actions: int) -> str:
        palette = None if self._raw_rgb else self._encoder.palette
        return finish_content_hash(self._content.copy(), palette, self._stored_actions(actions))

    def _change_to_rgb(self) -> None:
        """Over 256 colors: convert the frames so far from indices to raw RGB, and record RGB from here on."""
        palette = self._encoder.palette[:MAX_COLORS]  # the newest colors are in no recorded frame yet
        chunks, pending = self._chunks, self._pending
        self._raw_rgb, self._chunks, self._content = True, [], hashlib.sha256()
        for chunk in chunks:
            indices = np.empty((CHUNK_FRAMES, self._height, self._width), np.uint8)
            decompress(chunk, indices, CHUNK_FRAMES)
            self._pending = list(colorize(indices, palette))
            self._flush()
        self._pending = [np.ascontiguousarray(colorize(indices, palette)) for indices in pending]


def _check_lives(lives: int, step: int) -> None:
    if not -1 <= lives <= MAX_LIVES:
        raise UserError(f"step {step}: {lives} lives; 0 to {MAX_LIVES} are possible, and -1 for a game without lives")


class StoreWriter:
    """Writes episodes into a dataset; `open_writer` returns one."""

    def __init__(self, path: Path, info: StoreInfo) -> None:
        self.path, self.info = path, info
        self._entries = {entry.number: entry for entry in read_index(path)}
        self.frames = sum(entry.frames for entry in self._entries.values())
        """Frames of the dataset."""
        self.size = sum(entry.size for entry in self._entries.values())
        """Bytes of its part files."""

    @property
    def entries(self) -> list[IndexEntry]:
        """The entries of the dataset, by number."""
        return [self._entries[number] for number in sorted(self._entries)]

    def __len__(self) -> int:
        return len(self._entries)

    def entry(self, number: int) -> IndexEntry | None:
        """Return the entry of an episode; None: the dataset does not have it."""
        return self._entries.get(number)

    def add(self, episode: Episode) -> None:
        """Add an episode; when this returns, it survives kills and power losses."""
        number = episode.header.number
        if number in self._entries:
            raise StoreError(f"{self.path}: episode {number} exists already")
        self._check(episode)
        data = serialize(episode)
        write_atomic(part_path(self.path, number), data)
        self._enter(IndexEntry.of(episode, data))

    def remove_from(self, number: int) -> None:
        """Remove the episodes from `number` on: first from the index, then from the disk."""
        surplus = [n for n in self._entries if n >= number]
        for n in surplus:
            self._count(self._entries.pop(n), -1)
        self.rewrite_index()
        for n in surplus:
            part_path(self.path, n).unlink(missing_ok=True)
        sync_folder(self.path / PARTS_NAME)

    def rewrite_index(self) -> None:
        """Write the lines in the order of their numbers, so that equal datasets are equal byte for byte."""
        lines = "".join(entry.to_line() + "\n" for entry in self.entries)
        write_atomic(self.path / INDEX_NAME, lines.encode())

    def _check(self, episode: Episode) -> None:
        height, width, _ = self.info.frame_shape
        header = episode.header
        if (header.height, header.width) != (height, width):
            raise StoreError(f"an episode of {header.height}×{header.width} frames for a dataset of {height}×{width}")
        wrong = wrong_actions(episode.actions, len(self.info.action_meanings), self.info.action_range)
        if wrong is not None:
            raise StoreError(f"episode {header.number} has {wrong}")

    def _enter(self, entry: IndexEntry) -> None:
        append_line(self.path / INDEX_NAME, entry.to_line())
        self._entries[entry.number] = entry
        self._count(entry, 1)

    def _count(self, entry: IndexEntry, sign: int) -> None:
        self.frames += sign * entry.frames
        self.size += sign * entry.size

    def adopt_finished_parts(self) -> None:
        """Index the parts that a killed writer finished but did not list, and remove an unfinished last line."""
        index = self.path / INDEX_NAME
        if index.exists() and (text := read_file(index, self.path)) != whole_lines(text):
            self.rewrite_index()
        sync_folder(self.path / PARTS_NAME)  # the killed writer may not have, and a line must not outlive its part
        listed = {part_path(self.path, number).stem for number in self._entries}
        for file in sorted((self.path / PARTS_NAME).glob("*.safetensors")):
            if not file.stem.isdecimal() or file.stem in listed:
                continue
            try:
                data = read_file(file, self.path)
                episode = parse(data)
                self._check(episode)
                if episode.content_hash() != episode.header.content:
                    raise StoreError("its frames and actions are not those of its header")
            except (UserError, OSError) as error:
                raise StoreError(f"{file}: not listed in the index and {error}; move it away to continue") from error
            if file == part_path(self.path, episode.header.number):
                self._enter(IndexEntry.of(episode, data))


@contextmanager
def open_writer(path: str | Path, info: StoreInfo) -> Iterator[StoreWriter]:
    """Open a dataset for writing, or make a new one; UserError if it records something else."""
    path = Path(path)
    try:
        info = checked_info(info)
    except (ValueError, TypeError) as error:
        raise StoreError(f"{path} cannot record this: {error}") from error
    _refuse_foreign_folder(path)
    make_folder(path / PARTS_NAME)
    with exclusive_writer(path):
        if (path / STORE_NAME).exists():
            _refuse_changed_info(path, info)
        else:
            write_atomic(path / STORE_NAME, seal({"store_format": info.store_format} | info.to_json()))
        writer = StoreWriter(path, info)
        writer.adopt_finished_parts()
        yield writer


def _refuse_foreign_folder(path: Path) -> None:
    if path.is_file():
        raise UserError(f"{path} is a file; a dataset is a folder")
    if path.is_dir() and not (path / STORE_NAME).exists():
        foreign = sorted(p.name for p in path.iterdir() if not p.name.startswith(".") and p.name != PARTS_NAME)
        if foreign:
            raise UserError(f"{path} is not a dataset and not empty (it has {foreign[0]}); choose another folder")


def _refuse_changed_info(path: Path, info: StoreInfo) -> None:
    there, asked = asdict(read_info(path)), asdict(info)
    for versions in (there["versions"], asked["versions"]):
        versions.pop("numpy", None)  # it makes no frames
    changed = [f"{name} is {there[name]!r}, asked for {asked[name]!r}" for name in asked if there[name] != asked[name]]
    if changed:
        raise UserError(f"{path} records something else: {'; '.join(changed)}; choose another --out")


class Recorded:
    """What a collection has recorded: counts its episodes in the order of their numbers, up to the first gap."""

    def __init__(self, writer: StoreWriter, numbers: range) -> None:
        self.writer, self.numbers = writer, numbers
        self._episodes = self._frames = 0

    def enough(self, frames: float) -> bool:
        """Return whether the first episodes without a gap have `frames` frames, or are all that there can be.

        The frames asked for must not fall from one call to the next.
        """
        while self._frames < frames and (entry := self._next()) is not None:
            self._frames += entry.frames
            self._episodes += 1
        return self._frames >= frames or self._episodes == len(self.numbers)

    def _next(self) -> IndexEntry | None:
        """Return the next episode to count; None: it is not there."""
        more = self._episodes < len(self.numbers)
        return self.writer.entry(self.numbers[self._episodes]) if more else None

    @property
    def next_number(self) -> int:
        """The number after the counted episodes."""
        return self.numbers.start + self._episodes * self.numbers.step

    def missing(self) -> Iterator[int]:
        """Yield the numbers of the episodes that are not there now."""
        return (number for number in self.numbers if self.writer.entry(number) is None)
