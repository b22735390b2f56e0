"""Rows of any predictor's state can leave and join a batch without changing what the others predict."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pytest
import torch

from acvp.models import State
from acvp.models.rollout import join_rows, select_rows
from tests.models.small_predictors import EVERY, random_window, small_predictor
from tests.pixel.small_pixel import make as pixel_predictor
from tests.pixel.small_pixel import window as pixel_window


@pytest.mark.parametrize("name", EVERY)
@torch.inference_mode()
def test_rows_are_independent(name: str) -> None:
    predictor = small_predictor(name).eval()
    frames, actions = random_window(predictor, predict=2, rows=4)
    given, first, second = frames[:, : predictor.context], actions[:, -2], actions[:, -1]
    whole, state = predictor.predict(predictor.observe(given), first)
    wanted, _ = predictor.predict(state, second)
    left, right = np.array([2, 0]), np.array([3, 1, 1])
    parts = [select_rows(state, left), predictor.predict(predictor.observe(given[right]), first[right])[1]]
    joined = join_rows(parts)
    rows = np.concatenate((left, right))
    found, after = predictor.predict(joined, second[rows])
    torch.testing.assert_close(found, wanted[rows], rtol=1e-4, atol=1e-5)
    if state.outcome is not None and joined.outcome is not None:
        torch.testing.assert_close(joined.outcome.reward, state.outcome.reward[rows], rtol=1e-4, atol=1e-5)
    assert (after.outcome is None) == (state.outcome is None)
    assert len(whole) == 4


@torch.inference_mode()
def test_rows_of_a_pixel_exact_predictor() -> None:
    predictor = pixel_predictor()
    frames, actions = pixel_window(predictor, predict=2, rows=3)
    state = predictor.predict(predictor.observe(frames[:, :3]), actions[:, 2])[1]
    rows = np.array([2, 0])
    found = predictor.predict(select_rows(state, rows), actions[rows, 3])[0]
    assert torch.equal(found, predictor.predict(state, actions[:, 3])[0][rows])


@dataclass(frozen=True, kw_only=True)
class ListState(State):
    places: list[int]


def test_a_state_that_is_not_made_of_tensors() -> None:
    with pytest.raises(TypeError, match="holds a list"):
        select_rows(ListState(places=[1, 2]), np.array([0]))
