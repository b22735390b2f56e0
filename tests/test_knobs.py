"""Every field of a training or DQN config can be set by an option, and a run's config.json can be used again."""

from __future__ import annotations

import json
import re
from dataclasses import replace
from pathlib import Path
from typing import Any, cast

import pytest

from acvp.agents import presets as agent_presets
from acvp.cli import agent, train
from acvp.cli.main import knobs_of, load_verb, main, turn
from acvp.console import field_texts
from acvp.data.store import EpisodeStore
from acvp.envs.atari import atari_id
from acvp.errors import UserError
from acvp.loaded import load, packaged
from acvp.models import kind_of
from acvp.runs import RunFolder, clock
from acvp.training.config import TrainingConfig
from tests.training.small import toy_store

ROW = re.compile(r"^\| `([\w-]+)` \| `acvp (collect [^`]*)` \| `acvp (train [^`]*)` \|$", re.MULTILINE)
COMMANDS = {
    name: commands
    for name, *commands in ROW.findall((Path(__file__).parents[1] / "docs" / "pixel-predictor.md").read_text())
}
"""The commands that made each packaged predictor, as the documentation gives them."""


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> EpisodeStore:
    return toy_store(tmp_path_factory.mktemp("knobs") / "store")


def made(store: EpisodeStore, *arguments: str) -> TrainingConfig:
    config = load_verb("train").parse("train", ["--data", str(store.path), "--preset", "smoke", *arguments])
    return train.make_training(config, store)


def test_any_field_can_be_set(store: EpisodeStore) -> None:
    usual = made(store)
    changed = made(
        store, "--phases.1.lr", "3e-5", "--phases.0.steps=none", "--phases.0.minutes", "2", "--predictor.hidden", "96",
        "--optimizer.name", "adamw", "--optimizer.weight-decay", "0.01", "--windows", "5", "--horizons", "1", "3",
    )  # fmt: skip
    first, second = usual.phases
    assert changed.phases == (replace(first, steps=None, minutes=2.0), replace(second, lr=3e-5))
    assert changed.predictor == replace(cast(Any, usual.predictor), hidden=96)
    assert (changed.optimizer.name, changed.optimizer.weight_decay) == ("adamw", 0.01)
    assert (changed.windows, changed.horizons) == (5, (1, 3))


def test_every_knob_takes_its_own_value(store: EpisodeStore) -> None:
    for config, fixed in ((made(store), train.FIXED), (agent_presets.cpu(), agent.FIXED)):
        for name, _, value, _ in knobs_of(config, tuple(fixed)):
            words = [json.dumps(item) for item in value] if isinstance(value, tuple) else [str(value)]
            assert turn(config, {name: words}, fixed) == config, name


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--phases.0.lrr", "1"], "--phases.0.lrr: no such option (did you mean --phases.0.lr?)"),
        (["--phases.7.lr", "1"], "--phases.7.lr: no such option"),
        (["--phases.0.lr", "fast"], "--phases.0.lr fast: expected a number"),
        (["--phases.0.lr", "nan"], "--phases.0.lr nan: expected a number"),
        (["--phases.0.lr"], "--phases.0.lr nothing: expected a number"),
        (["--phases.0.lr", "-1"], "--phases.0.lr -1: phase: lr is -1.0; it must be above 0"),
        (["--optimizer.name", "sgd"], "expected one of graves-rmsprop, adam"),
        (["--predictor.frame", "8"], "--predictor.frame: cannot be set, it comes from the dataset"),
        (["--sed", "3"], "--sed: no such option (did you mean --seed?)"),
        (["--config", "nowhere"], "nowhere"),
    ],
)
def test_mistakes_are_one_line(
    arguments: list[str], message: str, store: EpisodeStore, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["train", "--data", str(store.path), "--preset", "smoke", *arguments]) == 2
    printed = capsys.readouterr().err
    assert printed.count("\n") == 1
    assert message in printed


def test_a_config_file_gives_the_run_again_and_can_be_varied(store: EpisodeStore, tmp_path: Path) -> None:
    first = made(store, "--model", "no-action", "--seed", "7", "--phases.0.lr", "3e-5", "--predictor.hidden", "64")
    RunFolder(tmp_path).write_config({"training": first.to_dict()})
    for path in (tmp_path, tmp_path / "config.json"):
        config = load_verb("train").parse("train", ["--data", str(store.path), "--config", str(path)])
        assert train.make_training(config, store) == first
    options = ["--data", str(store.path), "--config", str(tmp_path), "--seed", "8", "--phases.0.lr", "1e-5"]
    varied = train.make_training(load_verb("train").parse("train", options), store)
    phases = (replace(first.phases[0], lr=1e-5), *first.phases[1:])
    assert varied == replace(first, seed=8, phases=phases)


def test_an_agents_config_file_gives_the_run_again(tmp_path: Path) -> None:
    dqn = turn(agent_presets.smoke(), {"lr": ["3e-4"], "network.hidden": ["32"]}, {})
    stored = {"env_id": "acvp/Toy-v0", "seed": 5, "max_steps": 40, "emulator": "own", "dqn": dqn.to_dict()}
    RunFolder(tmp_path).write_config(stored)
    config = load_verb("agent train").parse("agent train", ["--config", str(tmp_path), "--max-steps", "50"])
    assert (config.env_id, config.seed, config.max_steps, config.preset) == ("acvp/Toy-v0", 5, 50, "smoke")
    assert agent_presets.config_from_dict(RunFolder(tmp_path).read_config()["dqn"]) == dqn


def test_help_all_prints_the_tree(store: EpisodeStore, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["train", "--data", str(store.path), "--preset", "smoke", "--help-all"]) == 0
    text = capsys.readouterr().out
    for words in ("--phases.0.lr", "0.001", "--optimizer.name", "--predictor.hidden", "--evaluate-every", "--horizons"):
        assert words in text
    assert "--predictor.frame" not in text
    assert "--predictor.action-range" not in text  # it comes from the dataset
    assert "(a whole number)\n      Updates of a phase between held-out evaluations" in text


def test_the_texts_of_fields_are_those_below_them() -> None:
    class Size:
        size: int
        """Pixels
        of a side."""

    class Rate(Size):
        rate: float
        """Steps."""
        other: int

    assert field_texts(Rate) == {"size": "Pixels of a side.", "rate": "Steps."}


def test_every_knob_says_what_it_means(store: EpisodeStore) -> None:
    models = [made(store, "--model", model) for model in ("recurrent", "mlp", "pixel", "objects")]
    for config in (*models, agent_presets.cpu()):
        assert [name for name, _, _, kind in knobs_of(config) if name.rpartition(".")[2] not in field_texts(kind)] == []


def test_the_command_that_continues_a_run_has_the_knobs() -> None:
    config = load_verb("train").parse("train", ["--data", "d", "--phases.0.lr", "1e-4", "--horizons", "1", "3"])
    assert config.command(Path("r"), 5).endswith("--phases.0.lr 1e-4 --horizons 1 3")


def test_the_documentation_has_the_commands_of_all_packaged_predictors() -> None:
    assert COMMANDS.keys() == packaged().keys()


@pytest.mark.parametrize("game", COMMANDS)
def test_packaged_predictors_are_made_by_the_documented_commands(game: str, store: EpisodeStore) -> None:
    """But for what comes from the dataset."""
    predictor = load(game)
    assert predictor.about is not None
    lines = [re.sub(r"--init [\w/-]+", f"--model {kind_of(predictor.config)}", line) for line in COMMANDS[game]]
    assert ("started from" in predictor.about.compute) is (lines != list(COMMANDS[game]))
    collected, trained = (load_verb(line.split()[0]).parse(line.split()[0], line.split()[1:]) for line in lines)
    assert atari_id(collected.env_id) == predictor.about.env_id
    (frames,) = re.findall(r"^([\d,]+) frames", predictor.about.data)
    assert 0.85 < int(frames.replace(",", "")) / collected.frames < 0.95, "a tenth is held out"
    for share in collected.shares:
        assert share.policy in predictor.about.data
    assert trained.data == (collected.out,)
    counted = " of core time" if list(trained.knobs.get("clock", ())) == ["core"] else ""
    assert f"in {clock(60 * trained.minutes)}{counted} on" in predictor.about.compute
    assert f"preset {trained.preset}, seed {trained.seed}" in predictor.about.compute
    config: Any = train.make_training(replace(trained, data=(store.path,)), store).predictor
    saved: Any = predictor.config
    from_data = {name: getattr(saved, name) for name in train.FROM_DATASET if hasattr(saved, name)}
    assert replace(config, cell=8, **from_data) == saved


def test_unknown_fields_of_a_stored_config_are_refused(store: EpisodeStore, tmp_path: Path) -> None:
    stored = made(store).to_dict()
    stored["phases"][0]["speed"] = 3
    RunFolder(tmp_path).write_config({"training": stored})
    config = load_verb("train").parse("train", ["--data", str(store.path), "--config", str(tmp_path)])
    with pytest.raises(UserError, match="speed"):
        train.make_training(config, store)


OWN = """
from acvp.models.networks import FeedforwardConfig, FeedforwardPredictor
class MyConfig(FeedforwardConfig): pass
class Mine(FeedforwardPredictor, kind="mine-of-the-test"): config_class = MyConfig
"""


def test_a_predictor_of_ones_own_is_named_by_module_and_class(
    store: EpisodeStore, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "own_predictor.py").write_text(OWN)
    options = ["train", "--data", str(store.path), "--preset", "smoke", "--model", "own_predictor:Mine", "--help-all"]
    assert main(options) == 2
    assert "--import own_predictor" in capsys.readouterr().err
    assert main([*options, "--import", "own_predictor"]) == 0
    assert "--predictor.hidden" in capsys.readouterr().out
