"""An agent that learns with informed exploration, or in a game that is imagined."""

from __future__ import annotations

import io
import json
import signal
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch
from rich.console import Console

from acvp.agents import presets, trainer
from acvp.agents import run as session
from acvp.agents.agent import load_agent
from acvp.agents.config import AgentTrainConfig
from acvp.agents.dqn import AcvpDqn
from acvp.agents.play import Scores, play_episodes
from acvp.agents.run import train_agent
from acvp.agents.vec_env import GameVecEnv
from acvp.control.informed import EmulatorLookahead, InformedExploration, ModelLookahead
from acvp.control.learning import ImaginedVecEnv, imagined_games, informed_strategy
from acvp.data.store import EpisodeStore
from acvp.envs import make_game
from acvp.errors import UserError
from acvp.models import About, Predictor, build_predictor
from tests.agents.short_runs import SHORT, outcome, stop_at
from tests.agents.small import SMALL_TOY, TOY_ACTIONS
from tests.control.trail import TRAIL, TrailOracle
from tests.networks import network


@pytest.fixture(autouse=True)
def short(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(session, "EVALUATION_STEPS", 10)
    monkeypatch.setitem(presets.PRESETS, "smoke", lambda: replace(SHORT, steps=60, evaluations=1))


def predictor(view: str = "gray84", env_id: str = SMALL_TOY) -> Predictor:
    frame = (84, 84, 1) if view == "gray84" else (16, 16, 3)
    config = network("feedforward", frame, actions=5, width=2, hidden=8, factors=8)
    made = build_predictor(config, torch.Generator().manual_seed(0)).eval()
    made.about = About(env_id=env_id, view=view, action_meanings=TOY_ACTIONS)
    return made


def run(folder: Path, guide: Predictor | None = None, **options: Any) -> int:
    config = AgentTrainConfig(env_id=SMALL_TOY, preset="smoke", run=folder, save_minutes=99, **options)
    strategy = informed_strategy(config, guide)
    return train_agent(config, Console(file=io.StringIO()), strategy).exit_code


WAYS: dict[str, tuple[Predictor | None, dict[str, Any]]] = {
    "informed-model": (predictor(), {"predictor": Path("runs/gray")}),
    "informed-model in color": (predictor("rgb"), {"predictor": Path("runs/color")}),
    "informed-emulator": (None, {}),
}


@pytest.mark.slow
@pytest.mark.parametrize("name", WAYS)
def test_an_agent_learns_with_it_and_resumes_exactly(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    guide, options = WAYS[name]
    name = name.split()[0]
    used: list[object] = []
    real = AcvpDqn._sample_action

    def sample(dqn: AcvpDqn, *args: Any) -> Any:
        used.append(dqn.exploration)
        return real(dqn, *args)

    monkeypatch.setattr(AcvpDqn, "_sample_action", sample)
    assert run(tmp_path / "whole", guide, exploration=name, **options) == 0
    assert {type(each) for each in used} == {InformedExploration}
    with monkeypatch.context() as patch:
        stop_at(30, patch)
        assert run(tmp_path / "parts", guide, exploration=name, **options) == 128 + signal.SIGTERM
    assert run(tmp_path / "parts", guide, exploration=name, **options) == 0
    assert outcome(tmp_path / "parts") == outcome(tmp_path / "whole")
    config = json.loads((tmp_path / "whole" / "config.json").read_text())
    assert config["dqn"]["exploration"] == name


def test_other_strategies_are_not_its_business() -> None:
    config = AgentTrainConfig(env_id=SMALL_TOY, exploration="random")
    assert informed_strategy(config, predictor()) is None


@pytest.mark.parametrize(
    ("guide", "message"),
    [
        (predictor(env_id="acvp/Other-v0"), "predicts acvp/Other-v0, not acvp-tests/AgentToy-v0"),
    ],
)
def test_a_predictor_that_cannot_guide_is_refused(tmp_path: Path, guide: Predictor, message: str) -> None:
    with pytest.raises(UserError, match=message):
        run(tmp_path / "run", guide, exploration="informed-model", predictor=Path("runs/color"))
    assert not (tmp_path / "run").exists()


def test_a_predictor_in_color_sees_what_the_games_show(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    seen: list[tuple[Any, Any]] = []
    real = ModelLookahead.observe

    def see(source: ModelLookahead, frames: Any, begins: Any) -> None:
        seen.append((frames.shape, frames.any()))
        real(source, frames, begins)

    monkeypatch.setattr(ModelLookahead, "observe", see)
    assert run(tmp_path / "run", predictor("rgb"), exploration="informed-model", predictor=Path("runs/color")) == 0
    assert {shape[1:] for shape, _ in seen} == {(16, 16, 3)}
    assert all(anything for _, anything in seen)
    with pytest.raises(UserError, match="sees frames in rgb, ALE's vector env gives gray84: choose --emulator own"):
        run(
            tmp_path / "ale", predictor("rgb"), exploration="informed-model", predictor=Path("runs/color"),
            emulator="ale",
        )  # fmt: skip


def imagine(folder: Path, store: EpisodeStore, env_id: str = TRAIL, weights: str | None = None, **options: Any) -> int:
    config = AgentTrainConfig(
        env_id=env_id, preset="smoke", run=folder, save_minutes=99, imagined=Path("oracle"), data=store.path, **options
    )
    return train_agent(
        config, Console(file=io.StringIO()), None, imagined_games(config, TrailOracle()), weights
    ).exit_code


@pytest.mark.slow
def test_an_agent_learns_in_an_imagined_game_only(
    tmp_path: Path, trail: EpisodeStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The real game is played for the learning curve alone, and the last agent is the one that is kept."""
    played: list[int] = []

    def play(*args: Any, **options: Any) -> Scores:
        scores = play_episodes(*args, **options)
        played.append(len(scores.episodes))
        return Scores(tuple(replace(each, score=-float(len(played))) for each in scores.episodes))  # worse and worse

    monkeypatch.setattr(trainer, "play_episodes", play)
    steps: list[int] = []
    learned_in = ImaginedVecEnv._advance

    def advance(env: ImaginedVecEnv, actions: Any) -> Any:
        steps.append(len(actions))
        return learned_in(env, actions)

    monkeypatch.setattr(ImaginedVecEnv, "_advance", advance)
    assert imagine(tmp_path / "run", trail) == 0
    assert sum(steps) >= 60
    assert len(played) == 2
    about = load_agent(tmp_path / "run").about
    assert about.score.startswith("-2.0")
    assert "only inside the predictor oracle" in about.training
    assert "the last of 2 points" in about.training
    assert imagine(tmp_path / "run", trail) == 0  # it is finished: nothing is done again
    with pytest.raises(UserError, match="another config: weights: None → 'others'"):
        imagine(tmp_path / "run", trail, weights="others")


def test_the_limit_of_imagined_plays_is_not_one_of_real_plays(
    tmp_path: Path, trail: EpisodeStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    lengths: dict[str, list[int]] = {"imagined": [], "real": []}

    def play(*args: Any, **options: Any) -> Scores:
        scores = play_episodes(*args, **options)
        lengths["real"] += [len(each.actions) for each in scores.episodes]
        return scores

    make = session._begin

    def begin(config: Any, run: Any, settings: Any, env: Any, weights: Any) -> None:
        lengths["imagined"].append(env._imagined.horizon)
        make(config, run, settings, env, weights)

    monkeypatch.setattr(trainer, "play_episodes", play)
    monkeypatch.setattr(session, "_begin", begin)
    assert imagine(tmp_path / "run", trail, max_steps=5) == 0
    assert lengths["imagined"] == [5]
    assert lengths["real"] == [10, 10]  # as many as the curve's plays have here


def test_kernel_and_look_ahead_are_those_asked_for() -> None:
    config = AgentTrainConfig(env_id=SMALL_TOY, exploration="informed-emulator", delta=7, look_ahead=3)
    make = informed_strategy(config, TrailOracle())
    assert make is not None
    env = GameVecEnv([make_game(SMALL_TOY)], seed=1)
    strategy = make(env)
    assert isinstance(strategy.lookahead, EmulatorLookahead)
    assert (strategy.kernel.delta, strategy.kernel.memory, strategy.lookahead.look_ahead) == (7, 20, 3)
    env.close()
    with pytest.raises(UserError, match="--look-ahead 0: at least 1"):
        replace(config, look_ahead=0)


def test_an_imagined_game_of_another_one_is_refused(tmp_path: Path, trail: EpisodeStore) -> None:
    with pytest.raises(UserError, match=r"is a game of acvp-tests/Trail-v0 with .* not of acvp-tests/AgentToy-v0"):
        imagine(tmp_path / "run", trail, SMALL_TOY)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"imagined": Path("a")}, "--imagined and --data belong together"),
        ({"data": Path("a")}, "--imagined and --data belong together"),
        ({"imagined": Path("a"), "data": Path("b"), "emulator": "ale"}, "learns in no emulator"),
        ({"delta": 50}, "--delta and --look-ahead are of informed exploration"),
        ({"look_ahead": 2, "exploration": "sticky-random"}, "--delta and --look-ahead are of informed exploration"),
        ({"imagined": Path("a"), "data": Path("b"), "exploration": "informed-emulator"}, "is one of real games"),
    ],
)
def test_options_that_do_not_go_together(options: dict[str, Any], message: str) -> None:
    with pytest.raises(UserError, match=message):
        AgentTrainConfig(env_id=SMALL_TOY, **options)
