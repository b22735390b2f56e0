"""The pixel-exact predictor learns the toy game: exact frames, and the reward."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest
import safetensors.torch
import torch

import acvp
from acvp.data.collect import CollectConfig, collect
from acvp.data.store import EpisodeStore
from acvp.models import PixelConfig
from acvp.presets import make_recipe
from acvp.training.config import TrainConfig
from acvp.training.recipe import Recipe
from tests.training.small import SMALL_TOY, run


@pytest.fixture(scope="module")
def store(tmp_path_factory: pytest.TempPathFactory) -> EpisodeStore:
    torch.set_num_threads(1)
    path = tmp_path_factory.mktemp("pixel") / "store"
    return collect(CollectConfig(env_id=SMALL_TOY, out=path, frames=8000, seed=1))


def recipe(store: EpisodeStore, steps: int, fed_back: int) -> Recipe:
    """The smoke recipe with so many updates, and so many more in which predictions are fed back."""
    made = make_recipe(TrainConfig(data=store.path, model="pixel", preset="smoke"), store)
    assert isinstance(made.predictor, PixelConfig)
    (phase,) = made.phases
    phases = (replace(phase, steps=steps), replace(phase, steps=fed_back, predict=8, feed_back=True, lr=1e-3))
    return replace(made, phases=phases, evaluate_every=10_000)


def test_it_learns_exact_frames(store: EpisodeStore, tmp_path: Path) -> None:
    assert run(store, recipe(store, 600, 50), tmp_path / "run", save_minutes=99).exit_code == 0
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


def test_the_same_seed_gives_the_same_weights(store: EpisodeStore, tmp_path: Path) -> None:
    weights = []
    for name in ("a", "b"):
        assert run(store, recipe(store, 4, 2), tmp_path / name, save_minutes=99).exit_code == 0
        weights.append(safetensors.torch.load_file(tmp_path / name / "predictor" / "model.safetensors"))
    assert all(torch.equal(weights[0][name], weights[1][name]) for name in weights[0])
