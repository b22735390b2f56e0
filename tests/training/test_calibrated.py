"""`acvp train` ends with thresholds from held-out episodes; `acvp calibrate` stores them with a finished predictor."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

import pytest

from acvp.cli.main import main
from acvp.data.frames import RGB
from acvp.data.merge import split
from acvp.data.store import EpisodeStore
from acvp.loaded import load
from acvp.models.calibration import calibrate
from acvp.models.layers import Calibration
from tests.training.small import toy_store

TRAIN = (
    "--model", "mlp", "--predict-rewards", "--preset", "smoke", "--phases.0.steps", "3", "--phases.1.steps", "2",
    "--predictor.hidden", "[8, 8, 8, 8]",
)  # fmt: skip


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> EpisodeStore:
    return toy_store(tmp_path_factory.mktemp("data") / "toy", frames=900)


@pytest.fixture(scope="module")
def run(store: EpisodeStore, tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("runs") / "toy"
    assert main(["train", "--data", str(store.path), "--run", str(path), *TRAIN]) == 0
    return path


def test_training_chooses_thresholds_on_held_out_episodes(
    store: EpisodeStore, run: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    predictor, (_, held_out) = load(str(run)), split(store, test_fraction=0.1, seed=1)
    config: Any = predictor.config
    assert config.predict_lives
    assert predictor.calibration == calibrate(predictor, RGB, held_out, seed=1)
    assert predictor.calibration != Calibration()


def test_a_finished_predictor_gets_thresholds_and_keeps_its_weights(
    store: EpisodeStore, run: Path, tmp_path: Path
) -> None:
    """Once as part of its run, once alone: the same episodes are held out."""
    trained, files = load(str(run)).calibration, ("model.safetensors", "config.json")
    for name, source in (("run", run), ("alone", run / "predictor")):
        folder = tmp_path / name
        shutil.copytree(source, folder)
        own = folder / "predictor" if name == "run" else folder
        before = [(own / file).read_bytes() for file in files]
        assert main(["calibrate", "--predictor", str(folder), "--data", str(store.path), "--steps", "7"]) == 0
        assert load(str(folder)).calibration not in (trained, Calibration())
        assert main(["calibrate", "--predictor", str(folder), "--data", str(store.path)]) == 0
        assert [(own / file).read_bytes() for file in files] == before
    out = tmp_path / "out"
    assert main(["calibrate", "--predictor", str(folder), "--data", str(store.path), "--out", str(out)]) == 0
    assert load(str(out)).calibration == trained


def test_test_data_and_other_splits_are_refused(
    store: EpisodeStore, run: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    other, alone = toy_store(tmp_path / "other", frames=400, seed=2), run / "predictor"
    shutil.copytree(alone, tmp_path / "alone")
    for predictor in (run, tmp_path / "alone"):
        assert main(["calibrate", "--predictor", str(predictor), "--data", str(other.path)]) == 2
        assert "was not trained on" in capsys.readouterr().err
    again = ["calibrate", "--predictor", str(tmp_path / "alone"), "--data", str(store.path), "--test-fraction", "0.5"]
    assert main(again) == 2
    assert "pass the --seed and --test-fraction" in capsys.readouterr().err


def test_a_predictor_of_frames_only_has_nothing_to_calibrate(
    store: EpisodeStore, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    words = [word for word in TRAIN if word != "--predict-rewards"]
    assert main(["train", "--data", str(store.path), "--run", str(tmp_path / "run"), *words]) == 0
    assert load(str(tmp_path / "run")).calibration == Calibration()
    capsys.readouterr()
    assert main(["calibrate", "--predictor", str(tmp_path / "run"), "--data", str(store.path)]) == 2
    assert "predicts frames only" in capsys.readouterr().err
