"""Where benchmarks write their results."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from acvp import runs
from acvp.runs import commit

__all__ = ["ORIGIN", "RESULTS", "commit", "part_origin", "write_results"]

RESULTS = Path(__file__).parent.parent / "results"
ORIGIN = ("time", "commit", "machine")
"""Of the provenance, what each part of a result file has whose parts can be measured alone."""


def part_origin() -> dict[str, Any]:
    """Return when, of which commit and where a part of a result file is measured."""
    origin = runs.provenance()
    return {"measured": {key: origin[key] for key in ORIGIN}}


def write_results(name: str, body: dict[str, Any], *, command: str, seed: int, started: float) -> Path:
    """Write results/<name>.json with its provenance; `started` is from time.monotonic."""
    return runs.write_results(RESULTS / f"{name}.json", body, command=command, seed=seed, started=started)
