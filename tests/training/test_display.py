"""What a person sees: a line every half minute in a log, a bar on a terminal, nothing from other processes."""

from __future__ import annotations

import io

import pytest
from rich.console import Console

from acvp.runs import clock
from acvp.training import log as module
from acvp.training.log import Display, StepReport

REPORT = StepReport(step=1200, phase=0, loss=2.5, lr=1e-3, gradient=1.0, samples=32, seconds=0.5)


def shown(*, terminal: bool, speaks: bool = True, steps: int = 2) -> str:
    text = io.StringIO()
    console = Console(file=text, force_terminal=terminal, width=120, highlight=False)
    with Display(console, 2, speaks=speaks) as display:
        for _ in range(steps):
            display.step(REPORT, 0.5, lambda: 3700.0)
    return text.getvalue()


def test_a_log_gets_plain_lines(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "LINE_SECONDS", 0.0)
    line = "phase 1/2  step 1,200  loss 2.5  64.0 samples/s  1:01:40 left\n"
    assert shown(terminal=False) == 2 * line


def test_a_log_is_not_flooded() -> None:
    assert shown(terminal=False, steps=100) == ""


def test_a_terminal_gets_a_bar() -> None:
    text = shown(terminal=True)
    assert "phase 1/2" in text
    assert "64.0 samples/s" in text


def test_other_processes_are_silent(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "LINE_SECONDS", 0.0)
    assert shown(terminal=False, speaks=False) == ""


@pytest.mark.parametrize(("seconds", "text"), [(59.9, "0:00:59"), (3700, "1:01:40"), (86400 * 30, "30 days")])
def test_clock(seconds: float, text: str) -> None:
    assert clock(seconds) == text
