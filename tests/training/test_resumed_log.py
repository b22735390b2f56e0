"""A resumed run's metrics.jsonl and TensorBoard events are those of the run that was never stopped or killed."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

from acvp import harness
from acvp.checkpoint import save_checkpoint
from acvp.data.store import EpisodeStore
from acvp.models import FeedforwardConfig
from acvp.runs import RunFolder
from acvp.training import run as session
from acvp.training import trainer
from acvp.training.config import TrainingConfig
from tests.faults import die
from tests.training.small import Trace, in_a_child, run
from tests.training.test_resume import STOPPED, telling_config

Lines = list[dict[str, Any]]
Scalars = dict[str, list[tuple[int, float]]]
Logged = tuple[Lines, Scalars]


def logged(folder: Path) -> Logged:
    """The lines and the scalars of a run; with the clock of `trace`, seconds are equal too."""
    events = EventAccumulator(str(folder / "tensorboard"))
    events.Reload()
    tags = events.Tags()["scalars"]
    scalars = {tag: [(event.step, event.value) for event in events.Scalars(tag)] for tag in tags}
    return RunFolder(folder).metrics(), scalars


@pytest.fixture
def whole(store: EpisodeStore, tmp_path: Path, trace: Trace, monkeypatch: pytest.MonkeyPatch) -> Logged:
    """What the undisturbed run logs: a line every 4 updates and a checkpoint now and then."""
    monkeypatch.setattr(trainer, "LOG_EVERY", 4)
    assert run(store, with_heads(), tmp_path / "whole", save_minutes=99).exit_code == 0
    lines, scalars = logged(tmp_path / "whole")
    assert [line["step"] for line in lines if line["kind"] == "train"] == [2, 4, 6, 7, 8, 9, 11, 12, 14, 16, 18]
    assert set(scalars) >= {"train/loss", "loss/reward_loss", "held-out/error-1"}
    return lines, scalars


def with_heads() -> TrainingConfig:
    """Phases that end in all ways, of a predictor whose loss has parts."""
    config = telling_config()
    assert isinstance(config.predictor, FeedforwardConfig)
    return replace(config, predictor=replace(config.predictor, predict_rewards=True))


def resume(store: EpisodeStore, folder: Path) -> Logged:
    """What the same command has logged at its end."""
    time.sleep(1.1)  # TensorBoard orders files by the second at which they were begun
    assert run(store, with_heads(), folder, save_minutes=99).exit_code == 0
    return logged(folder)


@pytest.mark.parametrize("stop", [1, 3, 4, 13])
def test_a_stop_leaves_no_trace_in_the_log(
    store: EpisodeStore, tmp_path: Path, trace: Trace, whole: Logged, stop: int
) -> None:
    trace.stop_after = stop
    assert run(store, with_heads(), tmp_path / "parts", save_minutes=99).exit_code == STOPPED
    trace.stop_after = 0
    assert resume(store, tmp_path / "parts") == whole


def die_at_save(nth: int) -> Callable[[pytest.MonkeyPatch], None]:
    """Die when the checkpoint is about to be written for the n-th time: its lines are in the log already."""

    def arm(patch: pytest.MonkeyPatch) -> None:
        real, saves = save_checkpoint, []

        def save(*arguments: Any, **options: Any) -> Path:
            saves.append(1)
            if len(saves) == nth:
                die()
            return real(*arguments, **options)

        patch.setattr(harness, "save_checkpoint", save)

    return arm


def die_before_the_predictor(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(session, "write_predictor", lambda *arguments: die())


@pytest.mark.parametrize(
    "arm",
    [
        pytest.param(die_at_save(1), id="before the first checkpoint"),
        pytest.param(die_at_save(3), id="between a line and its checkpoint"),
        pytest.param(die_before_the_predictor, id="before the predictor is written"),
    ],
)
def test_a_kill_leaves_no_trace_in_the_log(
    store: EpisodeStore,
    tmp_path: Path,
    trace: Trace,
    whole: Logged,
    monkeypatch: pytest.MonkeyPatch,
    arm: Callable[[pytest.MonkeyPatch], None],
) -> None:
    folder = tmp_path / "parts"
    with monkeypatch.context() as patch:
        arm(patch)
        assert in_a_child(lambda: run(store, with_heads(), folder, save_minutes=99)) == -9
    assert RunFolder(folder).metrics()
    assert resume(store, folder) == whole
