"""A disk that takes no more: a clear message, nothing destroyed, and the same command goes on once there is room."""

from __future__ import annotations

import errno
import shlex
import shutil
import subprocess
import sys
from itertools import product
from pathlib import Path

import numpy as np
import pytest

from acvp.data.collect import CollectConfig, collect
from acvp.data.episode import serialize
from acvp.data.recording import open_writer
from acvp.data.store import STORE_FORMAT, EpisodeStore, IndexEntry
from acvp.data.verify import verify
from acvp.durable import SPARE_BYTES, DiskError, append_line, seal, write_atomic
from tests.data.answers import INFO, answer_episode, answer_store
from tests.faults import (
    ROOT,
    TELLING_ID,
    Trap,
    Trials,
    added,
    assert_nothing_wrong,
    collect_command,
    contents,
    counted,
    fail_with,
    start,
)

PLACES = {
    "part": ("*/episodes/.*.tmp", "*/episodes/*.safetensors"),
    "index": ("*/index.jsonl", None),
    "index put in order": ("*/.index.jsonl.*.tmp", "*/index.jsonl"),
    "store.json": ("*/.store.json.*.tmp", "*/store.json"),
}
"""What is written, and the name it is renamed to."""

SHARES = (0.0, 0.01, 0.1, 0.5, 0.99)
CASES = [
    (place, trap, error)
    for (place, (written, renamed)), error in product(PLACES.items(), (errno.ENOSPC, errno.EIO))
    for trap in [
        Trap("open", written),
        *(Trap("write", written, 1, share) for share in SHARES),
        Trap("fsync", written),
        *([Trap("replace", renamed)] if renamed else []),
    ]
]
SMALL = 400
"""Frames of the collections here: about ten episodes."""


def needed_bytes(place: str, folder: Path) -> int:
    """What the failing write of a case has to say that it needed."""
    third = answer_episode(2, 40)
    if place == "index put in order":
        return (folder / "index.jsonl").stat().st_size
    return {
        "part": len(serialize(third)),
        "index": len(IndexEntry.of(third, serialize(third)).to_line()) + 1,
        "store.json": len(seal({"store_format": STORE_FORMAT} | INFO.to_json())),
    }[place]


def write_something(place: str, folder: Path) -> None:
    """What the case is about, on a store of two episodes."""
    with open_writer(folder, INFO) as writer:
        if place == "index put in order":
            writer.rewrite_index()
        elif 2 not in {entry.number for entry in writer.entries}:
            writer.add(answer_episode(2, 40))


@counted("4 a full disk destroys nothing", quick=len(CASES), full=len(CASES))
def test_a_failing_write_destroys_nothing(trials: Trials, tmp_path: Path) -> None:
    def fail_once(i: int, rng: np.random.Generator) -> None:
        place, trap, error = CASES[i]
        folder = tmp_path / str(i)
        folder.mkdir()
        if place != "store.json":
            answer_store(folder, [20, 30])
        before = contents(folder)
        with pytest.MonkeyPatch.context() as patch:
            trap.arm(fail_with(error), patch.setattr)
            with pytest.raises(DiskError) as caught:
                write_something(place, folder)
        assert f"could not write {needed_bytes(place, folder):,} bytes" in str(caught.value)
        assert str(folder) in str(caught.value)
        after = contents(folder)
        part_was_done = {"episodes/000002.safetensors"} if place == "index" else set()
        assert {name: after[name] for name in after if name not in part_was_done} == before
        write_something(place, folder)
        assert verify(folder) == []
        assert len(EpisodeStore(folder)) == {"store.json": 1, "index put in order": 2}.get(place, 3)

    trials.run(fail_once)


@pytest.mark.parametrize("write", [lambda p: write_atomic(p, b"x" * 999), lambda p: append_line(p, "x" * 998)])
def test_too_little_space_is_seen_before_writing(tmp_path: Path, write: object) -> None:
    file = tmp_path / "file"
    file.write_bytes(b"old")
    for free, refused in ((SPARE_BYTES + 998, True), (SPARE_BYTES + 999, False)):
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(shutil, "disk_usage", lambda path, free=free: shutil._ntuple_diskusage(2**40, 0, free))
            if not refused:
                write(file)  # type: ignore[operator]
                continue
            with pytest.raises(DiskError, match=f"file: not enough disk space: 999 bytes needed and .* {free:,} free"):
                write(file)  # type: ignore[operator]
            assert file.read_bytes() == b"old"
            assert list(tmp_path.iterdir()) == [file]


def test_a_folder_that_does_not_sync_is_said(tmp_path: Path) -> None:
    with pytest.MonkeyPatch.context() as patch:
        Trap("fsync", str(tmp_path)).arm(fail_with(errno.EIO), patch.setattr)
        with pytest.raises(DiskError, match="written, but its folder could not be synced"):
            write_atomic(tmp_path / "file", b"new")
    assert (tmp_path / "file").read_bytes() == b"new"


def one_line(errors: bytes) -> str:
    (line,) = errors.decode().splitlines()
    assert line.startswith("acvp: ")
    return line


def assert_goes_on(folder: Path, reported: set[int], reference: Path) -> None:
    """Fail unless what was reported is there and the same collection completes where there is room."""
    assert reported <= assert_nothing_wrong(folder)
    collect(CollectConfig(env_id=TELLING_ID, import_module="tests.faults", out=folder, frames=SMALL, seed=7))
    collect(CollectConfig(env_id=TELLING_ID, import_module="tests.faults", out=reference, frames=SMALL, seed=7))
    assert contents(folder) == contents(reference)


@pytest.mark.parametrize(
    ("mishap", "message"),
    [
        ({"trap": Trap("write", "*/episodes/.*.tmp", 4, 0.5), "error": errno.ENOSPC}, "No space left on device"),
        ({"trap": Trap("replace", "*/episodes/*", 4), "error": errno.EIO}, "Input/output error"),
        ({"trap": Trap("write", "*/index.jsonl", 4, 0.5), "error": errno.ENOSPC}, "No space left on device"),
        ({"file_limit": 4500}, "File too large"),  # the system itself refuses: parts are of 2 to 6 kB
    ],
)
def test_the_command_prints_one_line_and_resumes_later(tmp_path: Path, mishap: dict[str, object], message: str) -> None:
    process = start(collect_command(tmp_path / "store", frames=SMALL), **mishap)
    output, errors = process.communicate()
    assert process.returncode == 2
    assert message in one_line(errors)
    assert "bytes" in one_line(errors)
    assert_goes_on(tmp_path / "store", added(output), tmp_path / "reference")


FULL_DISK = """
mount -t tmpfs -o size=40k acvp {small} || exit 77
{python} -m tests.faults '{{"blind": true}}' {collect}
first=$?
cp -r {small}/store {saved}
{python} -m tests.faults '{{}}' {collect}
exit $((first * 10 + $?))
"""


def test_a_really_full_disk(tmp_path: Path) -> None:
    """A file system of 40 kB, with the look at free space switched off, then on."""
    small, saved, unshare = tmp_path / "small", tmp_path / "saved", shutil.which("unshare")
    small.mkdir()
    collect_here = shlex.join(collect_command(small / "store", frames=SMALL))
    script = FULL_DISK.format(small=small, saved=saved, python=sys.executable, collect=collect_here)
    if unshare is None:
        pytest.skip("there is no unshare here to mount a small disk with")
    done = subprocess.run([unshare, "-m", "sh", "-c", script], cwd=ROOT, capture_output=True, check=False)
    if done.returncode in (1, 77):
        pytest.skip(f"mounting a small disk is not permitted here: {done.stderr.decode().strip()}")
    assert done.returncode == 22, done.stderr.decode()
    full, refused = done.stderr.decode().splitlines()
    assert "could not write" in full
    assert "No space left on device" in full
    assert "not enough disk space" in refused
    assert len(added(done.stdout)) >= 3
    assert_goes_on(saved, added(done.stdout), tmp_path / "reference")
