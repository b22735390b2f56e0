"""Mean and standard error, one convention for all: a single value has no standard error, and is shown without ±."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray


def standard_errors(samples: NDArray[Any]) -> NDArray[np.float64] | None:
    """Return the standard error of the mean over the first axis; None for a single sample."""
    if len(samples) < 2:
        return None
    errors: NDArray[np.float64] = np.std(samples, axis=0, ddof=1) / np.sqrt(len(samples))
    return errors


def standard_error(values: Sequence[float]) -> float | None:
    """Return the standard error of the mean; None for a single value."""
    error = standard_errors(np.asarray(values, np.float64))
    return None if error is None else float(error)


def averaged(values: Sequence[float]) -> dict[str, Any]:
    """Return mean and standard error as results hold them."""
    return {"mean": float(np.mean(values)), "standard_error": standard_error(values)}


def with_error(mean: float, error: float | None, show: Callable[[float], str] = "{:,.1f}".format) -> str:
    """Return a mean with its standard error, such as 23.1 ± 0.3."""
    return show(mean) if error is None else f"{show(mean)} ± {show(error)}"
