"""Where benchmarks write their results."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from acvp import runs
from acvp.runs import commit

__all__ = ["RESULTS", "commit", "write_results"]

RESULTS = Path(__file__).parent.parent / "results"


def write_results(name: str, body: dict[str, Any], *, command: str, seed: int, started: float) -> Path:
    """Write results/<name>.json with its provenance; `started` is from time.monotonic."""
    return runs.write_results(RESULTS / f"{name}.json", body, command=command, seed=seed, started=started)
