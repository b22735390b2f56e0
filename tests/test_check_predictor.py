"""check_predictor: every predictor of acvp passes, and each broken promise is reported."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, ClassVar

import pytest
import torch
from torch import Tensor, nn

from acvp.models import (
    HistoryPredictor,
    Outcome,
    Predictor,
    PredictorConfig,
    State,
    TrainingBatch,
    build_predictor,
)
from acvp.testing import ContractError, check_predictor
from tests.models.small_predictors import EVERY, small_predictor
from tests.pixel.small_pixel import make


@pytest.mark.parametrize("name", EVERY)
def test_every_predictor_of_the_paper_keeps_the_contract(name: str) -> None:
    check_predictor(small_predictor(name))


def test_the_pixel_exact_predictor_keeps_the_contract() -> None:
    check_predictor(make())


def noisy(predictor: Predictor) -> None:
    real = predictor.predict
    predictor.predict = lambda state, action: (real(state, action)[0] + torch.rand(()), real(state, action)[1])  # type: ignore[method-assign]


def other_for_all(predictor: Predictor) -> None:
    real = predictor.predict_all
    predictor.predict_all = lambda state: real(state).flip(1)  # type: ignore[method-assign]


def in_place(predictor: Predictor) -> None:
    real = predictor.predict

    def predict(state: Any, action: Tensor) -> tuple[Tensor, State]:
        frame, after = real(state, action)
        state.frames.add_(1)
        return frame, after

    predictor.predict = predict  # type: ignore[method-assign]


def mixed_rows(predictor: Predictor) -> None:
    real = predictor.observe
    predictor.observe = lambda frames, actions=None: real(frames - frames.mean(0), actions)  # type: ignore[method-assign]


def infinite_loss(predictor: Predictor) -> None:
    real = predictor.loss

    def loss(batch: TrainingBatch) -> tuple[Tensor, dict[str, Tensor]]:
        value, parts = real(batch)
        return value / 0, parts

    predictor.loss = loss  # type: ignore[method-assign]


def not_in_files(predictor: Any) -> None:
    one, every = predictor.next_frame, predictor.next_frames
    predictor.next_frame = lambda stacked, action: (one(stacked, action)[0] + 1, None)
    predictor.next_frames = lambda stacked: every(stacked) + 1


@dataclass(frozen=True, kw_only=True)
class CarelessConfig(PredictorConfig):
    """A predictor of one's own."""


class CarelessPredictor(HistoryPredictor, kind="test-careless"):
    """Lets torch draw its weights from the global generator."""

    config_class: ClassVar[type[Any]] = CarelessConfig

    def __init__(self, config: CarelessConfig, generator: torch.Generator) -> None:
        super().__init__(config)
        self.gain = nn.Linear(config.actions, 1)

    def next_frame(self, stacked: Tensor, action: Tensor) -> tuple[Tensor, Outcome | None]:
        return stacked[:, -self.config.frame[2] :] * self.gain(action)[:, :, None, None], None


def test_weights_that_do_not_come_from_the_generator_are_reported() -> None:
    with pytest.raises(ContractError, match=r"other initial weights \(gain.weight, gain.bias\)"):
        check_predictor(build_predictor(CarelessConfig(actions=3, frame=(8, 8, 3))))


@pytest.mark.parametrize(
    ("break_promise", "message"),
    [
        (noisy, "another frame for the same state"),
        (other_for_all, "predict_all differs from predict"),
        (in_place, "a state changed|another frame for the same state"),
        (mixed_rows, "depends on the other rows"),
        (infinite_loss, "one finite number"),
        (not_in_files, "loaded from its files"),
    ],
)
def test_a_broken_promise_is_reported(break_promise: Callable[[Predictor], None], message: str) -> None:
    predictor = small_predictor("feedforward")
    break_promise(predictor)
    with pytest.raises(ContractError, match=message):
        check_predictor(predictor)
