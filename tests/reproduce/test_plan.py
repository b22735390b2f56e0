"""The plan of a reproduction: what it runs, in which order, and that every command is one that acvp understands."""

from __future__ import annotations

from itertools import pairwise
from pathlib import Path
from typing import get_args

import pytest

from acvp.cli.main import SUMMARIES, load_verb
from acvp.cli.train import make_training
from acvp.data.store import EpisodeStore
from acvp.errors import UserError
from acvp.reproduce.config import PARTS, ReproduceConfig, ScaleName
from acvp.reproduce.plan import Plan, Step, make_plan
from acvp.reproduce.run import command_lines
from acvp.reproduce.scales import SCALES
from tests.data.answers import answer_store

SCALE_NAMES = get_args(ScaleName)


def plan_of(scale: ScaleName, *, only: tuple[str, ...] = (), games: tuple[str, ...] = ("freeway", "qbert")) -> Plan:
    return make_plan(ReproduceConfig(out=Path("out"), scale=scale, games=games, only=only))


def parsed(step: Step) -> tuple[str, object]:
    """Return the verb of a step and its options."""
    words = 2 if " ".join(step.command[:2]) in SUMMARIES else 1
    name = " ".join(step.command[:words])
    return name, load_verb(name).parse(name, step.command[words:])


@pytest.mark.parametrize("scale", SCALE_NAMES)
def test_every_command_is_understood(scale: ScaleName) -> None:
    plan = plan_of(scale, games=("freeway", "toy"))
    for step in plan.steps:
        parsed(step)
    assert len(plan.steps) > 40


@pytest.mark.parametrize("scale", SCALE_NAMES)
def test_every_knob_of_training_exists(scale: ScaleName, tmp_path: Path) -> None:
    store: EpisodeStore = answer_store(tmp_path / "store", [30] * 6)
    trained = [step for step in plan_of(scale, games=("freeway",)).steps if step.command[0] == "train"]
    assert len(trained) == len(SCALES[scale].training) + len(SCALES[scale].direct)
    for step in trained:
        _, options = parsed(step)
        training = make_training(options, store)  # type: ignore[arg-type]
        direct = step.name.rpartition("-")[2]
        assert training.phases[0].predict == (int(direct) if direct.isdigit() else training.phases[0].predict)


@pytest.mark.parametrize("scale", SCALE_NAMES)
def test_a_step_comes_after_all_that_it_needs(scale: ScaleName) -> None:
    plan = plan_of(scale)
    before: set[str] = set()
    for step in plan.steps:
        assert {*step.inputs, *step.after} <= before
        assert step.name not in before
        if step.name == "claims":
            assert set(step.after) == before  # it judges the results of all
        before.add(step.name)
    for number, group in enumerate(plan.levels()):
        names = {step.name for step in group}
        assert not any(names & {*step.inputs, *step.after} for step in group), number
    assert [step for group in plan.levels() for step in group] != []
    assert sum(len(group) for group in plan.levels()) == len(plan.steps)


def test_a_step_names_every_folder_of_the_plan_that_its_command_reads() -> None:
    plan = plan_of("gpu", games=("freeway", "toy"))
    names = {step.name for step in plan.steps}
    for step in plan.steps:
        read = {word.removeprefix("agent:") for word in step.command} & names - {step.name}
        assert read <= {*step.inputs, *step.after}, step.name


def test_training_and_test_data_are_separate_recordings_of_the_agent() -> None:
    steps = {step.name: step.command for step in plan_of("cpu").steps}
    train, test = (dict(pairwise(steps[f"qbert/{name}"])) for name in ("train", "test"))
    assert train["--policy"] == test["--policy"] == "agent:qbert"
    assert train["--epsilon"] == test["--epsilon"] == "0.3"
    assert train["--seed"] != test["--seed"]
    assert dict(pairwise(steps["qbert/evaluation"]))["--trained-on"] == "qbert/train"


def test_agents_are_trained_where_none_comes_with_acvp() -> None:
    names = {step.name for step in plan_of("smoke", games=("toy", "freeway")).steps}
    assert "toy/agent" in names
    assert "freeway/agent" not in names
    assert "freeway/agent" in {step.name for step in plan_of("paper").steps}


def test_only_selects_a_part_and_what_it_needs() -> None:
    names = [step.name for step in plan_of("cpu", only=("figure5",), games=("qbert",)).steps]
    networks = [f"qbert/{name}" for name in ("feedforward", "recurrent", "no-action", "mlp")]
    assert names == ["qbert/train", *networks, "qbert/control", "claims"]
    assert plan_of("cpu", only=("table2", "figure8")) == plan_of("cpu", only=("table1,figure7",))
    both = plan_of("cpu", only=("figure5,dqn",), games=("qbert",))
    assert {step.name for step in both.steps} == {*names, "qbert/agent-score"}


def test_every_figure_of_the_results_can_be_named() -> None:
    for part in (*(f"figure{number}" for number in range(2, 9)), "table1", "table2"):
        assert plan_of("smoke", only=(part,), games=("freeway",)).steps


def test_every_part_has_steps_at_every_scale() -> None:
    for scale in SCALE_NAMES:
        assert {step.part for step in plan_of(scale, games=("freeway",)).steps} == {*PARTS, "claims"}


def test_the_same_options_give_the_same_plan() -> None:
    assert plan_of("paper") == plan_of("paper")
    assert plan_of("cpu").minutes > 60 * plan_of("smoke").minutes
    assert plan_of("cpu", games=("freeway", "qbert")).steps != ()


def test_shell_lines_name_the_folder_and_the_groups() -> None:
    plan = plan_of("smoke", only=("figure3",), games=("toy",))
    lines = list(command_lines(plan, Path("some where")))
    assert lines[0] == "mkdir -p 'some where'"
    assert lines[1] == "# group 1: these can run at once"
    commands = [line for line in lines if line.startswith("cd ")]
    assert len(commands) == len(plan.steps)
    assert commands[0].startswith("cd 'some where' && OMP_NUM_THREADS=1 acvp agent train --env-id toy ")
    assert "acvp report " in commands[-1]


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"games": ("freewey",)}, "unknown environment 'freewey'"),
        ({"games": ("freeway", "ALE/Freeway-v5")}, "freeway comes twice"),
        ({"games": ("toy,acvp/Toy-v0",)}, "toy comes twice"),
        ({"only": ("figure9",)}, "--only figure9: no such part; choose of data, dqn"),
        ({"jobs": 0}, "--jobs 0: at least 1"),
        ({"seed": -1}, "--seed -1"),
    ],
)
def test_bad_options_are_refused(options: dict[str, object], message: str) -> None:
    with pytest.raises(UserError, match=message):
        ReproduceConfig(out=Path("out"), **options)  # type: ignore[arg-type]


def test_a_part_that_no_game_has_is_refused() -> None:
    with pytest.raises(UserError, match="--only curriculum: at scale cpu these games have no such step: qbert"):
        plan_of("cpu", only=("curriculum",), games=("qbert",))
