"""python -m benchmarks.references: what every published score has to beat, played in the very episodes of that score.

Plays the best constant action and random play beside results/agents.json, results/control, results/learning and
results/imagined, adds them to those files with their own provenance, and draws the figures and the agents' cards
again. The scores that were measured before are not touched.
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from operator import eq
from pathlib import Path
from typing import Any

import tyro

from acvp.agents.agent import PRETRAINED, load_agent
from acvp.agents.evaluate import (
    EVALUATION_STEPS,
    References,
    best_constant,
    describe_references,
    evaluation_seed,
    play_references,
    pool_references,
)
from acvp.agents.play import CONTROL_STREAMS, ConstantAction, NoObservations, play_episodes
from acvp.compat import current_fields
from acvp.control.figures import control_figure, learning_figure
from acvp.envs import Game, make_game
from acvp.figures import image
from acvp.runs import machine
from benchmarks.agents import AT_ONCE, EPSILON, AgentsConfig
from benchmarks.provenance import RESULTS, commit

COMMIT = commit()
"""At the start: the cards that are written later lie in the source tree."""


@dataclass(frozen=True, kw_only=True)
class ReferencesConfig:
    """Play the references of published scores."""

    games: tuple[str, ...] = ("freeway", "space_invaders", "qbert", "ms_pacman", "seaquest")
    """Agents to compare."""
    control: tuple[str, ...] = ("freeway", "seaquest")
    """Folders of results/control."""
    learning: tuple[str, ...] = ("freeway",)
    """Folders of results/learning."""
    imagined: tuple[str, ...] = ("freeway",)
    """Folders of results/imagined."""


def main(config: ReferencesConfig) -> None:
    """Add references to all results."""
    for game in config.games:
        add_to_agent(game)
    for folder in config.control:
        add_to_control(RESULTS / "control" / folder)
    for folder in config.learning:
        add_to_learning(RESULTS / "learning" / folder)
    for folder in config.imagined:
        add_to_imagined(RESULTS / "imagined" / folder)


@contextmanager
def opened(env_id: str, count: int, max_steps: int | None) -> Iterator[list[Game]]:
    """Open some games of one kind."""
    games = [make_game(env_id, max_steps=max_steps) for _ in range(count)]
    try:
        yield games
    finally:
        for game in games:
            game.close()


def measured(measure: Callable[[], dict[str, Any]]) -> dict[str, Any]:
    """Return a reference with where it comes from."""
    started = time.process_time()
    reference = measure()
    origin = {"command": "python -m benchmarks.references", "commit": COMMIT, "machine": machine()}
    return reference | {"provenance": origin | {"core_minutes": round((time.process_time() - started) / 60, 1)}}


def add_to_agent(game: str) -> None:
    """Play the references of a packaged agent's score, and state them on its card."""
    file, asked = RESULTS / "agents.json", AgentsConfig()
    body = current_fields(json.loads(file.read_text()))
    row, episodes = body["agents"][game], len(body["agents"][game]["agent"]["scores"])
    with opened(game, min(episodes, AT_ONCE), EVALUATION_STEPS) as games:
        options: dict[str, Any] = {"episodes": episodes, "epsilon": EPSILON, "seed": 10_000 + asked.seed}
        references = measured(lambda: play_references(games, **options))
    row |= {"references": describe_references(references), **references}
    file.write_text(json.dumps(body, indent=1) + "\n")
    print(f"{game}: {row['score']} ({row['references']})", flush=True)
    agent = load_agent(game)
    agent.about = replace(agent.about, score=f"{row['score']} at ε = {EPSILON:g}; {row['references']}")
    agent.save(PRETRAINED / game, half=True)


def add_to_control(folder: Path) -> None:
    """Hold every action in the episodes of results/control."""
    body = current_fields(json.loads((folder / "control.json").read_text()))
    options: dict[str, Any] = {"epsilon": body["epsilon"], "seed": body["provenance"]["seed"]}
    options |= {"source": NoObservations(), "episodes": body["episodes"], "streams": CONTROL_STREAMS}

    def hold(games: list[Game]) -> dict[str, Any]:
        meanings = games[0].action_meanings
        players = [ConstantAction(action, len(meanings)) for action in range(len(meanings))]
        return best_constant(meanings, [play_episodes(player, games, **options).scores for player in players])

    with opened(body["game"], body["episodes"], body["max_steps"]) as games:
        body["constant"] = measured(lambda: hold(games))
    (folder / "control.json").write_text(json.dumps(body, indent=1) + "\n")
    (folder / "control.png").write_bytes(image(control_figure(body), "png"))
    print(f"{folder.name}: {body['constant']['action']} {body['constant']['mean']:.1f}", flush=True)


def add_to_learning(folder: Path) -> None:
    """Play the references of the last points of learning curves."""
    body = current_fields(json.loads((folder / "learning.json").read_text()))
    points = {
        run["seed"]: (len(run["points"]) - 1, len(run["points"][-1]["scores"]))
        for strategy in body["strategies"].values()
        for run in strategy["runs"]
    }

    def references() -> References:
        with opened(body["game"], 1, EVALUATION_STEPS) as games:
            return pool_references(
                [
                    play_references(games, episodes=episodes, epsilon=EPSILON, seed=evaluation_seed(seed, point))
                    for seed, (point, episodes) in sorted(points.items())
                ]
            )

    body["references"] = measured(references)
    (folder / "learning.json").write_text(json.dumps(body, indent=1) + "\n")
    (folder / "learning.png").write_bytes(image(learning_figure(body), "png"))
    print(f"{folder.name}: {describe_references(body['references'])}", flush=True)


def add_to_imagined(folder: Path) -> None:
    """Play the references of an agent that learned inside a predictor, and count the episodes with equal scores."""
    file = folder / "agent-evaluation.json"
    body = current_fields(json.loads(file.read_text()))
    options: dict[str, Any] = {name: body[name] for name in ("episodes", "epsilon", "seed")}
    with opened(body["env_id"], min(body["episodes"], AT_ONCE), body["settings"]["max_steps"]) as games:
        body["references"] = measured(lambda: play_references(games, **options))
    constant = body["references"]["constant"]
    body["scores_equal_to_constant"] = sum(map(eq, body["scores"], constant["scores"]))
    file.write_text(json.dumps(body, indent=1) + "\n")
    equal = f"{body['scores_equal_to_constant']} of {body['episodes']} scores equal"
    print(f"{folder.name}: {describe_references(body['references'])}, {equal}", flush=True)


if __name__ == "__main__":
    main(tyro.cli(ReferencesConfig, description=__doc__))
