"""Evidence: which result files count for a game, and the command and the compute that each one names."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from acvp.errors import UserError
from acvp.reproduce.claims import CLAIMS
from acvp.reproduce.conclusions import judge_claim
from acvp.reproduce.evidence import Evidence, Result, apart
from tests.reproduce.result_files import GAMES, control, evaluation, row, scored, write


def test_results_of_the_first_folder_count(tmp_path: Path) -> None:
    for name, error in (("one", 1.0), ("two", 7.0)):
        write(tmp_path / name, "evaluation.json", evaluation({"mlp": error, "mean-frame": 8.0}))
    for names, holds in (("one", "two"), False), (("two", "one"), True):
        found = judge_claim(CLAIMS[7], Evidence([tmp_path / name for name in names]))
        assert found.findings["freeway"].holds is holds


def test_a_folder_inside_another_counts_once(tmp_path: Path) -> None:
    write(tmp_path / "one", "evaluation.json", evaluation({"mlp": 1.0}))
    assert len(Evidence([tmp_path / "one", tmp_path]).results) == 1


def test_compute_is_that_of_the_models_in_the_same_result(tmp_path: Path) -> None:
    for name, minutes in (("one", 10), ("two", 30), (".", 90)):
        (tmp_path / name / "mlp").mkdir(parents=True)
        line = json.dumps({"step": 1200, "seconds": 60 * minutes})
        (tmp_path / name / "mlp" / "metrics.jsonl").write_text(f"{line}\n")
    for name in ("one", "two"):
        write(tmp_path / name, "evaluation.json", evaluation({"mlp": 1.0, "mean-frame": 8.0}))
    write(tmp_path / "two" / "control", "control.json", control({"feedforward": 50.0}, GAMES[0]))
    computes = [result.compute("mlp", "recurrent") for result in Evidence([tmp_path]).of("evaluation.json", "freeway")]
    assert computes == ["mlp 1,200 updates in 0:10:00", "mlp 1,200 updates in 0:30:00"]
    assert row(tmp_path, 16).findings["freeway"].compute == "feedforward (not recorded)"
    (tmp_path / "two" / "mlp").rename(tmp_path / "two" / "feedforward")  # the run is beside the result's folder
    assert row(tmp_path, 16).findings["freeway"].compute == "feedforward 1,200 updates in 0:30:00"
    described = evaluation({"mlp": 1.0}, models={"mlp": {"compute": "7 updates in 0:00:01 on some machine"}})
    assert Result(tmp_path / "evaluation.json", described).compute("mlp") == "mlp 7 updates in 0:00:01"


def test_commands_have_the_names_of_options_of_today() -> None:
    words = ["__main__.py", "control", "--depths", "1", "--max-decisions", "9", "depths"]
    result = Result(Path("x"), {"provenance": {"command": words}})
    assert result.command == "acvp control --horizons 1 --max-steps 9 depths"


@pytest.mark.parametrize(
    ("words", "command"),
    [
        ("acvp explore --run freeway --out x", "acvp explore --predictor freeway --out x"),
        ("acvp analyze --run runs/a --data b", "acvp analyze --predictor runs/a --data b"),
        ("acvp control --runs a b", "acvp control --predictors a b"),
        ("acvp agent compare --runs a b", "acvp agent compare --runs a b"),
        ("acvp agent train --store a --run b", "acvp agent train --data a --run b"),
        ("acvp agent evaluate --agent runs/agents/dreamer", "acvp agent evaluate --agent runs/agents/imagined"),
        ("pixel.py --games freeway", "python -m benchmarks.pixel --games freeway"),
    ],
)
def test_commands_have_no_alias_of_an_option_and_no_retired_word(words: str, command: str) -> None:
    assert Result(Path("x"), {"provenance": {"command": words.split()}}).command == command


def test_the_command_of_a_packaged_agent_can_be_run(tmp_path: Path) -> None:
    origin = {"command": "python -m benchmarks.agents, with options", "seed": 3}
    body = {"provenance": origin, "minutes": 45.0, "agents": {"freeway": {"agent": scored(30.0)}}}
    write(tmp_path, "agents.json", body)
    command = row(tmp_path, 30).findings["freeway"].command
    assert command == "python -m benchmarks.agents --games freeway --minutes 45 --seed 3"


def test_two_standard_errors_of_the_difference_set_scores_apart() -> None:
    one = {"mean": 10.0, "standard_error": 3.0}
    assert apart(one, {"mean": 0.1, "standard_error": 4.0}) == 0
    assert apart(one, {"mean": -0.1, "standard_error": 4.0}) == 1
    assert apart(one, {"mean": 20.1, "standard_error": 4.0}) == -1


def test_a_missing_folder_is_refused(tmp_path: Path) -> None:
    with pytest.raises(UserError, match="no such folder"):
        Evidence([tmp_path / "none"])


@pytest.mark.parametrize(
    ("env_id", "name"),
    [("ALE/Freeway-v5", "freeway"), ("acvp/Toy-v0", "toy"), ("other/Game-v1", "other-Game-v1"), ("", "")],
)
def test_results_are_found_by_the_name_of_their_game(env_id: str, name: str, tmp_path: Path) -> None:
    write(tmp_path, "evaluation.json", evaluation({"mlp": 1.0}, env_id))
    assert [result.game for result in Evidence([tmp_path]).results] == [name]
