"""Continuous actions: float32 vectors with a range for each component, beside actions that are numbers.

A game, a dataset or a predictor with an empty range has numbered actions, 0 to A - 1. With a range, an action is a
vector of A components, and the names of actions are those of the components.

Shapes: A actions or components, T actions in a row.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from acvp.errors import UserError

ActionRange = tuple[tuple[float, float], ...]
"""Lowest and highest value of each component; empty: actions are numbers."""
Vector = NDArray[np.float32]  # (A,)
Action = int | Vector
Actions = NDArray[Any]  # (T,) integers or (T, A) float32


def checked_range(values: Any) -> ActionRange:
    """Return a range with tuples instead of JSON's lists; ValueError unless each pair is finite and in order."""
    pairs = values if isinstance(values, list | tuple) else [values]
    for pair in pairs:
        kinds = {type(limit) for limit in pair} if isinstance(pair, list | tuple) and len(pair) == 2 else {str}
        if not kinds <= {int, float} or not (np.isfinite(pair).all() and pair[0] < pair[1]):
            raise ValueError(f"range of actions {values!r:.80}: a finite lowest and a higher highest value for each")
    return tuple((float(low), float(high)) for low, high in pairs)


def range_of(low: NDArray[Any], high: NDArray[Any]) -> ActionRange:
    """Return the range between two arrays of limits; components that never change get a range around their value."""
    limits = np.stack((low.reshape(-1), high.reshape(-1)), 1).astype(np.float32).astype(np.float64)
    return tuple((a, b) if a < b else (a - 1, b + 1) for a, b in limits.tolist())


def checked_vector(action: Any, limits: ActionRange, name: str) -> Vector:
    """Return an action as a float32 vector; UserError, which begins with `name`, if it is none or out of range."""
    try:
        vector = np.asarray(action, np.float32).reshape(-1)
    except (TypeError, ValueError, OverflowError) as error:
        raise UserError(f"{name}: action {action!r:.60} is no vector of {len(limits)} numbers") from error
    if len(vector) != len(limits):
        raise UserError(f"{name}: action {action!r:.60} has {len(vector)} numbers; {len(limits)} are expected")
    wrong = outside(vector[None], limits)
    if wrong is not None:
        raise UserError(f"{name}: {wrong}")
    return vector


def outside(vectors: NDArray[np.floating[Any]], limits: ActionRange) -> str | None:
    """Return in words which component of vectors (T, A) is not finite or out of range first; None: no one is."""
    low, high = np.array(limits, np.float32).T
    fits = (vectors >= low) & (vectors <= high)  # NaN fits nowhere
    if fits.all():
        return None
    row, component = np.unravel_index(int(fits.argmin()), fits.shape)
    return (
        f"component {component} of an action is {vectors[row, component]:g}, "
        f"outside {low[component]:g} to {high[component]:g}"
    )


def wrong_actions(actions: Actions, count: int, limits: ActionRange) -> str | None:
    """Return in words what is wrong with the actions of an episode; None: nothing."""
    if limits:
        if actions.ndim != 2 or actions.shape[1] != count:
            return f"actions of shape {actions.shape}, where each is a vector of {count} numbers"
        return outside(actions, limits)
    if actions.ndim != 1:
        return f"actions of shape {actions.shape}, where each is a number from 0 to {count - 1}"
    if len(actions) and not 0 <= actions.min() <= actions.max() < count:
        return f"actions {actions.min()} to {actions.max()}, where there are 0 to {count - 1}"
    return None


def blank_actions(limits: ActionRange, *leading: int) -> Actions:
    """Return what stands where no action was taken: number 0, or of each component the value nearest to 0."""
    if not limits:
        return np.zeros(leading, np.int64)
    low, high = np.array(limits, np.float32).T
    return np.broadcast_to(np.clip(np.float32(0), low, high), (*leading, len(limits))).copy()


def random_vectors(rng: np.random.Generator, limits: ActionRange, count: int) -> NDArray[np.float32]:
    """Return uniformly random actions (count, A)."""
    low, high = np.array(limits, np.float32).T
    return np.clip(rng.uniform(low, high, (count, len(limits))).astype(np.float32), low, high)


def label_of(action: Any, names: Sequence[str]) -> str:
    """Return an action in words: its name, or its components."""
    if np.ndim(action):
        return " ".join(f"{value:.2f}" for value in np.asarray(action).tolist())
    return names[int(action)]


def require_numbered(limits: ActionRange, what: str) -> None:
    """Refuse continuous actions where something needs a list of actions to choose from."""
    if limits:
        raise UserError(
            f"{what} needs a list of actions, and these are vectors of {len(limits)} numbers: register a version of "
            "the game with numbered actions (gymnasium.wrappers.TransformAction), and record and train that"
        )
