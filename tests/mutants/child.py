"""Run some tests on a copy of the package, in a process forked for them, and write how each ended."""

from __future__ import annotations

import importlib
import json
import os
import sys
from collections.abc import Generator, Sequence
from pathlib import Path

import pytest
from hypothesis import HealthCheck, Phase, settings

PASSED, ASSERTED = "passed", "assertion failed"
LIBRARIES = (
    "ale_py",
    "av",
    "cv2",
    "gymnasium",
    "lightning_fabric",
    "matplotlib.pyplot",
    "numcodecs",
    "numpy",
    "PIL.Image",
    "rich",
    "safetensors.torch",
    "stable_baselines3",
    "starlette",
    "torch",
    "tyro",
)
"""What most tests import besides acvp: imported once, before the processes are forked."""

OPTIONS = (
    *("-q", "-p", "no:cacheprovider", "--tb=line", "-m", "not faults", "--hypothesis-profile", "mutants"),
    *("-W", "ignore:Module already imported"),  # a plugin, such as hypothesis, was imported before pytest began
)

settings.register_profile(
    "mutants",
    deadline=None,
    suppress_health_check=[HealthCheck.too_slow],
    derandomize=True,
    phases=[Phase.explicit, Phase.generate],
)
"""The same examples in every run, and no time spent on shrinking those that fail."""


class Recorder:
    """Records the result of each test: passed, an assertion that failed, or what else went wrong."""

    def __init__(self) -> None:
        self.results: dict[str, str] = {}

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_makereport(
        self, item: pytest.Item, call: pytest.CallInfo[None]
    ) -> Generator[None, pytest.TestReport, pytest.TestReport]:
        """Take in one phase of one test."""
        report = yield
        if call.excinfo is not None:
            asserted = call.when == "call" and call.excinfo.errisinstance((AssertionError, pytest.fail.Exception))
            self.results[item.nodeid] = ASSERTED if asserted else f"{call.excinfo.typename} in {call.when}"
        else:
            self.results.setdefault(item.nodeid, PASSED)
        return report


def preload() -> None:
    """Import the libraries, without a second thread: only a process with one thread is safe to fork."""
    os.environ["OMP_NUM_THREADS"] = "1"
    for name in LIBRARIES:
        importlib.import_module(name)


def run(folder: Path, tests: Sequence[str]) -> None:
    """Run tests on the copy in FOLDER/src; write FOLDER/output and at last FOLDER/report.json."""
    os.setsid()  # a group of processes of its own, which a time limit ends as a whole
    output = os.open(folder / "output", os.O_WRONLY | os.O_CREAT)
    os.dup2(output, 1)
    os.dup2(output, 2)
    source = str(folder / "src")
    os.environ["PYTHONPATH"] = source
    sys.path.insert(0, source)
    package = str(importlib.import_module("acvp").__file__)
    if not Path(package).is_relative_to(source):
        raise RuntimeError(f"acvp comes from {package}, not from {source}")
    recorder = Recorder()
    pytest.main([*OPTIONS, *(f"tests/{test}" for test in tests)], plugins=[recorder])
    results = {name.removeprefix("tests/"): result for name, result in recorder.results.items()}
    (folder / "report.json").write_text(json.dumps(results))
