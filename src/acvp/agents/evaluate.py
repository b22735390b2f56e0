"""`acvp agent evaluate`: scores of an agent, as a file and as a video."""

from __future__ import annotations

import hashlib
import json
import time
from collections.abc import Iterator, Sequence
from contextlib import ExitStack
from functools import partial
from itertools import chain
from typing import Any

from acvp import __version__
from acvp.agents.agent import Agent, load_agent
from acvp.agents.config import AgentEvaluateConfig
from acvp.agents.play import (
    Play,
    Progress,
    References,
    Scores,
    constant_label,
    paper_score,
    play_games,
    play_references,
    with_error,
)
from acvp.checkpoint import to_bytes
from acvp.durable import write_atomic
from acvp.envs import Game, make_game
from acvp.runs import ResultCache, peak_memory_mb, provenance, unfinished_results
from acvp.seeding import generator
from acvp.video import Picture, encode_mp4, require_encoder

RESULT_NAME, PARTS_NAME, VIDEO_NAME = "agent-evaluation.json", "agent-evaluation.jsonl", "play.mp4"
VIDEO_HEIGHT = 420
"""Pixels, about."""


def evaluate_agent(config: AgentEvaluateConfig, progress: Progress) -> dict[str, Any]:
    """Let an agent play, write what is asked for, and return what agent-evaluation.json holds."""
    if config.video:
        require_encoder()
    agent, started = load_agent(config.agent), time.monotonic()
    env_id = config.env_id or agent.about.env_id
    game_options = {"max_steps": config.max_steps, "import_module": config.import_module}
    with ExitStack() as stack:
        games = [stack.enter_context(make_game(env_id, **game_options))]  # type: ignore[arg-type]
        agent.check_actions(games[0].action_meanings, games[0].env_id)
        for _ in range(min(config.episodes, config.at_once) - 1):
            games.append(stack.enter_context(make_game(env_id, **game_options)))  # type: ignore[arg-type]
        results = None if config.out is None else stack.enter_context(unfinished_results(config.out / PARTS_NAME))
        scores = _play(config, agent, games, results, progress)
        body = describe(config, agent, games[0], scores)
        if config.references:
            body["references"] = _references(config, games, results, progress)
        body["seconds"] = round(time.monotonic() - started, 1)
        if config.out is not None:
            if config.video:
                write_atomic(config.out / VIDEO_NAME, encode_mp4(film(games[0], middle(scores))))
            write_atomic(config.out / RESULT_NAME, json.dumps(body, indent=1).encode() + b"\n")
    return body


def _play(
    config: AgentEvaluateConfig, agent: Agent, games: Sequence[Game], results: ResultCache | None, progress: Progress
) -> Scores:
    """Return what the agent's plays come to: rounds of as many as there are games, each kept when it is over."""
    options: dict[str, Any] = {"epsilon": config.epsilon, "seed": config.seed}
    weights = hashlib.sha256(to_bytes(agent.network.state_dict())).hexdigest()
    shared = {"version": __version__, "game": games[0].env_id, "settings": games[0].settings, "agent": weights}
    plays: list[Play] = []
    for first in range(0, config.episodes, len(games)):
        count = min(len(games), config.episodes - first)

        def measure(first: int = first, count: int = count) -> dict[str, Any]:
            show = partial(_show, progress, first, config.episodes)
            scores = play_games(agent, games[:count], plays=count, first=first, progress=show, **options)
            return {"plays": [[play.seed, play.score, play.actions] for play in scores.plays]}

        which = {"first": first, "count": count, "max_steps": config.max_steps}
        found = measure() if results is None else results.part(shared | options | which, measure)
        for number, (seed, score, actions) in enumerate(found["plays"], first):
            plays.append(Play(number, seed, generator("over", number), score, actions))
        progress(len(plays), config.episodes)
    return Scores(tuple(plays))


def _references(
    config: AgentEvaluateConfig, games: Sequence[Game], results: ResultCache | None, progress: Progress
) -> References:
    """Return the best constant action and random play in the same episodes, kept when they are over."""
    options: dict[str, Any] = {"plays": config.episodes, "epsilon": config.epsilon, "seed": config.seed}
    which = {"references": options, "game": games[0].env_id, "settings": games[0].settings, "version": __version__}

    def measure() -> References:
        return play_references(games, **options, progress=progress)

    return measure() if results is None else results.part(which, measure)


def _show(progress: Progress, before: int, plays: int, done: int, total: int) -> None:
    progress(before + done, plays)


def describe(config: AgentEvaluateConfig, agent: Agent, game: Game, scores: Scores) -> dict[str, Any]:
    """Return the result with what it needs to be understood and repeated."""
    return {
        "what": "score of an agent: mean over plays, with the standard error of the mean",
        "agent": config.agent,
        "training": agent.about.training,
        "env_id": game.env_id,
        "settings": game.settings,
        "epsilon": config.epsilon,
        "plays": config.episodes,
        "seed": config.seed,
        "mean": scores.mean,
        "standard_error": scores.standard_error,
        "scores": [play.score for play in scores.plays],
        "decisions": [len(play.actions) for play in scores.plays],
        "paper": paper_score(game.env_id),
        "provenance": provenance(),
        "peak_memory_mb": peak_memory_mb(),
    }


def score_lines(body: dict[str, Any]) -> list[str]:
    """Return the score, what it has to beat, and the paper's, a line each."""
    rows = {"agent": body}
    if references := body.get("references"):
        rows |= {constant_label(references["constant"]): references["constant"], "random": references["random"]}
    if body["paper"]:
        rows["paper's DQN"] = body["paper"]
    plays = f"{body['plays']} play{'s' * (body['plays'] != 1)}"
    heading = f"{body['env_id']}, {plays}, ε = {body['epsilon']:g}: score"
    return [heading, *(f"  {name}: {with_error(row['mean'], row['standard_error'])}" for name, row in rows.items())]


def middle(scores: Scores) -> Play:
    """Return the play of middle score (of an even number the lower)."""
    ordered = sorted(scores.plays, key=lambda play: (play.score, play.number))
    return ordered[(len(ordered) - 1) // 2]


def film(game: Game, play: Play) -> Iterator[Picture]:
    """Return the pictures of a play by playing it again, enlarged so that every pixel keeps its color."""
    scale = max(2, 2 * round(VIDEO_HEIGHT / game.frame_shape[0] / 2))
    frames = chain([game.reset(play.seed)], (game.step(action).frame for action in play.actions))
    return (frame.repeat(scale, 0).repeat(scale, 1) for frame in frames)
