"""LeRobot and Hugging Face datasets: those that others wrote, continuous actions, and tables that are wrong."""

from __future__ import annotations

import io
import json
import os
import shutil
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import datasets
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from numpy.typing import NDArray
from PIL import Image

from acvp.data.collect import CollectConfig, collect
from acvp.data.formats import FORMATS, export_store, import_store
from acvp.data.store import EpisodeStore
from acvp.errors import UserError
from tests.data.formats.stores import simple_store
from tests.planting import WATCH

ROOT = Path(__file__).parent.parent.parent
MADE = ROOT / "fixtures" / "lerobot"
"""Three episodes that lerobot 0.4.4 has written, v3.0, with one video: a bar that moves four pixels to the right."""


@pytest.fixture(scope="module")
def drift(tmp_path_factory: pytest.TempPathFactory) -> EpisodeStore:
    """A few plays of DriftGame."""
    return collect(CollectConfig(env_id="drift", out=tmp_path_factory.mktemp("drift") / "store", frames=250, seed=3))


@pytest.mark.parametrize("format", [format for format in FORMATS if format != "authors"])
def test_continuous_actions_go_out_and_come_back(format: str, drift: EpisodeStore, tmp_path: Path) -> None:
    export_store(format, drift, tmp_path / "out")
    source = tmp_path / "out" / ("acvp/drift-v0" if format == "minari" else "")
    (after,) = import_store(format, source, tmp_path / "back")
    for old, new in zip(drift, after, strict=True):
        assert new.header.content == old.header.content
        assert np.array_equal(new.rewards, old.rewards)
    assert after.info.action_meanings == ("down", "right")
    low, high = np.array(after.info.action_range).T
    filled = np.concatenate([episode.actions for episode in drift])
    assert ((low <= filled.min(0)) & (high >= filled.max(0))).all()
    if format != "video":  # a table of actions does not say what is possible
        assert after.info.action_range == drift.info.action_range


def test_the_game_gives_the_range(drift: EpisodeStore, tmp_path: Path) -> None:
    export_store("video", drift, tmp_path / "out")
    limits = drift.info.action_range
    (after,) = import_store("video", tmp_path / "out", tmp_path / "back", action_range=limits)
    assert after.info.action_range == limits
    with pytest.raises(UserError, match="vectors of 2 numbers, the game's are vectors of 1 numbers"):
        import_store("video", tmp_path / "out", tmp_path / "no", action_range=limits[:1])
    with pytest.raises(UserError, match="vectors of 2 numbers, and 3 are given"):
        import_store("video", tmp_path / "out", tmp_path / "no", actions=3)


def test_the_authors_layout_has_no_vectors(drift: EpisodeStore, tmp_path: Path) -> None:
    with pytest.raises(UserError, match="the authors' layout needs a list of actions"):
        export_store("authors", drift, tmp_path / "out")


def bar(frame: NDArray[np.uint8]) -> int:
    """Return where the bar begins."""
    return int(np.argmax(frame[30, :, 0] > 120))


def test_what_lerobot_wrote_is_read(tmp_path: Path) -> None:
    notes: list[str] = []
    (store,) = import_store("lerobot", MADE, tmp_path / "out", note=notes.append)
    assert [len(episode) for episode in store] == [12, 13, 14]
    assert store.info.env_id == "toyarm"
    assert store.info.action_meanings == ("x", "y")
    assert store.info.action_range == ((0, 12), (0, 2))
    for number, episode in enumerate(store):
        assert episode.actions.tolist() == [[t, number] for t in range(len(episode) - 1)]
        frames = episode.frames()
        assert [bar(frame) for frame in frames] == [4 * t for t in range(len(frames))]
        assert abs(int(frames[0, 0, 60, 0]) - 10 * number) <= 2  # the video is lossy
    assert "is lossy or stores no RGB" in notes[0]


def test_start_times_below_a_frame_are_those_of_the_frame(tmp_path: Path) -> None:
    """A time that was rounded down, such as 1.1999999 s at 10 frames per second, is that of frame 12."""
    shutil.copytree(MADE, tmp_path / "in")
    (file,) = (tmp_path / "in" / "meta" / "episodes").glob("*/*.parquet")
    rows = pq.read_table(file).to_pylist()
    for row in rows:
        row["videos/observation.images.top/from_timestamp"] -= 1e-7
    pq.write_table(pa.Table.from_pylist(rows), file)
    (store,) = import_store("lerobot", tmp_path / "in", tmp_path / "out")
    assert [bar(episode.frames(0, 1)[0]) for episode in store] == [0, 0, 0]


def png(frame: NDArray[np.uint8], format: str = "PNG") -> dict[str, Any]:
    buffer = io.BytesIO()
    Image.fromarray(frame).save(buffer, format)
    return {"bytes": buffer.getvalue(), "path": None}


def older(folder: Path, version: str = "v2.1", format: str = "PNG", **changes: Any) -> Path:
    """Write a dataset as LeRobot did before v3.0: a table for each episode, and two cameras."""
    feature = {"dtype": "image", "shape": [8, 8, 3], "names": ["height", "width", "channels"]}
    features: dict[str, Any] = {"observation.images.top": feature, "observation.images.side": feature}
    features["action"] = {"dtype": "float32", "shape": [2], "names": {"motors": ["a", "b"]}}
    features |= {"next.reward": {"dtype": "float32", "shape": [1]}, "next.done": {"dtype": "bool", "shape": [1]}}
    pattern = "data/chunk-{episode_chunk:03d}/episode_{episode_index:06d}.parquet"
    info = {"codebase_version": version, "chunks_size": 2, "fps": 10, "data_path": pattern, "features": features}
    (folder / "meta").mkdir(parents=True)
    (folder / "meta/info.json").write_text(json.dumps(info | changes))
    lines = [json.dumps({"episode_index": e, "length": 4 + e, "tasks": ["t"]}) for e in range(3)]
    (folder / "meta/episodes.jsonl").write_text("\n".join(lines) + "\n")
    for e in range(3):
        rows = 4 + e
        frames = [np.full((8, 8, 3), 10 * e + t, np.uint8) for t in range(rows)]
        table = {
            "observation.images.top": [png(frame, format) for frame in frames],
            "observation.images.side": [png(frame + 100) for frame in frames],
            "action": [[float(t), float(e)] for t in range(rows)],
            "next.reward": [float(t) for t in range(rows)],
            "next.done": [e == 1 and t == rows - 1 for t in range(rows)],
            "episode_index": [e] * rows,
        }
        file = folder / f"data/chunk-{e // 2:03d}/episode_{e:06d}.parquet"
        file.parent.mkdir(parents=True, exist_ok=True)
        pq.write_table(pa.table(table), file)
    return folder


@pytest.mark.parametrize("version", ["v2.0", "v2.1"])
def test_older_versions_of_lerobot_are_read(version: str, tmp_path: Path) -> None:
    notes: list[str] = []
    (store,) = import_store("lerobot", older(tmp_path / "in", version), tmp_path / "out", note=notes.append)
    assert [episode.header.terminated for episode in store] == [False, True, False]
    assert [episode.header.truncated for episode in store] == [True, False, True]
    assert store.info.action_meanings == ("a", "b")
    assert store[2].frames()[:, 0, 0, 0].tolist() == [20, 21, 22, 23, 24, 25]
    assert store[2].rewards.tolist() == [0, 1, 2, 3, 4]
    assert notes == ["of several cameras observation.images.top was imported, not observation.images.side"]


def test_jpeg_frames_are_noted(tmp_path: Path) -> None:
    notes: list[str] = []
    import_store("lerobot", older(tmp_path / "in", format="JPEG"), tmp_path / "out", note=notes.append)
    assert "frames are JPEG images, which is lossy" in notes[0]


def break_version(folder: Path) -> None:
    change(folder, codebase_version="v9")


def change(folder: Path, **changes: Any) -> None:
    file = folder / "meta/info.json"
    file.write_text(json.dumps(json.loads(file.read_text()) | changes))


def lose_a_row(folder: Path) -> None:
    file = folder / "data/chunk-000/episode_000001.parquet"
    pq.write_table(pq.read_table(file).slice(1), file)


def cut_a_file(folder: Path) -> None:
    file = folder / "data/chunk-000/episode_000001.parquet"
    file.write_bytes(file.read_bytes()[:-40])


def put_in_nan(folder: Path) -> None:
    file = folder / "data/chunk-000/episode_000001.parquet"
    table = pq.read_table(file)
    actions = pa.array([[float("nan"), 0.0]] * table.num_rows)
    pq.write_table(table.set_column(table.column_names.index("action"), "action", actions), file)


def damage_a_frame(folder: Path) -> None:
    file = folder / "data/chunk-000/episode_000001.parquet"
    table = pq.read_table(file)
    cells = pa.array([{"bytes": b"nonsense", "path": None}] * table.num_rows)
    name = "observation.images.top"
    pq.write_table(table.set_column(table.column_names.index(name), name, cells), file)


@pytest.mark.parametrize(
    ("harm", "complaint"),
    [
        (break_version, r"names the version 'v9'; v2\.0, v2\.1, v3\.0 are read"),
        (lambda folder: change(folder, features={"action": {}}), "none of its features is an image or a video"),
        (lambda folder: change(folder, features={}), "has no feature `action`"),
        (lambda folder: change(folder, features={"action": "x"}), "has no feature `action`"),
        (lambda folder: change(folder, data_path="../../etc/passwd"), "cannot be read"),
        (lambda folder: shutil.rmtree(folder / "meta"), "cannot be read as a LeRobot dataset"),
        (lambda folder: (folder / "meta/episodes.jsonl").write_text(""), "it has no episodes"),
        (lambda folder: change(folder, chunks_size=0), "cannot be read as a LeRobot dataset"),
        (lose_a_row, "episode 1 has 4 rows in episode_000001.parquet, not 5"),
        (cut_a_file, "cannot be read as a LeRobot dataset"),
        (put_in_nan, r"episode 1, row 0: action \[nan, 0\.0\]; components are finite"),
        (damage_a_frame, "episode 1, row 0: its frame cannot be read"),
    ],
)
def test_lerobot_datasets_that_are_wrong_are_refused(
    harm: Callable[[Path], Any], complaint: str, tmp_path: Path
) -> None:
    folder = older(tmp_path / "in")
    harm(folder)
    with pytest.raises(UserError, match=complaint):
        import_store("lerobot", folder, tmp_path / "out")


@pytest.mark.parametrize("fps", [-1, 1e308, 1e30, float("nan"), 10**6])
def test_a_video_in_which_no_episode_can_begin_is_refused(fps: float, tmp_path: Path) -> None:
    shutil.copytree(MADE, tmp_path / "in")
    change(tmp_path / "in", fps=fps)
    file = tmp_path / "in/meta/episodes/chunk-000/file-000.parquet"
    rows = pq.read_table(file).to_pylist()
    rows[0]["videos/observation.images.top/from_timestamp"] = 1.0
    pq.write_table(pa.Table.from_pylist(rows), file)
    with pytest.raises(UserError, match=r"of its video|ends before it begins"):
        import_store("lerobot", tmp_path / "in", tmp_path / "out")


def table(episodes: list[int], **columns: Any) -> datasets.Dataset:
    """A table of gray frames whose brightness says the episode."""
    images = [png(np.full((8, 8, 3), 10 * e, np.uint8)) for e in episodes]
    values = {"image": images, "action": [e % 3 for e in episodes], "episode": episodes} | columns
    made = datasets.Dataset.from_dict({name: value for name, value in values.items() if value is not None})
    return made.cast_column("image", datasets.Image()) if values["image"] is not None else made


def test_splits_of_a_saved_dataset_become_two(tmp_path: Path) -> None:
    parts = {"train": table([0, 0, 0, 2, 2]), "test": table([1, 1, 1, 1], reward=[0.0, 1.0, 2.0, 3.0])}
    datasets.DatasetDict(parts).save_to_disk(tmp_path / "in")
    train, test = import_store("datasets", tmp_path / "in", tmp_path / "out")
    assert [entry.number for entry in train.entries] == [0, 2]
    assert [len(episode) for episode in train] == [3, 2]
    assert test[0].rewards.tolist() == [0, 1, 2]
    assert test[0].frames()[:, 0, 0, 0].tolist() == [10] * 4
    assert train.info.action_meanings == ("0", "1", "2")


@pytest.mark.parametrize(
    ("columns", "complaint"),
    [
        ({"action": None}, "and none is `action`"),
        ({"image": None}, "is an Image"),
        ({"episode": [0, 1, 0]}, "do not follow each other"),
        ({"action": ["up", "up", "up"]}, "expected whole numbers, or vectors"),
        ({"action": [-1, 0, 0]}, r"row 0: action -1 is out of range"),
    ],
)
def test_datasets_that_are_wrong_are_refused(columns: dict[str, Any], complaint: str, tmp_path: Path) -> None:
    table([0, 0, 0], **columns).save_to_disk(tmp_path / "in")
    with pytest.raises(UserError, match=complaint):
        import_store("datasets", tmp_path / "in", tmp_path / "out")


@pytest.mark.parametrize("absolute", [True, False])
@pytest.mark.parametrize("name", ["state.json", "dataset_dict.json"])
def test_a_saved_dataset_names_no_file_outside_of_it(name: str, absolute: bool, tmp_path: Path) -> None:
    """The library opens what these files name, wherever it is."""
    secret, folder = tmp_path / "secret", tmp_path / "in"
    table([7, 7, 7]).save_to_disk(secret)
    table([0, 0, 0]).save_to_disk(folder)
    there = str(secret) if absolute else "../secret"
    if name == "state.json":
        state = json.loads((folder / name).read_text())
        (arrow,) = secret.glob("*.arrow")
        state["_data_files"] = [{"filename": f"{there}/{arrow.name}"}]
        (folder / name).write_text(json.dumps(state))
    else:
        shutil.rmtree(folder)
        folder.mkdir()
        (folder / name).write_text(json.dumps({"splits": [there]}))
    with pytest.raises(UserError, match="it lies outside"):
        import_store("datasets", folder, tmp_path / "out")
    assert not (tmp_path / "out").exists()


def test_a_column_of_numbers_opens_no_media(tmp_path: Path) -> None:
    """A feature in the metadata can say that actions are images, which are opened by their paths when they are read."""
    secret = tmp_path / "secret.png"
    secret.write_bytes(png(np.zeros((8, 8, 3), np.uint8))["bytes"])
    cells = [{"bytes": None, "path": str(secret)}] * 3
    table([0, 0, 0], action=cells).cast_column("action", datasets.Image()).save_to_disk(tmp_path / "in")
    with pytest.raises(UserError, match="its column action holds media, not numbers"):
        import_store("datasets", tmp_path / "in", tmp_path / "out")


def test_a_column_that_is_not_imported_opens_no_media(tmp_path: Path) -> None:
    """A row holds all columns: to read one row is to open what each of its images names, be it a file or an address."""
    secret = tmp_path / "elsewhere" / "secret.png"
    secret.parent.mkdir()
    secret.write_bytes(png(np.zeros((8, 8, 3), np.uint8))["bytes"])
    made = table([0, 0, 0], view=[{"bytes": None, "path": str(secret)}] * 3)
    (tmp_path / "in").mkdir()
    pq.write_table(made.cast_column("view", datasets.Image()).data.table, tmp_path / "in" / "train.parquet")
    with WATCH.over(secret.parent) as opened:
        (store,) = import_store("datasets", tmp_path / "in", tmp_path / "out")
    assert opened == []
    assert [len(episode) for episode in store] == [3]


@pytest.mark.parametrize("library", ["arrow", "pandas", "torch"])
def test_a_dataset_saved_in_the_format_of_a_library_is_read(library: str, tmp_path: Path) -> None:
    table([0, 0, 0]).with_format(library).save_to_disk(tmp_path / "in")
    (store,) = import_store("datasets", tmp_path / "in", tmp_path / "out")
    assert [len(episode) for episode in store] == [3]


def test_a_named_pipe_among_tables_is_refused_at_once(tmp_path: Path) -> None:
    (tmp_path / "in").mkdir()
    os.mkfifo(tmp_path / "in" / "train.parquet")
    with pytest.raises(UserError, match=r"train\.parquet: cannot be read"):
        import_store("datasets", tmp_path / "in", tmp_path / "out")


def test_a_folder_of_something_else_is_refused(tmp_path: Path) -> None:
    (tmp_path / "in").mkdir()
    with pytest.raises(UserError, match="neither a folder of save_to_disk nor Parquet files"):
        import_store("datasets", tmp_path / "in", tmp_path / "out")


def test_the_library_opens_what_is_exported(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HF_DATASETS_OFFLINE", "1")
    store = simple_store(tmp_path / "store", [4, 6])
    export_store("datasets", store, tmp_path / "out")
    loaded = datasets.load_dataset(str(tmp_path / "out"), split="train", cache_dir=str(tmp_path / "cache"))
    assert loaded.num_rows == 10
    assert np.array_equal(np.asarray(loaded[5]["image"]), store[1].frames(1, 2)[0])
    assert loaded["action"][4:9] == store[1].actions.tolist()
    assert np.flatnonzero(loaded["terminated"]).tolist() == [2, 3, 8, 9]  # at the last action, and at the row after it


def test_lerobot_s_tables_are_those_of_the_whole_dataset(tmp_path: Path) -> None:
    """Rows are numbered through all episodes, and statistics are of all rows."""
    store = simple_store(tmp_path / "store", [4, 70, 6])
    export_store("lerobot", store, tmp_path / "out")
    rows = pq.read_table(tmp_path / "out" / "data/chunk-000/file-000.parquet")
    assert rows.column("index").to_pylist() == list(range(80))
    assert np.flatnonzero(rows.column("next.done").to_pylist()).tolist() == [2, 3, 72, 73, 78, 79]
    described = json.loads((tmp_path / "out" / "meta/stats.json").read_text())
    for name in ("action", "next.reward"):
        values = rows.column(name).to_numpy().astype(np.float64)
        found = {part: value[0] for part, value in described[name].items()}
        assert found.pop("count") == 80
        of_all = {"min": values.min(), "max": values.max(), "mean": values.mean(), "std": values.std()}
        assert found == pytest.approx(of_all)
        assert found["mean"] ** 2 > 1e-6  # otherwise the deviation would not tell


@pytest.mark.parametrize(("format", "library"), [("lerobot", "pyarrow"), ("datasets", "datasets")])
def test_a_missing_extra_is_named(format: str, library: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    store = simple_store(tmp_path / "store", [4, 6])
    monkeypatch.setitem(sys.modules, library, None)
    with pytest.raises(UserError, match=rf"{library} is not installed: pip install 'acvp\[{format}\]'"):
        export_store(format, store, tmp_path / "out")
    (tmp_path / "in").mkdir()
    with pytest.raises(UserError, match=rf"pip install 'acvp\[{format}\]'"):
        import_store(format, tmp_path / "in", tmp_path / "back")
