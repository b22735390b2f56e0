"""What an action's name says: where it moves, whether it fires; from it labels, order and pairs of actions.

Shapes: A actions, P pairs.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import combinations
from math import atan2, pi

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
