"""What stands beside every number: command, commit, machine, versions, time and memory."""

from __future__ import annotations

import json
import subprocess
import sys
import time
from importlib.metadata import version
from pathlib import Path
from typing import Any

from acvp.runs import machine, peak_memory_mb

RESULTS = Path(__file__).parent.parent / "results"


def commit() -> str:
    """The commit that is checked out, with a plus where source files differ from it."""
    git = ["git", "-C", str(RESULTS.parent)]
    head = subprocess.run([*git, "rev-parse", "--short=12", "HEAD"], capture_output=True, text=True, check=False)
    changed = subprocess.run([*git, "status", "--porcelain", "src"], capture_output=True, text=True, check=False)
    return head.stdout.strip() + ("+" if changed.stdout.strip() else "")


def write_results(name: str, body: dict[str, Any], *, command: str, seed: int, started: float) -> Path:
    """Write results/<name>.json with its provenance; `started` is from time.monotonic."""
    provenance = {
        "command": command,
        "seed": seed,
        "commit": commit(),
        "machine": machine(),
        "python": sys.version.split()[0],
        "versions": {library: version(library) for library in ("numpy", "torch", "ale-py", "numcodecs")},
        "seconds": round(time.monotonic() - started, 1),
        "peak_memory_mb": peak_memory_mb(),
    }
    path = RESULTS / f"{name}.json"
    path.write_text(json.dumps({"provenance": provenance} | body, indent=1) + "\n")
    return path
