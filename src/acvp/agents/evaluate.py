"""`acvp agent evaluate`: scores of an agent, as a file and as a video."""

from __future__ import annotations

import json
import resource
import sys
import time
from collections.abc import Iterator
from contextlib import ExitStack
from itertools import chain
from typing import Any

from acvp.agents.agent import Agent, load_agent
from acvp.agents.averages import with_error
from acvp.agents.config import AgentEvaluateConfig
from acvp.agents.paper import paper_score
from acvp.agents.play import Play, Progress, Scores, play_games
from acvp.agents.references import constant_label, play_references
from acvp.durable import make_folder, write_atomic
from acvp.envs import Game, make_game
from acvp.runs import provenance
from acvp.video import Picture, encode_mp4, require_encoder

RESULT_NAME, VIDEO_NAME = "agent-evaluation.json", "play.mp4"
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
        for _ in range(min(config.plays, config.at_once) - 1):
            games.append(stack.enter_context(make_game(env_id, **game_options)))  # type: ignore[arg-type]
        options: dict[str, Any] = {"plays": config.plays, "epsilon": config.epsilon, "seed": config.seed}
        scores = play_games(agent, games, **options, progress=progress)
        body = describe(config, agent, games[0], scores)
        if config.references:
            body["references"] = play_references(games, **options, progress=progress)
        body["seconds"] = round(time.monotonic() - started, 1)
        if config.out is not None:
            make_folder(config.out)
            if config.video:
                write_atomic(config.out / VIDEO_NAME, encode_mp4(film(games[0], middle(scores))))
            write_atomic(config.out / RESULT_NAME, json.dumps(body, indent=1).encode() + b"\n")
    return body


def describe(config: AgentEvaluateConfig, agent: Agent, game: Game, scores: Scores) -> dict[str, Any]:
    """Return the result with what it needs to be understood and repeated."""
    unit = 1 if sys.platform == "darwin" else 1024
    return {
        "what": "score of an agent: mean over plays, with the standard error of the mean",
        "agent": config.agent,
        "training": agent.about.training,
        "env_id": game.env_id,
        "settings": game.settings,
        "epsilon": config.epsilon,
        "plays": config.plays,
        "seed": config.seed,
        "mean": scores.mean,
        "standard_error": scores.standard_error,
        "scores": [play.score for play in scores.plays],
        "decisions": [len(play.actions) for play in scores.plays],
        "paper": paper_score(game.env_id),
        "provenance": provenance(),
        "peak_memory_mb": round(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * unit / 2**20),
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
    """Return the pictures of a play by playing it again, enlarged so that every pixel keeps its colour."""
    scale = max(2, 2 * round(VIDEO_HEIGHT / game.frame_shape[0] / 2))
    frames = chain([game.reset(play.seed)], (game.step(action).frame for action in play.actions))
    return (frame.repeat(scale, 0).repeat(scale, 1) for frame in frames)
