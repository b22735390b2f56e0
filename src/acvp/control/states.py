"""Rows of a predictor's state, whatever the state is made of: plays that end leave the batch, new ones join it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import fields, is_dataclass, replace
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from acvp.models import State


def select_rows(state: State, rows: NDArray[np.int64]) -> State:
    """Return the state of some rows of the batch, in their order; a row may come several times."""

    def select(tensors: Sequence[Tensor]) -> Tensor:
        return tensors[0].index_select(0, torch.from_numpy(rows).to(tensors[0].device))

    chosen: State = _by_tensor(select, [state])
    return chosen


def join_rows(states: Sequence[State]) -> State:
    """Return states of one kind, all of them after a prediction or none, as one batch."""
    if len(states) == 1:
        return states[0]
    joined: State = _by_tensor(lambda tensors: torch.cat(list(tensors)), states)
    return joined


def _by_tensor(function: Callable[[Sequence[Tensor]], Tensor], values: Sequence[Any]) -> Any:
    """Apply a function to the tensors that stand in the same place of each value."""
    first = values[0]
    if first is None:
        return None
    if isinstance(first, Tensor):
        return function(values)
    if is_dataclass(first) and not isinstance(first, type):
        names = [field.name for field in fields(first)]
        return replace(first, **{name: _by_tensor(function, [getattr(v, name) for v in values]) for name in names})
    if isinstance(first, tuple) and hasattr(first, "_fields"):
        return type(first)(*(_by_tensor(function, parts) for parts in zip(*values, strict=True)))
    raise TypeError(f"a predictor's state holds a {type(first).__name__}; its rows can be told apart in tensors only")
