"""What all formats share: going on after a stop, refusing other data, whole exports, missing extras."""

import sys
from pathlib import Path

import numpy as np
import pytest

from acvp.data.formats import FORMATS, export_store, import_store
from acvp.data.store import EpisodeStore
from acvp.durable import new_folder
from acvp.errors import UserError
from tests.data.formats.stores import simple_store


@pytest.fixture
def source(tmp_path: Path) -> Path:
    export_store("npz", simple_store(tmp_path / "store", [4, 5, 6]), tmp_path / "source")
    return tmp_path / "source"


class Stopper:
    """A progress callback that stops the import at a frame, as ctrl-C would."""

    def __init__(self, frame: int) -> None:
        self.frame = frame

    def __call__(self, done: int, total: int) -> None:
        if done == self.frame:
            raise KeyboardInterrupt


@pytest.mark.parametrize("frame", [1, 4, 5, 9, 12, 15])
def test_an_interrupted_import_resumes(source: Path, tmp_path: Path, frame: int) -> None:
    with pytest.raises(KeyboardInterrupt):
        import_store("npz", source, tmp_path / "out", progress=Stopper(frame))
    kept = [entry.number for entry in EpisodeStore(tmp_path / "out").entries]
    assert kept == [number for number, last in enumerate((4, 9, 15)) if last < frame]
    (resumed,) = import_store("npz", source, tmp_path / "out")
    (fresh,) = import_store("npz", source, tmp_path / "fresh")
    assert resumed.digest == fresh.digest
    assert len(resumed) == 3


def test_an_import_resumes_after_its_source_is_fixed(source: Path, tmp_path: Path) -> None:
    file = source / "episode_000001.npz"
    good = file.read_bytes()
    with np.load(file) as arrays:
        np.savez(file, **{name: arrays[name] for name in arrays} | {"frames": arrays["frames"][:, :5]})
    with pytest.raises(UserError, match=r"episode_000001.npz: frame 0 is 5×10"):
        import_store("npz", source, tmp_path / "out")
    file.write_bytes(good)
    (store,) = import_store("npz", source, tmp_path / "out")
    assert [len(episode) for episode in store] == [4, 5, 6]


def test_an_import_into_other_data_is_refused(source: Path, tmp_path: Path) -> None:
    import_store("npz", source, tmp_path / "out")
    export_store("npz", simple_store(tmp_path / "other", [4, 7, 6]), tmp_path / "longer")
    with pytest.raises(UserError, match=r"its episode 1 \(5 frames\) is not from .*longer/episode_000001.npz"):
        import_store("npz", tmp_path / "longer", tmp_path / "out")
    export_store("npz", simple_store(tmp_path / "fewer", [4, 5]), tmp_path / "short")
    with pytest.raises(UserError, match=r"its episode 2 \(6 frames\) is not from the source"):
        import_store("npz", tmp_path / "short", tmp_path / "out")
    with np.load(source / "episode_000000.npz") as arrays:
        changed = {name: arrays[name] for name in arrays} | {"actions": (arrays["actions"] + 1) % 4}
    np.savez(source / "episode_000000.npz", **changed)
    with pytest.raises(UserError, match=r"its episode 0 \(4 frames\) is not from .*choose another --out"):
        import_store("npz", source, tmp_path / "out")


def test_a_store_with_other_settings_is_refused(source: Path, tmp_path: Path) -> None:
    import_store("npz", source, tmp_path / "out")
    with pytest.raises(UserError, match="records something else: env_id is"):
        import_store("npz", source, tmp_path / "out", env_id="Other-v0")


def test_actions_of_the_caller(source: Path, tmp_path: Path) -> None:
    highest = max(int(episode.actions.max()) for episode in EpisodeStore(tmp_path / "store"))
    with pytest.raises(
        UserError, match=rf"npz: action {highest} is out of range: 1 actions are given \(0 to 0\); give"
    ):
        import_store("npz", source, tmp_path / "out", actions=1)
    with pytest.raises(UserError, match="0 actions: a game has from 1 to 32768"):
        import_store("npz", source, tmp_path / "out", actions=0)
    assert not (tmp_path / "out").exists()
    (store,) = import_store("npz", source, tmp_path / "out", actions=18)
    assert store.action_count == 18


@pytest.mark.parametrize("format", FORMATS)
def test_a_failed_export_leaves_nothing(format: str, tmp_path: Path) -> None:
    store = simple_store(tmp_path / "store", [4, 5, 6])
    before = sorted(tmp_path.iterdir())
    with pytest.raises(KeyboardInterrupt):
        export_store(format, store, tmp_path / "out", progress=Stopper(9))
    assert not [p for p in (tmp_path / "out").rglob("*") if p.is_file() or p.name.startswith(".")]
    assert sorted(p for p in tmp_path.iterdir() if p.name != "out") == before
    export_store(format, store, tmp_path / "out")


@pytest.mark.parametrize("format", ["authors", "npz", "video"])
def test_an_export_overwrites_nothing(format: str, tmp_path: Path) -> None:
    store = simple_store(tmp_path / "store", [2])
    with pytest.raises(UserError, match="store exists already and is not empty; choose another"):
        export_store(format, store, tmp_path / "store")
    (tmp_path / "out").mkdir()
    with new_folder(tmp_path / "out"), pytest.raises(UserError, match=r"out.partial is being written by process"):
        export_store(format, store, tmp_path / "out")
    (tmp_path / "out").rmdir()
    (tmp_path / ".out.partial" / "unfinished" / "0000").mkdir(parents=True)  # as a killed export leaves it
    (tmp_path / ".out.partial" / "unfinished" / "0000" / "00000.png").write_bytes(b"half a fra")
    export_store(format, store, tmp_path / "out")


def test_a_full_disk_is_one_line(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def full(self: Path, data: bytes) -> int:
        raise OSError(28, "No space left on device")

    store = simple_store(tmp_path / "store", [2])
    monkeypatch.setattr(Path, "write_bytes", full)
    with pytest.raises(
        UserError, match=r"out: could not be written \(No space left on device\); everything written was removed"
    ):
        export_store("authors", store, tmp_path / "out")
    assert not (tmp_path / ".out.partial").exists()


def test_wrong_names_and_options(tmp_path: Path) -> None:
    store = simple_store(tmp_path / "store", [2])
    with pytest.raises(
        UserError, match="unknown format 'zarr'; choose from authors, datasets, lerobot, minari, npz, video"
    ):
        export_store("zarr", store, tmp_path / "out")
    with pytest.raises(UserError, match="unknown format 'zarr'"):
        import_store("zarr", tmp_path, tmp_path / "out")
    with pytest.raises(UserError, match="the format npz has no option dataset_id"):
        export_store("npz", store, tmp_path / "out", dataset_id="a-v0")
    with pytest.raises(UserError, match="no episodes in it; there is nothing to export"):
        export_store("npz", store.subset([]), tmp_path / "out")


def test_the_missing_extra_of_minari_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    store = simple_store(tmp_path / "store", [2])
    monkeypatch.setitem(sys.modules, "minari", None)
    with pytest.raises(UserError, match=r"pip install 'acvp\[minari\]'"):
        export_store("minari", store, tmp_path / "out")
    with pytest.raises(UserError, match=r"pip install 'acvp\[minari\]'"):
        import_store("minari", tmp_path / "dataset", tmp_path / "in")
