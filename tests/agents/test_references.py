"""What a score has to beat: the best constant action and random play, in the agent's own episodes."""

from __future__ import annotations

import json
import os
import shutil
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import gymnasium
import numpy as np
import pytest
from gymnasium import spaces
from numpy.typing import NDArray

from acvp.agents import evaluate
from acvp.agents import run as session
from acvp.agents.config import AgentEvaluateConfig
from acvp.agents.evaluate import (
    DQN_SCORES,
    best_constant,
    evaluate_agent,
    evaluation_seed,
    play_references,
    pool_references,
    read_references,
    score_lines,
    write_references,
)
from acvp.agents.play import format_mean, mean_and_error, play_episodes, standard_errors
from acvp.envs import make_game
from tests.agents.short_runs import outcome, run
from tests.agents.small import SMALL_TOY, tiny_agent

OPTIONS: dict[str, Any] = {"episodes": 4, "epsilon": 0.3, "seed": 5}


class Always:
    """An agent that looks at the frames and chooses the same action, whatever they show."""

    def __init__(self, action: int, actions: int = 5) -> None:
        self.action, self.actions = action, actions

    def act(self, frames: NDArray[np.uint8]) -> NDArray[np.int64]:
        assert frames.shape[1:] == (4, 84, 84)
        assert frames.any()
        return np.full(len(frames), self.action)


def games(count: int = 2) -> list[Any]:
    return [make_game(SMALL_TOY, max_steps=40) for _ in range(count)]


def scores_of(player: Any, **options: Any) -> list[float]:
    return [play.score for play in play_episodes(player, games(), **(OPTIONS | options)).episodes]


def test_an_agent_of_one_action_scores_exactly_what_the_reference_does() -> None:
    found = play_references(games(1), **OPTIONS)
    rows = found["constant"]["actions"]
    assert [row["action"] for row in rows] == ["NOOP", "UP", "DOWN", "LEFT", "RIGHT"]
    for action, row in enumerate(rows):
        assert row["scores"] == scores_of(Always(action))
    assert len({tuple(row["scores"]) for row in rows}) > 1
    assert found["random"]["scores"] == scores_of(tiny_agent(SMALL_TOY), epsilon=1.0)


def test_the_action_with_the_best_mean_is_the_reference() -> None:
    best = best_constant(("A", "B", "C"), ([1.0, 2.0], [4.0, 0.0], [4.0, 0.0]))
    assert (best["action"], best["mean"], best["standard_error"], best["scores"]) == ("B", 2.0, 2.0, [4.0, 0.0])
    assert [(each["action"], each["mean"]) for each in best["actions"]] == [("A", 1.5), ("B", 2.0), ("C", 2.0)]


def test_pooled_references_are_chosen_by_all_episodes() -> None:
    parts = [
        {"constant": best_constant(("A", "B"), scores), "random": mean_and_error([score]) | {"scores": [score]}}
        for scores, score in ((([9.0], [8.0]), 1.0), (([0.0], [8.0]), 3.0))
    ]
    found = pool_references(parts)
    assert (found["constant"]["action"], found["constant"]["mean"]) == ("B", 8.0)
    assert found["random"] == {"mean": 2.0, "standard_error": 1.0, "scores": [1.0, 3.0]}


ENDLESS, ENTRY = "Endless-v0", "tests.agents.test_references:Endless"


class Endless(gymnasium.Env[Any, Any]):
    """A game that only action 1 ends."""

    def __init__(self) -> None:
        self.observation_space = spaces.Box(0, 255, (8, 8, 3), np.uint8)
        self.action_space = spaces.Discrete(2)

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[Any, dict[str, Any]]:
        super().reset(seed=seed)
        return np.zeros((8, 8, 3), np.uint8), {}

    def step(self, action: Any) -> tuple[Any, float, bool, bool, dict[str, Any]]:
        return np.zeros((8, 8, 3), np.uint8), 1.0, bool(action), False, {}


@pytest.mark.parametrize(("max_steps", "longest"), [(None, 7.0), (3, 3.0)])
def test_a_game_that_never_ends_is_cut_off(
    monkeypatch: pytest.MonkeyPatch, max_steps: int | None, longest: float
) -> None:
    monkeypatch.setattr(evaluate, "UNLIMITED", 7)
    monkeypatch.setitem(gymnasium.registry, ENDLESS, gymnasium.envs.registration.EnvSpec(ENDLESS, ENTRY))
    with make_game(ENDLESS, max_steps=max_steps) as game:
        found = play_references([game], episodes=1, epsilon=0.0, seed=1)
        assert [row["scores"] for row in found["constant"]["actions"]] == [[longest], [1.0]]
        assert game.limit == max_steps


def test_in_freeway_it_is_up() -> None:
    with make_game("freeway", max_steps=50) as game:
        best = play_references([game], episodes=1, epsilon=0.0, seed=1)["constant"]
    assert (best["action"], best["mean"], best["standard_error"]) == ("UP", 1.0, None)


def test_a_single_value_has_no_error() -> None:
    assert mean_and_error([3.0]) == {"mean": 3.0, "standard_error": None}
    assert mean_and_error([1.0, 3.0]) == {"mean": 2.0, "standard_error": 1.0}
    assert (format_mean(3.0, None), format_mean(1234.5, 0.25)) == ("3.0", "1,234.5 ± 0.2")
    assert standard_errors(np.zeros((1, 4))) is None
    assert standard_errors(np.array([[1, 5], [3, 5]])) == pytest.approx([1.0, 0.0])


def test_a_run_keeps_the_references_of_its_last_point(
    tmp_path: Path, done: tuple[Path, Path], short: Callable[..., None], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Played once, with the ε and the episodes of the learning curve's last point."""
    shutil.copytree(done[0], tmp_path, dirs_exist_ok=True)
    curve = json.loads((tmp_path / "agent" / "learning-curve.json").read_text())
    with make_game(SMALL_TOY, max_steps=30) as game:
        options: dict[str, Any] = {"episodes": 1, "epsilon": 0.05, "seed": evaluation_seed(1, 2)}
        best = [play_episodes(Always(action), [game], **options).episodes[0].score for action in range(5)]
    assert [row["scores"] for row in curve["references"]["constant"]["actions"]] == [[score] for score in best]
    before = outcome(tmp_path)
    with monkeypatch.context() as patch:
        patch.setattr(session, "play_references", None)
        assert run(tmp_path).exit_code == 0
    (tmp_path / evaluate.REFERENCES_NAME).write_bytes(b"{")
    assert run(tmp_path).exit_code == 0  # played again
    assert outcome(tmp_path) == before


def test_references_can_be_left_out(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    tiny_agent(SMALL_TOY).save(tmp_path)
    monkeypatch.setattr(evaluate, "play_references", None)
    config = AgentEvaluateConfig(agent=str(tmp_path), episodes=1, max_steps=5, references=False)
    body = evaluate_agent(config, lambda *_: None)
    assert "references" not in body
    assert score_lines(body) == [f"{SMALL_TOY}, 1 episode, ε = 0.05: score", f"  agent: {body['mean']:,.1f}"]


def test_the_paper_s_score_is_shown_beside_ours(tmp_path: Path) -> None:
    tiny_agent("ALE/Freeway-v5", ("NOOP", "UP", "DOWN")).save(tmp_path)
    config = AgentEvaluateConfig(agent=str(tmp_path), episodes=1, max_steps=2, references=False)
    body = evaluate_agent(config, lambda *_: None)
    assert score_lines(body)[-1] == "  paper's DQN: 30.9 ± 0.2"
    scores = {env_id: mean for env_id, (mean, _) in DQN_SCORES.items()}
    assert list(scores.values()) == [13119, 698, 30.9, 3876, 2281]


def test_references_of_other_episodes_are_not_taken(tmp_path: Path) -> None:
    kept = {"constant": best_constant(("A", "B"), ([1.0], [4.0])), "random": mean_and_error([0.0]) | {"scores": [0.0]}}
    write_references(tmp_path, OPTIONS, kept)
    assert read_references(tmp_path, OPTIONS) == kept
    for change in ({"episodes": 5}, {"epsilon": 0.0}, {"seed": 6}):
        assert read_references(tmp_path, OPTIONS | change) is None


def test_references_are_read_from_a_regular_file_of_the_run_only(tmp_path: Path) -> None:
    """A run may be somebody else's: a named pipe would block for ever, a symbolic link lead to any file."""
    kept = {"constant": best_constant(("A",), ([1.0],)), "random": mean_and_error([0.0]) | {"scores": [0.0]}}
    (tmp_path / "run").mkdir()
    write_references(tmp_path, OPTIONS, kept)
    file = tmp_path / "run" / evaluate.REFERENCES_NAME
    file.symlink_to(tmp_path / evaluate.REFERENCES_NAME)
    assert read_references(tmp_path / "run", OPTIONS) is None
    file.unlink()
    os.mkfifo(file)
    with ThreadPoolExecutor(1) as pool:
        reading = pool.submit(read_references, tmp_path / "run", OPTIONS)
        try:
            assert reading.result(timeout=30) is None
        finally:
            os.close(os.open(file, os.O_RDWR | os.O_NONBLOCK))  # ends a read that waits for a writer
