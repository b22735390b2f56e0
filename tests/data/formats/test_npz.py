"""npz files of others: what is read, and what is refused."""

import io
import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from acvp.data.formats import export_store, import_store
from acvp.data.formats.npz import opened, read_array
from acvp.errors import UserError
from tests.data.formats.stores import simple_store

FRAMES = np.arange(5 * 4 * 6 * 3, dtype=np.uint8).reshape(5, 4, 6, 3)
ACTIONS = np.array([0, 2, 1, 0])


def test_numpy_opens_what_is_written(tmp_path: Path) -> None:
    store = simple_store(tmp_path / "store", [5])
    export_store("npz", store, tmp_path / "out")
    with np.load(tmp_path / "out" / "episode_000000.npz", allow_pickle=False) as arrays:
        assert np.array_equal(arrays["frames"], store[0].frames())
        assert np.array_equal(arrays["actions"], store[0].actions)
        assert np.array_equal(arrays["rewards"], store[0].rewards)
        assert np.array_equal(arrays["lives"], store[0].lives)
        assert arrays["terminated"].tolist() == [False, False, False, True]
        assert arrays["truncated"].tolist() == [False] * 4
        assert int(arrays["seed"]) == 1000
        assert str(arrays["env_id"]) == "ALE/Some_Game-v5"


@pytest.mark.parametrize("write", [np.savez, np.savez_compressed])
def test_frames_and_actions_are_enough(tmp_path: Path, write: Callable[..., None]) -> None:
    write(tmp_path / "my-game.npz", frames=FRAMES, actions=ACTIONS)
    (store,) = import_store("npz", tmp_path / "my-game.npz", tmp_path / "out")
    assert (store.info.env_id, store.info.action_meanings) == ("my-game", ("0", "1", "2"))
    assert np.array_equal(store[0].frames(), FRAMES)
    assert np.array_equal(store[0].actions, ACTIONS)
    assert (store[0].header.truncated, store[0].header.terminated, store[0].header.seed) == (True, False, 0)
    assert (store[0].lives == -1).all()


def test_small_arrays_are_read_in_their_order(tmp_path: Path) -> None:
    table = np.arange(6).reshape(2, 3)
    np.savez(tmp_path / "x.npz", rows=table, columns=np.asfortranarray(table))
    with opened(tmp_path / "x.npz") as archive:
        assert read_array(archive, "rows").tolist() == read_array(archive, "columns").tolist() == table.tolist()


def test_files_of_a_folder_keep_their_numbers(tmp_path: Path) -> None:
    for name in ("run_7", "run_12"):
        np.savez(tmp_path / f"{name}.npz", frames=FRAMES, actions=ACTIONS, rewards=np.ones(4, np.int64))
    (store,) = import_store("npz", tmp_path, tmp_path / "out")
    assert [episode.header.number for episode in store] == [7, 12]
    assert store[0].rewards.tolist() == [1, 1, 1, 1]


def raw(shape: str, data: bytes = b"", descr: str = "'|u1'", size: int = 118) -> bytes:
    header = f"{{'descr': {descr}, 'fortran_order': False, 'shape': {shape}, }}".encode().ljust(size)
    return b"\x93NUMPY\x01\x00" + len(header).to_bytes(2, "little") + header + data


def members(**arrays: bytes) -> bytes:
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, data in arrays.items():
            archive.writestr(f"{name}.npy", data)
    return buffer.getvalue()


def saved(**arrays: Any) -> bytes:
    buffer = io.BytesIO()
    np.savez(buffer, **arrays)
    return buffer.getvalue()


def flipped() -> bytes:
    data = bytearray(saved(frames=FRAMES, actions=ACTIONS))
    data[300] ^= 1
    return bytes(data)


GOOD_ACTIONS = raw("(4,)", bytes(32), "'<i8'")

DAMAGE: dict[str, tuple[bytes, str]] = {
    "not a zip": (b"hello", "cannot be read as npz"),
    "empty": (b"", "cannot be read as npz"),
    "cut": (saved(frames=FRAMES, actions=ACTIONS)[:-40], "cannot be read as npz"),
    "flipped bit": (flipped(), "Bad CRC-32"),
    "no actions": (saved(frames=FRAMES), "it has no array actions; an episode needs frames and actions"),
    "objects": (saved(frames=FRAMES, actions=np.array([0, 1, 2, None], object)), "array actions holds '|O'"),
    "object frames": (saved(frames=np.array([None]), actions=ACTIONS), "array frames holds '|O'"),
    "records": (members(frames=raw("(5, 4, 6, 3)"), actions=raw("(4,)", descr="[('a', '|O')]")), "only plain numbers"),
    "float frames": (saved(frames=FRAMES / 255, actions=ACTIONS), r"frames are float64 \(5, 4, 6, 3\); expected uint8"),
    "gray": (saved(frames=FRAMES[..., 0], actions=ACTIONS), r"frames are uint8 \(5, 4, 6\)"),
    "channels first": (saved(frames=FRAMES.reshape(5, 3, 4, 6), actions=ACTIONS), r"frames are uint8 \(5, 3, 4, 6\)"),
    "fortran": (saved(frames=np.asfortranarray(FRAMES), actions=ACTIONS), "in Fortran order"),
    "no frames": (saved(frames=FRAMES[:0], actions=ACTIONS[:0]), r"frames are uint8 \(0, 4, 6, 3\)"),
    "too many actions": (
        saved(frames=FRAMES, actions=np.zeros(5, int)),
        r"actions are int64 \(5,\); expected 4 integers",
    ),
    "float actions": (saved(frames=FRAMES, actions=ACTIONS / 1), r"actions are float64 \(4,\); expected 4 integers"),
    "negative action": (saved(frames=FRAMES, actions=-ACTIONS), r"actions\[1\]: action -2 is out of range"),
    "rewards": (
        saved(frames=FRAMES, actions=ACTIONS, rewards=[1.0]),
        r"rewards are float64 \(1,\); expected 4 numbers",
    ),
    "ends": (saved(frames=FRAMES, actions=ACTIONS, terminated=ACTIONS), "terminated are int64"),
    "seed": (saved(frames=FRAMES, actions=ACTIONS, seed=-1), "its seed is int64"),
    "seeds": (saved(frames=FRAMES, actions=ACTIONS, seed=[1, 2]), r"its seed is int64 \(2,\); expected one number"),
    "bomb": (members(frames=raw("(10**9, 4, 6, 3)"), actions=GOOD_ACTIONS), "cannot be read as npz"),
    "many": (members(frames=raw("(1000000000, 4, 6, 3)"), actions=GOOD_ACTIONS), "expected 999999999 integers"),
    "vast": (members(frames=raw("(5, 99999, 99999, 3)"), actions=GOOD_ACTIONS), "sides up to 4096"),
    "big actions": (members(frames=raw("(5, 4, 6, 3)"), actions=raw("(99999999999,)")), "claims 99,999,999,999 bytes"),
    "short frames": (members(frames=raw("(5, 4, 6, 3)", bytes(100)), actions=GOOD_ACTIONS), "frames ends too early"),
    "long frames": (members(frames=raw("(5, 4, 6, 3)", bytes(361)), actions=GOOD_ACTIONS), "longer than its shape"),
    "code": (members(frames=raw("exec('1/0')"), actions=GOOD_ACTIONS), "cannot be read as npz"),
    "deep": (members(frames=raw("(" * 9000, size=9100), actions=GOOD_ACTIONS), "cannot be read as npz"),
    "long header": (members(frames=raw("(5, 4, 6, 3)", size=20000), actions=GOOD_ACTIONS), "header of 20,000 bytes"),
    "strange": (members(frames=b"something else", actions=GOOD_ACTIONS), "not in numpy's format"),
}


@pytest.mark.parametrize(("data", "reason"), DAMAGE.values(), ids=DAMAGE.keys())
def test_bad_input_is_named(tmp_path: Path, data: bytes, reason: str) -> None:
    file = tmp_path / "play.npz"
    file.write_bytes(data)
    with pytest.raises(UserError, match=reason) as caught:
        import_store("npz", file, tmp_path / "out")
    assert str(caught.value).startswith(str(file))
    assert "\n" not in str(caught.value)


def test_frames_of_two_sizes_and_no_files(tmp_path: Path) -> None:
    with pytest.raises(UserError, match=r"no \.npz files there"):
        import_store("npz", tmp_path, tmp_path / "out")
    np.savez(tmp_path / "a.npz", frames=FRAMES, actions=ACTIONS)
    np.savez(tmp_path / "b.npz", frames=FRAMES[:, :3], actions=ACTIONS)
    with pytest.raises(UserError, match=r"b\.npz: frame 0 is 3×6, the first one of all is 4×6"):
        import_store("npz", tmp_path, tmp_path / "out")


def test_mutated_files_never_crash(tmp_path: Path) -> None:
    good, rng = saved(frames=FRAMES, actions=ACTIONS, seed=3, lives=np.ones(5, int)), np.random.default_rng(0)
    file, read = tmp_path / "play.npz", 0
    for i in range(150):
        data = bytearray(good)
        for position in rng.integers(0, len(data), 2):
            data[position] = rng.integers(256)
        file.write_bytes(data)
        try:
            import_store("npz", file, tmp_path / f"out{i}")
            read += 1
        except UserError:
            continue
    assert read < 75
