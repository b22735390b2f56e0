"""acvp explore as a user meets it: files, tables, resume."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from acvp.cli.main import main
from acvp.control import explore as exploring
from acvp.control.config import ExploreConfig
from acvp.control.explore import explore, explore_table, first_rewards
from acvp.control.kernel import covered, default_cell, visits
from acvp.data.frames import GRAY_84
from acvp.data.store import EpisodeStore
from acvp.models import Predictor
from tests.control.measured import Stages, check_pictures, explore_game, load_oracle, read
from tests.control.trail import TRAIL, TrailOracle
from tests.evaluation.runs import make_run

EXPLORE = ["--seeds", "2", "--max-steps", "30", "--map-steps", "30", "--map-seeds", "2", "--noops", "3"]


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
