"""What a score has to beat: the best constant action and random play in the same episodes, and the paper's numbers.

The best constant action is the strongest trivial reference: each action is held throughout, and the one with the
highest mean counts. That it is chosen by the episodes it is reported for favors it, on purpose.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from acvp.agents.play import ConstantAction, NoObservations, format_mean, mean_and_error, play_episodes
from acvp.compat import current_fields
from acvp.durable import read_file, write_atomic
from acvp.envs import Game
from acvp.seeding import derived_seed

DQN_SCORES = {
    "ALE/Seaquest-v5": (13119.0, 538.0),
    "ALE/SpaceInvaders-v5": (698.0, 20.0),
    "ALE/Freeway-v5": (30.9, 0.2),
    "ALE/Qbert-v5": (3876.0, 106.0),
    "ALE/MsPacman-v5": (2281.0, 53.0),
}
"""Mean and standard error of the authors' DQN with random exploration, 100 episodes at ε = 0.05 (table 1)."""
FIRST_REWARD = {"ALE/Freeway-v5": {"random": 4.6e5, "informed-model": 86.0}}
"""Agent steps to the first reward, by exploration strategy (appendix B)."""


def paper_score(env_id: str) -> dict[str, Any] | None:
    """Return the score of the paper's DQN in a game; None where the paper has none."""
    if env_id not in DQN_SCORES:
        return None
    mean, error = DQN_SCORES[env_id]
    return {"mean": mean, "standard_error": error, "episodes": 100, "source": "Oh et al., 2015, table 1: DQN"}


Progress = Callable[[int, int], None]
"""Called with the finished and with all episodes."""


References = dict[str, Any]
"""`constant`: what best_constant returns; `random`: mean, standard error and scores."""
REFERENCES_NAME = "references.json"
"""In a run folder."""
EVALUATION_STEPS = 4_500
"""Agent steps after which an episode of the learning curve is truncated: five minutes of Atari."""
UNLIMITED = 27_000
"""Agent steps after which a reference's episode is truncated in a game without a limit: 30 minutes of Atari."""


def evaluation_seed(seed: int, point: int) -> int:
    """Return the seed of the episodes of one point of a run's learning curve."""
    return derived_seed("evaluation", seed, point)


def play_references(
    games: Sequence[Game], *, episodes: int, epsilon: float, seed: int, progress: Progress = lambda *_: None
) -> References:
    """Play every action held throughout, and at random, in the episodes that `play_episodes` gives an agent."""
    meanings = games[0].action_meanings
    total, done = episodes * (len(meanings) + 1), 0

    def scores(action: int, epsilon: float) -> list[float]:
        nonlocal done
        player, before = ConstantAction(action, len(meanings)), done
        options: dict[str, Any] = {"episodes": episodes, "epsilon": epsilon, "seed": seed}
        played = play_episodes(
            player, games, NoObservations(), **options, progress=lambda finished, _: progress(before + finished, total)
        )
        done += episodes
        return played.scores

    with limit_steps(games):
        constant = best_constant(meanings, [scores(action, epsilon) for action in range(len(meanings))])
        random = scores(0, 1.0)
    return {"constant": constant, "random": mean_and_error(random) | {"scores": random}}


def best_constant(action_meanings: Sequence[str], scores: Sequence[Sequence[float]]) -> dict[str, Any]:
    """Return the action that, held throughout, has the highest mean of its scores (A lists), with all actions."""
    actions = [
        {"action": name, **mean_and_error(values), "scores": list(values)}
        for name, values in zip(action_meanings, scores, strict=True)
    ]
    return max(actions, key=lambda row: row["mean"]) | {"actions": actions}


def pool_references(references: Sequence[References]) -> References:
    """Return the references over the episodes of several runs of one game."""
    by_action = list(zip(*(run["constant"]["actions"] for run in references), strict=True))
    scores = [[score for run in runs for score in run["scores"]] for runs in by_action]
    random = [score for run in references for score in run["random"]["scores"]]
    names = [runs[0]["action"] for runs in by_action]
    return {"constant": best_constant(names, scores), "random": mean_and_error(random) | {"scores": random}}


def constant_label(constant: Mapping[str, Any]) -> str:
    """Return the label of the best constant action, such as constant UP."""
    return f"constant {constant['action']}"


def describe_references(references: References, show: Callable[[float], str] = "{:,.1f}".format) -> str:
    """Return both references in a line."""
    rows = {constant_label(references["constant"]): references["constant"], "random": references["random"]}
    return ", ".join(f"{name} {format_mean(row['mean'], row['standard_error'], show)}" for name, row in rows.items())


@contextmanager
def limit_steps(games: Sequence[Game]) -> Iterator[None]:
    """Truncate the episodes of games without a limit: a constant action may never end them."""
    limits = [game.limit for game in games]
    for game in games:
        game.limit = game.limit or UNLIMITED
    try:
        yield
    finally:
        for game, limit in zip(games, limits, strict=True):
            game.limit = limit


def read_references(run: Path, settings: Mapping[str, Any]) -> References | None:
    """Return the references stored in a run folder; None where there are none of these settings."""
    try:
        body = current_fields(json.loads(read_file(run / REFERENCES_NAME, run)))
        stored = {"constant": body["constant"], "random": body["random"]}
        return pool_references([stored]) if body["settings"] == settings else None
    except (OSError, ValueError, KeyError, TypeError, RecursionError):
        return None  # not played yet, or corrupted: they can be played again


def write_references(run: Path, settings: Mapping[str, Any], references: References) -> None:
    """Store references in a run folder."""
    text = json.dumps({"settings": settings} | references, indent=1)
    write_atomic(run / REFERENCES_NAME, text.encode() + b"\n")
