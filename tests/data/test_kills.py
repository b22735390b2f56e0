"""A real collection killed at any moment: what was reported is there and right, and running again completes it."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np
import psutil
import pytest

from acvp.data.collect import CollectConfig, WorkerProcesses, collect, make_player
from acvp.data.verify import verify
from acvp.errors import UserError
from tests.faults import (
    PATIENCE,
    TELLING_ID,
    Trap,
    Trials,
    added,
    assert_nothing_wrong,
    collect_command,
    complaint,
    contents,
    counted,
    start,
)

pytestmark = pytest.mark.load

FRAMES = 800
"""About 20 episodes."""

PART, PARTS = "*/episodes/.*.tmp", "*/episodes"
INDEX, NEW_INDEX = "*/index.jsonl", "*/.index.jsonl.*.tmp"

SURPLUS = Trap("unlink", "*/episodes/*.safetensors")
"""Dropping what other workers had played too much."""

AIMED = [
    *(Trap("write", PART, 5, share) for share in (0.25, 0.5, 0.75, 0.99)),
    Trap("open", PART, 3),
    Trap("fsync", PART, 4),
    Trap("replace", "*/episodes/*.safetensors", 6),
    Trap("fsync", PARTS, 7),
    *(Trap("open", INDEX, nth) for nth in (1, 2, 8)),  # the part is there, its line is not
    *(Trap("write", INDEX, nth, share) for nth, share in ((1, 0.5), (4, 0.5), (9, 0.99))),
    Trap("fsync", INDEX, 5),
    Trap("write", "*/.store.json.*.tmp", 1, 0.5),
    Trap("replace", "*/store.json"),
    Trap("write", NEW_INDEX, 1, 0.5),  # putting the lines in order at the end
    Trap("fsync", NEW_INDEX),
    Trap("replace", INDEX),
    SURPLUS,
    Trap("replace", "*/.collecting"),
    Trap("unlink", "*/.collecting"),
    Trap("unlink", "*/.writer.json"),
]
"""Two workers and one: 48 kills, and two more that hit while the store is extended."""


@pytest.fixture(scope="module")
def never_killed(tmp_path_factory: pytest.TempPathFactory) -> dict[str, bytes]:
    """The files of the same collection without a kill."""
    return contents(record_here(tmp_path_factory.mktemp("never-killed")))


def record_here(out: Path) -> Path:
    collect(CollectConfig(env_id=TELLING_ID, import_module="tests.faults", out=out, frames=FRAMES, seed=7))
    return out


def assert_gone(processes: list[psutil.Process]) -> None:
    """Fail unless all end by themselves; those that nobody has asked for their result have."""
    deadline = time.monotonic() + PATIENCE
    while alive := [process for process in processes if is_alive(process)]:
        assert time.monotonic() < deadline, f"left running: {alive}"
        time.sleep(0.02)


def is_alive(process: psutil.Process) -> bool:
    try:
        return bool(process.is_running() and process.status() != psutil.STATUS_ZOMBIE)
    except psutil.NoSuchProcess:
        return False


def assert_survived(out: Path, reported: set[int], never_killed: dict[str, bytes]) -> None:
    """Fail unless all that was reported is visible, all that is visible is right, and a second run completes it."""
    assert reported <= assert_nothing_wrong(out) or is_finished(out, never_killed)
    record_here(out)
    assert contents(out) == never_killed
    assert verify(out) == []


def is_finished(out: Path, never_killed: dict[str, bytes]) -> bool:
    """Whether the index is the final one: only then may reported episodes be gone, as surplus of other workers."""
    return (out / "index.jsonl").read_bytes() == never_killed["index.jsonl"]


def kill_after(delay: float, command: list[str], sign: Path) -> tuple[bytes, list[psutil.Process]] | None:
    """Kill a command a while after a folder appears: what it printed, and its helpers; None where it was faster."""
    process = start(command)
    while process.poll() is None and not sign.exists():
        time.sleep(0.001)
    time.sleep(delay)
    helpers = psutil.Process(process.pid).children(recursive=True)
    process.kill()
    output, _ = process.communicate()
    return (output, helpers) if process.returncode == -signal.SIGKILL else None


@pytest.mark.slow
@counted("3 collection survives kills at random moments", quick=4, full=100)
def test_random_kills(trials: Trials, tmp_path: Path, never_killed: dict[str, bytes]) -> None:
    def kill_once(i: int, rng: np.random.Generator) -> None:
        out, workers, killed = tmp_path / str(i), 1 + i % 2, None
        while killed is None:
            shutil.rmtree(out, ignore_errors=True)
            delay = rng.uniform(0, (0.3, 0.9)[workers - 1])
            killed = kill_after(delay, collect_command(out, frames=FRAMES, workers=workers), out / "episodes")
        output, helpers = killed
        assert_survived(out, added(output), never_killed)
        assert_gone(helpers)

    trials.run(kill_once)


def kill_at(trap: Trap, command: list[str]) -> bytes | None:
    """Kill a command at a place: what it printed; None where it never came there."""
    process = start(command, trap=trap)
    output, errors = process.communicate()
    assert process.returncode in (-signal.SIGKILL, 0), errors.decode()
    return output if process.returncode else None


@pytest.mark.slow
@counted("3 collection survives kills at aimed moments", quick=6, full=2 * len(AIMED) + 2)
def test_aimed_kills(trials: Trials, tmp_path: Path, never_killed: dict[str, bytes]) -> None:
    def kill_once(i: int, rng: np.random.Generator) -> None:
        trap, out = AIMED[(i * 7) % len(AIMED)], tmp_path / str(i)
        workers = 3 if trap == SURPLUS else 1 + (i + i // len(AIMED)) % 2
        for _ in range(100 if trap == SURPLUS else 1):  # it takes luck to have too much
            shutil.rmtree(out, ignore_errors=True)
            if i >= 2 * len(AIMED):
                start(collect_command(out, frames=FRAMES // 2)).communicate()
            output = kill_at(trap, collect_command(out, frames=FRAMES, workers=workers))
            if output is not None:
                break
        assert output is not None
        assert_survived(out, added(output), never_killed)

    trials.run(kill_once)


def wait_until(process: subprocess.Popen[bytes], happened: Callable[[], bool]) -> None:
    """Wait for something that a process does; fail if it ends before."""
    while not happened():
        assert process.poll() is None, "ended too early"
        time.sleep(0.002)


def episodes_in(folder: Path) -> int:
    return len(list((folder / "episodes").glob("0*")))


def press_ctrl_c(process: subprocess.Popen[bytes]) -> set[int]:
    """What a terminal does: the signal goes to the process and its helpers; the episodes reported so far."""
    helpers = psutil.Process(process.pid).children(recursive=True)
    os.killpg(process.pid, signal.SIGINT)
    output, errors = process.communicate(timeout=PATIENCE)
    assert process.returncode == 130
    assert complaint(errors).startswith("acvp: stopped; ")
    assert_gone(helpers)
    return added(output)


@pytest.mark.slow
@pytest.mark.parametrize("workers", [1, 2])
def test_ctrl_c_keeps_what_is_finished(tmp_path: Path, workers: int) -> None:
    process = start(collect_command(tmp_path, frames=10**6, workers=workers))
    wait_until(process, lambda: episodes_in(tmp_path) >= 3)
    reported, before = press_ctrl_c(process), assert_nothing_wrong(tmp_path)
    assert reported <= before
    again = start(collect_command(tmp_path, frames=10**6))
    wait_until(again, lambda: episodes_in(tmp_path) >= len(before) + 3)
    press_ctrl_c(again)
    assert before < assert_nothing_wrong(tmp_path)


@pytest.mark.slow
def test_ctrl_c_while_the_workers_start(tmp_path: Path) -> None:
    """It is not theirs to hear, not even before their first line of Python: that would print a traceback."""
    process = start(collect_command(tmp_path, frames=10**6, workers=2))
    wait_until(process, lambda: len(psutil.Process(process.pid).children()) == 3)  # two workers, one tracker
    for _ in range(10):
        for helper in psutil.Process(process.pid).children():
            helper.send_signal(signal.SIGINT)
        time.sleep(0.02)
    wait_until(process, lambda: episodes_in(tmp_path) >= 3)
    press_ctrl_c(process)
    assert_nothing_wrong(tmp_path)


@pytest.mark.slow
def test_a_killed_worker_is_said_in_one_line(tmp_path: Path) -> None:
    process = start(collect_command(tmp_path, frames=10**6, workers=2))
    wait_until(process, lambda: episodes_in(tmp_path) >= 3)
    psutil.Process(process.pid).children()[-1].kill()
    output, errors = process.communicate(timeout=PATIENCE)
    assert process.returncode == 2
    assert complaint(errors).startswith("acvp: a worker process died (exit code -9); run again to continue")
    assert added(output) <= assert_nothing_wrong(tmp_path)


def test_a_worker_killed_while_it_waits_is_said_too() -> None:
    workers = WorkerProcesses(make_player, None, 1)  # it is never asked to play
    try:
        idle = workers._workers[0].process
        idle.kill()
        idle.join()
        with pytest.raises(UserError, match=r"a worker process died \(exit code -9\)"):
            workers.submit(0)
    finally:
        workers.close()


def test_the_checks_see_a_lost_episode(tmp_path: Path, never_killed: dict[str, bytes]) -> None:
    """The test itself: a line or a part that is gone makes it fail."""
    record_here(tmp_path)
    lines = (tmp_path / "index.jsonl").read_text().splitlines(keepends=True)
    (tmp_path / "index.jsonl").write_text("".join(lines[:-1]))
    with pytest.raises(AssertionError):
        assert_survived(tmp_path, set(range(len(lines))), never_killed)
