"""What a person sees of training: smoothed loss and speed, and the time left."""

from __future__ import annotations

from dataclasses import replace

import pytest

from acvp.runs import clock
from acvp.training.state import StepReport
from acvp.training.trainer import Speed

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
