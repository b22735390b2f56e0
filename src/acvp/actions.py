"""Actions: numbers whose names say where they move, or continuous ones, float32 vectors with a range per component.

A game, a dataset or a predictor with an empty range has numbered actions, 0 to A - 1. With a range, an action is a
vector of A components, and the names of actions are those of the components.

The name of a numbered action says where it moves and whether it fires: from it come labels, order and pairs of actions.

Shapes: A actions or components, T actions in a row.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import combinations
from math import atan2, pi
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


def blank_vectors(limits: ActionRange, *leading: int) -> NDArray[np.float32]:
    """Return what stands where no action was taken: of each component the value nearest to 0."""
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


Pair = tuple[int, int]
NAME = re.compile(r"(?P<vertical>UP|DOWN)?(?P<horizontal>LEFT|RIGHT)?(?P<fire>FIRE)?")
ROWS, COLUMNS = {"UP": -1, "DOWN": 1, None: 0}, {"LEFT": -1, "RIGHT": 1, None: 0}
WHITE = {(-1, 0): "⇧", (1, 0): "⇩", (0, -1): "⇦", (0, 1): "⇨", (-1, 1): "⬀", (-1, -1): "⬁", (1, 1): "⬂", (1, -1): "⬃"}
BLACK = {(-1, 0): "⬆", (1, 0): "⬇", (0, -1): "⬅", (0, 1): "➡", (-1, 1): "⬈", (-1, -1): "⬉", (1, 1): "⬊", (1, -1): "⬋"}
"""Arrows as in the paper's figure 7: black with fire, white without."""


@dataclass(frozen=True)
class Movement:
    """What a name such as NOOP, UP or DOWNLEFTFIRE stands for."""

    down: int
    right: int
    fire: bool

    @property
    def label(self) -> str:
        """An arrow; N or F where nothing moves."""
        if not self.moves:
            return "F" if self.fire else "N"
        return (BLACK if self.fire else WHITE)[self.down, self.right]

    @property
    def moves(self) -> bool:
        return (self.down, self.right) != (0, 0)

    def same_direction(self, other: Movement) -> bool:
        """Whether both move, and to the same side."""
        return self.moves and (self.down, self.right) == (other.down, other.right)

    def opposite(self, other: Movement) -> bool:
        """Whether both move, and to opposite sides."""
        return self.moves and (self.down, self.right) == (-other.down, -other.right)


def parse(name: str) -> Movement | None:
    """Return the movement that an action's name stands for, None where it says nothing of the kind."""
    plain = re.sub(r"[\s_+-]", "", name).upper()
    if plain == "NOOP":
        return Movement(0, 0, False)
    match = NAME.fullmatch(plain)
    if not plain or match is None:
        return None
    return Movement(ROWS[match["vertical"]], COLUMNS[match["horizontal"]], bool(match["fire"]))


def label(name: str) -> str:
    """Return an action's name with its arrow."""
    movement = parse(name)
    return name if movement is None else f"{name} {movement.label}"


def ordered(names: Sequence[str]) -> list[int]:
    """Return the actions by movement: none, then clockwise from up, without fire before with; unknown names last."""
    return sorted(range(len(names)), key=lambda action: (*_key(parse(names[action])), action))


def _key(movement: Movement | None) -> tuple[int, float, bool]:
    if movement is None:
        return 2, 0.0, False
    clockwise = atan2(movement.right, -movement.down) % (2 * pi)
    return int(movement.moves), clockwise, movement.fire


def same_direction_pairs(names: Sequence[str]) -> list[Pair]:
    """Return the pairs of actions that move to the same side, such as UP and UPFIRE."""
    return _pairs(names, Movement.same_direction)


def opposite_pairs(names: Sequence[str]) -> list[Pair]:
    """Return the pairs of actions that move to opposite sides, with or without fire."""
    return _pairs(names, Movement.opposite)


def _pairs(names: Sequence[str], related: Callable[[Movement, Movement], bool]) -> list[Pair]:
    known = {action: movement for action, name in enumerate(names) if (movement := parse(name))}
    return [(i, j) for i, j in combinations(known, 2) if related(known[i], known[j])]
