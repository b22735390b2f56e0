"""Training that starts from another predictor: its network and weights, on another dataset."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch

from acvp.cli.main import main
from acvp.cli.train import make_training, options_of_file
from acvp.data.merge import split_positions
from acvp.data.store import EpisodeStore
from acvp.errors import UserError
from acvp.loaded import load
from acvp.models import fingerprint
from acvp.runs import RunFolder
from acvp.training.config import TrainConfig, TrainingConfig
from tests.training.small import Trace, run, small_config, toy_store

STOPPED = 128 + 15


@pytest.fixture(scope="module")
def first(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A finished run on one dataset."""
    folder = tmp_path_factory.mktemp("first")
    assert run(toy_store(folder / "data", seed=1), small_config(), folder / "run").exit_code == 0
    return folder / "run"


@pytest.fixture(scope="module")
def second(tmp_path_factory: pytest.TempPathFactory) -> EpisodeStore:
    """Another dataset of the same game."""
    return toy_store(tmp_path_factory.mktemp("second") / "data", seed=2)


def started_from(first: Path, store: EpisodeStore, **options: Any) -> TrainingConfig:
    """The config of a training from the run, with the small phases."""
    config = TrainConfig(data=(store.path,), preset="smoke", **({"init": str(first), "view": "rgb"} | options))
    return replace(make_training(config, store), phases=small_config().phases, windows=4, horizons=(1, 5))


def test_network_weights_and_mean_image_are_those_of_the_predictor(
    first: Path, second: EpisodeStore, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    initial, started = load(first), dict[str, torch.Tensor]()

    def keep(trainer: Any, advise: bool) -> None:
        started.update({name: value.clone() for name, value in trainer.predictor.state_dict().items()})
        raise KeyboardInterrupt

    monkeypatch.setattr("acvp.training.run._fit", keep)
    training = started_from(first, second)
    with pytest.raises(KeyboardInterrupt):
        run(second, training, tmp_path / "run", init=str(first))
    assert training.predictor == initial.config
    assert training.init == fingerprint(initial)
    assert started.keys() == initial.state_dict().keys()
    assert all(torch.equal(value, started[name]) for name, value in initial.state_dict().items())


def test_the_run_resumes_to_the_bit_and_from_no_other_predictor(
    first: Path, second: EpisodeStore, tmp_path: Path, trace: Trace
) -> None:
    training = started_from(first, second)
    assert run(second, training, tmp_path / "whole", init=str(first), save_minutes=99).exit_code == 0
    whole, trace.updates = trace.updates, []
    trace.stop_after = 6
    assert run(second, training, tmp_path / "parts", init=str(first), save_minutes=99).exit_code == STOPPED
    trace.stop_after = 0
    assert run(second, training, tmp_path / "parts", init=str(first), save_minutes=99).exit_code == 0
    assert trace.updates == whole
    card = load(tmp_path / "whole").about
    assert card is not None
    assert card.compute.endswith("started from run")
    with pytest.raises(UserError, match="init"):
        run(second, small_config(), tmp_path / "whole")


def test_episodes_that_were_trained_on_are_not_held_out(first: Path, tmp_path: Path) -> None:
    store = EpisodeStore(first.parent / "data")
    held_out = split_positions(store, test_fraction=0.1, seed=1)[1]
    other = next(seed for seed in range(2, 99) if split_positions(store, test_fraction=0.1, seed=seed)[1] != held_out)
    training = started_from(first, store, seed=other)
    with pytest.raises(UserError, match=r"was trained on \d+ episodes? that would be held out; use its --seed"):
        run(store, training, tmp_path / "other", init=str(first), seed=other)
    assert run(store, started_from(first, store), tmp_path / "same", init=str(first)).exit_code == 0


def test_a_run_remembers_what_its_predictor_was_trained_on(first: Path, second: EpisodeStore, tmp_path: Path) -> None:
    assert run(second, started_from(first, second), tmp_path / "run", init=str(first)).exit_code == 0
    noted = [set(RunFolder(path).read_config()["openings"]) for path in (first, tmp_path / "run")]
    assert noted[0] < noted[1]


def test_kind_and_view_come_from_the_predictor(first: Path) -> None:
    assert options_of_file(["--init", str(first)]) == ["--model", "feedforward", "--view", "rgb"]
    assert options_of_file(["--model", "mlp"]) == []


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--model", "mlp"], "is of kind feedforward: use --model feedforward"),
        (["--view", "gray84"], "sees frames as rgb: use --view rgb"),
        (["--init", "nowhere"], "nowhere"),
        (["--predictor.hidden", "16"], "its weights do not fit the changed network"),
    ],
)
def test_what_does_not_fit_is_refused_in_one_line(
    first: Path,
    second: EpisodeStore,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
    options: list[str],
    message: str,
) -> None:
    given = ["--data", str(second.path), "--run", str(tmp_path / "r"), "--preset", "smoke", "--device", "cpu"]
    code = main(["train", *given, *(["--init", str(first)] if "--init" not in options else []), *options])
    assert code == 2
    assert message in " ".join(capsys.readouterr().err.split())


def test_another_game_is_refused(first: Path, tmp_path: Path) -> None:
    other = toy_store(tmp_path / "data")
    info = replace(other.info, env_id="acvp/Other-v0")
    other.__dict__["info"] = info
    with pytest.raises(UserError, match=r"predicts acvp-tests/SmallToy-v0, not acvp/Other-v0"):
        started_from(first, other)
