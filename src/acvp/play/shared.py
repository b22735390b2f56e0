"""A shared game: everything a player did since the start of a game, as the text of a link.

    predictor=seaquest&seed=3&skip=2&moves=0x12-5-r-2x30

A move is an action, or an action and for how many steps it was held; `r` is a resync of the dream with the real frames.
The first `skip` steps lead from the first frame of the game to where the player began.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from itertools import groupby, pairwise
from urllib.parse import parse_qsl, quote

from acvp.errors import UserError
from acvp.play.config import HOTTEST

RESYNC = "r"
MAX_STEPS = 27_000
"""Steps of a shared game at most: half an hour of Atari."""
MAX_TEXT = 60_000
"""Characters of a link at most; browsers take longer ones."""
_MOVE = re.compile(r"(\d{1,4})(?:x(\d{1,5}))?", re.ASCII)


@dataclass
class Moves:
    """The actions since the first frame of a game, and after how many steps the dream was resynced."""

    seed: int
    skip: int = 0
    """Steps before the player began."""
    actions: list[int] = field(default_factory=list)
    """All of them, the skipped ones first."""
    resyncs: set[int] = field(default_factory=set)
    """Steps since the player began, after which the dream was resynced."""
    temperature: float = 0.0
    """At which the dream was sampled."""

    def step(self, before: int, action: int) -> None:
        """Add the action taken after some steps of the player; what was done after them was rewound and is dropped."""
        del self.actions[self.skip + before :]
        self.resyncs = {steps for steps in self.resyncs if steps <= before}
        self.actions.append(action)

    def to_text(self, predictor: str, steps: int) -> str:
        """Return the part of a link that describes the first steps of the player with a predictor."""
        text = "-".join(self._tokens(steps))
        if len(text) > MAX_TEXT:
            raise UserError(
                f"this game is too long for a link: {steps} steps; start a new one (key Enter) and share it"
            )
        heat = f"&temperature={self.temperature:g}" if self.temperature else ""
        return f"predictor={quote(predictor, safe='')}&seed={self.seed}&skip={self.skip}{heat}&moves={text}"

    def _tokens(self, steps: int) -> list[str]:
        edges = sorted({0, steps, *(count for count in self.resyncs if 0 < count < steps)})
        tokens = _runs(self.actions[: self.skip])
        for first, last in pairwise(edges):
            tokens += _runs(self.actions[self.skip + first : self.skip + last])
            tokens += [RESYNC] if last in self.resyncs else []
        return tokens


def parse_moves(text: str, actions: int) -> Moves:
    """Return the moves of a link for a game with this many actions; UserError for anything else."""
    values = dict(parse_qsl(text[: 2 * MAX_TEXT], keep_blank_values=True))
    seed, skip = (_number(values, name) for name in ("seed", "skip"))
    moves = Moves(seed, temperature=_temperature(values.get("temperature", "0")))
    for token in filter(None, values.get("moves", "").split("-")):
        if token == RESYNC:
            moves.resyncs.add(len(moves.actions) - skip)
            continue
        match = _MOVE.fullmatch(token)
        action, count = (int(match[1]), int(match[2] or 1)) if match else (actions, 0)
        if action >= actions:
            raise UserError(f"this link has the move {token[:20]!r}: the game has actions 0 to {actions - 1}")
        if len(moves.actions) + count > MAX_STEPS:
            raise UserError(f"this link has over {MAX_STEPS:,} steps, which are too many")
        moves.actions += [action] * count
    if skip > len(moves.actions):
        raise UserError(f"this link skips {skip} of {len(moves.actions)} steps: it is incomplete")
    moves.skip = skip
    return moves


def _temperature(text: str) -> float:
    try:
        temperature = float(text[:20])
    except ValueError:
        temperature = -1.0
    if not 0 <= temperature <= HOTTEST:
        raise UserError(f"this link has the temperature {text[:20]!r}: 0 to {HOTTEST:g} are possible")
    return temperature


def _number(values: dict[str, str], name: str) -> int:
    value = values.get(name, "")
    if not (value.isascii() and value.isdigit() and len(value) < 10):
        raise UserError(f"this link has no number for {name}: it is incomplete")
    return int(value)


def _runs(actions: list[int]) -> list[str]:
    runs = [(action, len(list(same))) for action, same in groupby(actions)]
    return [str(action) if count == 1 else f"{action}x{count}" for action, count in runs]
