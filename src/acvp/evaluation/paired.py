"""Paired comparisons: by how much two models differ on the same windows, with a band over resampled episodes."""

from __future__ import annotations

from collections.abc import Mapping
from itertools import combinations
from typing import Any

from acvp.bootstrap import Accumulator, Bootstrap
from acvp.runs import numbers

PAIRED = ("error", "wrong_pixels", "object_kept", "object_found")
"""Metrics that are compared."""
STEPS = (1, 5, 10, 30, 50, 100, 200, 300, 500)
"""Steps at which they are compared, and the last one."""


def paired_differences(accumulators: Mapping[str, Mapping[str, Accumulator]], bootstrap: Bootstrap) -> dict[str, Any]:
    """Return the mean of "first − second" with its 95 % band for every two models, by metric and step.

    Where the band does not contain 0, the two differ by more than the choice of the episodes explains.
    """
    horizon = next(iter(accumulators.values()))["error"].sums.shape[1]
    steps = sorted({step for step in STEPS if step < horizon} | {horizon})
    metrics = {}
    for metric in PAIRED:
        having = [name for name, metrics in accumulators.items() if metric in metrics]
        if len(having) > 1:
            metrics[metric] = [
                {"first": first, "second": second}
                | _at(bootstrap, accumulators[first][metric], accumulators[second][metric], steps)
                for first, second in combinations(having, 2)
            ]
    return {"steps": steps, "metrics": metrics}


def _at(bootstrap: Bootstrap, first: Accumulator, second: Accumulator, steps: list[int]) -> dict[str, Any]:
    curve = bootstrap.difference(first, second)
    return {part: numbers(values[[step - 1 for step in steps]]) for part, values in curve._asdict().items()}
