"""Results as a JSON file that tells where they come from."""

from __future__ import annotations

import json
import time
from pathlib import Path
from typing import Any

from acvp.durable import make_folder, write_atomic
from acvp.runs import peak_memory_mb, provenance


def write_results(
    path: Path, body: dict[str, Any], *, seed: int | None, started: float, earlier_seconds: float = 0.0
) -> None:
    """Write results with command, commit, machine, time and memory.

    `started` is from time.monotonic, `earlier_seconds` what parts took that earlier commands measured; a seed of None
    says that nothing was drawn.
    """
    make_folder(path.parent)
    seconds = round(time.monotonic() - started + earlier_seconds, 1)
    cost = {"seed": seed, "seconds": seconds, "peak_memory_mb": peak_memory_mb()}
    text = json.dumps({"provenance": provenance() | cost} | body, indent=1, ensure_ascii=False, allow_nan=False)
    write_atomic(path, text.encode() + b"\n")
