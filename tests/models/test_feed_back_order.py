"""The state after a prediction: frames oldest first, the prediction the newest."""

from __future__ import annotations

import torch

from acvp.models.predictor import HistoryState
from tests.models.small_predictors import random_window, small_predictor


def test_a_prediction_becomes_the_newest_frame() -> None:
    predictor = small_predictor("feedforward")
    frames, actions = random_window(predictor, predict=2)
    state = predictor.observe(frames[:, :-2])
    with torch.no_grad():
        first, state = predictor.predict(state, actions[:, -2])
        second, _ = predictor.predict(state, actions[:, -1])
        seen = torch.cat((frames[:, 1:-2], first[:, None]), 1)
        alone, _ = predictor.predict(predictor.observe(seen), actions[:, -1])
    torch.testing.assert_close(second, alone)
    settled = predictor.settled(state)
    assert isinstance(settled, HistoryState)
    channels = frames.shape[2]
    assert torch.equal(settled.frames[:, -channels:], first)
    assert torch.equal(settled.frames[:, :channels], frames[:, 1])
