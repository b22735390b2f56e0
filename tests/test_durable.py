"""Writes that a process is killed in, and seals: the old file or the new one, and no flipped bit unseen."""

from __future__ import annotations

import hashlib
import os
import re
import signal
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from acvp.durable import (
    TAIL_BYTES,
    DiskError,
    append_line,
    exclusive_writer,
    finished_lines,
    new_folder,
    seal,
    unseal,
    write_atomic,
)
from tests.faults import Trap, Trials, counted, filling, start

OLD, SIZE, LINE = b"what was there before\n" * 40, 5000, "one more line " * 20

WRITE_POINTS = {
    "before open": Trap("open", "*.tmp"),
    "25 % written": Trap("write", "*.tmp", 1, 0.25),
    "50 % written": Trap("write", "*.tmp", 1, 0.50),
    "75 % written": Trap("write", "*.tmp", 1, 0.75),
    "before fsync": Trap("fsync", "*.tmp"),
    "before rename": Trap("replace", "*/file"),
    "before the folder's fsync": Trap("fsync", "*-folder"),
}
APPEND_POINTS = {
    "before open": Trap("open", "*/file"),
    **{f"{share:.0%} written": Trap("write", "*/file", 1, share) for share in (0.0, 0.25, 0.5, 0.75, 0.99)},
    "before fsync": Trap("fsync", "*/file"),
}


def killed_in(trap: Trap, file: Path, *arguments: object) -> None:
    """Kill a process that writes a file at a place."""
    verb, *rest = map(str, arguments)
    process = start([verb, str(file), *rest], trap=trap)
    _, errors = process.communicate()
    assert process.returncode == -signal.SIGKILL, errors.decode()


def old_file(folder: Path) -> Path:
    folder.mkdir()
    (folder / "file").write_bytes(OLD)
    return folder / "file"


@counted("1 a file survives kills at 7 named points of its writing", quick=7, full=25 * 7)
def test_a_killed_write_leaves_the_old_file_or_the_new(trials: Trials, tmp_path: Path) -> None:
    def kill_once(i: int, rng: np.random.Generator) -> None:
        point = list(WRITE_POINTS)[i % 7]
        file, size = old_file(tmp_path / f"{i}-folder"), int(rng.integers(1, 2 * SIZE))
        killed_in(WRITE_POINTS[point], file, "write", size)
        assert file.read_bytes() == (filling(size) if point == "before the folder's fsync" else OLD)
        left = list(file.parent.glob("*.tmp"))
        assert len(left) == (point not in ("before open", "before the folder's fsync"))
        with exclusive_writer(file.parent):
            assert {one.name for one in file.parent.iterdir()} == {".lock", ".writer.json", "file"}
        write_atomic(file, b"next")
        assert file.read_bytes() == b"next"

    trials.run(kill_once)


@counted("1 a log survives kills at 7 named points of an added line", quick=7, full=10 * 7)
def test_a_killed_append_leaves_whole_lines_and_at_most_one_torn(trials: Trials, tmp_path: Path) -> None:
    def kill_once(i: int, rng: np.random.Generator) -> None:
        point = list(APPEND_POINTS)[i % 7]
        file = old_file(tmp_path / f"{i}-folder")
        killed_in(APPEND_POINTS[point], file, "append", LINE)
        after = file.read_bytes()
        assert after.startswith(OLD)
        assert (LINE + "\n").encode().startswith(after[len(OLD) :])
        assert after.endswith(b"\n") == (after == OLD or after == OLD + LINE.encode() + b"\n")

    trials.run(kill_once)


def test_writes_that_nobody_kills(tmp_path: Path) -> None:
    file = old_file(tmp_path / "folder")
    process = start(["write", str(file), str(SIZE)])
    _, errors = process.communicate()
    assert process.returncode == 0, errors.decode()
    assert file.read_bytes() == filling(SIZE)
    write_atomic(file, b"first\n")
    append_line(file, LINE)
    assert file.read_bytes() == b"first\n" + LINE.encode() + b"\n"
    assert list(file.parent.iterdir()) == [file]


@pytest.mark.parametrize("size", [10, TAIL_BYTES - 1, TAIL_BYTES, 3 * TAIL_BYTES])
@pytest.mark.parametrize("left", [b"", b"half", b"\0\0\0", b"ha\0f\n"])
def test_a_line_follows_the_last_whole_one(tmp_path: Path, size: int, left: bytes) -> None:
    file = tmp_path / "log"
    file.write_bytes(b"first\n" + b"x" * size + b"\n" + left)
    append_line(file, LINE)
    assert file.read_bytes() == b"first\n" + b"x" * size + b"\n" + LINE.encode() + b"\n"
    assert finished_lines(file) == [b"first", b"x" * size, LINE.encode()]


json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=4), inner, max_size=3),
    max_leaves=8,
)
bodies = st.dictionaries(st.text(max_size=6).filter(lambda key: key != "sha256"), json_values, max_size=5)


@given(body=bodies)
def test_unseal_gives_back_what_was_sealed(body: dict[str, Any]) -> None:
    assert unseal(seal(body)) == body


@given(body=bodies, place=st.integers(0, 10**6))
def test_any_flipped_bit_of_a_seal_is_seen(body: dict[str, Any], place: int) -> None:
    damaged = bytearray(seal(body))
    damaged[place // 8 % len(damaged)] ^= 1 << place % 8
    with pytest.raises(ValueError, match=r"JSON|checksum"):
        unseal(bytes(damaged))


def test_every_flipped_bit_of_one_seal_is_seen() -> None:
    whole = seal({"name": "Freeway", "shape": [210, 160, 3], "epsilon": 0.3, "settings": {"skip": 4, "free": None}})
    for place in range(8 * len(whole)):
        damaged = bytearray(whole)
        damaged[place // 8] ^= 1 << place % 8
        with pytest.raises(ValueError, match=r"JSON|checksum"):
            unseal(bytes(damaged))


@pytest.mark.parametrize("cut", [0, 1, 50, -1])
def test_a_cut_seal_is_seen(cut: int) -> None:
    with pytest.raises(ValueError, match=r"JSON|checksum"):
        unseal(seal({"a": "b" * 100})[:cut])


@pytest.mark.parametrize("text", ["[]", "7", "{}", '{"sha256": 1}', "\ud800", "[" * 10**5])
def test_what_is_no_seal_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match=r"JSON|checksum"):
        unseal(text.encode(errors="surrogatepass"))


def test_a_seal_nested_too_deeply_is_refused() -> None:
    """At every depth: reading, hashing and writing reach the limit of recursion at different ones."""
    with ThreadPoolExecutor(1) as thread:  # its stack begins empty, so that the depths that matter are known
        for depth in range(970, 1000):
            nested = "[" * depth + "]" * depth
            digest = hashlib.sha256(f'{{"a": {nested}}}'.encode()).hexdigest()
            assert thread.submit(is_refused, f'{{"a": {nested}, "sha256": "{digest}"}}'.encode()).result()


def is_refused(data: bytes) -> bool:
    try:
        unseal(data)
    except ValueError:
        return True
    return False


def test_a_temporary_file_that_leads_elsewhere_is_not_written(tmp_path: Path) -> None:
    """Whoever made the folder may have put a link or a pipe under the name of the temporary file."""
    (tmp_path / "elsewhere").write_bytes(OLD)
    temporary = tmp_path / f".file.{os.getpid()}.tmp"
    temporary.symlink_to(tmp_path / "elsewhere")
    with pytest.raises(DiskError, match="file"):
        write_atomic(tmp_path / "file", b"new")
    assert (tmp_path / "elsewhere").read_bytes() == OLD
    assert not temporary.is_symlink()
    os.mkfifo(temporary)
    with pytest.raises(DiskError, match="file"):
        write_atomic(tmp_path / "file", b"new")


def test_a_new_folder_that_cannot_be_made_is_named_as_the_user_named_it(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(DiskError, match=re.escape(f"{tmp_path}/file/x: ")), new_folder(tmp_path / "file" / "x"):
        pass


def test_a_new_folder_is_synced_whole_before_it_gets_its_name(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Files in it are written by other libraries, which do not sync them."""
    synced: list[Path] = []

    def fsync(descriptor: int) -> None:
        synced.append(Path(f"/proc/self/fd/{descriptor}").resolve())

    def rename(folder: Path, out: Path) -> Path:
        assert {folder, *folder.rglob("*")} <= set(synced)
        assert synced.index(folder / "inner" / "b") < synced.index(folder / "inner")
        return out

    monkeypatch.setattr(os, "fsync", fsync)
    monkeypatch.setattr(Path, "rename", rename)
    with new_folder(tmp_path / "out") as folder:
        (folder / "inner").mkdir()
        for name in ("a", "inner/b"):
            (folder / name).write_bytes(OLD)
    assert synced[-1] == tmp_path  # the name itself
