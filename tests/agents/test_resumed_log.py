"""What a resumed run of `acvp agent train` has logged is what the run that was never stopped or killed has."""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

from acvp import harness
from acvp.agents import trainer
from acvp.checkpoint import save_checkpoint
from acvp.runs import RunFolder
from tests.agents.short_runs import run, stop_at
from tests.faults import die
from tests.training.small import in_a_child

CLOCK = {"seconds", "time/seconds", "time/time_elapsed", "time/fps"}


def logged(folder: Path) -> tuple[list[dict[str, Any]], dict[str, list[tuple[int, float]]]]:
    """The lines and the scalars of a run, but for what the clock decides."""
    lines = [{name: value for name, value in line.items() if name not in CLOCK} for line in RunFolder(folder).metrics()]
    events = EventAccumulator(str(folder / "tensorboard"))
    events.Reload()
    tags = set(events.Tags()["scalars"]) - CLOCK
    return lines, {tag: [(event.step, event.value) for event in events.Scalars(tag)] for tag in tags}


@pytest.fixture
def lines_every_40(monkeypatch: pytest.MonkeyPatch, short: Callable[..., None]) -> None:
    monkeypatch.setattr(trainer, "LOG_EVERY", 40)
    torch.set_num_threads(1)  # a process with one thread can be forked


def die_at_save(decision: int, patch: pytest.MonkeyPatch) -> None:
    """Die when the checkpoint of a decision is about to be written: its lines are in the log already."""
    real = save_checkpoint

    def save(folder: Path, step: int, *arguments: Any, **options: Any) -> Path:
        if step >= decision:
            die()
        return real(folder, step, *arguments, **options)

    patch.setattr(harness, "save_checkpoint", save)


@pytest.mark.slow
@pytest.mark.parametrize(("stop", "kill"), [(0, 2), (0, 120), (80, 82)])
def test_stops_and_kills_leave_no_trace_in_the_log(
    tmp_path: Path, lines_every_40: None, monkeypatch: pytest.MonkeyPatch, stop: int, kill: int
) -> None:
    """At decision 80 there is a line and a point of the curve; a stop there leaves the point to the next run."""
    whole, parts = tmp_path / "whole", tmp_path / "parts"
    assert run(whole).exit_code == 0
    if stop:
        with monkeypatch.context() as patch:
            stop_at(stop, patch)
            assert run(parts).exit_code == 128 + 15
    with monkeypatch.context() as patch:
        die_at_save(kill, patch)
        assert in_a_child(lambda: run(parts, save_minutes=0)) == -9
    assert len(RunFolder(parts).metrics()) > bool(stop)
    time.sleep(1.1)  # TensorBoard orders files by the second at which they were begun
    assert run(parts).exit_code == 0
    lines, scalars = logged(parts)
    expected_lines, expected_scalars = logged(whole)
    assert lines == expected_lines
    assert [line["step"] for line in lines if line["kind"] == "train"] == [40, 80, 120, 160]
    if not stop:  # the stopped run's own event at its last step cannot be purged
        assert scalars == expected_scalars
