"""Run some tests on a copy of the package and write how each ended, as JSON: `child.py SOURCE REPORT TEST…`."""

from __future__ import annotations

import json
import sys
from collections.abc import Generator
from pathlib import Path

import pytest

import acvp

PASSED, ASSERTED = "passed", "assertion failed"


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


def main() -> int:
    """Run the tests named on the command line."""
    source, report, *tests = sys.argv[1:]
    if not Path(acvp.__file__).is_relative_to(source):
        raise RuntimeError(f"acvp comes from {acvp.__file__}, not from {source}")
    recorder = Recorder()
    code = pytest.main(["-q", "-p", "no:cacheprovider", "--tb=line", "-m", "not faults", *tests], plugins=[recorder])
    Path(report).write_text(json.dumps(recorder.results))
    return int(code)


if __name__ == "__main__":
    sys.exit(main())
