"""A real collection killed at any moment: what was reported is there and right, and running again completes it."""

from __future__ import annotations

import os
import signal
import time
from pathlib import Path

import numpy as np
import psutil
import pytest

from acvp.data.collect import CollectConfig, collect
from acvp.data.verify import verify
from tests.faults import (
    TELLING_ID,
    Trap,
    Trials,
    added,
    assert_nothing_wrong,
    collect_command,
    contents,
    counted,
    start,
)

FRAMES = 800
"""About 20 episodes."""

PART, PARTS = "*/episodes/.*.tmp", "*/episodes"
INDEX, NEW_INDEX = "*/index.jsonl", "*/.index.jsonl.*.tmp"

AIMED = [
    *(Trap("write", PART, 5, share) for share in (0.0, 0.25, 0.5, 0.75, 0.99)),
    Trap("open", PART, 3),
    Trap("fsync", PART, 4),
    Trap("replace", "*/episodes/*.safetensors", 6),
    Trap("fsync", PARTS, 7),
    *(Trap("open", INDEX, nth) for nth in (1, 2, 8)),  # the part is there, its line is not
    *(Trap("write", INDEX, nth, share) for nth, share in ((1, 0.5), (4, 0.01), (4, 0.5), (9, 0.99))),
    Trap("fsync", INDEX, 5),
    Trap("write", "*/.store.json.*.tmp", 1, 0.5),
    Trap("replace", "*/store.json"),
    Trap("write", NEW_INDEX, 1, 0.5),  # putting the lines in order at the end
    Trap("fsync", NEW_INDEX),
    Trap("replace", INDEX),
    Trap("unlink", "*/episodes/*.safetensors"),  # dropping what other workers had begun too much
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
    """Fail unless all end by themselves within a few seconds; those that nobody has asked for their result have."""
    deadline = time.monotonic() + 5
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


@counted("3 collection survives kills at random moments", quick=6, full=100)
def test_random_kills(trials: Trials, tmp_path: Path, never_killed: dict[str, bytes]) -> None:
    def kill_once(i: int, rng: np.random.Generator) -> None:
        out, workers = tmp_path / str(i), 1 + i % 2
        process = start(collect_command(out, frames=FRAMES, workers=workers))
        while process.poll() is None and not (out / "episodes").exists():
            time.sleep(0.001)
        time.sleep(rng.uniform(0, (0.3, 1.2)[workers - 1]))
        helpers = psutil.Process(process.pid).children(recursive=True) if process.poll() is None else []
        process.kill()
        output, _ = process.communicate()
        assert_survived(out, added(output), never_killed)
        assert_gone(helpers)

    trials.run(kill_once)


@counted("3 collection survives kills at aimed moments", quick=8, full=2 * len(AIMED) + 2)
def test_aimed_kills(trials: Trials, tmp_path: Path, never_killed: dict[str, bytes]) -> None:
    def kill_once(i: int, rng: np.random.Generator) -> None:
        trap = AIMED[(i * 7) % len(AIMED)]
        out, workers = tmp_path / str(i), 1 + i // len(AIMED) % 2
        if i >= 2 * len(AIMED):
            start(collect_command(out, frames=FRAMES // 2)).communicate()
        process = start(collect_command(out, frames=FRAMES, workers=workers), trap=trap)
        output, errors = process.communicate()
        surplus = trap.operation == "unlink" and "safetensors" in trap.name  # with one worker there is none to drop
        assert process.returncode == -signal.SIGKILL or (surplus and process.returncode == 0), errors.decode()
        assert_survived(out, added(output), never_killed)

    trials.run(kill_once)


@pytest.mark.parametrize("workers", [1, 2])
@pytest.mark.parametrize("whole_group", [False, True])
def test_ctrl_c_keeps_what_is_finished(tmp_path: Path, workers: int, whole_group: bool) -> None:
    process = start(collect_command(tmp_path, frames=10**6, workers=workers))
    while process.poll() is None and len(list((tmp_path / "episodes").glob("0*"))) < 3:
        time.sleep(0.005)
    helpers = psutil.Process(process.pid).children(recursive=True)
    (os.killpg if whole_group else os.kill)(process.pid, signal.SIGINT)
    output, errors = process.communicate(timeout=20)
    assert process.returncode == 130
    assert errors.decode().splitlines() == [
        "acvp: stopped; what was finished is kept, and the same command goes on from there"
    ]
    assert added(output) <= assert_nothing_wrong(tmp_path)
    assert_gone(helpers)
    before = assert_nothing_wrong(tmp_path)
    again = start(collect_command(tmp_path, frames=10**6))
    while again.poll() is None and len(list((tmp_path / "episodes").glob("0*"))) < len(before) + 3:
        time.sleep(0.005)
    again.send_signal(signal.SIGINT)
    again.communicate(timeout=20)
    assert again.returncode == 130
    assert before < assert_nothing_wrong(tmp_path)


def test_the_checks_see_a_lost_episode(tmp_path: Path, never_killed: dict[str, bytes]) -> None:
    """The test itself: a line or a part that is gone makes it fail."""
    record_here(tmp_path)
    lines = (tmp_path / "index.jsonl").read_text().splitlines(keepends=True)
    (tmp_path / "index.jsonl").write_text("".join(lines[:-1]))
    with pytest.raises(AssertionError):
        assert_survived(tmp_path, set(range(len(lines))), never_killed)
