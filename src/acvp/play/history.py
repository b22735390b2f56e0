"""The history of a session: its moves, which a link can share, the states it can return to, and when it resyncs.

A link has everything a player did since the start of a game:

    predictor=seaquest&seed=3&skip=2&moves=0x12-5-r-2x30

A move is an action, or an action and for how many steps it was held; `r` is a resync of the dream with the real frames.
The first `skip` steps lead from the first frame of the game to where the player began.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass, field
from itertools import groupby, pairwise
from typing import Any, Generic, TypeVar
from urllib.parse import parse_qsl, quote

from acvp.errors import UserError

HOTTEST = 10.0
"""The highest temperature that is taken, far beyond what is of use."""
RESYNC = "r"
MAX_STEPS = 27_000
"""Steps of a shared game at most: half an hour of Atari."""
MAX_TEXT = 60_000
"""Characters of a link at most; browsers take longer ones."""
_MOVE = re.compile(r"(\d{1,4})(?:x(\d{1,5}))?", re.ASCII)
OFF, WHEN_LOST = "off", "lost"
LOST_STEPS = 15
"""Steps in a row in which the controlled object is not found, until it counts as lost: a second of Atari."""
LATEST = 300
"""Steps after which a dream is resynced even if its object is found: 20 seconds of Atari."""
MAX_EVERY = 10_000
RECENT = 15
"""Newest items that are all kept: a second of play."""
EVERY = 5
"""Of the older items, one in this many is kept."""

MAX_FRAMES = 150
"""Steps whose frames are kept, for two futures side by side: ten seconds of Atari."""

T = TypeVar("T")


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


class RewindBuffer(Generic[T]):
    """A stack within a number of bytes: recent items one by one, older ones thinned out, the oldest dropped."""

    def __init__(self, max_bytes: int) -> None:
        self._max_bytes = max_bytes
        self._entries: list[tuple[int, T, int]] = []  # number, item and bytes of each
        self._pushed = self.nbytes = 0

    def __len__(self) -> int:
        return len(self._entries)

    def push(self, item: T, nbytes: int) -> None:
        """Keep an item of this many bytes; the newest one stays whatever its size."""
        self._entries.append((self._pushed, item, nbytes))
        self._pushed += 1
        self.nbytes += nbytes
        if len(self._entries) > RECENT and self._entries[-RECENT - 1][0] % EVERY:
            self._drop(-RECENT - 1)
        while self.nbytes > self._max_bytes and len(self._entries) > 1:
            self._drop(0)

    def pop(self) -> T | None:
        """Remove and return the newest item; None if the buffer is empty."""
        return self._drop(-1) if self._entries else None

    def clear(self) -> None:
        """Remove everything."""
        self._entries.clear()
        self.nbytes = 0

    def _drop(self, index: int) -> T:
        _, item, nbytes = self._entries.pop(index)
        self.nbytes -= nbytes
        return item


class History(RewindBuffer[T]):
    """A rewind buffer that also keeps what was rewound, until another action leads elsewhere.

    The frames of the future that is left then stay, so that both can be seen.
    """

    def __init__(self, max_bytes: int, look: Callable[[T], tuple[int, Any]]) -> None:
        """``look`` returns the agent step of an item and its frame."""
        super().__init__(max_bytes)
        self.left: dict[int, Any] = {}
        """Frames of the future that was left, by agent step."""
        self._look, self._later = look, list[tuple[int, T, int]]()
        self._frames: dict[int, Any] = {}

    def push(self, item: T, nbytes: int) -> None:
        """Keep an item; what was rewound is left, and only its frames stay."""
        step, frame = self._look(item)
        if self._later:
            self.left = {later: seen for later, seen in self._frames.items() if later > step}
            self._later.clear()
        self._frames = {at: seen for at, seen in self._frames.items() if step - MAX_FRAMES < at < step} | {step: frame}
        super().push(item, nbytes)

    def clear(self) -> None:
        """Remove everything."""
        super().clear()
        self._later.clear()
        self._frames, self.left = {}, {}

    def back(self, now: T, nbytes: int) -> T | None:
        """Return the newest item before ``now``, which is kept for `go`; None if there is none."""
        if not self._entries:
            return None
        return self._back(now, nbytes)[0]

    def _back(self, now: T, nbytes: int) -> tuple[T, int]:
        step, frame = self._look(now)
        self._frames[step] = frame
        self._later.append((self._pushed, now, nbytes))
        self._pushed, item, size = self._entries.pop()
        self.nbytes -= size
        return item, size

    def go(self, now: T, nbytes: int, step: int) -> T | None:
        """Return the newest item that is not after a step, or the oldest; None if nothing else is kept."""
        item, moved = now, False
        while self._look(item)[0] > step and self._entries:
            (item, nbytes), moved = self._back(item, nbytes), True
        while self._later and self._look(self._later[-1][1])[0] <= step:
            self._entries.append((self._pushed, item, nbytes))
            self.nbytes += nbytes
            self._pushed, item, nbytes = self._later.pop()
            moved = True
        return item if moved else None

    def range(self, now: int) -> tuple[int, int]:
        """Return the first and the last step that `go` can reach from a step."""
        first = self._look(self._entries[0][1])[0] if self._entries else now
        return first, self._look(self._later[0][1])[0] if self._later else now


@dataclass(frozen=True)
class AutoResync:
    """After how many predictions, and whether when the controlled object is lost."""

    every: int | None = None
    when_lost: bool = False

    @classmethod
    def parse(cls, text: str) -> AutoResync:
        """Read "off", "lost" or a number of steps."""
        if text == OFF:
            return cls()
        if text == WHEN_LOST:
            return cls(every=LATEST, when_lost=True)
        if not (text.isascii() and text.isdigit() and len(text) <= 5 and 1 <= int(text) <= MAX_EVERY):
            raise UserError(f"automatic resync {text[:20]!r}: choose {OFF}, {WHEN_LOST} or 1 to {MAX_EVERY} steps")
        return cls(every=int(text))

    def __str__(self) -> str:
        return WHEN_LOST if self.when_lost else OFF if self.every is None else str(self.every)

    def due(self, steps: int, lost_steps: int) -> bool:
        """Return whether to resync after so many predictions, the last of which lost the controlled object."""
        too_long = self.every is not None and steps >= self.every
        return too_long or (self.when_lost and lost_steps >= LOST_STEPS)
