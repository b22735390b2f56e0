"""make agents: trains a DQN for each of the paper's five games and puts it into the package.

One process, one core, 45 minutes of learning each; then 30 episodes, beside the best constant action and random play
in the same episodes. If interrupted, run it again to resume. Numbers go to results/agents.json.
"""

from __future__ import annotations

import json
import shutil
import time
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import cv2
import torch
import tyro
from rich.console import Console

from acvp.agents.agent import OF_A_RUN, PRETRAINED, Agent, load_agent
from acvp.agents.config import AgentTrainConfig
from acvp.agents.evaluate import EVALUATION_STEPS, References, describe_references, play_references
from acvp.agents.play import Scores, mean_and_error, play_episodes
from acvp.agents.run import NUMBERS_NAME, PICTURE_NAME, train_agent
from acvp.envs import make_game
from benchmarks.provenance import RESULTS, write_results

GAMES = ("freeway", "seaquest", "space_invaders", "qbert", "ms_pacman")
EPSILON, AT_ONCE = 0.05, 10
LARGEST = 3_000_000
"""Bytes of an agent in the package."""

err = Console(stderr=True, highlight=False, soft_wrap=True)


@dataclass(frozen=True, kw_only=True)
class AgentsConfig:
    """Train, judge and package agents."""

    games: tuple[str, ...] = GAMES
    """Which ones."""
    minutes: float = 45.0
    """Wall-clock minutes of learning each; the learning curve and the last plays take about 6 more."""
    episodes: int = 30
    """Plays that the score in the card is the mean of."""
    seed: int = 1
    """Of training; the episodes of the card have separate seeds."""
    runs: Path = Path("runs/agents")
    """Folder of the runs."""
    package: Path = PRETRAINED
    """Folder of the finished agents."""
    results: str = "agents"
    """Name of the file in results/."""


def main(config: AgentsConfig) -> None:
    """Make every agent asked for."""
    started = time.monotonic()
    torch.set_num_threads(1)
    cv2.setNumThreads(1)
    for game in config.games:
        run = config.runs / game
        options = AgentTrainConfig(env_id=game, preset="cpu", minutes=config.minutes, run=run, seed=config.seed)
        code = train_agent(options, err).exit_code
        if code:
            raise SystemExit(code)
        if not is_packaged(run, config.package / game):
            row = package(game, run, config)
            file = RESULTS / f"{config.results}.json"
            before = json.loads(file.read_text())["agents"] if file.exists() else {}
            body = {"minutes": config.minutes, "epsilon": EPSILON, "agents": before | {game: row}}
            command = "make agents" if config == AgentsConfig() else "python -m benchmarks.agents, with options"
            write_results(config.results, body, command=command, seed=config.seed, started=started)
            err.print(f"{game}: {row['score']} ({row['references']})")


def is_packaged(run: Path, folder: Path) -> bool:
    """Whether the agent of a finished run is in the package already."""
    return folder.is_dir() and load_agent(folder).about.training == load_agent(run).about.training


def package(game: str, run: Path, config: AgentsConfig) -> dict[str, Any]:
    """Write an agent with weights of 16 bits, its card and its learning curve, and return what it scores."""
    folder = config.package / game
    agent = load_agent(run)
    agent.save(run / "packaged", half=True)
    agent = load_agent(run / "packaged")  # what is judged is what is packaged
    learned, references = judge(agent, game, config)
    agent.about = replace(agent.about, score=f"{learned} at ε = {EPSILON:g}; {describe_references(references)}")
    folder.mkdir(parents=True, exist_ok=True)
    for name in (NUMBERS_NAME, PICTURE_NAME):
        shutil.copy(run / OF_A_RUN / name, folder)
    agent.save(folder, half=True)
    size = sum(file.stat().st_size for file in folder.iterdir())
    assert size <= LARGEST, f"{folder}: {size:,} bytes"
    return {
        "score": str(learned),
        "references": describe_references(references),
        "bytes": size,
        "training": agent.about.training,
        "agent": mean_and_error(learned.scores) | {"scores": learned.scores},
        "random plays": references["random"],
        "constant": references["constant"],
    }


def judge(agent: Agent, game: str, config: AgentsConfig) -> tuple[Scores, References]:
    """Let an agent play, and the references in the same episodes; with seeds that training never used."""
    games = [make_game(game, max_steps=EVALUATION_STEPS) for _ in range(min(config.episodes, AT_ONCE))]
    try:
        options: dict[str, Any] = {"episodes": config.episodes, "epsilon": EPSILON, "seed": 10_000 + config.seed}
        return play_episodes(agent, games, **options), play_references(games, **options)
    finally:
        for played in games:
            played.close()


if __name__ == "__main__":
    main(tyro.cli(AgentsConfig, description=__doc__))
