"""Write the full counts of the reliability promises into docs/reliability.md: `python -m tests.counts`.

`make faults` writes results/faults.json; a test demands that the page has its counts.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable
from typing import Any

from tests.faults import RESULTS, ROOT

PAGE = ROOT / "docs" / "reliability.md"
NAMES = {
    "1 a checkpoint survives kills at 8 points of a save": "kills while a checkpoint is saved",
    "1 a checkpoint survives kills at random times": "at random times of a training",
    "1 a file survives kills at 7 named points of its writing": "while a file is written",
    "1 a log survives kills at 7 named points of an added line": "while a line is appended",
    "2 resume is bit-identical for the next 200 updates": "resumed runs",
    "3 collection survives kills at aimed moments": "kills at chosen points",
    "3 collection survives kills at random moments": "at random times",
    "4 a full disk destroys nothing": "failures",
    "5 windows never cross an end, in random stores": "datasets",
    "6 planted leaks are caught": "leaks",
    "7 divergence stops before the update": "injections",
    "8 malicious files run no code": "predictor and checkpoint files",
    "8 no file of a store runs code": "files of a dataset",
    "9 mutated checkpoints give one clear error": "checkpoints",
    "9 mutated configs give one clear error": "configs",
    "9 mutated parts and indices are refused": "files of a dataset",
    "10 added files are found": "added files",
    "10 cut, emptied and lengthened files are found": "truncated, emptied and extended files",
    "10 deleted parts are found": "deleted files",
    "10 flipped bits are found": "bits",
    "10 swapped parts are found": "swapped files",
    "11 the play server refuses foreign hosts": "hosts",
    "11 the play server refuses foreign origins before it accepts a socket": "origins",
    "12 the play server survives 100 fuzzed messages": "times 100 messages",
    "13 pages that vanish leave nothing in the play server": "connections",
    "15 two writers race for one folder": "races",
    "16 no planted name is imported or opened": "planted strings",
    "16 no symbolic link leads elsewhere": "symbolic links",
    "17 SIGINT at any moment is one line and 130": "SIGINT",
    "17 SIGTERM at any moment is one line and 143": "SIGTERM",
    "17 a full stdout is one line and 2": "full outputs",
    "17 a misbehaving env is one line and 2": "envs",
    "17 a path that cannot be is one line and 2": "impossible paths",
    "17 a reader that has gone is 141 without a word": "closed pipes",
    "17 an output that knows ASCII only gets other characters": "ASCII outputs",
    "17 too little memory is one line and 2": "with too little memory",
    "18 every verb continues after a kill": "kills",
    "19 no named pipe or device blocks": "named pipes and devices",
    "19 numbers that do not fit are not imported": "imports",
    "19 options beyond any use are refused": "options",
    "20 a changed store survives a power loss": "losses of a changed dataset",
    "20 a recording survives a kill and then a power loss": "of a recording after a kill",
    "20 a recording survives a power loss": "of a recording",
    "20 checkpoints survive a kill and then a power loss": "of checkpoints after a kill",
    "20 checkpoints survive a power loss": "of checkpoints",
    "20 logs survive a kill and then a power loss": "of logs after a kill",
    "20 logs survive a power loss": "of logs",
}
"""What each test of `make faults` counts."""

ROW = re.compile(r"^(\| (\d+) \|.*\|)[^|]*(\|[^|]*\|)$", re.MULTILINE)
"""A promise: what stands before its full count, its number, and what stands after it."""
SUMMARY = re.compile(r"^`make faults` .*$", re.MULTILINE)

Figures = dict[str, dict[str, Any]]


def with_counts(page: str, figures: Figures) -> str:
    """Return the page with the counts of a run of `make faults`."""

    def row(found: re.Match[str]) -> str:
        own = [f"{each['count']:,} {NAMES[name]}" for name, each in figures.items() if name.split()[0] == found[2]]
        return f"{found[1]} {', '.join(own)} {found[3]}" if own else found[0]

    return SUMMARY.sub(lambda _: summary(figures), ROW.sub(row, page))


def summary(figures: Figures) -> str:
    """Return at which commit and where the counts ran, and which tests did not pass whole."""
    failed = {name: each for name, each in figures.items() if each["passed"] != each["count"]}
    text = (
        f"`make faults` ran at commit {_all(each['commit'][:7] for each in figures.values())} (Python "
        f"{_all(each['python'] for each in figures.values())}, {_all(each['platform'] for each in figures.values())}): "
        f"{len(figures) - len(failed)} of {len(figures)} tests passed whole."
    )
    named = "; ".join(f"promise {name}: {each['passed']:,} of {each['count']:,}" for name, each in failed.items())
    return text + (f" The others: {named}." if failed else "")


def _all(values: Iterable[str]) -> str:
    return ", ".join(sorted(set(values)))


if __name__ == "__main__":
    PAGE.write_text(with_counts(PAGE.read_text(), json.loads(RESULTS.read_text())))
