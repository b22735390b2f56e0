"""acvp control as a user meets it: files, tables, resume; and mistakes of control, exploration and learning."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from acvp.agents.agent import Agent, AgentAbout, NetworkConfig, ValueNetwork
from acvp.agents.play import play_episodes
from acvp.cli.main import main
from acvp.control.config import ControlConfig
from acvp.control.run import agent_fingerprint, control_table
from acvp.data.frames import GRAY_84, RGB
from acvp.data.store import EpisodeStore
from acvp.errors import UserError
from acvp.models import Predictor
from tests.control.measured import Stages, check_pictures, control_runs, load_agent, load_oracle, read
from tests.control.trail import TRAIL, HashAgent, TrailOracle
from tests.evaluation.runs import make_run
from tests.evaluation.test_commands import mistake


def control(tmp_path: Path, **options: Any) -> ControlConfig:
    usual: dict[str, Any] = {
        "predictors": (tmp_path / "oracle",),
        "agent": "hash",
        "out": tmp_path / "out",
        "episodes": 5,
        "horizons": (1, 4),
    }
    return ControlConfig(**(usual | options))


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
    learn = ["agent", "learn", "--env-id", "toy", "--run", str(tmp_path / "out")]
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
        ([*learn, "--budget", "0"], "--budget 0: at least 1"),
        ([*learn, "--rounds", "0"], "--rounds 0: at least 1"),
        ([*learn, "--recent", "2"], "--recent 2: a probability"),
        ([*learn, "--max-entropy", "0"], "--max-entropy 0: more than 0"),
        ([*learn, "--init", "nothing"], "no such folder"),
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
