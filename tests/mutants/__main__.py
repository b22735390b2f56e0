"""Run the table of mutants: `python -m tests.mutants [--jobs 2] [--only WORDS]`.

Every mutant is a change in a copy of the package in a temporary folder; the working tree is never edited. A mutant is
killed if its test fails by an assertion on the changed copy. Before that, all tests must pass on an unchanged copy.
A mutant that comes out alive is tried again at the end, with nothing beside it, and the table says so: one that no test
notices survives both times; one that is killed only the second time has a test that depends on timing, to be repaired.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import signal
import sys
import tempfile
import time
from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from multiprocessing import connection, get_context
from pathlib import Path
from typing import NamedTuple

from tests.mutants import Mutant
from tests.mutants.child import ASSERTED, PASSED, preload, run
from tests.mutants.table import MUTANTS

ROOT = Path(__file__).parent.parent.parent
PACKAGE = ROOT / "src" / "acvp"
SECONDS = 900
"""After which a process is ended and its mutant counts as alive."""


class Job(NamedTuple):
    """Tests to run in one process."""

    tests: Sequence[str]
    mutant: Mutant | None = None


class Child:
    """A job in a process forked from this one, with its own copy of the package."""

    def __init__(self, job: Job) -> None:
        self.job = job
        self.folder = tempfile.TemporaryDirectory(prefix="acvp-mutant-")
        self.path = Path(self.folder.name)
        shutil.copytree(PACKAGE, self.path / "src" / "acvp")
        if job.mutant is not None:
            _change(self.path / "src" / "acvp" / job.mutant.file, job.mutant)
        self.process = get_context("fork").Process(target=run, args=(self.path, job.tests))
        self.process.start()
        self.deadline = time.monotonic() + SECONDS

    def results(self) -> dict[str, str]:
        """Return how the tests ended, by their ids."""
        report = self.path / "report.json"
        if report.exists():
            return dict(json.loads(report.read_text()))
        if self.process.is_alive():
            return dict.fromkeys(self.job.tests, f"still running after {SECONDS} s")
        output = self.path / "output"
        said = output.read_text(errors="replace")[-2000:] if output.exists() else ""
        return dict.fromkeys(self.job.tests, f"no report, exit code {self.process.exitcode}: {said}")

    def end(self) -> None:
        """End the process with all that it started, and remove the copy."""
        assert self.process.pid is not None
        with suppress(ProcessLookupError):
            os.killpg(self.process.pid, signal.SIGKILL)
        self.process.kill()
        self.process.join()
        self.folder.cleanup()


def run_jobs(jobs: Sequence[Job], processes: int = 1) -> Iterator[tuple[Job, dict[str, str]]]:
    """Yield each job, as it ends, with the results of its tests."""
    waiting, children = list(jobs), list[Child]()
    try:
        while waiting or children:
            while waiting and len(children) < processes:
                children.append(Child(waiting.pop(0)))
            connection.wait([child.process.sentinel for child in children], timeout=1)
            for child in list(children):
                if not child.process.is_alive() or time.monotonic() > child.deadline:
                    results = child.results()
                    children.remove(child)
                    child.end()
                    yield child.job, results
    finally:
        for child in children:
            child.end()


def complaints(mutants: Sequence[Mutant]) -> list[str]:
    """Return which mutants no longer fit the source: their text must occur exactly once."""
    counts = ((each, (PACKAGE / each.file).read_text().count(each.original)) for each in mutants)
    return [f"{each.name}: {count} times in {each.file}: {each.original!r}" for each, count in counts if count != 1]


def _change(file: Path, mutant: Mutant) -> None:
    file.write_text(file.read_text().replace(mutant.original, mutant.mutated))
    for compiled in (file.parent / "__pycache__").glob(f"{file.stem}.*"):
        compiled.unlink()


def of_test(results: dict[str, str], test: str) -> list[str]:
    """Return the results of a test with all its parameters."""
    return [result for name, result in results.items() if name == test or name.startswith(f"{test}[")]


def failing(tests: Sequence[str], processes: int) -> list[str]:
    """Return which tests do not pass on an unchanged copy, and how they end."""
    jobs = [Job(tests[first::processes]) for first in range(min(processes, len(tests)))]
    ended = [(test, of_test(results, test)) for job, results in run_jobs(jobs, processes) for test in job.tests]
    return [f"{test}: {', '.join(found) or 'not run'}" for test, found in ended if set(found) != {PASSED}]


def verdicts(mutants: Sequence[Mutant], processes: int = 1) -> Iterator[tuple[Mutant, bool, str]]:
    """Yield, as it is found, whether a mutant is killed and how its test ended."""
    for job, results in run_jobs([Job([mutant.test], mutant) for mutant in mutants], processes):
        assert job.mutant is not None
        found = of_test(results, job.mutant.test)
        yield job.mutant, ASSERTED in found, ", ".join(sorted(set(found) - {PASSED})) or PASSED


def main() -> int:
    """Run the table and print it; 1 where a mutant is alive, a text is not found or a test fails without a mutant."""
    parser = argparse.ArgumentParser(prog="python -m tests.mutants", description=__doc__)
    parser.add_argument("--jobs", type=int, default=2, help="Processes at a time (default: 2).")
    parser.add_argument("--only", default="", help="Only mutants whose name or file has these words.")
    options = parser.parse_args()
    mutants = [each for each in MUTANTS if options.only in f"{each.name} {each.file}"]
    if wrong := complaints(mutants):
        print("These texts do not occur exactly once:", *wrong, sep="\n  ")
        return 1
    began = time.monotonic()
    preload()
    if tests := failing(sorted({each.test for each in mutants}), options.jobs):
        print("These tests do not pass without a mutant:", *tests, sep="\n  ")
        return 1
    again = survivors(verdicts(mutants, options.jobs), "tried again at the end")
    alive = survivors(verdicts(again), "both times") if again else []
    if timed := [each.name for each in again if each not in alive]:
        print("The tests of these mutants depend on timing, repair them:", *timed, sep="\n  ")
    print(f"{len(mutants) - len(alive)} of {len(mutants)} mutants killed in {time.monotonic() - began:.0f} s")
    return 1 if alive or not mutants else 0


def survivors(found: Iterable[tuple[Mutant, bool, str]], remark: str) -> list[Mutant]:
    """Print each mutant with how it ended; return those that are alive."""
    alive = []
    for mutant, killed, how in found:
        if not killed:
            alive.append(mutant)
        end = f"killed by {mutant.test}" if killed else f"ALIVE ({remark}): {mutant.test}: {how}"
        print(f"{mutant.name:<62} {mutant.file:<28} {end}", flush=True)
    return alive


if __name__ == "__main__":
    sys.exit(main())
