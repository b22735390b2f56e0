"""acvp control and acvp explore as a user meets them: files, tables, resume, mistakes."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any
from unittest.mock import patch

import numpy as np
import pytest
from PIL import Image

from acvp.agents.agent import Agent, AgentAbout, NetworkConfig, ValueNetwork
from acvp.agents.play import play_episodes
from acvp.cli.main import main
from acvp.console import Progress
from acvp.control import explore as exploring
from acvp.control import run as controlling
from acvp.control.config import ControlConfig, ExploreConfig
from acvp.control.explore import explore, explore_table, first_rewards
from acvp.control.kernel import covered, default_cell, visits
from acvp.control.run import agent_fingerprint, control_table
from acvp.data.frames import GRAY_84, RGB
from acvp.data.store import EpisodeStore
from acvp.errors import UserError
from acvp.models import Predictor
from tests.control.trail import TRAIL, HashAgent, TrailOracle
from tests.evaluation.runs import make_run
from tests.evaluation.test_commands import mistake

EXPLORE = ["--seeds", "2", "--max-steps", "30", "--map-steps", "30", "--map-seeds", "2", "--noops", "3"]


class Stages:
    """What a progress bar was told."""

    def __init__(self) -> None:
        self.names: list[str] = []
        self.last = (0, 0)

    def __call__(self, name: str) -> Progress:
        self.names.append(name)

        def show(done: int, total: int) -> None:
            self.last = (done, total)

        return show


def load_oracle(path: Path) -> Predictor:
    return TrailOracle(context=2)


def load_agent(name: str) -> HashAgent:
    return HashAgent()


def control_runs(
    config: ControlConfig, stages: Stages, load: Callable[[Path], Predictor], read_agent: Callable[[str], Any]
) -> dict[str, Any]:
    with patch.object(controlling, "load", load), patch.object(controlling, "load_agent", read_agent):
        return controlling.control_runs(config, stages)


def explore_game(config: ExploreConfig, stages: Stages, load: Callable[[Path], Predictor]) -> dict[str, Any]:
    with patch.object(exploring, "load", load):
        return exploring.explore_game(config, stages)


def control(tmp_path: Path, **options: Any) -> ControlConfig:
    usual: dict[str, Any] = {
        "predictors": (tmp_path / "oracle",),
        "agent": "hash",
        "out": tmp_path / "out",
        "episodes": 5,
        "horizons": (1, 4),
    }
    return ControlConfig(**(usual | options))


def read(file: Path) -> dict[str, Any]:
    body: dict[str, Any] = json.loads(file.read_text())
    told = body.pop("provenance")
    assert told.keys() >= {"command", "commit", "machine", "seconds", "seed", "versions", "peak_memory_mb"}
    return body


def check_pictures(folder: Path, *names: str) -> None:
    assert {path.name for path in folder.iterdir()} == {f"{name}.{kind}" for name in names for kind in ("png", "svg")}
    for name in names:
        assert len(np.unique(np.asarray(Image.open(folder / f"{name}.png").convert("L")))) > 10
        assert b"<svg" in (folder / f"{name}.svg").read_bytes()


def test_control_writes_everything(tmp_path: Path) -> None:
    body = control_runs(control(tmp_path), Stages(), load_oracle, load_agent)
    assert body["runs"].keys() == {"oracle"}
    for point in body["runs"]["oracle"]:
        same = {"horizon": point["horizon"]} | body["emulator"]
        assert point == same  # an oracle is as good as the emulator, at any depth
    assert len(body["random"]["scores"]) == 5
    assert read(tmp_path / "out" / "control.json") == json.loads(json.dumps(body))
    check_pictures(tmp_path / "out" / "plots", "control")
    table = control_table(body)
    assert [row[0] for row in table.rows] == ["1", "4"]
    assert f"emulator {body['emulator']['mean']:.3g} ± " in table.title


def test_an_agent_of_one_action_scores_what_holding_it_does(tmp_path: Path) -> None:
    """With the random actions of its own plays, whatever it is shown."""

    class Always(HashAgent):
        def values(self, frames: Any) -> Any:
            return np.tile(np.array([0, 1, 0], np.float32), (len(frames), 1))

    body = control_runs(control(tmp_path, epsilon=0.3), Stages(), load_oracle, lambda name: Always())
    best = body["constant"]
    assert best["action"] == "ON"
    assert best["scores"] == list(body["emulator"]["scores"])
    assert [row["action"] for row in best["actions"]] == ["STAY", "ON", "BACK"]
    assert best["mean"] == max(row["mean"] for row in best["actions"])
    assert f"constant ON {best['mean']:.3g} ± " in control_table(body).title


@pytest.mark.slow
def test_control_continues_where_it_stopped(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    whole = control_runs(control(tmp_path, out=tmp_path / "whole"), Stages(), load_oracle, load_agent)
    config, stages, again = control(tmp_path), Stages(), Stages()

    def stop_at_four(player: Any, games: Any, source: Any, **options: Any) -> Any:
        if getattr(source, "horizon", 0) == 4:
            raise KeyboardInterrupt
        return play_episodes(player, games, source, **options)

    monkeypatch.setattr("acvp.control.run.play_episodes", stop_at_four)
    with pytest.raises(KeyboardInterrupt):
        control_runs(config, stages, load_oracle, load_agent)
    monkeypatch.undo()
    assert control_runs(config, again, load_oracle, load_agent) == whole
    held = ["constant STAY", "constant ON", "constant BACK"]
    assert stages.names == ["emulator", "random", *held, "oracle, n = 1", "oracle, n = 4"]
    assert again.names == ["oracle, n = 4"]
    assert again.last[0] == again.last[1]  # as long as the emulator's longest episode
    control_runs(replace(config, seed=1), again, load_oracle, load_agent)
    assert again.names[1:] == stages.names  # another seed is another measurement


@pytest.mark.slow
def test_control_shows_what_was_measured_before(tmp_path: Path) -> None:
    """A slow predictor may be measured at fewer depths than a fast one, in the same folder."""

    def load(path: Path) -> Predictor:
        oracle = TrailOracle(context=2)
        oracle.normalizer.mean.add_(float(path.name == "slow"))  # other weights
        return oracle

    def shown(config: ControlConfig) -> dict[str, list[int]]:
        body = control_runs(config, stages, load, load_agent)
        return {name: [point["horizon"] for point in curve] for name, curve in body["runs"].items()}

    stages, fast, slow = Stages(), tmp_path / "fast", tmp_path / "slow"
    assert shown(control(tmp_path, predictors=(fast,), horizons=(1, 4, 2))) == {"fast": [1, 2, 4]}
    both = control(tmp_path, predictors=(fast, slow), horizons=(4,))
    assert shown(both) == {"fast": [1, 2, 4], "slow": [4]}
    assert stages.names[-1] == "slow, n = 4"
    table = control_table(read(tmp_path / "out" / "control.json"))
    assert [row[0] for row in table.rows] == ["1", "2", "4"]
    assert [row[2] == "–" for row in table.rows] == [True, True, False]
    assert shown(replace(both, seed=1)) == {"fast": [4], "slow": [4]}  # other plays are another measurement


def test_control_from_the_command_line(tmp_path: Path, toy: EpisodeStore, capsys: pytest.CaptureFixture[str]) -> None:
    """An agent and a predictor as they are kept on disk, one gray and one in color, both untrained."""
    network = ValueNetwork(NetworkConfig(channels=(4, 4), hidden=8), toy.action_count)
    about = AgentAbout(env_id=toy.info.env_id, action_meanings=toy.info.action_meanings)
    Agent(network, about).save(tmp_path / "agent")
    runs = [str(make_run(tmp_path / view.name, toy, view=view)) for view in (RGB, GRAY_84)]
    options = ["--episodes", "2", "--horizons", "3", "--max-steps", "9", "--out", str(tmp_path / "out")]
    assert main(["control", "--predictors", *runs, "--agent", str(tmp_path / "agent"), *options]) == 0
    assert "resync every n" in capsys.readouterr().out
    body = read(tmp_path / "out" / "control.json")
    assert body["runs"].keys() == {"rgb", "gray84"}
    assert body["emulator"]["steps"] == [9, 9]


def test_agents_are_distinguished() -> None:
    class Other(HashAgent):
        def values(self, frames: Any) -> Any:
            return -super().values(frames)

    assert agent_fingerprint(HashAgent()) == agent_fingerprint(HashAgent()) != agent_fingerprint(Other())


@pytest.mark.slow
def test_another_agent_is_another_measurement(tmp_path: Path) -> None:
    class Other(HashAgent):
        def values(self, frames: Any) -> Any:
            return -super().values(frames)

    again = Stages()
    control_runs(control(tmp_path), Stages(), load_oracle, load_agent)
    control_runs(control(tmp_path), again, load_oracle, lambda name: Other())
    assert again.names == ["emulator", "oracle, n = 1", "oracle, n = 4"]  # random plays need no agent


def test_control_refuses_what_does_not_fit(tmp_path: Path) -> None:
    stranger = HashAgent(about=AgentAbout(env_id=TRAIL, action_meanings=("NOOP", "UP")))
    with pytest.raises(
        UserError, match="the agent of acvp-tests/Trail-v0 has the actions NOOP UP, acvp-tests/Trail-v0 has STAY"
    ):
        control_runs(control(tmp_path), Stages(), load_oracle, lambda name: stranger)
    actions = ("NOOP", "UP", "DOWN", "LEFT", "RIGHT")
    toy = HashAgent(about=AgentAbout(env_id="acvp/Toy-v0", action_meanings=actions))
    with pytest.raises(UserError, match="oracle predicts acvp-tests/Trail-v0, not acvp/Toy-v0"):
        control_runs(control(tmp_path), Stages(), load_oracle, lambda name: toy)
    twice = control(tmp_path, predictors=(tmp_path / "oracle", tmp_path / "x" / "oracle"))
    with pytest.raises(UserError, match="two are called oracle"):
        control_runs(twice, Stages(), load_oracle, load_agent)
    assert not (tmp_path / "out").exists()


def explored(tmp_path: Path, name: str = "out", **options: Any) -> ExploreConfig:
    usual: dict[str, Any] = {"env_id": TRAIL, "out": tmp_path / name, "predictor": tmp_path / "oracle", "seeds": 3}
    usual |= {"strategies": ("random", "informed-model"), "max_steps": 50, "map_steps": 20, "map_seeds": 1}
    return ExploreConfig(**(usual | options))


@pytest.mark.slow
def test_explore_continues_seed_by_seed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    whole = explore_game(explored(tmp_path, "whole"), Stages(), load_oracle)
    stages, again = Stages(), Stages()

    def stop_in_the_middle(*given: Any, seed: int, **options: Any) -> Any:
        if len(stages.names) == 5:
            raise KeyboardInterrupt
        return explore(*given, seed=seed, **options)

    monkeypatch.setattr("acvp.control.explore.explore", stop_in_the_middle)
    with pytest.raises(KeyboardInterrupt):
        explore_game(explored(tmp_path), stages, load_oracle)
    monkeypatch.undo()
    assert explore_game(explored(tmp_path), again, load_oracle) == whole
    assert again.names == ["informed-model, seed 1", "informed-model, seed 2"]
    assert read(tmp_path / "out" / "explore.json") == read(tmp_path / "whole" / "explore.json")
    assert "does not report where its controlled object is" in whole["note"]  # the trail does not say
    check_pictures(tmp_path / "out" / "plots", "first-reward")
    more = explored(tmp_path, seeds=4)
    explore_game(more, again, load_oracle)
    assert again.names[2:] == ["random, seed 3", "informed-model, seed 3"]


@pytest.mark.slow
@pytest.mark.parametrize("change", [{"delta": 3}, {"memory": 7}, {"sigma": 2.0}, {"look_ahead": 2}, {}], ids=str)
def test_explore_measures_again_what_comes_out_otherwise(tmp_path: Path, change: dict[str, Any]) -> None:
    """Another kernel, look-ahead or predictor, in the same folder; what random does depends on none of them."""

    def load(path: Path) -> Predictor:
        oracle = TrailOracle(context=2)
        oracle.normalizer.mean.add_(float(not change))  # other weights
        return oracle

    explore_game(explored(tmp_path), Stages(), load_oracle)
    again, once_more = Stages(), Stages()
    explore_game(explored(tmp_path, **change), again, load)
    assert again.names == [f"informed-model, seed {seed}" for seed in range(3)]
    explore_game(explored(tmp_path, **change), once_more, load)
    assert once_more.names == []


@pytest.mark.parametrize(("most", "held_for"), [(50, 50), (500, 5)])
def test_the_action_that_gets_a_reward_first_when_held(tmp_path: Path, most: int, held_for: int) -> None:
    """Four cells on; the others never come to one. Held for long only if no action comes to a reward soon."""
    config = explored(tmp_path, strategies=("random", "constant"), predictor=None, max_steps=most, map_steps=0)
    body = explore_game(config, Stages(), load_oracle)
    found = body["sources"]["constant"]
    assert (found["action"], found["first_reward"], found["actions_held_for"]) == ("ON", [4, 4, 4], held_for)
    assert [(row["action"], row["median"], row["never"]) for row in found["actions"]] == [
        ("STAY", held_for, 3), ("ON", 4, 0), ("BACK", held_for, 3),
    ]  # fmt: skip
    rows = {row[0]: row[1:] for row in explore_table(body).rows}
    assert rows["constant ON"] == ("4", "0 of 3", "–")
    again = Stages()
    assert explore_game(config, again, load_oracle) == body
    assert again.names == []


def test_the_paper_s_first_rewards_have_a_column(tmp_path: Path) -> None:
    options: dict[str, Any] = {"seeds": 1, "max_steps": 60, "map_steps": 0, "noops": 0, "predictor": None}
    config = explored(tmp_path, env_id="freeway", strategies=("random", "constant"), **options)
    table = explore_table(explore_game(config, Stages(), load_oracle))
    assert table.heads == ("strategy", "median agent steps to the first reward", "paper", "never", "cells covered")
    assert [row[:3] for row in table.rows] == [("random", "≥ 60", "460,000"), ("constant UP", "43", "–")]


def test_seeds_that_all_begin_at_the_first_frame_differ_by_their_actions(tmp_path: Path) -> None:
    options: dict[str, Any] = {"noops": 0, "max_steps": 1, "map_steps": 40, "map_seeds": 4, "seeds": 4}
    config = explored(tmp_path, env_id="freeway", strategies=("random",), predictor=None, **options)
    explore_game(config, Stages(), load_oracle)
    parts = [json.loads(line) for line in (tmp_path / "out" / "explore.jsonl").read_text().splitlines()]
    assert [part["settings"]["noops"] for part in parts] == [0] * 4
    assert len({json.dumps(part["result"]["positions"]) for part in parts}) == 4


@pytest.mark.slow
def test_explore_from_the_command_line(tmp_path: Path, toy: EpisodeStore, capsys: pytest.CaptureFixture[str]) -> None:
    run, out = make_run(tmp_path / "gray", toy, view=GRAY_84), tmp_path / "out"
    ways = ["--run", str(run), "--look-ahead", "2", "--cell", "2", "--out", str(out)]
    assert main(["explore", "--env-id", "toy", *ways, *EXPLORE]) == 0
    assert "informed-model" in capsys.readouterr().out
    body = read(out / "explore.json")
    assert body["sources"].keys() == {"random", "constant", "informed-emulator", "informed-model"}
    for found in body["sources"].values():
        assert np.sum(found["visits"]) == 2 * 30
        assert found["coverage"]["mean"][-1] == np.mean(found["cells"])
    check_pictures(out / "plots", "first-reward", "heat-maps", "coverage")


def test_first_rewards_that_never_came() -> None:
    found = {"positions": [], "decisions": 50}
    rows = [found | {"first_reward": value} for value in (10, None, 30, None)]
    told = first_rewards(rows, 50)
    assert told == {"first_reward": [10, None, 30, None], "median": 40.0, "never": 2}
    body = {"sources": {"random": told}, "game": "g", "seeds": 4, "max_steps": 50}
    assert explore_table(body).rows == (("random", "≥ 40", "2 of 4", "–"),)


def test_cells() -> None:
    route = [(0.0, 0.0), (1.9, 3.9), (2.0, 0.0), None, (0.5, 0.5), (99.0, -3.0)]
    assert covered(route, cell=2).tolist() == [1, 2, 3, 3, 3, 4]
    grid = visits(route, (6, 5, 3), cell=2)
    assert grid.tolist() == [[2, 1, 0], [1, 0, 0], [1, 0, 0]]  # what is off the frame counts at its edge
    assert (default_cell((210, 160, 3)), default_cell((24, 24, 3))) == (5, 1)


def test_an_unknown_position_is_no_cell() -> None:
    """Neither one of its own nor the corner, of which nothing else is in the way here."""
    route = [None, (4.0, 4.0), None]
    assert covered(route, cell=2).tolist() == [0, 1, 1]
    assert visits(route, (6, 6, 3), cell=2).tolist() == [[0, 0, 0], [0, 0, 0], [0, 0, 1]]
    assert covered([None, None], cell=2).tolist() == [0, 0]


@pytest.mark.slow
def test_the_time_of_all_parts_is_reported(tmp_path: Path) -> None:
    config = control(tmp_path)
    control_runs(config, Stages(), load_oracle, load_agent)
    parts = tmp_path / "out" / "control.jsonl"
    lines = [json.loads(line) | {"seconds": 1000.0} for line in parts.read_text().splitlines()]
    parts.write_text("".join(json.dumps(line) + "\n" for line in lines))
    control_runs(config, Stages(), load_oracle, load_agent)
    told = json.loads((tmp_path / "out" / "control.json").read_text())["provenance"]
    assert told["seconds"] >= 1000 * len(lines) == 7000


def test_mistakes(tmp_path: Path, toy: EpisodeStore, capsys: pytest.CaptureFixture[str]) -> None:
    run, out = str(make_run(tmp_path / "a", toy)), ["--out", str(tmp_path / "out")]
    freeway = ["--env-id", "freeway", *out]
    for arguments, told in (
        (["explore", *freeway, "--strategies", "informed-model"], "name one with --predictor"),
        (["explore", *freeway, "--predictor", run], "predicts acvp/Toy-v0, not ALE/Freeway-v5"),
        (["explore", *freeway, "--memory", "0"], "--memory 0"),
        (["explore", *freeway, "--look-ahead", "0"], "--look-ahead 0"),
        (["explore", *freeway, "--strategies", "random", "random"], "each once"),
        (["explore", "--env-id", TRAIL, *out], "Trail-v0 cannot save"),
        (["control", "--predictors", run, "--agent", "nobody", *out], "unknown agent 'nobody'"),
        (["control", "--predictors", run, "--agent", "x", "--horizons", "0", *out], "--horizons 0"),
        (["control", "--predictors", run, "--agent", "x", "--epsilon", "2", *out], "--epsilon 2: a probability"),
    ):
        assert told in mistake(arguments, capsys)
    assert not (tmp_path / "out").exists()


def test_joined_shards_of_control_are_one_measurement(tmp_path: Path) -> None:
    whole = control_runs(control(tmp_path, out=tmp_path / "whole"), Stages(), load_oracle, load_agent)
    names = []
    for shard in ("1/2", "2/2"):
        stages = Stages()
        assert control_runs(control(tmp_path, shard=shard), stages, load_oracle, load_agent)["shard"] == shard
        names.append(stages.names)
    assert names[0] == ["emulator", "constant STAY", "constant BACK", "oracle, n = 4"]
    assert names[1] == ["random", "constant ON", "oracle, n = 1"]
    joined = Stages()
    assert control_runs(control(tmp_path), joined, load_oracle, load_agent) == whole
    assert joined.names == []
    assert read(tmp_path / "out" / "control.json") == read(tmp_path / "whole" / "control.json")


@pytest.mark.slow
def test_joined_shards_of_exploration_are_one_measurement(tmp_path: Path) -> None:
    def explored(out: str, **options: Any) -> tuple[dict[str, Any], list[str]]:
        stages = Stages()
        config = ExploreConfig(
            env_id="toy", out=tmp_path / out, seeds=3, max_steps=30, map_steps=30, map_seeds=2, noops=3, **options
        )
        return exploring.explore_game(config, stages), stages.names

    whole, names = explored("whole")
    shards = [explored("out", shard=shard)[1] for shard in ("1/2", "2/2")]
    joined, left = explored("out")
    assert joined == whole
    assert sorted(sum(shards, left)) == sorted(names)
    assert len(shards[0]) - len(shards[1]) in (0, 1)
    assert set(left) <= {name for name in names if name.startswith("constant ")}
    assert len(left) < len(names) / 2  # a second round of constant actions depends on the first
