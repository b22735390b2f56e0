"""The whole plan at scale smoke, and the same results from a run that is stopped at three points."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import psutil
import pytest

from acvp.reproduce.config import ReproduceConfig
from acvp.reproduce.plan import make_plan
from tests.test_verb_kills import results

pytestmark = pytest.mark.slow
PATIENCE = 3600.0
"""Seconds on a machine that is very busy."""
MOST_SECONDS = 600.0
"""Core-seconds that a reproduction at scale smoke may take; it takes about 120."""


def config(out: str, *only: str) -> ReproduceConfig:
    return ReproduceConfig(out=Path(out), scale="smoke", games=("toy",), only=only, jobs=2)


def start(folder: Path, options: ReproduceConfig) -> subprocess.Popen[str]:
    """Start `acvp reproduce` in a folder."""
    words = ["reproduce", "--scale", "smoke", "--games", "toy", "--jobs", "2", "--out", str(options.out)]
    words += ["--only", *options.only] if options.only else []
    return subprocess.Popen(
        [sys.executable, "-m", "acvp", *words],
        cwd=folder,
        env=os.environ | {"ACVP_DEBUG": ""},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.SIG_DFL),  # ignored in background jobs
    )


def finish(folder: Path, options: ReproduceConfig) -> str:
    process = start(folder, options)
    printed, _ = process.communicate(timeout=PATIENCE)
    assert process.returncode == 0, printed
    return printed


def test_every_step_finishes_and_the_report_has_the_claims(tmp_path: Path) -> None:
    plan, whole = make_plan(config("out")), tmp_path / "out"
    finish(tmp_path, config("out"))
    ended = [json.loads(line) for line in (whole / "steps.jsonl").read_text().splitlines()]
    assert {line["step"]: line["exit_code"] for line in ended} == {step.name: 0 for step in plan.steps}
    assert all((whole / step.result).exists() for step in plan.steps)
    assert sum(line["core_seconds"] for line in ended) < MOST_SECONDS
    claims = {claim["number"]: claim for claim in json.loads((whole / "claims.json").read_text())["claims"]}
    judged = {number for number, claim in claims.items() if "toy" in claim["games"]}
    assert judged >= {4, 7, 8, 9, 10, 16, 17, 20, 23, 25, 26}  # those about all games
    assert claims[4]["games"]["toy"]["holds"] is True
    assert "steps until" not in json.dumps(claims[27]["games"])  # a smoke test predicts fewer than 500 steps
    page = (whole / "toy" / "report.html").read_text()
    assert "The paper&#x27;s claims" in page
    assert "strided deconvolution is cheaper" in page


def wait_for(file: Path, process: subprocess.Popen[str]) -> None:
    limit = time.monotonic() + PATIENCE
    while not file.exists():
        assert process.poll() is None, process.communicate()[0]
        assert time.monotonic() < limit, file
        time.sleep(0.02)


def stop(process: subprocess.Popen[str], number: int) -> str:
    """Send a signal and wait until the command and all that it started have ended."""
    children = psutil.Process(process.pid).children(recursive=True)
    process.send_signal(number)
    printed, _ = process.communicate(timeout=PATIENCE)
    _, alive = psutil.wait_procs(children, timeout=PATIENCE)  # after kill -9 they finish their steps
    assert alive == []
    assert process.returncode == (-number if number == signal.SIGKILL else 128 + number), printed
    return printed


def measured(folder: Path) -> dict[str, Any]:
    """Return all results of the steps of figure 3, without times."""
    steps = [step for step in make_plan(config("out", "figure3")).steps if not step.repeat]
    by_step = {step.name: results(folder / step.name) for step in steps}
    for model in by_step["toy/evaluation"]["evaluation.json"]["models"].values():
        del model["compute"]  # a duration
    return by_step


def test_a_run_stopped_at_three_points_gives_the_same_results(tmp_path: Path) -> None:
    options, undisturbed = config("stopped", "figure3"), config("undisturbed", "figure3")
    finish(tmp_path, undisturbed)
    for file, number in (
        ("toy/train/store.json", signal.SIGINT),  # while recording
        ("toy/recurrent/config.json", signal.SIGTERM),  # while training
        ("toy/evaluation", signal.SIGKILL),  # while evaluating
    ):
        process = start(tmp_path, options)
        wait_for(tmp_path / "stopped" / file, process)
        printed = stop(process, number)
        assert "Traceback" not in printed
    finish(tmp_path, options)
    stopped, whole = measured(tmp_path / "stopped"), measured(tmp_path / "undisturbed")
    assert stopped.keys() == whole.keys()
    assert [name for name in stopped if stopped[name] != whole[name]] == []


@pytest.mark.load
def test_a_run_stopped_while_an_agent_learns_finishes(tmp_path: Path) -> None:
    """The part with the fewest steps: half a minute of a core."""
    options = config("stopped", "data")
    process = start(tmp_path, options)
    wait_for(tmp_path / "stopped" / "toy/agent/config.json", process)
    assert "Traceback" not in stop(process, signal.SIGTERM)
    assert not (tmp_path / "stopped" / "claims.json").exists()
    finish(tmp_path, options)
    ended = [json.loads(line) for line in (tmp_path / "stopped" / "steps.jsonl").read_text().splitlines()]
    finished = [line["step"] for line in ended if line["exit_code"] == 0]
    assert sorted(finished) == sorted(step.name for step in make_plan(options).steps)
