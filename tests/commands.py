"""Every verb of the command line with arguments that finish in seconds, started as a user starts it."""

from __future__ import annotations

import os
import resource
import signal
import subprocess
import sys
import time
from dataclasses import dataclass
from pathlib import Path

import psutil

ROOT = Path(__file__).parent.parent
PATIENCE = 600
"""Seconds for anything that a child does; only a hang takes so long."""

REPORTING = """
import os, signal, sys
real, pipe = signal.signal, int(sys.argv.pop(1))
def report(number, action):
    before = real(number, action)
    if number == signal.SIGALRM:
        os.write(pipe, b"ready ")
        signal.signal = real  # once: at its exit the command ignores this signal
    return before
signal.signal = report
from acvp.__main__ import main
code = main()
status = open("/proc/self/status").read()
os.write(pipe, status.split("VmPeak:")[1].split()[0].encode())
sys.exit(code)
"""
"""The acvp command, which also reports when it has begun to handle signals, and in the end its peak of memory (kB)."""


def commands(made: Path, out: Path) -> dict[str, list[str]]:
    """Return the arguments of every verb, to work on what is in one folder and to write to another.

    Those that import no torch come first, for the quick forms of tests. `play` serves until it is stopped.
    """
    store, run, agent = (str(made / name) for name in ("store", "run", "agent"))
    data, to = ["--data", store], ["--out", str(out)]
    options = {
        "data info": [store, "--sheet", str(out / "sheet.png")],
        "collect": ["--env-id", "toy", "--frames", "3000", *to],
        "collect by two": ["--env-id", "toy", "--frames", "3000", "--workers", "2", *to],
        "data verify": [store, "--replay"],
        "data export": [store, "--format", "npz", *to],
        "data import": [str(made / "exported"), "--format", "npz", *to],
        "data split": [store, *to],
        "data merge": [store, str(made / "other"), *to],
        "data filter": [store, "--length", "2:", *to],
        "train": [*data, "--preset", "smoke", "--device", "cpu", "--run", str(out)],
        "evaluate": ["--predictors", run, *data, "--horizon", "6", "--windows", "6", "--shuffled-windows", "3", *to],
        "counterfactual": ["--predictors", run, *data, "--states", "6", *to],
        "analyze": ["--predictor", run, *data, "--states", "4", *to],
        "agent train": ["--env-id", "toy", "--preset", "smoke", "--steps", "1000", "--run", str(out)],
        "agent learn": [
            "--env-id",
            "toy",
            "--budget",
            "800",
            "--rounds",
            "1",
            "--model",
            "feedforward",
            "--preset",
            "smoke",
            "--minutes",
            "0.02",
            "--agent-preset",
            "smoke",
            "--agent-steps",
            "200",
            "--evaluate-episodes",
            "1",
            "--run",
            str(out),
        ],
        "calibrate": ["--predictor", str(made / "rewarded"), *data, "--steps", "20", *to],
        "agent evaluate": ["--agent", agent, "--episodes", "2", "--max-steps", "50", *to],
        "agent compare": ["--runs", str(made / "learned"), *to],
        "agent import": [str(made / "dqn.zip"), "--env-id", "toy", "--trust-pickle", *to],
        "control": [
            "--predictors",
            run,
            "--agent",
            agent,
            "--episodes",
            "2",
            "--horizons",
            "3",
            "--max-steps",
            "9",
            *to,
        ],
        "explore": ["--env-id", "toy", "--seeds", "2", "--max-steps", "50", "--map-steps", "20", *to],
        "export": ["--predictor", run, "--onnx", str(out)],
        "reproduce": ["--scale", "smoke", "--games", "acvp/Toy-v0", "--only", "data", *to],
        "claims": ["--results", run, *to],
        "report": ["--runs", run, "--out", str(out / "report.html")],
        "play": ["--predictors", run, "--port", "18950", "--no-browser"],
    }
    return {verb: [*verb.removesuffix(" by two").split(), *options[verb]] for verb in options}


VERBS = tuple(commands(Path(), Path()))
HUB_VERBS = ("push", "data push", "data pull")
"""They need a network; tests/test_hub.py runs them with a hub in a folder."""


@dataclass
class Child:
    """A command in a process of its own."""

    process: subprocess.Popen[str]
    reports: int
    """The pipe on which it reports."""

    def wait_until_ready(self) -> None:
        """Wait until it handles signals."""
        assert os.read(self.reports, 6) == b"ready "

    def end(self) -> tuple[int, str, str]:
        """Wait for its end; returns exit code, output and errors."""
        output, errors = self.process.communicate(timeout=PATIENCE)
        return self.process.returncode, output, errors

    def peak_bytes(self) -> int:
        """Return the most address space that it had, once it has ended."""
        return int(os.read(self.reports, 20)) * 1024


def start(
    arguments: list[str],
    *,
    memory: int | None = None,
    stdout: int | None = None,
    variables: dict[str, str] | None = None,
) -> Child:
    """Start a command with a limit of address space, an output and environment variables."""

    def prepare() -> None:
        signal.signal(signal.SIGINT, signal.SIG_DFL)  # a background job would inherit that it is ignored
        if memory is not None:
            resource.setrlimit(resource.RLIMIT_AS, (memory, memory))

    reports, there = os.pipe()
    usual = {"OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1", "PYTHONUNBUFFERED": "", "ACVP_DEBUG": ""}
    process = subprocess.Popen(
        [sys.executable, "-c", REPORTING, str(there), *arguments],
        cwd=ROOT,
        env=os.environ | usual | (variables or {}),
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE if stdout is None else stdout,
        stderr=subprocess.PIPE,
        text=True,
        pass_fds=[there],
        start_new_session=True,
        preexec_fn=prepare,
    )
    os.close(there)
    return Child(process, reports)


def assert_ended(code: int, errors: str, *allowed: int) -> None:
    """Fail unless a command ended with one of these codes, a single line that says why, and no traceback."""
    assert "Traceback" not in errors, errors
    assert "Exception ignored" not in errors, errors
    assert code in allowed, f"{code}: {errors}"
    reasons = [line for line in errors.splitlines() if line.startswith("acvp: ") or "stopped by" in line]
    assert len(reasons) == (code not in (0, 141)), errors


def assert_alone(child: Child) -> None:
    """Fail unless everything that a command started has ended with it."""
    limit = time.monotonic() + PATIENCE
    while left := [process for process in psutil.process_iter() if _belongs(process, child.process.pid)]:
        assert time.monotonic() < limit, left
        time.sleep(0.1)


def _belongs(process: psutil.Process, session: int) -> bool:
    try:
        return os.getsid(process.pid) == session and process.status() != psutil.STATUS_ZOMBIE
    except (ProcessLookupError, psutil.NoSuchProcess):
        return False
