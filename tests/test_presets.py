"""Complete recipes for every model, view and frame size."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any, get_args

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from acvp.data.store import StoreInfo
from acvp.errors import UserError
from acvp.models import build_predictor
from acvp.models.encoder_decoder import derived_stack, stack_sizes
from acvp.pixel import statistics
from acvp.pixel.statistics import Motions
from acvp.training import presets
from acvp.training.config import ModelName, PresetName, TrainConfig
from acvp.training.presets import PRESETS, make_config
from tests.networks import network

MODELS, NAMES = [model for model in get_args(ModelName) if model != "objects"], get_args(PresetName)
"""Objects need a dataset with frames: tests/pixel/test_object_predictor.py."""


def info(shape: tuple[int, int, int] = (210, 160, 3), actions: int = 3) -> StoreInfo:
    return StoreInfo(env_id="x", frame_shape=shape, action_meanings=("A",) * actions, policy="p")


class OnlyKnown:
    """What a preset asks of a dataset."""

    path = Path("x")
    palette = np.array([[0, 0, 0], [200, 10, 10], [10, 200, 10]], np.uint8)

    def __init__(self, shape: tuple[int, int, int]) -> None:
        self.info = info(shape)

    def __len__(self) -> int:
        return 2

    def __getitem__(self, number: int) -> SimpleNamespace:
        return SimpleNamespace(lives=np.array([0, 0]))


def training(shape: tuple[int, int, int] = (210, 160, 3), **options: Any) -> Any:
    return make_config(TrainConfig(data=(Path("x"),), **options), OnlyKnown(shape))  # type: ignore[arg-type]


@pytest.fixture(autouse=True)
def no_search_for_motions(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(presets, "split", lambda store, **options: (store, store))
    monkeypatch.setattr(
        statistics, "motions_of", lambda store, cell, **options: Motions(((0, 0), (cell - 1, 0)), ((0, 1),))
    )
    monkeypatch.setattr(statistics, "palette_cycle_of", lambda store: {})


def parameters(config: Any) -> int:
    with torch.device("meta"):
        return sum(weight.numel() for weight in build_predictor(config).parameters())


def test_every_preset_is_offered() -> None:
    assert PRESETS.keys() == set(NAMES)


@pytest.mark.parametrize("model", MODELS)
@pytest.mark.parametrize("preset", NAMES)
@pytest.mark.parametrize("view", ["rgb", "gray84"])
@pytest.mark.parametrize("shape", [(210, 160, 3), (24, 24, 3), (250, 160, 3)])
def test_every_combination_makes_a_network(model: str, preset: str, view: str, shape: tuple[int, int, int]) -> None:
    if model == "pixel" and preset in ("paper", "authors"):
        with pytest.raises(UserError, match="not the paper's"):
            training(shape, model=model, preset=preset, view=view)
        return
    made = training(shape, model=model, preset=preset, view=view, predict_rewards=True)
    assert made.name == preset
    assert made.predictor.kind == model
    assert made.predictor.predict_rewards
    assert tuple(made.predictor.frame) == ((84, 84, 1) if view == "gray84" else shape)
    assert parameters(made.predictor) > 0


def test_the_papers_preset_is_the_papers() -> None:
    made = training(model="recurrent", preset="paper")
    assert parameters(made.predictor) == 90_740_547
    assert made.optimizer.name == "graves-rmsprop"
    assert [phase.decay for phase in made.phases] == [0.9] * 3
    assert parameters(training(model="feedforward", preset="paper").predictor) == 57_214_787


@pytest.mark.parametrize("preset", ["paper", "authors"])
def test_gray_frames_have_one_phase_of_1_step_prediction(preset: str) -> None:
    """Appendix B: the 1-step objective, learning rate 1e-4, batches of 32."""
    (phase,) = training(model="feedforward", preset=preset, view="gray84").phases
    assert (phase.predict, phase.lr, phase.batch_size, phase.steps) == (1, 1e-4, 32, 1_500_000)
    assert len(training(model="feedforward", preset=preset, view="rgb").phases) == 3


def test_the_authors_preset_is_adam_with_double_bias_rate() -> None:
    made = training(preset="authors")
    assert (made.optimizer.name, made.optimizer.bias_rate) == ("adam", 2.0)
    assert [phase.decay for phase in made.phases] == [1.0] * 3


def test_the_cpu_preset_takes_half_an_hour_on_gray_frames() -> None:
    made = training(preset="cpu")
    assert made.view == "gray84"
    assert sum(phase.minutes for phase in made.phases) == 30
    assert training((24, 24, 3), preset="cpu").view == "rgb"
    assert sum(phase.minutes for phase in training(preset="cpu", minutes=6.0).phases) == pytest.approx(6)


def test_the_pixel_preset_has_the_motions_of_the_store_and_one_phase_of_real_frames() -> None:
    made = training(model="pixel", preset="cpu")
    assert (made.predictor.motions, made.predictor.older_motions) == (((0, 0), (4, 0)), ((0, 1),))
    (phase,) = made.phases
    assert (phase.minutes, phase.teacher_forcing) == (30, True)


def test_the_recurrent_first_phase_sees_20_real_frames() -> None:
    for preset in NAMES:
        first = training(model="recurrent", preset=preset).phases[0]
        assert (first.context + first.predict, first.context, first.teacher_forcing) == (21, 11, True)


@given(st.tuples(st.integers(1, 300), st.integers(1, 300)))
@settings(max_examples=150)
def test_any_frame_size_has_a_network(size: tuple[int, int]) -> None:
    kernels, pads, strides = derived_stack(size)
    after = stack_sizes(size, kernels, pads, strides)[-1]  # refuses a stack without an exact mirror
    assert min(after) >= 1
    assert len(kernels) == 4 or min(after) <= 12


def test_a_derived_network_predicts_frames_of_its_size() -> None:
    config = network("feedforward", (37, 50, 3), actions=2, width=4, hidden=8, factors=8)
    frames = torch.zeros(1, 5, 3, 37, 50)
    predicted = build_predictor(config)(frames, torch.zeros(1, 4, dtype=torch.long), predict=1)
    assert predicted.frames.shape == (1, 1, 3, 37, 50)


def test_colors_are_those_of_the_training_part(monkeypatch: pytest.MonkeyPatch) -> None:
    """What a predictor may name must not come from the episodes it is tested on."""

    class Part(OnlyKnown):
        palette = OnlyKnown.palette[:2]

    monkeypatch.setattr(presets, "split", lambda store, **options: (Part((24, 24, 3)), store))
    assert training((24, 24, 3), model="pixel", preset="cpu").predictor.palette == ((0, 0, 0), (200, 10, 10))


def test_colors_that_turn_into_others_are_numbers_of_the_palette(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(statistics, "palette_cycle_of", lambda store: {(200, 10, 10): (10, 200, 10)})
    assert training(model="pixel", preset="cpu").predictor.palette_cycle == (0, 2, 2)
    assert training(model="pixel", preset="cpu", view="gray84").predictor.palette_cycle == ()


@pytest.mark.parametrize("model", ["feedforward", "recurrent", "no-action", "mlp"])
@pytest.mark.parametrize("view", ["rgb", "gray84"])
def test_the_gpu_preset_sees_as_many_windows_as_the_authors_in_larger_batches(model: str, view: str) -> None:
    gpu, authors = (training(model=model, preset=preset, view=view) for preset in ("gpu", "authors"))
    assert len(gpu.phases) == len(authors.phases)
    for large, small in zip(gpu.phases, authors.phases, strict=True):
        assert large.batch_size == 4 * small.batch_size
        assert large.batch_size * large.steps == small.batch_size * small.steps
        assert large.lr == 2 * small.lr
        assert large.predict == small.predict
    assert gpu.predictor == authors.predictor


def test_the_gpu_presets_of_pixel_predictors_can_be_shared_by_several_devices() -> None:
    (phase,) = training(model="pixel", preset="gpu").phases
    (small,) = training(model="pixel", preset="cpu").phases
    assert (small.batch_size, phase.batch_size) == (2, 16)
    assert training(model="pixel", preset="gpu").predictor == training(model="pixel", preset="cpu").predictor
