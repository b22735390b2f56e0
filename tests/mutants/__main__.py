"""Run the table of mutants: `python -m tests.mutants [--jobs 2] [--only WORDS]`.

Every mutant is a change in a copy of the package in a temporary folder; the working tree is never edited. A mutant is
killed if its test fails by an assertion on the changed copy. Before that, all tests must pass on an unchanged copy.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from tests.mutants import Mutant
from tests.mutants.child import ASSERTED, PASSED
from tests.mutants.table import MUTANTS

ROOT = Path(__file__).parent.parent.parent
PACKAGE = ROOT / "src" / "acvp"
SECONDS = 900
"""After which a child is ended and its mutant counts as alive."""


def complaints(mutants: Sequence[Mutant]) -> list[str]:
    """Return which mutants no longer fit the source: their text must occur exactly once."""
    counts = ((each, (PACKAGE / each.file).read_text().count(each.original)) for each in mutants)
    return [f"{each.name}: {count} times in {each.file}: {each.original!r}" for each, count in counts if count != 1]


def run_tests(tests: Sequence[str], mutant: Mutant | None = None) -> dict[str, str]:
    """Return how tests end on a copy of the package, changed by a mutant if there is one; by their ids."""
    with tempfile.TemporaryDirectory(prefix="acvp-mutant-") as folder:
        source, report = Path(folder) / "src", Path(folder) / "report.json"
        shutil.copytree(PACKAGE, source / "acvp")
        if mutant is not None:
            _change(source / "acvp" / mutant.file, mutant)
        command = [
            sys.executable,
            "-m",
            "tests.mutants.child",
            str(source),
            str(report),
            *(f"tests/{t}" for t in tests),
        ]
        environment = os.environ | {"PYTHONPATH": str(source), "OMP_NUM_THREADS": "1"}
        try:
            done = subprocess.run(
                command, cwd=ROOT, env=environment, capture_output=True, text=True, check=False, timeout=SECONDS
            )
        except subprocess.TimeoutExpired:
            return dict.fromkeys(tests, f"still running after {SECONDS} s")
        if not report.exists():
            return dict.fromkeys(tests, f"no report, exit code {done.returncode}: {done.stderr[-2000:]}")
        results: dict[str, str] = json.loads(report.read_text())
    return {name.removeprefix("tests/"): result for name, result in results.items()}


def _change(file: Path, mutant: Mutant) -> None:
    file.write_text(file.read_text().replace(mutant.original, mutant.mutated))
    for compiled in (file.parent / "__pycache__").glob(f"{file.stem}.*"):
        compiled.unlink()


def of_test(results: dict[str, str], test: str) -> list[str]:
    """Return the results of a test with all its parameters."""
    return [result for name, result in results.items() if name == test or name.startswith(f"{test}[")]


def baseline(tests: Sequence[str]) -> list[str]:
    """Return which tests do not pass on an unchanged copy."""
    results = run_tests(tests)
    return [test for test in tests if set(of_test(results, test)) != {PASSED}]


def verdict(mutant: Mutant) -> tuple[bool, str]:
    """Return whether a mutant is killed, and how its test ended."""
    found = of_test(run_tests([mutant.test], mutant), mutant.test)
    return ASSERTED in found, ", ".join(sorted(set(found) - {PASSED})) or PASSED


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
    began, tests = time.monotonic(), sorted({each.test for each in mutants})
    with ThreadPoolExecutor(options.jobs) as pool:
        size = -(-len(tests) // options.jobs) or 1
        parts = [tests[first : first + size] for first in range(0, len(tests), size)]
        if failing := [test for part in pool.map(baseline, parts) for test in part]:
            print("These tests do not pass without a mutant:", *failing, sep="\n  ")
            return 1
        alive = 0
        for mutant, (killed, how) in zip(mutants, pool.map(verdict, mutants), strict=True):
            alive += not killed
            end = f"killed by {mutant.test}" if killed else f"ALIVE: {mutant.test}: {how}"
            print(f"{mutant.name:<62} {mutant.file:<28} {end}", flush=True)
    print(f"{len(mutants) - alive} of {len(mutants)} mutants killed in {time.monotonic() - began:.0f} s")
    return 1 if alive or not mutants else 0


if __name__ == "__main__":
    sys.exit(main())
