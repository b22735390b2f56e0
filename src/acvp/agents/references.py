"""What a score has to beat: the best constant action and random play, in the same episodes, with the same coins.

The best constant action is the strongest trivial reference: each action is held throughout, and the one with the
highest mean counts. That it is chosen by the episodes it is reported for favors it, on purpose.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from acvp.agents.averages import averaged, with_error
from acvp.agents.play import HeldAction, Progress, play_games
from acvp.durable import write_atomic
from acvp.envs import Game
from acvp.reading import read_file
from acvp.seeding import derived_seed

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
