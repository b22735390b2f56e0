"""Episodes outside a store, as the readers of all formats describe them.

Shapes: T actions, H height, W width.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Generator, Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from acvp.data.palette import Frame
from acvp.data.recorder import MAX_ACTIONS, MAX_LIVES, MAX_REWARD
from acvp.errors import UserError
from acvp.reading import check_file

Actions = NDArray[np.int64]  # (T,)
Progress = Callable[[int, int], None]
"""Told how many frames are done, and how many there are."""


@dataclass(frozen=True, kw_only=True)
class Recording:
    """What a play holds; frames come one by one, so that a long one needs no memory."""

    frames: Generator[Frame, None, None]  # T + 1 of (H, W, 3)
    actions: Actions
    rewards: NDArray[np.float32] | None = None  # (T,)
    lives: NDArray[np.int16] | None = None  # (T + 1,)
    seed: int = 0
    terminated: bool = False
    truncated: bool = True


@dataclass(frozen=True, kw_only=True)
class Play:
    """One episode that can be read."""

    number: int
    """Its place in the store."""
    place: str
    """Where it lies, for messages."""
    frame_count: int
    actions: Actions | None = None
    """Its actions, where they are known before it is read."""
    read: Callable[[], Recording]


@dataclass(frozen=True, kw_only=True)
class Source:
    """All plays that go into one store, checked as far as that is cheap."""

    plays: Sequence[Play]
    env_id: str
    """What the source seems to be called."""
    frame_shape: tuple[int, int, int]
    action_count: int
    """The least number of actions that its plays need."""
    action_at: str
    """Where the highest action stands, for messages."""
    action_meanings: tuple[str, ...] | None = None
    """Names, where the source has them."""

    @property
    def frame_count(self) -> int:
        return sum(play.frame_count for play in self.plays)


def checked_files(files: Sequence[Path], within: Path | None) -> list[Path]:
    """Files of a source if all are regular and none lies outside the folder that the user named."""
    for file in files:
        try:
            check_file(file, within)
        except OSError as error:
            raise UserError(f"{file}: cannot be read ({error.strerror})") from error
    return list(files)


def checked_actions(values: NDArray[np.integer] | Sequence[int], where: Callable[[int], str]) -> Actions:
    """Actions as an array if all are possible; `where` names the place of the one that is not."""
    for i, value in enumerate(values):
        if not 0 <= value < MAX_ACTIONS:
            raise UserError(
                f"{where(i)}: action {value} is out of range; actions are numbers from 0 to {MAX_ACTIONS - 1}"
            )
    return np.array(values, np.int64).reshape(-1)


def checked_rewards(values: NDArray[Any], where: Callable[[int], str]) -> NDArray[np.float32]:
    """Rewards in 32 bits if all are finite and fit; `where` names the place of the one that does not."""
    with np.errstate(over="ignore"):
        wide = np.asarray(values, np.float64)
    fits = np.abs(wide) <= MAX_REWARD
    if not fits.all():
        i = int(fits.argmin())
        raise UserError(f"{where(i)}: reward {values[i]}; rewards are finite and fit into 32 bits")
    return wide.astype(np.float32)


def checked_lives(values: NDArray[np.integer], where: Callable[[int], str]) -> NDArray[np.int16]:
    """Lives in 16 bits if all are possible; `where` names the place of the one that is not."""
    fits = (values >= -1) & (values <= MAX_LIVES)
    if not fits.all():
        i = int(fits.argmin())
        raise UserError(
            f"{where(i)}: {values[i]} lives; 0 to {MAX_LIVES} are possible, and -1 where the game has no such thing"
        )
    return values.astype(np.int16)


def highest_action(places: Iterable[tuple[str, Actions]]) -> tuple[int, str]:
    """How many actions there must be at least, and the place that says so."""
    best = max(places, key=lambda one: int(one[1].max(initial=0)))
    return int(best[1].max(initial=0)) + 1, best[0]


def numbers_of(names: Sequence[str]) -> list[int]:
    """The number each name ends with if there are several and that tells them apart, else their places in the list."""
    ends = [re.search(r"(\d{1,9})$", name, re.ASCII) for name in names]
    numbers = [int(end[1]) for end in ends if end]
    return numbers if len(set(numbers)) == len(names) > 1 else list(range(len(names)))
