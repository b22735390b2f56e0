"""One step of an imagined world, and the live metrics beside it, by hand."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from acvp.play.imagined import Dreamer
from acvp.play.rewind import Meters
from tests.evaluation.predictors import as_subject
from tests.play.dreamers import NOOP, network


@pytest.mark.parametrize(("kind", "sign"), [(0, -1), (1, 0), (2, 1)])
def test_the_likeliest_sign_is_the_imagined_reward(kind: int, sign: int) -> None:
    predictor = network()
    for name in ("heads.reward", "heads.termination"):
        torch.nn.init.zeros_(predictor.get_parameter(f"{name}.weight"))
        torch.nn.init.zeros_(predictor.get_parameter(f"{name}.bias"))
    predictor.get_parameter("heads.reward.bias").data[kind] = 3.0
    predictor.get_parameter("heads.termination.bias").data[0] = 1.5
    dreamer = Dreamer(as_subject("net", predictor))
    frames = [np.zeros((24, 24, 3), np.uint8)] * predictor.context
    dream = dreamer.step(dreamer.ground(frames, [NOOP] * (predictor.context - 1)), NOOP)
    assert dream.reward == sign
    assert dream.end == pytest.approx(1 / (1 + np.exp(-1.5)))
    assert dreamer.step(dream, NOOP).steps == 2


def test_live_metrics_by_hand() -> None:
    """Off by up to 8 is right, by 9 is wrong, too dark as well as too bright."""
    truth = np.full((24, 24, 3), 100, np.uint8)
    dream = truth.copy()
    for column, value in enumerate((92, 91, 108, 109, 0, 255)):
        dream[3, column, 1] = value
    reading = Meters(as_subject("net", network()), (24, 24)).read(dream, truth, None)
    assert (reading.wrong, reading.pixels, reading.found) == (4, 24 * 24, None)
    assert reading.error == pytest.approx((2 * 8**2 + 2 * 9**2 + 100**2 + 155**2) / (24 * 24 * 3))
