"""Checks every byte of a store, and goes on after the first damage to list all of it."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

from acvp.data.episode import OPENING_FRAMES, Episode
from acvp.data.store import (
    INDEX_NAME,
    PARTS_NAME,
    IndexEntry,
    StoreError,
    StoreInfo,
    load_part,
    parse_entry,
    part_path,
    read_info,
)
from acvp.durable import whole_lines
from acvp.errors import UserError
from acvp.reading import read_file

Progress = Callable[[int, int], None]
"""Called with (episodes checked, episodes in all)."""


def verify(path: Path, progress: Progress = lambda done, total: None) -> list[str]:
    """All that is wrong with a store, a line each; an empty list: every frame is what was recorded."""
    problems: list[str] = []
    info = None
    try:
        info = read_info(path)
    except StoreError as error:
        if not path.is_dir() or not (path / INDEX_NAME).exists():
            raise  # not a damaged store but none at all
        problems.append(str(error))
    entries = list(_entries(path, problems))
    problems += _strangers(path, entries)
    for done, entry in enumerate(entries, 1):
        problems += _check_episode(path, entry, info)
        progress(done, len(entries))
    return problems


def _entries(path: Path, problems: list[str]) -> Iterator[IndexEntry]:
    """The readable lines of the index; what is wrong with the others goes to `problems`."""
    index = path / INDEX_NAME
    if not index.exists():
        problems.append(f"{index}: missing: the store has no episodes" if _parts(path) else f"{path}: no episodes yet")
        return
    try:
        text = read_file(index, path)
    except OSError as error:
        problems.append(f"{index}: cannot be read ({error.strerror})")
        return
    lines = whole_lines(text).split(b"\n")[:-1]
    if text != whole_lines(text):
        problems.append(f"{index}: its last line is unfinished; the next acvp collect mends that")
    seen: set[int] = set()
    for i, line in enumerate(lines, 1):
        try:
            entry = parse_entry(line)
        except (ValueError, TypeError, RecursionError) as error:
            problems.append(f"{index}: line {i} is damaged ({error})")
            continue
        if entry.number in seen:
            problems.append(f"{index}: line {i} is a second one for episode {entry.number}")
            continue
        seen.add(entry.number)
        yield entry


def _parts(path: Path) -> list[Path]:
    return sorted((path / PARTS_NAME).glob("*"))


def _strangers(path: Path, entries: list[IndexEntry]) -> list[str]:
    """Files among the parts that no line of the index tells of."""
    known = {part_path(path, entry.number) for entry in entries}
    return [
        f"{file}: not in the index: left by a killed writer (the next acvp collect takes it in) or put there"
        for file in _parts(path)
        if file not in known
    ]


def _check_episode(path: Path, entry: IndexEntry, info: StoreInfo | None) -> list[str]:
    file = part_path(path, entry.number)
    try:
        episode = load_part(path, entry)
    except StoreError as error:
        return [str(error)]
    try:
        return [f"{file}: {problem}" for problem in _contradictions(episode, info)]
    except UserError as error:
        return [f"{file}: {error}"]


def _contradictions(episode: Episode, info: StoreInfo | None) -> Iterator[str]:
    """Where an episode with the right checksum is still not what it says."""
    header = episode.header
    if episode.content_hash() != header.content or episode.content_hash(OPENING_FRAMES) != header.opening:
        yield "its frames and actions are not the ones its header tells of"
    if info is None:
        return
    if (header.height, header.width) != info.frame_shape[:2]:
        yield f"frames of {header.height}×{header.width} in a store of {info.frame_shape[0]}×{info.frame_shape[1]}"
    if len(episode.actions) and not 0 <= episode.actions.min() <= episode.actions.max() < len(info.action_meanings):
        yield f"an action outside 0 to {len(info.action_meanings) - 1}"
