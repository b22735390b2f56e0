"""Checks every byte of a dataset and lists all damage; describes its contents in a table and a contact sheet."""

from __future__ import annotations

import io
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
from numpy.typing import NDArray
from PIL import Image, ImageDraw

from acvp.actions import Actions
from acvp.console import counted
from acvp.data.episode import OPENING_FRAMES, Episode, wrong_actions
from acvp.data.store import (
    INDEX_NAME,
    PARTS_NAME,
    EpisodeStore,
    IndexEntry,
    StoreError,
    StoreInfo,
    load_part,
    parse_entry,
    part_path,
    read_info,
)
from acvp.durable import read_file, whole_lines, write_atomic
from acvp.errors import UserError

Progress = Callable[[int, int], None]
"""Called with (episodes checked, episodes in all)."""


def verify(path: Path, progress: Progress = lambda done, total: None) -> list[str]:
    """Return a line for each problem of a dataset; an empty list: every frame is what was recorded."""
    problems: list[str] = []
    info = None
    try:
        info = read_info(path)
    except StoreError as error:
        if not path.is_dir() or not (path / INDEX_NAME).exists():
            raise  # no dataset at all
        problems.append(str(error))
    entries = list(_entries(path, problems))
    problems += _strangers(path, entries)
    for done, entry in enumerate(entries, 1):
        problems += _check_episode(path, entry, info)
        progress(done, len(entries))
    return problems


def _entries(path: Path, problems: list[str]) -> Iterator[IndexEntry]:
    """Yield the readable lines of the index; add a problem for each of the others."""
    index = path / INDEX_NAME
    if not index.exists():
        problems.append(
            f"{index}: missing: the dataset has no episodes" if _parts(path) else f"{path}: no episodes yet"
        )
        return
    try:
        text = read_file(index, path)
    except OSError as error:
        problems.append(f"{index}: cannot be read ({error.strerror})")
        return
    lines = whole_lines(text).split(b"\n")[:-1]
    if text != whole_lines(text):
        problems.append(f"{index}: its last line is unfinished; the next acvp collect fixes that")
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
    """Return a problem for each file among the parts that is not in the index."""
    known = {part_path(path, entry.number) for entry in entries}
    return [
        f"{file}: not in the index: left by a killed writer (the next acvp collect adds it) or by another program"
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
    """Yield what is wrong in an episode with the right checksum."""
    header = episode.header
    if episode.content_hash() != header.content or episode.content_hash(OPENING_FRAMES) != header.opening:
        yield "its frames and actions are not those of its header"
    if info is None:
        return
    if (header.height, header.width) != info.frame_shape[:2]:
        yield f"frames of {header.height}×{header.width} in a dataset of {info.frame_shape[0]}×{info.frame_shape[1]}"
    wrong = wrong_actions(episode.actions, len(info.action_meanings), info.action_range)
    if wrong is not None:
        yield wrong


SHEET_COLUMNS, SHEET_ROWS = 6, 4
CAPTION_HEIGHT = 14
TARGET_WIDTH = 160
"""Small frames are enlarged to about this width, by a whole factor, so that pixels stay sharp."""


def describe(store: EpisodeStore) -> list[tuple[str, str]]:
    """Return a dataset's facts as (name, value) rows."""
    info, height, width = store.info, *store.info.frame_shape[:2]
    contents = _contents(store)
    rewards = np.array([returned for played in contents.returns.values() for returned in played])
    lengths = np.array([entry.frames for entry in store.entries])
    terminated = contents.terminated
    different = len({entry.opening for entry in store.entries})
    palette = store.palette
    rows = [
        ("game", f"{info.env_id}  {_settings(info.settings)}".strip()),
        ("frames", f"{store.frames:,} of {height}×{width}, {'RGB' if palette is None else f'{len(palette)} colors'}"),
        (
            "episodes",
            f"{len(store):,}: {terminated} terminated, {len(store) - terminated} truncated, {different} different",
        ),
        ("size", f"{store.size / 1e6:.2f} MB, {store.size / max(store.frames, 1):.0f} bytes a frame"),
        ("policy", f"{info.played_by}{'; ' if info.mix else ', '}seed {info.seed}"),
        ("made with", ", ".join(f"{name} {version}" for name, version in info.versions.items()) or "unknown"),
        ("digest", store.digest),
    ]
    if len(store):
        rows[3:3] = [
            ("length", f"{lengths.min():,} to {lengths.max():,} frames, median {int(np.median(lengths)):,}"),
            ("reward", f"{rewards.mean():.2f} an episode on average, {rewards.min():g} to {rewards.max():g}"),
            ("actions", _action_shares(store, contents)),
        ]
    if info.mix:
        rows[-2:-2] = [("played by", _policy_shares(contents))]
    return rows


def contact_sheet(store: EpisodeStore, path: Path) -> None:
    """Write a picture of frames spread evenly over a dataset, with episode and frame number under each."""
    total = store.frames
    chosen = np.linspace(0, total - 1, min(total, SHEET_COLUMNS * SHEET_ROWS)).astype(int)
    stops = np.cumsum([entry.frames for entry in store.entries])
    height, width, _ = store.info.frame_shape
    scale = max(1, TARGET_WIDTH // width)
    cell_w, cell_h = width * scale + 4, height * scale + CAPTION_HEIGHT + 4
    columns = min(SHEET_COLUMNS, len(chosen))
    sheet = Image.new("RGB", (cell_w * columns, cell_h * -(-len(chosen) // columns)), "white")
    draw = ImageDraw.Draw(sheet)
    for i, number in enumerate(chosen.tolist()):
        episode = int(np.searchsorted(stops, number, side="right"))
        frame = number - (int(stops[episode - 1]) if episode else 0)
        pixels = np.ascontiguousarray(store[episode].frames(frame, frame + 1)[0])
        x, y = i % columns * cell_w + 2, i // columns * cell_h + 2
        sheet.paste(Image.fromarray(pixels).resize((width * scale, height * scale), Image.Resampling.NEAREST), (x, y))
        draw.text((x, y + height * scale + 1), f"{store.entries[episode].number} / {frame}", fill="black")
    buffer = io.BytesIO()
    sheet.save(buffer, _image_format(path))
    write_atomic(path, buffer.getvalue())


def _image_format(path: Path) -> str:
    """Return the name by which Pillow knows the format of a file."""
    formats = Image.registered_extensions()
    if path.suffix.lower() not in formats:
        raise ValueError(f"unknown file extension {path.suffix!r}")
    return formats[path.suffix.lower()]


def _settings(settings: dict[str, object]) -> str:
    return ", ".join(f"{name} {value}" for name, value in settings.items() if value is not None)


@dataclass
class Contents:
    """What the episodes of a dataset add up to."""

    actions: NDArray[np.float64]
    """How often each action was taken, (A,); the sums of components of continuous actions."""
    squares: NDArray[np.float64]
    """Sums of the squares of components, (A,)."""
    steps: int = 0
    terminated: int = 0
    """Episodes that terminated."""
    frames: dict[str, int] = field(default_factory=dict)
    """Frames of each policy."""
    returns: dict[str, list[float]] = field(default_factory=dict)
    """Sums of the rewards of each policy's episodes."""

    def add_actions(self, actions: Actions) -> None:
        """Count the actions of an episode."""
        self.steps += len(actions)
        if actions.ndim == 1:
            self.actions += np.bincount(actions, minlength=len(self.actions))[: len(self.actions)]
            return
        self.actions += actions.sum(0, dtype=np.float64)
        self.squares += np.square(actions, dtype=np.float64).sum(0)


def _contents(store: EpisodeStore) -> Contents:
    """Read every episode once; memory does not grow with the frames."""
    contents = Contents(*np.zeros((2, max(1, store.action_count))))
    for position, episode in enumerate(store):
        name = str(store.player(position, episode.header))
        contents.add_actions(episode.actions)
        contents.terminated += episode.header.terminated
        contents.frames[name] = contents.frames.get(name, 0) + len(episode)
        contents.returns.setdefault(name, []).append(float(episode.rewards.sum()))
    return contents


def _policy_shares(contents: Contents) -> str:
    """Return how many episodes and frames each policy of a mix played, and its mean reward."""
    return "; ".join(
        f"{name}: {counted(len(returns), 'episode')}, {contents.frames[name]:,} frames, reward {np.mean(returns):.2f}"
        for name, returns in sorted(contents.returns.items())
    )


def _action_shares(store: EpisodeStore, contents: Contents) -> str:
    if store.info.action_range:
        mean = contents.actions / max(1, contents.steps)
        spread = np.sqrt(np.maximum(contents.squares / max(1, contents.steps) - mean**2, 0))
        parts = zip(store.info.action_meanings, store.info.action_range, mean, spread, strict=True)
        return ", ".join(f"{name} {low:g} to {high:g} (mean {m:.2f} ± {s:.2f})" for name, (low, high), m, s in parts)
    total = max(1, int(contents.actions.sum()))
    shares = zip(store.info.action_meanings, contents.actions.tolist(), strict=False)
    return ", ".join(f"{name} {100 * count / total:.0f} %" for name, count in shares)
