"""Runs of `acvp agent train`: they learn, keep the best, and refuse what cannot work."""

from __future__ import annotations

import io
import json
import signal
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from rich.console import Console
from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

from acvp.agents import presets
from acvp.agents import run as session
from acvp.agents.agent import NetworkConfig, load_agent
from acvp.agents.config import AgentTrainConfig
from acvp.agents.dqn import AcvpDqn
from acvp.agents.play import play_episodes
from acvp.agents.replay import TRUNCATED
from acvp.agents.run import train_agent
from acvp.agents.trainer import STATE_NAME, AgentTrainer
from acvp.checkpoint import newest_good
from acvp.envs import make_game
from acvp.errors import UserError
from tests.agents.short_runs import run, stop_at
from tests.agents.small import SMALL_TOY


@pytest.mark.slow
def test_it_learns_to_play(tmp_path: Path) -> None:
    """In seconds: mostly not to be hit, which is the nearest reward."""
    one_look_a_cell = NetworkConfig(channels=(16, 32), kernels=(10, 3), strides=(10, 1), hidden=128)
    settings = replace(
        presets.smoke(), network=one_look_a_cell, discount=0.8, games=8, epsilon_share=0.6, steps=4_000,
        evaluations=2, evaluate_episodes=8,
    )  # fmt: skip
    config = AgentTrainConfig(env_id=SMALL_TOY, preset="smoke", run=tmp_path, save_replay=False)
    with pytest.MonkeyPatch.context() as patch:
        patch.setitem(presets.PRESETS, "smoke", lambda: settings)
        result = train_agent(config, Console(file=io.StringIO()))
    assert result.exit_code == 0
    games = [make_game(SMALL_TOY) for _ in range(10)]
    agent = load_agent(tmp_path)
    learned, random = (play_episodes(agent, games, episodes=40, epsilon=e, seed=7) for e in (0.05, 1.0))
    assert learned.standard_error is not None
    assert random.standard_error is not None
    assert learned.mean > random.mean + 2 * np.hypot(learned.standard_error, random.standard_error)


@pytest.mark.slow
def test_a_run_leaves_everything_that_is_to_be_known(
    tmp_path: Path, short: Callable[..., None], monkeypatch: pytest.MonkeyPatch
) -> None:
    text = io.StringIO()
    monkeypatch.setattr("acvp.agents.trainer.LOG_EVERY", 40)
    assert run(tmp_path, text).exit_code == 0
    lines = [json.loads(line) for line in (tmp_path / "metrics.jsonl").read_text().splitlines()]
    points = [line for line in lines if line["kind"] == "evaluation"]
    assert [point["step"] for point in points] == [0, 80, 160]
    trained = [line for line in lines if line["kind"] == "train"]
    assert [line["step"] for line in trained] == [40, 80, 120, 160]
    assert {"train/loss", "rollout/ep_rew_mean", "rollout/exploration_rate"} <= trained[-1].keys()
    events = EventAccumulator(str(tmp_path / "tensorboard")).Reload()
    assert [event.step for event in events.Scalars("evaluation/score")] == [0, 80, 160]
    assert (tmp_path / "agent" / "learning-curve.png").read_bytes().startswith(b"\x89PNG")
    agent = load_agent(tmp_path)
    assert "160 agent steps and 72 updates" in agent.about.training
    assert "the best of 3 points" in agent.about.training
    printed = text.getvalue()
    assert "2 agent steps per update, exploration sticky-random, until 160 agent steps" in printed
    assert "finished at agent step 160" in printed


@pytest.mark.slow
@pytest.mark.parametrize(
    ("plays", "scores", "kept"),
    [
        (1, (1.0, 5.0, 3.0), 1),
        (2, (5.0, 5.0, 0.0, 14.0, 5.0, 5.0), 2),  # 7 ± 7 in the middle is not sure; of equals, the last
    ],
)
def test_the_best_point_of_the_curve_is_kept(
    tmp_path: Path,
    short: Callable[..., None],
    monkeypatch: pytest.MonkeyPatch,
    plays: int,
    scores: tuple[float, ...],
    kept: int,
) -> None:
    short(evaluate_episodes=plays)
    weights: list[bytes] = []
    left = iter(scores)

    def judge(agent: Any, games: Any, **options: Any) -> Any:
        weights.append(agent.network.head.bias.numpy(force=True).tobytes())
        result = play_episodes(agent, games, **options)
        for episode in result.episodes:
            episode.score = next(left)
        return result

    monkeypatch.setattr("acvp.agents.trainer.play_episodes", judge)
    run(tmp_path)
    assert load_agent(tmp_path).network.head.bias.numpy(force=True).tobytes() == weights[kept]
    assert len(set(weights)) == 3


@pytest.mark.parametrize(
    ("env_id", "max_steps", "limit"), [("toy", None, 200), ("toy", 7, 7), ("freeway", None, 4_500)]
)
def test_the_curve_s_plays_end_no_later_than_the_game_s_own(env_id: str, max_steps: int | None, limit: int) -> None:
    config = AgentTrainConfig(env_id=env_id, preset="smoke", max_steps=max_steps)
    with session._games(config, presets.make_dqn_config(config), None) as (_, judges):
        assert {game.limit for game in judges} == {limit}


@pytest.mark.slow
def test_evaluations_take_none_of_the_minutes(
    tmp_path: Path, short: Callable[..., None], monkeypatch: pytest.MonkeyPatch
) -> None:
    """By a clock that stands still but for evaluations."""
    clock = SimpleNamespace(now=0.0)

    def judge(*args: Any, **options: Any) -> Any:
        clock.now += 1000.0
        return play_episodes(*args, **options)

    monkeypatch.setattr("acvp.agents.trainer.time", SimpleNamespace(monotonic=lambda: clock.now))
    monkeypatch.setattr("acvp.agents.trainer.play_episodes", judge)
    assert run(tmp_path).exit_code == 0
    checkpoint = newest_good(tmp_path / "checkpoints", print)
    assert checkpoint is not None
    assert clock.now == 3000.0
    assert json.loads(checkpoint.files[STATE_NAME])["trainer"]["seconds"] == 0.0


def test_a_loss_that_is_no_number_stops_the_run(tmp_path: Path, short: Callable[..., None]) -> None:
    short(lr=1e38)
    text = io.StringIO()
    assert run(tmp_path, text).exit_code == 1
    assert "the loss is nan" in text.getvalue() or "the loss is inf" in text.getvalue()
    assert not list((tmp_path / "checkpoints").iterdir())


def test_the_clock_ends_a_run_and_lets_epsilon_fall(
    tmp_path: Path, short: Callable[..., None], monkeypatch: pytest.MonkeyPatch
) -> None:
    """By a clock on which a round takes a second."""
    short(steps=None, minutes=0.5, exploration="random")
    rates: list[float] = []

    def tick(trainer: AgentTrainer) -> None:
        trainer.state.seconds = trainer.steps / 2
        rates.append(trainer.dqn.exploration_rate)

    monkeypatch.setattr(AgentTrainer, "_tick", tick)
    assert run(tmp_path).exit_code == 0
    assert json.loads((tmp_path / "agent" / "learning-curve.json").read_text())["points"][-1]["step"] == 60
    assert (np.diff(rates) < 1e-9).all()
    assert [rates[0], rates[-1]] == pytest.approx([1.0, 0.1])


@pytest.mark.slow
def test_games_of_ales_vector_env_start_new_episodes(
    tmp_path: Path, short: Callable[..., None], monkeypatch: pytest.MonkeyPatch
) -> None:
    options: dict[str, Any] = {"env_id": "space_invaders", "emulator": "ale"}
    short(steps=60)
    with monkeypatch.context() as patch:
        stop_at(30, patch)
        assert run(tmp_path, **options).exit_code == 128 + signal.SIGTERM
    last_before: list[int] = []
    learn = AcvpDqn.learn

    def look_first(dqn: AcvpDqn, *args: Any, **given: Any) -> Any:
        replay = dqn.replay_buffer
        last_before.extend(replay.status[(replay.added - 1) % replay.buffer_size].tolist())
        return learn(dqn, *args, **given)

    monkeypatch.setattr(AcvpDqn, "learn", look_first)
    assert run(tmp_path, **options).exit_code == 0
    assert last_before == [TRUNCATED] * 2  # plays that begin anew do not follow the old ones
    assert load_agent(tmp_path).about.action_meanings[1] == "FIRE"


@pytest.mark.slow
@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"seed": 2}, "another config: seed: 1 → 2"),
        ({"steps": 99}, r"dqn\.steps: 160 → 99"),
        ({"exploration": "random"}, r"dqn\.exploration: 'sticky-random' → 'random'"),
        ({"env_id": "toy"}, "env_id: 'acvp-tests/AgentToy-v0' → 'acvp/Toy-v0'"),
        ({"resume": "never"}, "has already begun"),
    ],
)
def test_a_run_that_was_started_otherwise_is_refused(
    done: tuple[Path, Path], short: Callable[..., None], options: dict[str, Any], message: str
) -> None:
    with pytest.raises(UserError, match=message):
        run(done[0], **options)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"minutes": 0}, "--minutes 0: more than 0"),
        ({"replay": -1}, "--replay -1: at least 1"),
        ({"seed": -1}, "--seed -1"),
        ({"exploration": "informed-model"}, "informed-model and --predictor belong together"),
        ({"predictor": Path("x")}, "informed-model and --predictor belong together"),
        ({"exploration": "informed-emulator", "emulator": "ale"}, "choose --emulator own"),
        ({"games": 3}, "3 games and 2 agent steps per update: one must divide the other"),
        ({"emulator": "ale"}, "runs Atari games only"),
        ({"env_id": "no-such-game"}, "unknown environment"),
    ],
)
def test_what_cannot_work_is_refused_before_it_begins(
    tmp_path: Path, short: Callable[..., None], options: dict[str, Any], message: str
) -> None:
    with pytest.raises(UserError, match=message):
        run(tmp_path / "run", **options)
    assert not (tmp_path / "run").exists()


def test_a_missing_device_is_refused_before_anything_is_written(tmp_path: Path) -> None:
    with pytest.raises(UserError, match="--device cuda:99"):
        train_agent(AgentTrainConfig(env_id=SMALL_TOY, preset="smoke", run=tmp_path / "run", device="cuda:99"))
    assert not (tmp_path / "run").exists()
