"""`acvp agent evaluate`: an agent's score as a file, and its median episode as a video."""

from __future__ import annotations

import hashlib
import time
from collections.abc import Iterator, Sequence
from contextlib import ExitStack
from functools import partial
from itertools import chain
from typing import Any

from acvp import __version__
from acvp.agents.agent import Agent, load_agent
from acvp.agents.config import AgentEvaluateConfig
from acvp.agents.play import PlayedEpisode, Scores, format_mean, play_episodes
from acvp.agents.references import Progress, References, constant_label, paper_score, play_references
from acvp.checkpoint import to_bytes
from acvp.durable import write_atomic
from acvp.envs import Game, make_game
from acvp.runs import ResultCache, unfinished_results, write_results
from acvp.video import Picture, encode_mp4, require_encoder

RESULT_NAME, PARTS_NAME, VIDEO_NAME = "agent-evaluation.json", "agent-evaluation.jsonl", "play.mp4"
VIDEO_HEIGHT = 420
"""Pixels, about."""


def evaluate_agent(config: AgentEvaluateConfig, progress: Progress) -> dict[str, Any]:
    """Let an agent play episodes, write the files asked for, and return what agent-evaluation.json holds."""
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
        if config.out is not None and results is not None:
            if config.video:
                write_atomic(config.out / VIDEO_NAME, encode_mp4(replay_frames(games[0], median_episode(scores))))
            earlier = results.earlier_seconds
            write_results(config.out / RESULT_NAME, body, seed=config.seed, started=started, earlier_seconds=earlier)
    return body


def _play(
    config: AgentEvaluateConfig, agent: Agent, games: Sequence[Game], results: ResultCache | None, progress: Progress
) -> Scores:
    """Return the scores of all episodes: as many at once as there are games, each batch stored when it is finished."""
    options: dict[str, Any] = {"epsilon": config.epsilon, "seed": config.seed}
    weights = hashlib.sha256(to_bytes(agent.network.state_dict())).hexdigest()
    shared = {"version": __version__, "game": games[0].env_id, "settings": games[0].settings, "agent": weights}
    episodes: list[PlayedEpisode] = []
    for first in range(0, config.episodes, len(games)):
        count = min(len(games), config.episodes - first)

        def measure(first: int = first, count: int = count) -> dict[str, Any]:
            show = partial(_show, progress, first, config.episodes)
            scores = play_episodes(agent, games[:count], episodes=count, first=first, progress=show, **options)
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


def describe(config: AgentEvaluateConfig, agent: Agent, game: Game, scores: Scores) -> dict[str, Any]:
    """Return the result with everything needed to understand and repeat it."""
    return {
        "what": "score of an agent: mean over episodes, with the standard error of the mean",
        "agent": config.agent,
        "training": agent.about.training,
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
    episodes = f"{body['episodes']} episode{'s' * (body['episodes'] != 1)}"
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
