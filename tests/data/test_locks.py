"""Two writers on one folder: one wins, the other is told who; a killed writer blocks nobody."""

from __future__ import annotations

import json
import socket
import subprocess
import sys
import time
from pathlib import Path
from typing import IO

import numpy as np
import pytest

from acvp import durable
from acvp.durable import HOLDER_NAME, exclusive_writer
from acvp.errors import UserError
from tests.faults import PATIENCE, Trials, assert_nothing_wrong, collect_command, complaint, counted, start

pytestmark = pytest.mark.load


def said(process: subprocess.Popen[bytes]) -> str:
    return stream(process.stdout).readline().decode().strip()


def tell(process: subprocess.Popen[bytes]) -> None:
    stream(process.stdin).write(b"\n")
    stream(process.stdin).flush()


def stream(pipe: IO[bytes] | None) -> IO[bytes]:
    assert pipe is not None
    return pipe


def end(*processes: subprocess.Popen[bytes]) -> None:
    """Kill what is left of them."""
    for process in processes:
        process.kill()
        process.communicate()


@pytest.mark.slow
@counted("15 two writers race for one folder", quick=4, full=50)
def test_one_of_two_wins_and_the_other_learns_who(trials: Trials, tmp_path: Path) -> None:
    """All races are for one folder, so that each but the first meets the leavings of a killed winner."""

    def race(i: int, rng: np.random.Generator) -> None:
        racers = [start(["hold", str(tmp_path)]) for _ in range(2)]
        try:
            assert [said(racer) for racer in racers] == ["ready", "ready"]
            for racer in racers if rng.integers(2) else racers[::-1]:
                tell(racer)
            told = {racer.pid: said(racer) for racer in racers}
            assert sorted(words.split(":")[0] for words in told.values()) == ["refused", "won"]
            winner, loser = sorted(racers, key=lambda racer: told[racer.pid] != "won")
            assert f"{tmp_path} is being written by process {winner.pid} on " in told[loser.pid]
            with pytest.raises(UserError, match=f"process {winner.pid} on"), exclusive_writer(tmp_path):
                pass
        finally:
            end(*racers)
        assert_free(tmp_path)

    trials.run(race)


def assert_free(folder: Path) -> None:
    """Fail unless a new writer is let in without waiting, whatever a killed one has left."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("acvp.durable.time.sleep", lambda seconds: pytest.fail("it waits"))
        with exclusive_writer(folder):
            pass


NOTES = {
    "empty": b"",
    "cut": b"{",
    "a list": b"[]",
    "not text": b"\xff",
    "half": b'{"pid": 1}',
    "words": b'{"pid": "x", "host": 1}',
    "deep": b"[" * 10**5,
    "huge": json.dumps({"pid": -(10**30), "host": socket.gethostname()}).encode(),
}


@pytest.mark.parametrize("note", NOTES)
def test_a_damaged_note_about_the_holder_changes_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, note: str
) -> None:
    monkeypatch.setattr(durable, "HOLDER_SECONDS", 0.05)
    with exclusive_writer(tmp_path):
        (tmp_path / HOLDER_NAME).write_bytes(NOTES[note])
        with pytest.raises(UserError, match="is being written by another process"), exclusive_writer(tmp_path):
            pass
    assert_free(tmp_path)


def test_the_note_of_a_killed_writer_is_not_believed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(durable, "HOLDER_SECONDS", 0.05)
    gone = subprocess.Popen([sys.executable, "-c", ""])
    gone.wait()
    with exclusive_writer(tmp_path):
        note = json.loads((tmp_path / HOLDER_NAME).read_text())
        (tmp_path / HOLDER_NAME).write_text(json.dumps(note | {"pid": gone.pid}))
        with pytest.raises(UserError, match="is being written by another process"), exclusive_writer(tmp_path):
            pass


@pytest.mark.slow
def test_a_second_collection_is_refused_in_one_line(tmp_path: Path) -> None:
    first = start(collect_command(tmp_path, frames=10**6))
    try:
        while len(list((tmp_path / "episodes").glob("0*"))) < 2:
            assert first.poll() is None
            time.sleep(0.005)
        second = start(collect_command(tmp_path, frames=10**6))
        _, errors = second.communicate(timeout=PATIENCE)
        assert second.returncode == 2
        assert complaint(errors).startswith(f"acvp: {tmp_path} is being written by process {first.pid} on ")
    finally:
        end(first)
    assert len(assert_nothing_wrong(tmp_path)) >= 2
    third = start(collect_command(tmp_path, frames=50))
    _, errors = third.communicate(timeout=PATIENCE)
    assert third.returncode == 0, errors.decode()
