"""`acvp agent evaluate`: an agent's score as a file, its median episode as a video, and what a score has to beat.

That is the best constant action and random play in the same episodes, and the paper's numbers. The best constant action
is the strongest trivial reference: each action is held throughout, and the one with the highest mean counts. That it is
chosen by the episodes it is reported for favors it, on purpose.
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from functools import partial
from itertools import chain
from pathlib import Path
from typing import Any, NamedTuple

from acvp import __version__
from acvp.actions import require_numbered
from acvp.agents.agent import load_agent
from acvp.agents.config import AgentEvaluateConfig
from acvp.agents.plan import load_planner
from acvp.agents.play import (
    ConstantAction,
    NoObservations,
    PlayedEpisode,
    Scores,
    format_mean,
    mean_and_error,
    play_episodes,
    play_policy,
)
from acvp.agents.policies import load_any_policy
from acvp.compat import current_fields
from acvp.console import counted
from acvp.data.policies import PLAN
from acvp.durable import read_file, write_atomic
from acvp.envs import Game, make_game
from acvp.figures import Picture, encode_mp4, require_encoder
from acvp.result_cache import ResultCache, unfinished_results
from acvp.runs import write_results
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

RESULT_NAME, PARTS_NAME, VIDEO_NAME = "agent-evaluation.json", "agent-evaluation.jsonl", "play.mp4"
VIDEO_HEIGHT = 420
"""Pixels, about."""


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


class Evaluated(NamedTuple):
    """Who is evaluated: an agent, or a policy of `acvp collect`."""

    name: str
    env_id: str
    """The game that it was trained on."""
    training: str
    digest: str
    """What decides its actions, for results that are kept."""
    at_once: int
    """Episodes played in parallel: a policy plays one after the other, and each is stored when it is finished."""
    check: Callable[[Game], None]
    """Refuses a game that it cannot play."""
    play: Callable[..., Scores]
    """Takes the options of `play_episodes`."""


def _load(config: AgentEvaluateConfig) -> Evaluated:
    """Return who is to be evaluated."""
    if config.policy is None:
        agent = load_agent(config.agent or "")
        return Evaluated(
            config.agent or "", agent.about.env_id, agent.about.training, agent.digest, config.at_once,
            lambda game: agent.check_actions(game.action_meanings, game.env_id), partial(play_episodes, agent),
        )  # fmt: skip
    digest = load_planner(config.policy).identity if config.policy.startswith(PLAN) else config.policy
    policy = load_any_policy(config.policy)
    return Evaluated(
        config.policy, config.env_id or "", f"policy {config.policy}", digest, 1, lambda game: None,
        partial(play_policy, policy),
    )  # fmt: skip


def evaluate_agent(config: AgentEvaluateConfig, progress: Progress) -> dict[str, Any]:
    """Let an agent play episodes, write the files asked for, and return what agent-evaluation.json holds."""
    if config.video:
        require_encoder()
    who, started = _load(config), time.monotonic()
    env_id = config.env_id or who.env_id
    game_options = {"max_steps": config.max_steps, "import_module": config.import_module}
    with ExitStack() as stack:
        games = [stack.enter_context(make_game(env_id, **game_options))]  # type: ignore[arg-type]
        require_numbered(games[0].action_range, "an agent of acvp")
        who.check(games[0])
        for _ in range(min(config.episodes, who.at_once) - 1):
            games.append(stack.enter_context(make_game(env_id, **game_options)))  # type: ignore[arg-type]
        results = None if config.out is None else stack.enter_context(unfinished_results(config.out / PARTS_NAME))
        scores = _play(config, who, games, results, progress)
        body = describe(config, who, games[0], scores)
        if config.references:
            body["references"] = _references(config, games, results, progress)
        if config.out is not None and results is not None:
            if config.video:
                write_atomic(config.out / VIDEO_NAME, encode_mp4(replay_frames(games[0], median_episode(scores))))
            earlier = results.earlier_seconds
            write_results(config.out / RESULT_NAME, body, seed=config.seed, started=started, earlier_seconds=earlier)
    return body


def _play(
    config: AgentEvaluateConfig, who: Evaluated, games: Sequence[Game], results: ResultCache | None, progress: Progress
) -> Scores:
    """Return the scores of all episodes: as many at once as there are games, each batch stored when it is finished."""
    options: dict[str, Any] = {"epsilon": config.epsilon, "seed": config.seed}
    shared = {"version": __version__, "game": games[0].env_id, "settings": games[0].settings, "agent": who.digest}
    episodes: list[PlayedEpisode] = []
    for first in range(0, config.episodes, len(games)):
        count = min(len(games), config.episodes - first)

        def measure(first: int = first, count: int = count) -> dict[str, Any]:
            show = partial(_show, progress, first, config.episodes)
            scores = who.play(games[:count], episodes=count, first=first, progress=show, **options)
            return {"episodes": [[episode.seed, episode.score, episode.actions] for episode in scores.episodes]}

        which = {"first": first, "count": count, "max_steps": config.max_steps}
        batch = measure() if results is None else results.part(shared | options | which, measure)
        episodes += [PlayedEpisode(number, *values) for number, values in enumerate(batch["episodes"], first)]
        progress(len(episodes), config.episodes)
    return Scores(tuple(episodes))


def _references(
    config: AgentEvaluateConfig, games: Sequence[Game], results: ResultCache | None, progress: Progress
) -> References:
    """Return the best constant action and random play in the same episodes, stored when they are finished."""
    options: dict[str, Any] = {"episodes": config.episodes, "epsilon": config.epsilon, "seed": config.seed}
    which = {"references": options, "game": games[0].env_id, "settings": games[0].settings, "version": __version__}

    def measure() -> References:
        return play_references(games, **options, progress=progress)

    return measure() if results is None else results.part(which, measure)


def _show(progress: Progress, before: int, episodes: int, finished: int, steps: int) -> None:
    progress(before + finished, episodes)


def describe(config: AgentEvaluateConfig, who: Evaluated, game: Game, scores: Scores) -> dict[str, Any]:
    """Return the result with everything needed to understand and repeat it."""
    return {
        "what": "score of an agent: mean over episodes, with the standard error of the mean",
        "agent": who.name,
        "training": who.training,
        "env_id": game.env_id,
        "settings": game.settings,
        "epsilon": config.epsilon,
        "episodes": config.episodes,
        "seed": config.seed,
        "mean": scores.mean,
        "standard_error": scores.standard_error,
        "scores": scores.scores,
        "steps": scores.steps,
        "paper": paper_score(game.env_id),
    }


def score_lines(body: dict[str, Any]) -> list[str]:
    """Return the score, what it has to beat, and the paper's, a line each."""
    rows = {"agent": body}
    if references := body.get("references"):
        rows |= {constant_label(references["constant"]): references["constant"], "random": references["random"]}
    if body["paper"]:
        rows["paper's DQN"] = body["paper"]
    episodes = counted(body["episodes"], "episode")
    heading = f"{body['env_id']}, {episodes}, ε = {body['epsilon']:g}: score"
    return [heading, *(f"  {name}: {format_mean(row['mean'], row['standard_error'])}" for name, row in rows.items())]


def median_episode(scores: Scores) -> PlayedEpisode:
    """Return the episode of median score (of an even number the lower)."""
    ordered = sorted(scores.episodes, key=lambda episode: (episode.score, episode.number))
    return ordered[(len(ordered) - 1) // 2]


def replay_frames(game: Game, episode: PlayedEpisode) -> Iterator[Picture]:
    """Return the frames of an episode by replaying it, enlarged so that every pixel keeps its color."""
    scale = max(2, 2 * round(VIDEO_HEIGHT / game.frame_shape[0] / 2))
    frames = chain([game.reset(episode.seed)], (game.step(action).frame for action in episode.actions))
    return (frame.repeat(scale, 0).repeat(scale, 1) for frame in frames)
