"""Datasets of the library Hugging Face `datasets`: a row for each frame, with the image in it.

Read is a folder that `save_to_disk` wrote, or one with Parquet files; splits train and test become two datasets of
acvp. Written is a folder with a Parquet file that `datasets.load_dataset("FOLDER")` opens and the hub can show; frames
are PNG images, which is exact.

columns   image   action   and, if there are: episode   reward   terminated   truncated
"""

from __future__ import annotations

import json
from collections.abc import Callable, Generator, Iterator
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from acvp.actions import ActionRange, checked_range
from acvp.data.formats.importer import Recording, Source, SourceEpisode, checked_files, described_actions
from acvp.data.formats.rows import (
    Columns,
    actions_of,
    blocks_of_rows,
    lossy_pictures,
    pictures,
    pyarrow,
    unreadable,
)
from acvp.data.frames import Frame
from acvp.data.store import EpisodeStore
from acvp.durable import check_space, new_folder, read_file
from acvp.errors import UserError

EPISODES = ("episode", "episode_index", "episode_id")
"""Names of the column that says which episode a row is of."""
REWARDS = ("reward", "rewards", "next.reward")
TERMINATED, TRUNCATED = ("terminated", "next.done"), ("truncated",)
NUMBERS = (*EPISODES, "action", *REWARDS, *TERMINATED, *TRUNCATED)
"""Columns that an import reads besides the frames."""
INFO, STATE, SPLITS = "dataset_info.json", "state.json", "dataset_dict.json"
"""Files of a folder that save_to_disk wrote; a state names the files of a table, SPLITS the folders of tables."""
BLOCK = 64
"""Rows read at once."""
_DAMAGE = (OSError, ValueError, KeyError, TypeError, IndexError, RuntimeError, NotImplementedError, ArithmeticError)


def read(source: Path) -> dict[str, Source]:
    """Return what to import from a folder, by split."""
    library = _datasets()
    refuse = unreadable(source, "a dataset of Hugging Face")
    try:
        splits = _open(source, library)
        contents = {name: _source(f"{source}{name and ': '}{name}", *split, library) for name, split in splits.items()}
    except UserError:
        raise
    except (*_DAMAGE, library.exceptions.DatasetsError) as error:
        raise refuse(error) from error
    return contents if len(contents) > 1 else {"": next(iter(contents.values()))}


def _datasets() -> Any:
    try:
        import datasets
    except ImportError as error:
        raise UserError("datasets is not installed: pip install 'acvp[datasets]'") from error
    return datasets


def _open(source: Path, library: Any) -> dict[str, tuple[Any, dict[str, Any]]]:
    """Return the tables of a folder by split, and what acvp has noted in them; no file outside of it is read."""
    folder = source if source.is_dir() else source.parent
    checked_files([path for path in sorted(folder.rglob("*")) if path.is_symlink() or not path.is_dir()], folder)
    if any((source / name).is_file() for name in (INFO, SPLITS)):
        checked_files(list(_named(source)), folder)
        loaded = library.load_from_disk(str(source))
        tables = dict(loaded) if isinstance(loaded, library.DatasetDict) else {"": loaded}
        return {name: (table, {}) for name, table in tables.items()}
    files = [source] if source.is_file() else sorted(source.rglob("*.parquet"))
    if not files:
        raise UserError(f"{source}: neither a folder of save_to_disk nor Parquet files; give one of them")
    named = {split: [file for file in files if split in file.stem] for split in ("train", "test")}
    groups = named if all(named.values()) else {"": files}
    return {split: _parquet(of_split, library) for split, of_split in groups.items()}


def _named(source: Path) -> Iterator[Path]:
    """Yield the files that a folder of save_to_disk names: the library would open them wherever they are."""
    states = [source / STATE]
    if not (source / INFO).is_file():
        states = [source / name / STATE for name in json.loads(read_file(source / SPLITS, source))["splits"]]
    yield from (state.with_name(INFO) for state in states)
    for state in states:
        yield from (state.parent / file["filename"] for file in json.loads(read_file(state, source))["_data_files"])


def _parquet(files: list[Path], library: Any) -> tuple[Any, dict[str, Any]]:
    """Return Parquet files as one table in memory, without a cache elsewhere; frames stay compressed."""
    pa, parquet = pyarrow("datasets")
    tables = [parquet.read_table(file) for file in files]
    return library.Dataset(pa.concat_tables(tables)), _own(tables[0].schema.metadata or {})


def _source(location: str, split: Any, own: dict[str, Any], library: Any) -> Source:
    image = _image_column(split, library)
    if "action" not in split.column_names:
        raise ValueError(f"its columns are {', '.join(split.column_names)}, and none is `action`")
    table = _readable(split, image, library)
    numbers = _episodes(table)
    columns = {number: _columns(table, rows, f"{location}: episode {number}") for number, rows in numbers.items()}
    located = ((f"{location}: episode {number}", known.actions) for number, known in columns.items())
    actions = described_actions(located, _own_range(own))
    first = next(pictures([table[0][image]], location))
    names: list[Any] = own.get("action_meanings") or []
    fits = isinstance(names, list) and len(names) >= actions["action_count"]
    return Source(
        episodes=[
            SourceEpisode(
                number=number,
                location=f"{location}: episode {number}",
                frame_count=len(rows),
                actions=columns[number].actions,
                read=partial(_record, table, image, rows, columns[number], f"{location}: episode {number}"),
            )
            for number, rows in numbers.items()
        ],
        env_id=str(own.get("env_id") or Path(location).name),
        frame_shape=(first.shape[0], first.shape[1], 3),
        action_meanings=tuple(map(str, names)) if fits else None,
        lossy=lossy_pictures(table[0][image]),
        **actions,
    )


def _is_image(split: Any, name: str, library: Any) -> bool:
    return isinstance(split.features[name], library.Image)


def _readable(split: Any, image: str, library: Any) -> Any:
    """Return the columns that an import reads: frames as bytes, all else as Python values.

    A row holds all columns, and to read images, sounds or videos is to open the files and addresses that they name.
    """
    columns = [name for name in NUMBERS if name in split.column_names]
    for name in columns:
        if library.features.features.require_decoding(split.features[name]):
            raise ValueError(f"its column {name} holds media, not numbers")
    return split.with_format(None).select_columns([image, *columns]).cast_column(image, library.Image(decode=False))


def _image_column(split: Any, library: Any) -> str:
    if not len(split):
        raise ValueError("it has no rows")
    images = [name for name in split.column_names if _is_image(split, name, library)]
    if not images:
        raise ValueError(f"none of its columns {', '.join(split.column_names)} is an Image")
    return str(images[0])


def _episodes(table: Any) -> dict[int, range]:
    """Return the rows of each episode, which follow each other; without such a column, all are one episode."""
    name = next((name for name in EPISODES if name in table.column_names), None)
    if name is None:
        return {0: range(len(table))}
    values = np.array(table[name][:])
    firsts = [0, *(np.flatnonzero(values[1:] != values[:-1]) + 1).tolist()]
    numbers = values[firsts].tolist() if values.dtype.kind in "iu" else list(range(len(firsts)))
    if len(set(numbers)) < len(numbers) or min(numbers) < 0:
        raise ValueError(f"the rows of an episode do not follow each other in the column {name}")
    stops = [*firsts[1:], len(values)]
    return {number: range(first, stop) for number, first, stop in zip(numbers, firsts, stops, strict=True)}


def _columns(table: Any, rows: range, location: str) -> Columns:
    """Read the columns of an episode besides its frames."""

    def column(*names: str) -> NDArray[Any] | None:
        known = [name for name in names if name in table.column_names]
        return np.array(table[known[0]][rows.start : rows.stop]) if known else None

    actions = column("action")
    assert actions is not None
    return Columns(
        actions=actions_of(actions, location),
        rewards=column(*REWARDS),
        terminated=column(*TERMINATED),
        truncated=column(*TRUNCATED),
    )


def _record(table: Any, image: str, rows: range, known: Columns, location: str) -> Recording:
    return known.recording(_frames(table, image, rows, location), location)


def _frames(table: Any, image: str, rows: range, location: str) -> Generator[Frame, None, None]:
    for first in range(rows.start, rows.stop, BLOCK):
        yield from pictures(table[image][first : min(first + BLOCK, rows.stop)], location)


def _own(metadata: dict[bytes, bytes]) -> dict[str, Any]:
    """Return what acvp has noted in a table that it wrote."""
    try:
        own = json.loads(metadata.get(b"acvp", b"{}"))
    except ValueError:
        return {}
    return own if isinstance(own, dict) else {}


def _own_range(own: dict[str, Any]) -> ActionRange:
    try:
        return checked_range(own.get("action_range") or [])
    except ValueError as error:
        raise UserError(f"its description by acvp: {error}") from error


def write(store: EpisodeStore, out: Path, advance: Callable[[int], None]) -> None:
    """Write a Parquet file and a card in the folder `out`."""
    library, (_, parquet) = _datasets(), pyarrow("datasets")
    info = store.info
    own = {"env_id": info.env_id, "action_meanings": info.action_meanings, "action_range": info.action_range}
    schema = _features(store, library).arrow_schema
    schema = schema.with_metadata((schema.metadata or {}) | {b"acvp": json.dumps(own).encode()})
    with new_folder(out) as folder:
        (folder / "data").mkdir()
        check_space(folder, store.size)
        with parquet.ParquetWriter(folder / "data/train-00000-of-00001.parquet", schema) as writer:
            for episode in store:
                for block in blocks_of_rows(store, episode):
                    writer.write_table(_table(block, episode.header.number, schema))
                    advance(len(block["images"]))
        (folder / "README.md").write_text(_card(store), encoding="utf-8")


def _features(store: EpisodeStore, library: Any) -> Any:
    action = library.Value("int64")
    if store.info.action_range:
        action = library.List(library.Value("float32"), length=len(store.info.action_range))
    numbers = {"reward": "float32", "terminated": "bool", "truncated": "bool"}
    return library.Features(
        {"episode": library.Value("int64"), "image": library.Image(), "action": action}
        | {name: library.Value(kind) for name, kind in numbers.items()}
    )


def _table(block: dict[str, Any], number: int, schema: Any) -> Any:
    pa, _ = pyarrow("datasets")
    columns = {
        "episode": [number] * len(block["images"]),
        "image": block["images"],
        "action": block["actions"].tolist(),
        "reward": block["rewards"].tolist(),
        "terminated": block["terminated"].tolist(),
        "truncated": block["truncated"].tolist(),
    }
    return pa.table({name: pa.array(columns[name], schema.field(name).type) for name in schema.names}, schema=schema)


def _card(store: EpisodeStore) -> str:
    config = "configs:\n- config_name: default\n  data_files: data/train-*.parquet\n"
    return (
        f"---\ntags: [world-model, video-prediction]\n{config}---\n\n# Episodes of {store.info.env_id}\n\n"
        f"{len(store):,} episodes, {store.frames:,} frames, exported by acvp. A row is a frame, the action taken at "
        "it, and the reward and end that the action led to; the action of an episode's last row is blank.\n"
    )
