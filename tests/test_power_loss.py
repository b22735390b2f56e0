"""Power loss at any moment: what was reported as saved is there when the power is back, and the rest can be redone."""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Callable
from itertools import pairwise
from math import inf
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from acvp.checkpoint import newest_good, prune, read_checkpoint, save_checkpoint
from acvp.data.collect import CollectConfig, collect
from acvp.data.episode import Episode
from acvp.data.recording import StoreWriter, open_writer
from acvp.data.store import EpisodeStore
from acvp.data.verify import verify
from acvp.durable import append_line, finished_lines
from acvp.result_cache import ResultCache
from acvp.runs import RunFolder
from tests.data.answers import INFO, answer_episode, read_answer
from tests.faults import TELLING_ID, Trials, assert_nothing_wrong, contents, counted
from tests.power import FATES, Call, Disk, KilledError, Recorder

Report = Callable[[Any], None]
Work = Callable[[Path, Report], None]
"""Saves things in a folder, whatever is there already, and reports each once it is saved."""
Check = Callable[[Path, list[Any]], None]
"""Fails unless a folder loads with everything that was reported."""


@pytest.fixture(autouse=True)
def quick_fsync(monkeypatch: pytest.MonkeyPatch) -> None:
    """No test here needs the real disk to be synced."""
    monkeypatch.setattr(os, "fsync", lambda descriptor: None)


def save_checkpoints(folder: Path, report: Report) -> None:
    """Do four steps more, as a run does: save, then prune."""
    run = RunFolder(folder / "runs" / "mine")
    with run.writing():
        newest = newest_good(run.checkpoints, pytest.fail)
        first = 1 if newest is None else newest.step  # which is saved already, and reported again
        for step in range(first, first + 4):
            save_checkpoint(run.checkpoints, step, checkpoint_files(step), score=1.0 if step == 2 else inf)
            report(step)
            prune(run.checkpoints, keep=2)


def checkpoint_files(step: int) -> dict[str, bytes]:
    """Several sectors of weights, and a small file."""
    return {"model.safetensors": bytes([step, 1]) * 1500, "state.json": json.dumps({"step": step}).encode()}


def check_checkpoints(folder: Path, reported: list[Any]) -> None:
    checkpoints = folder / "runs" / "mine" / "checkpoints"
    for manifest in checkpoints.glob("step-*/manifest.json"):
        read_checkpoint(manifest.parent)
    newest = newest_good(checkpoints, pytest.fail)
    assert (0 if newest is None else newest.step) >= max(reported, default=0)
    assert newest is None or newest.files == checkpoint_files(newest.step)


def record(folder: Path, report: Report) -> None:
    """Record some short episodes of a game whose frames identify themselves."""
    add = StoreWriter.add

    def reported_add(writer: StoreWriter, episode: Episode) -> None:
        add(writer, episode)
        report(episode.header.number)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(StoreWriter, "add", reported_add)
        collect(CollectConfig(env_id=TELLING_ID, out=folder / "stores" / "telling", frames=80, seed=7))


def check_recording(folder: Path, reported: list[Any]) -> None:
    assert set(reported) <= assert_nothing_wrong(folder / "stores" / "telling")


EDITS: list[dict[int, int]] = [
    {},
    {0: 3},
    {0: 3, 1: 40},
    {0: 3, 1: 40, 2: 5},
    {0: 3, 1: 40, 2: 5, 3: 4},
    {0: 3, 1: 40},
    {0: 3, 1: 40, 2: 9},
]
"""Frames of each episode in a store after each of its changes."""


def edit(folder: Path, report: Report) -> None:
    """Add episodes, take two away, add another one in the place of one of them."""
    with open_writer(folder / "store", INFO) as writer:
        for before, after in pairwise(EDITS):
            if len(after) < len(before):
                writer.remove_from(len(after))
            else:
                writer.add(answer_episode(len(before), after[len(before)]))
            report(after)


def check_edits(folder: Path, reported: list[Any]) -> None:
    """A change in progress may have happened, in parts too; the ones before it have, the ones after it have not."""
    before, after = EDITS[len(reported)], EDITS[min(len(reported) + 1, len(EDITS) - 1)]
    if reported:
        for episode in EpisodeStore(folder / "store"):
            answers = [read_answer(frame) for frame in episode.frames()]
            assert answers == [(episode.header.number, i) for i in range(len(episode))]
    with open_writer(folder / "store", INFO) as writer:  # takes in what was finished but not listed
        there = {entry.number: entry.frames for entry in writer.entries}
    assert before.items() & after.items() <= there.items() <= before.items() | after.items()
    assert not there or verify(folder / "store") == []


def write_logs(folder: Path, report: Report) -> None:
    """Write down what a run does: configuration, starts, metrics, the parts of a long measurement."""
    run = RunFolder(folder / "runs" / "mine")
    with run.writing():
        if not run.begun:
            run.write_config({"seed": 1})
        report("config")
        append_line(run.path / "starts.jsonl", json.dumps({"command": "x" * 600}))
        report("start")
        for step in range(len(run.metrics()), 5):
            run.add_metrics({"step": step, "comment": "y" * 700})
            report(step)
        report("forgetting")
        run.forget_metrics_after(2)
        ledger = ResultCache(run.path / "parts.jsonl")
        for part in ("a", "b"):
            ledger.part({"part": part}, lambda: {"score": "z" * 600})
            report(part)


def check_logs(folder: Path, reported: list[Any]) -> None:
    run = RunFolder(folder / "runs" / "mine")
    assert "config" not in reported or run.read_config() == {"seed": 1}
    starts = finished_lines(run.path / "starts.jsonl")
    assert len(starts) >= reported.count("start")
    assert all(json.loads(line) == {"command": "x" * 600} for line in starts)
    steps = [line["step"] for line in run.metrics()]
    assert steps == list(range(len(steps)))
    last = max((step for step in reported if isinstance(step, int)), default=-1)
    assert len(steps) >= (3 if "forgetting" in reported else last + 1)
    if run.path.exists():
        ledger = ResultCache(run.path / "parts.jsonl")
        for part in {"a", "b"} & set(map(str, reported)):
            assert ledger.part({"part": part}, lambda: pytest.fail("measured again")) == {"score": "z" * 600}


def recorded(folder: Path, work: Work, kill_at: int | None = None) -> list[Call]:
    """The calls of some work; killed before one of them, it is started again."""
    folder.mkdir()
    recorder = Recorder(folder)
    try:
        with recorder.recording(kill_at):
            work(folder, recorder.report)
    except KilledError:
        with recorder.recording():
            work(folder, recorder.report)
    return recorder.calls


def spread(count: int) -> list[int]:
    """The numbers from 1 to `count` in an order in which any few of them lie far apart."""
    return sorted(range(1, count + 1), key=lambda number: number * 0.6180339887 % 1)


def survive(folder: Path, calls: list[Call], fate: tuple[str, str], rng: np.random.Generator, check: Check) -> None:
    """Lose the power after these calls: the folder must load."""
    disk = Disk.after(calls)
    disk.lose_power(folder, fate, rng)
    check(folder, disk.reports)


def cut_power(trials: Trials, folder: Path, work: Work, check: Check, redo: str = "") -> None:
    """Lose the power after each call of some work, with every fate of what was not synced.

    `redo`: do the work again and check it, or check even that the folder is the `same` as without a power loss.
    """
    calls = recorded(folder / "whole", work)
    order = spread(len(calls))
    assert not trials.full or trials.count >= len(calls) * len(FATES), f"{len(calls)} calls need more trials"

    def lose_once(i: int, rng: np.random.Generator) -> None:
        found, (again, place) = folder / str(i), divmod(i, len(calls))
        survive(found, calls[: order[place]], FATES[(again + place) % len(FATES)], rng, check)
        if redo:
            redone: list[Any] = []
            work(found, redone.append)
            check(found, redone)
        assert redo != "same" or contents(found) == contents(folder / "whole")
        shutil.rmtree(found)

    trials.run(lose_once)


def cut_power_after_a_kill(trials: Trials, folder: Path, work: Work, check: Check) -> None:
    """Kill some work, start it again, and lose the power after any call from then on.

    First it is killed before each sync of a folder: the names in it are what the next process takes for saved.
    """
    calls = recorded(folder / "whole", work)
    folders = Disk.after(calls).folders
    synced = [n for n, (name, arguments) in enumerate(calls) if name == "sync" and arguments[0] in folders]
    aimed = [synced[n - 1] for n in spread(len(synced))]
    order = aimed + [n for n in spread(len(calls) - 1) if n not in aimed]

    def lose_once(i: int, rng: np.random.Generator) -> None:
        killed_at = order[i % len(order)]
        both = recorded(folder / f"{i}-killed", work, killed_at)
        for cut in range(killed_at, len(both) + 1) if i < len(aimed) else rng.integers(killed_at, len(both) + 1, 1):
            fate = ("kept", "missing") if i < len(aimed) else FATES[rng.integers(len(FATES))]
            survive(folder / f"{i}-{cut}", both[:cut], fate, rng, check)
            shutil.rmtree(folder / f"{i}-{cut}")
        shutil.rmtree(folder / f"{i}-killed")

    trials.run(lose_once)


@counted("20 checkpoints survive a power loss", quick=40, full=2500)
def test_checkpoints_survive_a_power_loss(trials: Trials, tmp_path: Path) -> None:
    cut_power(trials, tmp_path, save_checkpoints, check_checkpoints, redo="checked")


@pytest.mark.slow
@counted("20 checkpoints survive a kill and then a power loss", quick=12, full=500)
def test_checkpoints_survive_a_kill_and_then_a_power_loss(trials: Trials, tmp_path: Path) -> None:
    cut_power_after_a_kill(trials, tmp_path, save_checkpoints, check_checkpoints)


@counted("20 a recording survives a power loss", quick=30, full=1100)
def test_a_recording_survives_a_power_loss(trials: Trials, tmp_path: Path) -> None:
    cut_power(trials, tmp_path, record, check_recording, redo="same")


@pytest.mark.slow
@counted("20 a recording survives a kill and then a power loss", quick=12, full=500)
def test_a_recording_survives_a_kill_and_then_a_power_loss(trials: Trials, tmp_path: Path) -> None:
    cut_power_after_a_kill(trials, tmp_path, record, check_recording)


@counted("20 a changed store survives a power loss", quick=40, full=1500)
def test_a_changed_store_survives_a_power_loss(trials: Trials, tmp_path: Path) -> None:
    cut_power(trials, tmp_path, edit, check_edits)


@counted("20 logs survive a power loss", quick=40, full=1500)
def test_logs_survive_a_power_loss(trials: Trials, tmp_path: Path) -> None:
    cut_power(trials, tmp_path, write_logs, check_logs, redo="checked")


@pytest.mark.slow
@counted("20 logs survive a kill and then a power loss", quick=14, full=500)
def test_logs_survive_a_kill_and_then_a_power_loss(trials: Trials, tmp_path: Path) -> None:
    cut_power_after_a_kill(trials, tmp_path, write_logs, check_logs)
