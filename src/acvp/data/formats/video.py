"""A video file per episode, and beside it a table of actions, such as episode.mkv and episode.csv.

The table begins with a line of column names, of which `action` and `reward` are read, in any order; it has one row
fewer than the video has frames. Continuous actions have a column `action_NAME` for each component instead.
Videos are written with FFV1, which is lossless, in RGB: what is read back is what was recorded, bit for bit.
"""

from __future__ import annotations

import csv
import re
from collections.abc import Callable, Generator
from contextlib import closing
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
from numpy.typing import NDArray

from acvp.actions import Actions
from acvp.console import counted
from acvp.data.episode import MAX_SIDE, Episode
from acvp.data.formats.importer import (
    Recording,
    Source,
    SourceEpisode,
    checked_actions,
    checked_files,
    checked_rewards,
    checked_vectors,
    described_actions,
    numbers_of,
)
from acvp.data.frames import Frame
from acvp.data.store import EpisodeStore
from acvp.durable import new_folder, read_file
from acvp.errors import UserError

if TYPE_CHECKING:
    from av.container import InputContainer
    from av.video.stream import VideoStream

COMPONENT = "action_"
"""Beginning of the names of columns of continuous actions."""
FRAME_RATE = 15
"""Frames per second: every fourth of Atari's 60."""
SUFFIXES = frozenset([".avi", ".flv", ".gif", ".m4v", ".mkv", ".mov", ".mp4", ".mpeg", ".mpg", ".ogv", ".webm", ".wmv"])
"""Suffixes of videos in a folder."""
LOSSLESS = frozenset(["ffv1", "ffvhuff", "gif", "huffyuv", "png", "qtrle", "rawvideo", "utvideo", "libx264rgb"])
"""Codecs that return what they were given."""
RGB_PIXELS = ("rgb", "bgr", "gbr", "0rgb", "0bgr", "argb", "abgr", "pal", "gray")
"""Beginnings of the names of pixel formats that need no conversion of colors."""


def read(source: Path) -> dict[str, Source]:
    """Return what to import from a video with its table of actions, or from a folder of them."""
    files = [source] if source.is_file() else checked_files(_videos(source), source)
    if not files:
        raise UserError(
            f"{source}: no video files there; give one, or a folder of them ({', '.join(sorted(SUFFIXES))})"
        )
    tables = {file: _read_table(file) for file in files}
    actions = described_actions((str(_table(f)), read.actions) for f, read in tables.items())
    contents = Source(
        episodes=[
            SourceEpisode(
                number=number,
                location=str(file),
                frame_count=len(tables[file].actions) + 1,
                actions=tables[file].actions,
                read=partial(_record, file, tables[file]),
            )
            for file, number in zip(files, numbers_of([f.stem for f in files]), strict=True)
        ],
        env_id=source.resolve().with_suffix("").name,
        frame_shape=_frame_shape(files[0]),
        action_meanings=tables[files[0]].names or None,
        lossy=lossy(files[0]),
        **actions,
    )
    return {"": contents}


def write(store: EpisodeStore, out: Path, advance: Callable[[int], None]) -> None:
    """Write every episode as a video and a table in the folder `out`."""
    with new_folder(out) as folder:
        for episode in store:
            file = folder / f"episode_{episode.header.number:06d}.mkv"
            _write_video(file, episode, advance)
            _write_table(_table(file), store, episode)


def _videos(folder: Path) -> list[Path]:
    files = sorted(file for file in folder.glob("*") if file.suffix.lower() in SUFFIXES)
    lonely = {table.stem for table in folder.glob("*.csv")} - {file.stem for file in files}
    if lonely:
        raise UserError(
            f"{folder}: {min(lonely)}.csv has no video of its name beside it; add it or move the table away"
        )
    return files


def _table(file: Path) -> Path:
    return file.with_suffix(".csv")


class ActionTable(NamedTuple):
    """What a table of actions says."""

    actions: Actions
    """(T,), or continuous (T, A)"""
    rewards: NDArray[np.float32] | None
    names: tuple[str, ...] = ()
    """Names of the components of continuous actions."""


def _write_table(file: Path, store: EpisodeStore, episode: Episode) -> None:
    names = [f"{COMPONENT}{name}" for name in store.info.action_meanings] if store.info.action_range else ["action"]
    actions = episode.actions.reshape(len(episode) - 1, len(names)).tolist()
    with file.open("w", newline="", encoding="utf-8") as opened:
        writer = csv.writer(opened, lineterminator="\n")
        writer.writerow([*names, "reward"])
        for row, reward in zip(actions, episode.rewards.tolist(), strict=True):
            writer.writerow([*row, repr(reward)])


def _read_table(video: Path) -> ActionTable:
    file = _table(video)
    try:
        lines = list(csv.reader(read_file(file, file.parent).decode("utf-8-sig").rstrip().splitlines(), strict=True))
    except FileNotFoundError as error:
        raise UserError(
            f"{video}: no {file.name} beside it; put the actions there, one a line below `action`"
        ) from error
    except (OSError, UnicodeDecodeError, csv.Error) as error:
        raise UserError(f"{file}: cannot be read as a table ({error})") from error
    header = [name.strip() for name in lines[0]] if lines else []
    components = [name for name in header if name.lower().startswith(COMPONENT)]
    if components and "action" not in header:
        return _continuous(file, header, lines[1:], components)
    header = [name.lower() for name in header]
    if header.count("action") != 1 or header.count("reward") > 1:
        raise UserError(
            f"{file}: its first line is {','.join(header)[:40]!r}; expected names of columns, one of them `action` and "
            "at most one `reward`"
        )
    rows = [_row(file, number, line, header) for number, line in enumerate(lines[1:], 2)]
    actions = checked_actions([action for action, _ in rows], lambda i: f"{file}: line {i + 2}")
    rewards = np.array([reward for _, reward in rows]) if "reward" in header else None
    if rewards is not None:
        rewards = checked_rewards(rewards, lambda i: f"{file}: line {i + 2}")
    return ActionTable(actions, rewards)


def _continuous(file: Path, header: list[str], lines: list[list[str]], components: list[str]) -> ActionTable:
    """Return the continuous actions of a table."""

    def where(i: int) -> str:
        return f"{file}: line {i + 2}"

    rows = []
    rewarded = [name for name in header if name.lower() == "reward"][:1]
    for i, line in enumerate(lines):
        try:
            values = dict(zip(header, line, strict=True))
            rows.append([float(values[name]) for name in (*components, *rewarded)])
        except ValueError as error:
            raise UserError(
                f"{where(i)} is {','.join(line)[:40]!r}; expected numbers in {counted(len(header), 'column')}"
            ) from error
    count = len(components)
    numbers = np.array(rows, np.float64).reshape(len(rows), count + len(rewarded))
    return ActionTable(
        checked_vectors(numbers[:, :count], where),
        checked_rewards(numbers[:, count], where) if rewarded else None,
        tuple(name[len(COMPONENT) :] for name in components),
    )


def _row(file: Path, number: int, line: list[str], header: list[str]) -> tuple[int, float]:
    """Return action and reward of a line; a table without rewards gives 0."""
    try:
        values = dict(zip(header, line, strict=True))
        if not re.fullmatch(r"\s*[+-]?[0-9]{1,18}\s*", values["action"]):
            raise ValueError
        return int(values["action"]), float(values.get("reward", 0.0))
    except ValueError as error:
        expected = "a whole number" + " and a reward" * ("reward" in header)
        columns = f" in {len(header)} columns" * (len(header) > 2)
        raise UserError(f"{file}: line {number} is {','.join(line)[:40]!r}; expected {expected}{columns}") from error


def _record(file: Path, table: ActionTable) -> Recording:
    return Recording(frames=frames_of(file), actions=table.actions, rewards=table.rewards)


def lossy(file: Path) -> str:
    """Return why frames of a video are not those that were recorded; nothing for lossless codecs in RGB."""
    import av

    with file.open("rb") as opened, av.open(opened, "r", options={"protocol_whitelist": "none"}) as container:
        context = _video_stream(file, container).codec_context
        codec, pixels = context.name, context.pix_fmt or ""
    if codec in LOSSLESS and pixels.startswith(RGB_PIXELS):
        return ""
    return (
        f"{file.name}: its codec {codec} ({pixels}) is lossy or stores no RGB: frames are what the video shows, and "
        "may differ from the game's"
    )


def _frame_shape(file: Path) -> tuple[int, int, int]:
    with closing(frames_of(file)) as frames:
        frame = next(frames, None)
    if frame is None:
        raise UserError(f"{file}: no frames in it")
    return frame.shape[0], frame.shape[1], 3


def frames_of(file: Path) -> Generator[Frame, None, None]:
    """Yield RGB frames (H, W, 3)."""
    import av

    try:
        # The file is handed over open and no other may be opened: a playlist cannot reach elsewhere.
        with file.open("rb") as opened, av.open(opened, "r", options={"protocol_whitelist": "none"}) as container:
            for frame in container.decode(_video_stream(file, container)):
                yield np.asarray(frame.to_ndarray(format="rgb24"), np.uint8)
    except (av.FFmpegError, OSError, ValueError) as error:
        raise UserError(f"{file}: cannot be read as a video ({error}); convert it, e.g. to .mkv") from error


def _video_stream(file: Path, container: InputContainer) -> VideoStream:
    if not container.streams.video:
        raise UserError(f"{file}: there is no video in it")
    stream = container.streams.video[0]
    if not (1 <= stream.width <= MAX_SIDE and 1 <= stream.height <= MAX_SIDE):
        raise UserError(f"{file}: frames of {stream.height}×{stream.width}; sides from 1 to {MAX_SIDE} are possible")
    return stream


def _write_video(file: Path, episode: Episode, advance: Callable[[int], None]) -> None:
    import av

    with av.open(str(file), "w", format="matroska") as container:
        stream = container.add_stream("ffv1", rate=FRAME_RATE)
        stream.width, stream.height, stream.pix_fmt = episode.header.width, episode.header.height, "bgr0"
        for block in episode.blocks():
            for frame in block:
                container.mux(stream.encode(av.VideoFrame.from_ndarray(frame, format="rgb24")))
            advance(len(block))
        container.mux(stream.encode())
