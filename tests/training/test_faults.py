"""Promises 1, 4 and 7: kills during a save, full disks and numbers that are not finite destroy nothing."""

from __future__ import annotations

import errno
import io
import os
import shutil
import signal
import time
from collections.abc import Callable
from dataclasses import replace
from math import inf, nan
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

import acvp
from acvp import harness
from acvp.checkpoint import newest_good, read_checkpoint, save_checkpoint
from acvp.data.store import EpisodeStore
from acvp.durable import DiskError
from acvp.models.predictor import TrainingBatch
from acvp.runs import RunFolder
from acvp.training.config import Phase
from acvp.training.trainer import Trainer
from tests.faults import Trap, Trials, contents, counted, die, fail_with
from tests.training.small import in_a_child, run, small_config

MODEL, MOMENTS = "*/checkpoints/step-*/.model.safetensors.*.tmp", "*/checkpoints/step-*/.optimizer.safetensors.*.tmp"
MANIFEST, FOLDER = "*/checkpoints/step-*/.manifest.json.*.tmp", "*/checkpoints/step-*"

POINTS = {
    "before open": [Trap("open", file) for file in (MODEL, MOMENTS, MANIFEST)],
    "25 % written": [Trap("write", file, share=0.25) for file in (MODEL, MOMENTS, MANIFEST)],
    "50 % written": [Trap("write", file, share=0.5) for file in (MODEL, MOMENTS, MANIFEST)],
    "75 % written": [Trap("write", file, share=0.75) for file in (MODEL, MOMENTS, MANIFEST)],
    "before fsync": [Trap("fsync", file) for file in (MODEL, MOMENTS, MANIFEST)],
    "before rename": [Trap("replace", f"*/checkpoints/step-*/{name}.*") for name in ("model", "optimizer", "manifest")],
    "before the folder's fsync": [Trap("fsync", FOLDER, nth=nth) for nth in (1, 3, 6)],
    "while pruning": [Trap("unlink", f"*/checkpoints/step-*/{name}") for name in ("manifest.json", "m*.safetensors")],
}
"""Where a save is hit, and the traps that are set there."""


@pytest.fixture(scope="module")
def never_killed(store: EpisodeStore, tmp_path_factory: pytest.TempPathFactory) -> bytes:
    """The weights of the run to which nothing happens."""
    folder = tmp_path_factory.mktemp("whole") / "run"
    run(store, small_config(), folder)
    return (folder / "predictor" / "model.safetensors").read_bytes()


def reporting_saves(report: int) -> None:
    """Write the step of every checkpoint that is reported as saved to a file descriptor."""

    def save(folder: Path, step: int, files: Any, *, score: float = inf) -> Path:
        path = save_checkpoint(folder, step, files, score=score)
        os.write(report, f"{step}\n".encode())
        return path

    setattr(harness, "save_checkpoint", save)  # noqa: B010  (mypy minds an assignment to what it imports)


def assert_survived(store: EpisodeStore, folder: Path, reported: Path, never_killed: bytes) -> None:
    """Fail unless the newest checkpoint is whole and as new as reported, and a resumed run ends the same way."""
    steps = [int(line) for line in reported.read_text().splitlines()]
    found = newest_good(folder / "checkpoints", lambda text: pytest.fail(text)) if folder.exists() else None
    assert (found.step if found else 0) >= max(steps, default=0)
    if found:
        acvp.load(found.path)
    assert run(store, small_config(), folder).exit_code == 0
    assert (folder / "predictor" / "model.safetensors").read_bytes() == never_killed


def killed(store: EpisodeStore, folder: Path, reported: Path, trap: Trap | None, after: float = 0.0) -> int:
    """Train in a child that is killed by a trap, or after some seconds; return how it ended."""
    descriptor = os.open(reported, os.O_WRONLY | os.O_CREAT | os.O_APPEND)

    def work() -> None:
        reporting_saves(descriptor)
        if trap:
            trap.arm(die)
        else:
            signal.signal(signal.SIGALRM, signal.SIG_DFL)
            signal.setitimer(signal.ITIMER_REAL, after)
        run(store, small_config(), folder)

    try:
        return in_a_child(work)
    finally:
        os.close(descriptor)


@pytest.mark.slow
@counted("1 a checkpoint survives kills at 8 points of a save", quick=8, full=200)
def test_aimed_kills(trials: Trials, store: EpisodeStore, tmp_path: Path, never_killed: bytes) -> None:
    def kill_once(i: int, rng: np.random.Generator) -> None:
        folder, reported = tmp_path / str(i), tmp_path / f"{i}.txt"
        traps = list(POINTS.values())[i % len(POINTS)]
        trap = replace(traps[i // len(POINTS) % len(traps)])
        trap = replace(trap, nth=trap.nth + int(rng.integers(0, 5)))
        ended = killed(store, folder, reported, trap)
        assert ended == -signal.SIGKILL, f"{trap} ended with {ended}"
        assert_survived(store, folder, reported, never_killed)
        shutil.rmtree(folder)

    trials.run(kill_once)


@pytest.mark.slow
@counted("1 a checkpoint survives kills at random times", quick=3, full=100)
def test_random_kills(trials: Trials, store: EpisodeStore, tmp_path: Path, never_killed: bytes) -> None:
    began = time.monotonic()
    run(store, small_config(), tmp_path / "timed")
    length = time.monotonic() - began

    def kill_once(i: int, rng: np.random.Generator) -> None:
        folder, reported = tmp_path / str(i), tmp_path / f"{i}.txt"
        ended = killed(store, folder, reported, None, after=float(rng.uniform(0.05, length)))
        assert ended in (-signal.SIGALRM, 0), ended
        assert_survived(store, folder, reported, never_killed)
        shutil.rmtree(folder)

    trials.run(kill_once)


FULL = [
    *(Trap("write", MODEL, nth=3, share=share) for share in (0.0, 0.01, 0.1, 0.5, 0.99)),
    Trap("write", MANIFEST, nth=3, share=0.5),
    Trap("replace", "*/checkpoints/step-*/optimizer.safetensors", nth=3),
    *(Trap("write", "*/metrics.jsonl", share=share) for share in (0.0, 0.5)),
    Trap("write", "*/predictor/.model.safetensors.*.tmp", share=0.5),
]


@pytest.mark.slow
@pytest.mark.parametrize("trap", FULL, ids=lambda trap: f"{trap.operation} {trap.share:.0%} {Path(trap.name).name}")
def test_a_full_disk_destroys_nothing(
    store: EpisodeStore, tmp_path: Path, never_killed: bytes, monkeypatch: pytest.MonkeyPatch, trap: Trap
) -> None:
    before: dict[str, bytes] = {}

    def strike() -> None:
        before.update(contents(tmp_path / "run"))
        fail_with(errno.ENOSPC)()

    with monkeypatch.context() as patch:
        trap.arm(strike, patch.setattr)
        with pytest.raises(DiskError, match=r"could not write [\d,]+ bytes: No space left"):
            run(store, small_config(), tmp_path / "run")
    after = contents(tmp_path / "run")
    logs = ("tensorboard", "metrics.jsonl")  # what is lost of a line is written again while the run ends
    kept = [name for name in before if not name.startswith(logs) and ".tmp" not in name]
    assert {name: before[name] for name in kept} == {name: after.get(name) for name in kept}
    assert all("step" in line for line in RunFolder(tmp_path / "run").metrics())
    assert run(store, small_config(), tmp_path / "run").exit_code == 0
    assert (tmp_path / "run" / "predictor" / "model.safetensors").read_bytes() == never_killed


def test_too_little_disk_is_refused_before_the_first_step(
    store: EpisodeStore, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    usage = shutil.disk_usage(tmp_path)._replace(free=17 * 2**20)
    monkeypatch.setattr(shutil, "disk_usage", lambda path: usage)
    with pytest.raises(DiskError, match=r"checkpoints of [\d,]+ bytes, 502 at a time, need [\d,]+"):
        run(store, small_config(), tmp_path / "run", keep=500)


Corrupt = Callable[[Trainer, TrainingBatch, float], TrainingBatch | None]


def corrupt_weight(trainer: Trainer, batch: TrainingBatch, value: float) -> None:
    weight = list(trainer.predictor.parameters())[int(value == inf)].data
    weight.view(-1)[0] = value


def corrupt_gradient(trainer: Trainer, batch: TrainingBatch, value: float) -> None:
    weight = next(iter(trainer.predictor.parameters()))
    weight.register_hook(lambda gradient: torch.full_like(gradient, value))  # type: ignore[no-untyped-call]


def corrupt_input(trainer: Trainer, batch: TrainingBatch, value: float) -> TrainingBatch:
    frames = batch.frames.clone()
    frames[0, 0, 0, 0, 0] = value
    return batch._replace(frames=frames)


def corrupt_loss(trainer: Trainer, batch: TrainingBatch, value: float) -> None:
    real = trainer.gradients

    def gradients(phase: Phase, batch: TrainingBatch) -> tuple[torch.Tensor, dict[str, torch.Tensor]]:
        loss, parts = real(phase, batch)
        return loss * value, parts

    trainer.gradients = gradients  # type: ignore[method-assign]


def corrupt_rate(trainer: Trainer, batch: TrainingBatch, value: float) -> None:
    phase = trainer.config.phases[trainer.state.phase]
    object.__setattr__(phase, "lr", value)


PLACES: dict[str, Corrupt] = {
    "loss": corrupt_loss,
    "gradient": corrupt_gradient,
    "weight": corrupt_weight,
    "input": corrupt_input,
    "learning rate": corrupt_rate,
}


@pytest.mark.slow
@counted("7 divergence stops before the update", quick=10, full=50)
def test_divergence_stops_before_the_update(
    trials: Trials, store: EpisodeStore, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    real = Trainer.update

    def inject(i: int, rng: np.random.Generator) -> None:
        place, value, at = list(PLACES)[i % 5], (nan, inf, -inf)[i // 5 % 3], int(rng.integers(0, 9))
        folder, text = tmp_path / str(i), io.StringIO()
        before: dict[str, bytes] = {}

        def update(trainer: Trainer, phase: Phase, optimizer: Any, batch: TrainingBatch) -> Any:
            if trainer.state.step == at:
                before.update(contents(folder / "checkpoints"))
                batch = PLACES[place](trainer, batch, value) or batch
            return real(trainer, trainer.config.phases[trainer.state.phase], optimizer, batch)

        monkeypatch.setattr(Trainer, "update", update)
        assert run(store, small_config(), folder, text).exit_code == 1, f"{place} {value}"
        assert f"acvp: step {at}: the " in text.getvalue()
        assert contents(folder / "checkpoints") == before
        if at:
            assert newest_good(folder / "checkpoints", lambda text: pytest.fail(text)).step == at  # type: ignore[union-attr]
        assert not (folder / "predictor").exists()

    trials.run(inject)


def test_weights_that_are_not_finite_are_not_saved(
    store: EpisodeStore, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    real = Trainer.update

    def update(trainer: Trainer, *arguments: Any) -> Any:
        report = real(trainer, *arguments)
        if trainer.state.step == 2:
            corrupt_weight(trainer, arguments[2], nan)
        return report

    monkeypatch.setattr(Trainer, "update", update)
    assert run(store, small_config(), tmp_path / "run").exit_code == 1
    assert read_checkpoint(tmp_path / "run" / "checkpoints" / "step-000000001").step == 1
    assert not (tmp_path / "run" / "checkpoints" / "step-000000002").exists()
