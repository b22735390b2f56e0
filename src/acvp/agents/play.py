"""An agent plays: many plays at once, each a function of its number alone. Needs no Stable-Baselines3.

Shapes: B plays under way.

Mean and standard error, one convention for all: a single value has no standard error, and is shown without ±.

Numbers of the paper that ours are shown beside (Oh et al., 2015).

What a score has to beat: the best constant action and random play, in the same episodes, with the same coins.

The best constant action is the strongest trivial reference: each action is held throughout, and the one with the
highest mean counts. That it is chosen by the episodes it is reported for favors it, on purpose.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from acvp.agents.observations import Eye, Stacks
from acvp.durable import read_file, write_atomic
from acvp.envs import Game
from acvp.seeding import derived_seed, generator


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


DQN_SCORES = {
    "ALE/Seaquest-v5": (13119.0, 538.0),
    "ALE/SpaceInvaders-v5": (698.0, 20.0),
    "ALE/Freeway-v5": (30.9, 0.2),
    "ALE/Qbert-v5": (3876.0, 106.0),
    "ALE/MsPacman-v5": (2281.0, 53.0),
}
"""Mean and standard error of the authors' DQN with random exploration, 100 episodes at ε = 0.05 (table 1)."""
FIRST_REWARD = {"ALE/Freeway-v5": {"random": 4.6e5, "informed-model": 86.0}}
"""Agent steps to the first reward, by the source of exploring actions (appendix B)."""


def paper_score(env_id: str) -> dict[str, Any] | None:
    """Return the score of the paper's DQN in a game; None where the paper has none."""
    if env_id not in DQN_SCORES:
        return None
    mean, error = DQN_SCORES[env_id]
    return {"mean": mean, "standard_error": error, "plays": 100, "source": "Oh et al., 2015, table 1: DQN"}


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


References = dict[str, Any]
"""`constant`: what best_constant returns; `random`: mean, standard error and scores."""
REFERENCES_NAME = "references.json"
"""In a run's folder."""
EVALUATION_STEPS = 4_500
"""Decisions after which an episode of the learning curve is cut off: five minutes of Atari."""
UNLIMITED = 27_000
"""Decisions after which a reference's episode is cut off in a game that has no limit: 30 minutes of Atari."""


def evaluation_seed(seed: int, point: int) -> int:
    """Return the seed of the episodes of one point of a run's learning curve."""
    return derived_seed("evaluation", seed, point)


def play_references(
    games: Sequence[Game], *, plays: int, epsilon: float, seed: int, progress: Progress = lambda *_: None
) -> References:
    """Play every action held throughout, and at random: the episodes that `play_games` gives an agent."""
    meanings = games[0].action_meanings
    total, done = plays * (len(meanings) + 1), 0

    def scores(action: int, epsilon: float) -> list[float]:
        nonlocal done
        player, before = HeldAction(action, len(meanings)), done
        options: dict[str, Any] = {"plays": plays, "epsilon": epsilon, "seed": seed}
        played = play_games(player, games, **options, progress=lambda over, _: progress(before + over, total)).plays
        done += plays
        return [play.score for play in played]

    with limited(games):
        constant = best_constant(meanings, [scores(action, epsilon) for action in range(len(meanings))])
        random = scores(0, 1.0)
    return {"constant": constant, "random": averaged(random) | {"scores": random}}


def best_constant(action_meanings: Sequence[str], scores: Sequence[Sequence[float]]) -> dict[str, Any]:
    """Return the action with the highest mean of the scores (A lists) that holding it gives, beside all others."""
    actions = [
        {"action": name, **averaged(values), "scores": list(values)}
        for name, values in zip(action_meanings, scores, strict=True)
    ]
    return max(actions, key=lambda each: each["mean"]) | {"actions": actions}


def pooled(references: Sequence[References]) -> References:
    """Return the references over the episodes of several runs of one game."""
    by_action = list(zip(*(each["constant"]["actions"] for each in references), strict=True))
    scores = [[score for run in runs for score in run["scores"]] for runs in by_action]
    random = [score for each in references for score in each["random"]["scores"]]
    names = [runs[0]["action"] for runs in by_action]
    return {"constant": best_constant(names, scores), "random": averaged(random) | {"scores": random}}


def constant_label(constant: Mapping[str, Any]) -> str:
    """Return what the best constant action is called, such as constant UP."""
    return f"constant {constant['action']}"


def described(references: References, show: Callable[[float], str] = "{:,.1f}".format) -> str:
    """Return both references in a line."""
    rows = {constant_label(references["constant"]): references["constant"], "random": references["random"]}
    return ", ".join(f"{name} {with_error(row['mean'], row['standard_error'], show)}" for name, row in rows.items())


@contextmanager
def limited(games: Sequence[Game]) -> Iterator[None]:
    """Cut off episodes of games that have no limit: an action that is held may never end them."""
    limits = [game.limit for game in games]
    for game in games:
        game.limit = game.limit or UNLIMITED
    try:
        yield
    finally:
        for game, limit in zip(games, limits, strict=True):
            game.limit = limit


def kept_references(run: Path, settings: Mapping[str, Any]) -> References | None:
    """Return the references in a run's folder; None where there are none, or none of these settings."""
    try:
        body = json.loads(read_file(run / REFERENCES_NAME, run))
        kept = {"constant": body["constant"], "random": body["random"]}
        return pooled([kept]) if body["settings"] == settings else None
    except (OSError, ValueError, KeyError, TypeError, RecursionError):
        return None  # not played yet, or damaged: they can be played again


def keep_references(run: Path, settings: Mapping[str, Any], references: References) -> None:
    """Write references into a run's folder."""
    text = json.dumps({"settings": settings} | references, indent=1)
    write_atomic(run / REFERENCES_NAME, text.encode() + b"\n")
