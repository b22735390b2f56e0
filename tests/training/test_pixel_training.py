"""The pixel-exact predictor learns the toy game: exact frames, and the reward."""

from __future__ import annotations

import io
import json
import os
import signal
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import safetensors.torch
import torch

import acvp
from acvp.data.collect import CollectConfig, collect
from acvp.data.store import EpisodeStore
from acvp.models import build_predictor
from acvp.pixel import PixelConfig, PixelPredictor
from acvp.pixel.palette import find_mask, packed
from acvp.training.config import TrainConfig, TrainingConfig
from acvp.training.data import TrainingData
from acvp.training.presets import make_config
from acvp.training.trainer import Trainer
from acvp.training.validation import HeldOut
from tests.training.small import SMALL_TOY, run


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> EpisodeStore:
    torch.set_num_threads(1)
    path = tmp_path_factory.mktemp("pixel") / "store"
    return collect(CollectConfig(env_id=SMALL_TOY, out=path, frames=8000, seed=1))


def training(store: EpisodeStore, steps: int, fed_back: int) -> TrainingConfig:
    """The smoke training with so many updates, and so many more in which predictions are fed back."""
    made = make_config(TrainConfig(data=(store.path,), model="pixel", preset="smoke"), store)
    assert isinstance(made.predictor, PixelConfig)
    (phase,) = made.phases
    phases = (replace(phase, steps=steps), replace(phase, steps=fed_back, predict=8, teacher_forcing=False, lr=1e-3))
    return replace(made, phases=phases, evaluate_every=10_000)


@pytest.mark.slow
def test_it_learns_exact_frames(store: EpisodeStore, tmp_path: Path) -> None:
    assert run(store, training(store, 900, 50), tmp_path / "run", save_minutes=99).exit_code == 0
    lines = (tmp_path / "run" / "metrics.jsonl").read_text().splitlines()
    last = [line for line in map(json.loads, lines) if line["kind"] == "held-out"][-1]
    assert last["wrong"]["1"] < 0.4 * last["copy_wrong"]["1"]
    predictor = acvp.load(tmp_path / "run")
    played = collect(CollectConfig(env_id=SMALL_TOY, out=tmp_path / "test", frames=600, seed=7))
    wrong = copied = frames = 0
    for episode in played:
        pixels = episode.frames()
        for at in range(8, len(episode) - 10, 10):
            future = acvp.rollout(predictor, pixels[at - 8 : at], episode.actions[at - 1 : at + 2])
            truth = pixels[at : at + 3]
            wrong += int((future != truth).any(-1).sum())
            copied += int((pixels[at - 1] != truth).any(-1).sum())
            frames += len(truth)
    assert frames > 100
    assert wrong < 0.4 * copied


def test_it_is_compared_with_copying_by_wrong_pixels(store: EpisodeStore, tmp_path: Path) -> None:
    text = io.StringIO()
    assert run(store, training(store, 2, 2), tmp_path / "run", text, save_minutes=99).exit_code == 0
    said = [line for line in text.getvalue().splitlines() if line.startswith(("1-step: ", "10-step: "))]
    assert len(said) == 2
    assert all("copying the last frame (wrong pixels " in line for line in said)
    data = TrainingData(store, training(store, 2, 2))
    windows, horizons = data.test_windows()
    held_out, predictor = HeldOut(windows.batch(np.arange(0, 40, 5)), horizons), acvp.load(tmp_path / "run")
    report = held_out.measure(predictor)
    for horizon, errors in held_out.errors_by_window(predictor).items():
        assert errors.mean(0).tolist() == pytest.approx([report.wrong[horizon], report.copy_wrong[horizon]])


@pytest.mark.slow
def test_the_same_seed_gives_the_same_weights(store: EpisodeStore, tmp_path: Path) -> None:
    weights = []
    for name in ("a", "b"):
        assert run(store, training(store, 4, 2), tmp_path / name, save_minutes=99).exit_code == 0
        weights.append(safetensors.torch.load_file(tmp_path / name / "predictor" / "model.safetensors"))
    assert all(torch.equal(weights[0][name], weights[1][name]) for name in weights[0])


@pytest.mark.slow
def test_it_knows_where_colors_can_be(store: EpisodeStore, tmp_path: Path) -> None:
    made = training(store, 2, 1)
    data = TrainingData(store, made)
    assert isinstance(made.predictor, PixelConfig)
    found = find_mask(data.train, data.test, made.predictor.palette)
    assert found.reach == 0
    assert not found.mask.all()
    assert run(store, made, tmp_path / "run", save_minutes=99).exit_code == 0
    predictor = acvp.load(tmp_path / "run")
    assert isinstance(predictor, PixelPredictor)
    assert predictor.palette_mask is not None
    assert torch.equal(predictor.palette_mask, packed(found.mask, made.predictor))
    free = replace(made, predictor=replace(made.predictor, palette_mask=False))
    assert run(store, free, tmp_path / "free", save_minutes=99).exit_code == 0
    predictor = acvp.load(tmp_path / "free")
    assert isinstance(predictor, PixelPredictor)
    assert predictor.palette_mask is None


@pytest.mark.slow
def test_a_stopped_run_resumes_with_the_same_palette_mask(
    store: EpisodeStore, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    made = training(store, 3, 1)
    assert run(store, made, tmp_path / "whole", save_minutes=99).exit_code == 0
    update = Trainer.update

    def stop_after_two(trainer: Trainer, *given: Any) -> Any:
        if trainer.state.step == 1:
            os.kill(os.getpid(), signal.SIGTERM)
        return update(trainer, *given)

    monkeypatch.setattr(Trainer, "update", stop_after_two)
    assert run(store, made, tmp_path / "stopped", save_minutes=99).exit_code == 128 + signal.SIGTERM
    monkeypatch.undo()
    monkeypatch.setattr(PixelPredictor, "calibrate", None)  # it is not looked up again
    assert run(store, made, tmp_path / "stopped", save_minutes=99).exit_code == 0
    whole, stopped = (
        safetensors.torch.load_file(tmp_path / name / "predictor" / "model.safetensors")
        for name in ("whole", "stopped")
    )
    assert "palette_mask" in whole
    assert all(torch.equal(whole[name], stopped[name]) for name in whole)


@pytest.mark.slow
def test_gray_frames_have_any_level_anywhere(store: EpisodeStore) -> None:
    gray = make_config(TrainConfig(data=(store.path,), model="pixel", preset="smoke", view="gray84"), store)
    predictor = build_predictor(gray.predictor)
    lines: list[str] = []
    predictor.calibrate(TrainingData(store, gray).as_split(), lines.append, lambda *done: None)
    assert isinstance(predictor, PixelPredictor)
    assert predictor.palette_mask is None
    assert lines[-1] == "palette mask: none, any pixel may have any color"
