"""The harness of all training runs: what is shown, logged, saved and compared, and how a run ends."""

from __future__ import annotations

import io
from math import nan
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from rich.console import Console

from acvp import harness
from acvp.checkpoint import newest_good, save_checkpoint
from acvp.errors import UserError
from acvp.exits import StoppedError
from acvp.harness import Display, DivergenceError, MetricsLog, Saver, drop_later, exit_code, start
from acvp.runs import RunFolder


def shown(*, terminal: bool, silent: bool = False, times: int = 2) -> str:
    text = io.StringIO()
    console = Console(file=text, force_terminal=terminal, width=120, highlight=False)
    with Display(console, silent=silent) as display:
        for _ in range(times):
            display.show("phase 1/2", 0.5, lambda: "step 1,200  1:01:40 left")
    return text.getvalue()


def test_a_log_gets_plain_lines(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(harness, "LINE_SECONDS", 0.0)
    assert shown(terminal=False) == 2 * "phase 1/2  step 1,200  1:01:40 left\n"


def test_a_log_is_not_flooded() -> None:
    assert shown(terminal=False, times=100) == ""


def test_a_terminal_gets_a_bar() -> None:
    text = shown(terminal=True)
    assert "phase 1/2" in text
    assert "1:01:40 left" in text


@pytest.mark.parametrize("terminal", [False, True])
def test_other_processes_are_silent(monkeypatch: pytest.MonkeyPatch, terminal: bool) -> None:
    monkeypatch.setattr(harness, "LINE_SECONDS", 0.0)
    assert shown(terminal=terminal, silent=True) == ""


def test_text_that_is_not_shown_is_not_made() -> None:
    with Display(Console(file=io.StringIO())) as display:
        display.show("phase", 0.5, lambda: pytest.fail("made"))


@pytest.fixture
def run(tmp_path: Path) -> RunFolder:
    run = RunFolder(tmp_path / "run")
    with run.writing():
        start(run, {"seed": 1, "size": [1, 2]}, resume="auto")
    return run


def test_a_run_resumes_with_its_own_config_only(run: RunFolder) -> None:
    start(run, {"seed": 1, "size": [1, 2]}, resume="auto")
    with pytest.raises(UserError, match=r"started with another config: size\.1: 2 → 3; choose another --run"):
        start(run, {"seed": 1, "size": [1, 3]}, resume="auto")
    with pytest.raises(UserError, match="has already begun"):
        start(run, {"seed": 1, "size": [1, 2]}, resume="never")
    assert run.read_config() == {"seed": 1, "size": [1, 2]}
    assert len((run.path / "starts.jsonl").read_text().splitlines()) == 2


def test_a_check_replaces_the_comparison(run: RunFolder) -> None:
    seen: list[dict[str, Any]] = []
    start(run, {"seed": 2}, resume="auto", check=seen.append)
    assert seen == [{"seed": 1, "size": [1, 2]}]


def test_what_comes_after_a_checkpoint_is_dropped(run: RunFolder) -> None:
    for step in (1, 2, 3):
        save_checkpoint(run.checkpoints, step, {"a": b"a"})
        run.add_metrics({"step": step})
        run.add_metrics({"step": step})
    drop_later(run, 2)
    assert [line["step"] for line in run.metrics()] == [1, 1, 2, 2]
    newest = newest_good(run.checkpoints, pytest.fail)
    assert newest is not None
    assert newest.step == 2
    drop_later(run, 2, lines=3)
    assert [line["step"] for line in run.metrics()] == [1, 1, 2]


def test_metrics_keep_every_number_and_tensorboard_the_finite_ones(
    run: RunFolder, monkeypatch: pytest.MonkeyPatch
) -> None:
    log, scalars = MetricsLog(run), []
    monkeypatch.setattr(log.board, "add_scalar", lambda *values: scalars.append(values))
    log.write({"step": 5, "loss": nan}, {"loss": nan, "lr": 0.5})
    log.close()
    assert [line["step"] for line in run.metrics()] == [5]
    assert scalars == [("lr", 0.5, 5)]


def test_checkpoints_are_due_by_the_clock_and_the_newest_and_best_are_kept(
    run: RunFolder, monkeypatch: pytest.MonkeyPatch
) -> None:
    clock = SimpleNamespace(now=0.0)
    monkeypatch.setattr(harness, "time", SimpleNamespace(monotonic=lambda: clock.now))
    saver = Saver(run, minutes=1.0, keep=1)
    clock.now = 59.0
    assert not saver.due
    clock.now = 60.0
    assert saver.due
    for step, score in ((1, 3.0), (2, 1.0), (3, 2.0), (4, 2.5)):
        saver.save(step, {"a": b"a"}, score=score)
    assert not saver.due
    assert sorted(path.name for path in run.checkpoints.iterdir()) == ["step-000000002", "step-000000004"]


@pytest.mark.parametrize(
    ("error", "code", "text"),
    [
        (None, 0, ""),
        (DivergenceError("the loss is nan"), 1, "acvp: the loss is nan; the last checkpoint is intact; try a lower"),
        (StoppedError(15), 143, "acvp: stopped by SIGTERM at step 7 and saved; run the same command again to resume"),
    ],
)
def test_exit_codes(error: Exception | None, code: int, text: str) -> None:
    def fit() -> None:
        if error:
            raise error

    printed = io.StringIO()
    assert exit_code(fit, Display(Console(file=printed, soft_wrap=True)), lambda: "step 7") == code
    assert printed.getvalue().startswith(text)
    assert bool(printed.getvalue()) == bool(text)
