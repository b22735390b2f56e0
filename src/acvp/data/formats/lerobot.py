"""LeRobot datasets by their files, v2.0, v2.1 and v3.0: Parquet tables, frames in them or in videos, and JSON.

The library `lerobot` itself is not needed. Its folder, of which lerobot_writer.py writes v3.0:

    meta/info.json                          version, frames per second, features
    meta/episodes/chunk-000/file-000.parquet  a row for each episode (v2: meta/episodes.jsonl)
    data/chunk-000/file-000.parquet         a row for each frame (v2: a file for each episode)
    videos/KEY/chunk-000/file-000.mp4       the frames of features of the type video
"""

from __future__ import annotations

import json
import re
from collections.abc import Generator, Iterator
from dataclasses import dataclass, replace
from functools import partial
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from acvp.actions import ActionRange, checked_range
from acvp.data.formats import video
from acvp.data.formats.importer import Recording, Source, SourceEpisode, checked_files, described_actions
from acvp.data.formats.rows import (
    Columns,
    actions_of,
    lossy_pictures,
    pictures,
    pyarrow,
    unreadable,
)
from acvp.data.frames import Frame
from acvp.durable import read_file
from acvp.errors import UserError

INFO = "meta/info.json"
VERSIONS = ("v2.0", "v2.1", "v3.0")
LAST_FRAME = 2**31
"""Of a video; a start that is later is damage."""
_DAMAGE = (OSError, ValueError, KeyError, TypeError, IndexError, RuntimeError, ArithmeticError)


@dataclass(frozen=True, kw_only=True)
class Camera:
    """The feature that has the frames."""

    key: str
    is_video: bool
    others: tuple[str, ...]


@dataclass(frozen=True, kw_only=True)
class EpisodeFiles:
    """The files that an episode is in."""

    number: int
    rows: int
    table: Path
    video: Path | None = None
    first_frame: int = 0
    """Its first frame in the video."""


def read(source: Path) -> dict[str, Source]:
    """Return what to import from the folder of a dataset."""
    pyarrow("lerobot")
    refuse = unreadable(source, "a LeRobot dataset")
    try:
        info = _info(source)
        camera, episodes = _camera(info), list(_episodes(source, info))
        if not episodes:
            raise ValueError("it has no episodes")
        columns = [_columns(episode, info) for episode in episodes]
    except UserError:
        raise
    except _DAMAGE as error:
        raise refuse(error) from error
    own: dict[str, Any] = info["acvp"] if isinstance(info.get("acvp"), dict) else {}
    located = ((_location(episode), known.actions) for episode, known in zip(episodes, columns, strict=True))
    actions = described_actions(located, _own_range(own))
    first = next(_frames(episodes[0], camera), None)
    if first is None:
        raise refuse(ValueError(f"the video of episode {episodes[0].number} ends before it begins"))
    contents = Source(
        episodes=[
            SourceEpisode(
                number=episode.number,
                location=_location(episode),
                frame_count=episode.rows,
                actions=known.actions,
                read=partial(_record, episode, known, camera),
            )
            for episode, known in zip(episodes, columns, strict=True)
        ],
        env_id=str(own.get("env_id") or info.get("robot_type") or source.resolve().name),
        frame_shape=(first.shape[0], first.shape[1], 3),
        action_meanings=_names(info, own, actions),
        lossy=_notes(camera, episodes[0]),
        **actions,
    )
    return {"": contents}


def _info(source: Path) -> dict[str, Any]:
    info = json.loads(read_file(source / INFO, source).decode())
    if not isinstance(info, dict) or info.get("codebase_version") not in VERSIONS:
        version = info.get("codebase_version") if isinstance(info, dict) else None
        raise ValueError(f"{INFO} names the version {version!r:.20}; {', '.join(VERSIONS)} are read")
    features = info.get("features")
    if not isinstance(features, dict) or not isinstance(features.get("action"), dict):
        raise ValueError(f"{INFO} has no feature `action`")
    return info


def _camera(info: dict[str, Any]) -> Camera:
    kinds = {key: feature.get("dtype") for key, feature in info["features"].items() if isinstance(feature, dict)}
    keys = [key for key, kind in kinds.items() if kind in ("image", "video")]
    if not keys:
        raise ValueError("none of its features is an image or a video")
    return Camera(key=keys[0], is_video=kinds[keys[0]] == "video", others=tuple(keys[1:]))


def _episodes(source: Path, info: dict[str, Any]) -> Iterator[EpisodeFiles]:
    """Yield where each episode is."""
    if info["codebase_version"] == "v3.0":
        yield from _episodes_v3(source, info)
        return
    lines = read_file(source / "meta/episodes.jsonl", source).decode().splitlines()
    for line in filter(str.strip, lines):
        episode = json.loads(line)
        number, chunk = int(episode["episode_index"]), int(episode["episode_index"]) // int(info["chunks_size"])
        named = {"episode_index": number, "episode_chunk": chunk, "video_key": _camera(info).key}
        yield EpisodeFiles(
            number=number,
            rows=int(episode["length"]),
            table=_file(source, info["data_path"], named),
            video=_file(source, info["video_path"], named) if _camera(info).is_video else None,
        )


def _episodes_v3(source: Path, info: dict[str, Any]) -> Iterator[EpisodeFiles]:
    _, parquet = pyarrow("lerobot")
    camera = _camera(info)
    for file in checked_files(sorted((source / "meta/episodes").glob("*/*.parquet")), source):
        for row in parquet.read_table(file).to_pylist():
            data = {"chunk_index": int(row["data/chunk_index"]), "file_index": int(row["data/file_index"])}
            episode = EpisodeFiles(
                number=int(row["episode_index"]), rows=int(row["length"]), table=_file(source, info["data_path"], data)
            )
            if camera.is_video:
                start = f"videos/{camera.key}/"
                named: dict[str, Any] = {name: int(row[start + name]) for name in ("chunk_index", "file_index")}
                named["video_key"] = camera.key
                first = float(row[f"{start}from_timestamp"]) * float(info["fps"])
                if not -0.5 <= first < LAST_FRAME:  # a time may be rounded down
                    raise ValueError(f"episode {episode.number} begins at frame {first:g} of its video")
                file = _file(source, info["video_path"], named)
                episode = replace(episode, video=file, first_frame=round(first))
            yield episode


def _file(source: Path, pattern: str, values: dict[str, Any]) -> Path:
    """Return the file that a pattern such as data/chunk-{chunk_index:03d} names; it must be in the folder."""

    def fill(match: re.Match[str]) -> str:
        value, width = values[match[1]], int(match[2] or 0)
        return f"{value:0{width}d}" if isinstance(value, int) else str(value)

    return checked_files([source / re.sub(r"\{(\w+)(?::0(\d)d)?\}", fill, pattern)], source)[0]


def _location(episode: EpisodeFiles) -> str:
    return f"{episode.table}: episode {episode.number}"


def _columns(episode: EpisodeFiles, info: dict[str, Any]) -> Columns:
    """Read the columns of an episode besides its frames."""
    names = {"rewards": "next.reward", "terminated": "next.done", "truncated": "next.truncated"}
    columns = {name: key for name, key in names.items() if key in info["features"]}
    table = _rows(episode, ["action", *columns.values()])
    values = {name: _array(table, key) for name, key in columns.items()}
    return Columns(actions=actions_of(_array(table, "action"), _location(episode)), **values)


def _rows(episode: EpisodeFiles, columns: list[str]) -> Any:
    _, parquet = pyarrow("lerobot")
    table = parquet.read_table(episode.table, columns=columns, filters=[("episode_index", "=", episode.number)])
    if table.num_rows != episode.rows or not episode.rows:
        raise ValueError(
            f"episode {episode.number} has {table.num_rows} rows in {episode.table.name}, not {episode.rows}"
        )
    return table


def _array(table: Any, name: str) -> NDArray[Any]:
    return np.array(table.column(name).to_pylist())


def _frames(episode: EpisodeFiles, camera: Camera) -> Generator[Frame, None, None]:
    """Yield the frames of an episode."""
    if episode.video is not None:
        yield from islice(video.frames_of(episode.video), episode.first_frame, episode.first_frame + episode.rows)
        return
    refuse = unreadable(episode.table, "a table of LeRobot")
    try:
        cells = _rows(episode, [camera.key]).column(camera.key).to_pylist()
    except _DAMAGE as error:
        raise refuse(error) from error
    yield from pictures(cells, _location(episode))


def _record(episode: EpisodeFiles, known: Columns, camera: Camera) -> Recording:
    return known.recording(_frames(episode, camera), _location(episode))


def _names(info: dict[str, Any], own: dict[str, Any], actions: dict[str, Any]) -> tuple[str, ...] | None:
    """Return the names of actions or of components, where there are enough of them."""
    names = own.get("action_meanings") or info["features"]["action"].get("names")
    if isinstance(names, dict):  # {"motors": [...]}
        names = next(iter(names.values()), None)
    known = isinstance(names, list) and all(isinstance(name, str) for name in names)
    count = actions["action_count"]
    fits = known and (len(names) == count if actions.get("action_range") else len(names) >= count)
    return tuple(names) if fits else None


def _own_range(own: dict[str, Any]) -> ActionRange:
    try:
        return checked_range(own.get("action_range") or [])
    except ValueError as error:
        raise UserError(f"{INFO}: {error}") from error


def _notes(camera: Camera, episode: EpisodeFiles) -> str:
    """Return what makes the import lossy."""
    notes = []
    if camera.others:
        notes.append(f"of several cameras {camera.key} was imported, not {', '.join(camera.others)}")
    if episode.video is not None:
        notes.append(video.lossy(episode.video))
    else:
        cells = _rows(episode, [camera.key]).column(camera.key)
        notes.append(lossy_pictures(cells[0].as_py()))
    return "; ".join(filter(None, notes))
