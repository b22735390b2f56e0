"""An agent plays: many plays at once, each a function of its number alone. Needs no Stable-Baselines3.

Shapes: B plays under way.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from acvp.agents.averages import standard_error, with_error
from acvp.agents.observation import Eye, Stacks
from acvp.envs import Game
from acvp.seeding import derived_seed, generator

Progress = Callable[[int, int], None]
"""Called with the plays that are over and all plays."""


class Player(Protocol):
    """Who plays, such as an Agent."""

    @property
    def actions(self) -> int: ...
    def act(self, frames: NDArray[np.uint8]) -> NDArray[np.int64]:
        """Return the best actions (B,) for frames (B, 4, 84, 84), oldest first."""


@dataclass(frozen=True)
class HeldAction:
    """Chooses one action throughout, whatever it sees; with ε = 1 it is random play."""

    action: int
    actions: int
    """How many there are."""
    stack: int = 1

    def act(self, frames: NDArray[np.uint8]) -> NDArray[np.int64]:
        """Return the action (B,) for each play."""
        return np.full(len(frames), self.action, np.int64)


@dataclass
class Play:
    """One play, under way or over."""

    number: int
    seed: int
    """Of the game."""
    rng: np.random.Generator
    """Of the random actions."""
    score: float = 0.0
    actions: list[int] = field(default_factory=list)


@dataclass(frozen=True)
class Scores:
    """What some plays came to."""

    plays: tuple[Play, ...]

    @property
    def mean(self) -> float:
        """Mean score."""
        return float(np.mean([play.score for play in self.plays]))

    @property
    def standard_error(self) -> float | None:
        """Standard error of the mean; None for a single play."""
        return standard_error([play.score for play in self.plays])

    def __str__(self) -> str:
        count = len(self.plays)
        return f"{with_error(self.mean, self.standard_error)} ({count} play{'s' * (count != 1)})"


def play_games(
    agent: Player,
    games: Sequence[Game],
    *,
    plays: int,
    epsilon: float,
    seed: int,
    progress: Progress = lambda *_: None,
    first: int = 0,
) -> Scores:
    """Let an agent play `plays` times, as many at once as there are games; a coin of ε before each decision.

    `first` is the number of the first play: what a play comes to follows from its number and the seed.
    """
    hall = _Hall(games, iter(range(first, first + plays)), seed, blind=isinstance(agent, HeldAction))
    while hall.under_way:
        chosen = agent.act(hall.observations())
        for (place, play), best in zip(list(hall.under_way.items()), chosen, strict=True):
            explores = play.rng.random() < epsilon
            hall.step(place, int(play.rng.integers(agent.actions) if explores else best))
        progress(len(hall.over), plays)
    return Scores(tuple(sorted(hall.over, key=lambda play: play.number)))


class _Hall:
    """Games, and the plays that run in them."""

    def __init__(self, games: Sequence[Game], numbers: Iterator[int], seed: int, *, blind: bool) -> None:
        """Run the games; a player that is `blind` is shown nothing, which saves time."""
        self._games, self._numbers, self._seed, self._blind = games, numbers, seed, blind
        self._eye, self._stacks = Eye(), Stacks(len(games))
        self.under_way: dict[int, Play] = {}
        self.over: list[Play] = []
        for place in range(len(games)):
            self._begin(place)

    def observations(self) -> NDArray[np.uint8]:
        """Return what the agent sees (B, 4, 84, 84) of the plays under way."""
        return self._stacks.frames[list(self.under_way)]

    def step(self, place: int, action: int) -> None:
        """Take an action in one game; a play that is over makes room for the next."""
        game, play = self._games[place], self.under_way[place]
        frame, reward, terminated, truncated = game.step(action)
        play.score += reward
        play.actions.append(action)
        if not self._blind:
            self._stacks.push(place, self._eye.look(game, frame))
        if terminated or truncated:
            self.over.append(self.under_way.pop(place))
            self._begin(place)

    def _begin(self, place: int) -> None:
        number = next(self._numbers, None)
        if number is not None:
            key, game = (self._seed, number), self._games[place]
            play = Play(number, derived_seed("agent's play", *key), generator("agent's play", *key))
            self.under_way[place] = play
            first = game.reset(play.seed)
            if not self._blind:
                self._stacks.begin(place, self._eye.look(game, first))
