"""Writes a dataset as LeRobot v3.0, with frames as PNG images in the tables: exact, bit for bit."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from acvp.data.episode import Episode
from acvp.data.formats.lerobot import INFO
from acvp.data.formats.rows import blocks_of_rows, pyarrow
from acvp.data.formats.video import FRAME_RATE
from acvp.data.store import EpisodeStore
from acvp.durable import check_space, new_folder

KEY = "observation.image"
"""Feature of the frames."""
FILE_BYTES = 100 * 2**20
"""A data file that is larger is followed by another, as LeRobot does it."""
DATA_PATH = "data/chunk-{chunk_index:03d}/file-{file_index:03d}.parquet"


def write(store: EpisodeStore, out: Path, advance: Callable[[int], None]) -> None:
    """Write a dataset of version v3.0 in the folder `out`."""
    pa, parquet = pyarrow("lerobot")
    with new_folder(out) as folder:
        for part in ("meta/episodes/chunk-000", "data/chunk-000"):
            (folder / part).mkdir(parents=True)
        check_space(folder, store.size)
        tables = _Tables(folder, store, pa, parquet)
        rows = [tables.add(episode, advance) for episode in store]
        tables.close()
        parquet.write_table(pa.Table.from_pylist(rows), folder / "meta/episodes/chunk-000/file-000.parquet")
        _write_tasks(folder, store, pa, parquet)
        (folder / INFO).write_text(json.dumps(_described(store), indent=4) + "\n", encoding="utf-8")
        (folder / "meta/stats.json").write_text(json.dumps(tables.statistics(), indent=4) + "\n", encoding="utf-8")


def _features(store: EpisodeStore) -> dict[str, Any]:
    info = store.info
    action: dict[str, Any] = {"dtype": "int64", "shape": [1], "names": None}
    if info.action_range:
        action = {"dtype": "float32", "shape": [len(info.action_range)], "names": list(info.action_meanings)}
    plain = {"timestamp": "float32", "frame_index": "int64", "episode_index": "int64", "index": "int64"}
    plain |= {"task_index": "int64", "next.reward": "float32", "next.done": "bool", "next.truncated": "bool"}
    numbers = {name: {"dtype": kind, "shape": [1], "names": None} for name, kind in plain.items()}
    image = {"dtype": "image", "shape": list(info.frame_shape), "names": ["height", "width", "channels"]}
    return {KEY: image, "action": action} | numbers


def _described(store: EpisodeStore) -> dict[str, Any]:
    info = store.info
    return {
        "codebase_version": "v3.0",
        "robot_type": info.env_id,
        "total_episodes": len(store),
        "total_frames": store.frames,
        "total_tasks": 1,
        "chunks_size": 1000,
        "data_files_size_in_mb": FILE_BYTES // 2**20,
        "video_files_size_in_mb": 200,
        "fps": FRAME_RATE,
        "splits": {"train": f"0:{len(store)}"},
        "data_path": DATA_PATH,
        "video_path": None,
        "features": _features(store),
        "acvp": {
            "env_id": info.env_id,
            "action_meanings": list(info.action_meanings),
            "action_range": [list(pair) for pair in info.action_range],
        },
    }


def _write_tasks(folder: Path, store: EpisodeStore, pa: Any, parquet: Any) -> None:
    """Write the only task, the game, as pandas would: its name is the index."""
    table = pa.table({"task_index": [0], "__index_level_0__": [store.info.env_id]})
    column = {"name": None, "field_name": "__index_level_0__", "pandas_type": "unicode", "numpy_type": "object"}
    data = {"name": "task_index", "field_name": "task_index", "pandas_type": "int64", "numpy_type": "int64"}
    pandas = {
        "index_columns": ["__index_level_0__"],
        "columns": [data | {"metadata": None}, column | {"metadata": None}],
    }
    pandas |= {"column_indexes": [], "pandas_version": "2.0.0"}
    parquet.write_table(table.replace_schema_metadata({"pandas": json.dumps(pandas)}), folder / "meta/tasks.parquet")


class _Tables:
    """Writes the data files, one after the other, and adds up statistics."""

    def __init__(self, folder: Path, store: EpisodeStore, pa: Any, parquet: Any) -> None:
        self._folder, self._store, self._pa, self._parquet = folder, store, pa, parquet
        self._file, self._rows, self._number = -1, 0, 0
        self._writer: Any = None
        self._sums: dict[str, list[Any]] = {}

    def add(self, episode: Episode, advance: Callable[[int], None]) -> dict[str, Any]:
        """Write an episode and return its row among the episodes."""
        if self._writer is None or self._path().stat().st_size > FILE_BYTES:
            self._next_file()
        first = self._rows
        for block in blocks_of_rows(self._store, episode):
            self._write(block)
            advance(len(block["images"]))
        row = {
            "episode_index": self._number,
            "tasks": [self._store.info.env_id],
            "length": len(episode),
            "data/chunk_index": 0,
            "data/file_index": self._file,
            "dataset_from_index": first,
            "dataset_to_index": self._rows,
            "meta/episodes/chunk_index": 0,
            "meta/episodes/file_index": 0,
        }
        self._number += 1
        return row

    def close(self) -> None:
        """Finish the last file."""
        if self._writer is not None:
            self._writer.close()

    def statistics(self) -> dict[str, Any]:
        """Return least, greatest, mean, standard deviation and count of each column."""
        made = {}
        for name, (low, high, total, squares, count) in self._sums.items():
            mean = total / count
            spread = np.sqrt(np.maximum(squares / count - mean**2, 0))
            parts = {"min": low, "max": high, "mean": mean, "std": spread, "count": np.array([count])}
            made[name] = {part: value.tolist() for part, value in parts.items()}
        return made

    def _write(self, block: dict[str, Any]) -> None:
        pa, count, numbers = self._pa, len(block["images"]), block["frame_index"]
        vectors = block["actions"].ndim == 2
        columns = {
            KEY: pa.array(block["images"], pa.struct({"bytes": pa.binary(), "path": pa.string()})),
            "action": pa.array(list(block["actions"]), pa.list_(pa.float32(), block["actions"].shape[1]))
            if vectors
            else pa.array(block["actions"].astype(np.int64)),
            "timestamp": (numbers / FRAME_RATE).astype(np.float32),
            "frame_index": numbers,
            "episode_index": np.full(count, self._number),
            "index": self._rows + np.arange(count),
            "task_index": np.zeros(count, np.int64),
            "next.reward": block["rewards"],
            "next.done": block["terminated"],
            "next.truncated": block["truncated"],
        }
        table = pa.table(columns)
        if self._writer is None:
            self._writer = self._parquet.ParquetWriter(self._path(), table.schema)
        self._writer.write_table(table)
        self._rows += count
        for name in ("action", "next.reward"):
            self._count(name, block["actions" if name == "action" else "rewards"].reshape(count, -1).astype(np.float64))

    def _count(self, name: str, values: NDArray[np.float64]) -> None:
        new = [values.min(0), values.max(0), values.sum(0), np.square(values).sum(0), len(values)]
        old = self._sums.get(name)
        if old is not None:
            sums = (before + more for before, more in zip(old[2:], new[2:], strict=True))
            new = [np.minimum(old[0], new[0]), np.maximum(old[1], new[1]), *sums]
        self._sums[name] = new

    def _path(self) -> Path:
        return self._folder / DATA_PATH.format(chunk_index=0, file_index=self._file)

    def _next_file(self) -> None:
        self.close()
        self._writer, self._file = None, self._file + 1
