"""What a person sees of training: smoothed loss and speed, and the time left."""

from __future__ import annotations

from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import pytest

from acvp.runs import clock
from acvp.training.config import Phase
from acvp.training.state import StepReport, TrainerState
from acvp.training.trainer import Speed, Trainer

REPORT = StepReport(step=1200, phase=0, loss=2.5, lr=1e-3, gradient=1.0, samples=32, seconds=0.5)


def test_the_first_update_is_shown_as_it_is() -> None:
    speed = Speed()
    speed.add(REPORT)
    assert speed.text(1200, 3700.0) == "step 1,200  loss 2.5  64.0 samples/s  1:01:40 left"
    assert speed.text(1200, None) == "step 1,200  loss 2.5  64.0 samples/s"


def test_later_updates_are_smoothed() -> None:
    speed = Speed()
    for report in (REPORT, replace(REPORT, loss=12.5, seconds=0.25)):
        speed.add(report)
    assert speed.text(1201, None) == "step 1,201  loss 2.7  65.3 samples/s"


@pytest.mark.parametrize(("seconds", "text"), [(59.9, "0:00:59"), (3700, "1:01:40"), (86400 * 30, "30 days")])
def test_clock(seconds: float, text: str) -> None:
    assert clock(seconds) == text


def test_the_time_left_is_that_of_the_first_limit_of_every_phase() -> None:
    """Of the steps it has left and of its minutes, the sooner; unknown if a phase has neither that can be told."""

    def phase(**limits: Any) -> Phase:
        return Phase(predict=1, context=1, batch_size=1, lr=1e-3, **limits)

    def left(*phases: Phase) -> float | None:
        trainer: Any = Trainer.__new__(Trainer)
        trainer.config = SimpleNamespace(phases=phases)
        trainer.state = TrainerState(step=10, phase_step=10, seconds=[20.0])
        trainer.step_seconds = dict.fromkeys(range(len(phases)), 2.0)
        seconds: float | None = trainer.seconds_left()
        return seconds

    assert left(phase(steps=40, minutes=10)) == 60.0  # 30 updates of 2 s are sooner than 580 s
    assert left(phase(steps=4000, minutes=10)) == 580.0
    assert left(phase(steps=40), phase(steps=7, minutes=1)) == 60.0 + 14.0
    assert left(phase(steps=40), phase(patience=3)) is None
