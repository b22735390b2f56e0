"""The probability that a pixel is wrong, by the predictor itself."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
import torch

from acvp.pixel import PixelPredictor
from acvp.pixel.loss import color_probability, copy_mixture_loss
from tests.pixel import small_objects
from tests.pixel.small_objects import RED, SIDE, classes, floor, normalized, squares
from tests.pixel.small_pixel import CONFIG, make, window

pytestmark = pytest.mark.usefixtures("statistics_not_cached")


def test_the_probability_of_a_color_is_that_of_the_loss() -> None:
    draw = torch.Generator().manual_seed(0)
    own, motion = torch.randn(50, 1, 4, generator=draw), 2 * torch.randn(50, 3, generator=draw)
    moved, color = torch.randint(5, (50, 1, 3), generator=draw), torch.randint(4, (50, 1), generator=draw)
    found = color_probability(own, motion, moved, color)
    assert torch.allclose(found[:, 0], (-copy_mixture_loss(own, motion, moved, color)).exp(), atol=1e-6)
    every = [color_probability(own, motion, moved, torch.full_like(color, index)) for index in range(4)]
    assert torch.allclose(sum(every, torch.zeros(50, 1)), torch.ones(50, 1), atol=1e-5)


def test_a_large_logit_does_not_overflow() -> None:
    own, moved = torch.zeros(1, 1, 4), torch.tensor([[[2, 4]]])  # the second motion brings what is outside
    for color, right in ((2, 1.0), (0, 0.0)):
        found = color_probability(own, torch.tensor([[100.0, 250.0]]), moved, torch.tensor([[color]]))
        assert found.item() == pytest.approx(right, abs=1e-6)


def test_a_predictor_knows_where_it_may_be_wrong() -> None:
    predictor = make(replace(CONFIG, frame=(33, 28, 3)))
    frames, actions = window(predictor, 1, rows=2)
    state = predictor.observe(frames[:, :3])
    frame, _ = predictor.predict(state, actions[:, 2])
    uncertainty = predictor.uncertainty(state, actions[:, 2], frame)
    assert uncertainty.shape == (2, 33, 28)
    assert ((uncertainty >= 0) & (uncertainty <= 1)).all()
    other = predictor._frame((predictor._classes(frame) + 1) % len(predictor.colors))
    of_other = predictor.uncertainty(state, actions[:, 2], other)
    assert (of_other >= uncertainty).float().mean() > 0.9, "what it predicts is what it finds likely"
    predictor.copy.bias.data[0] += 200  # far more than any other logit of these weights: every pixel keeps its color
    kept, _ = predictor.predict(state, actions[:, 2])
    assert torch.equal(kept, frames[:, 2])
    sure = predictor.uncertainty(state, actions[:, 2], kept)
    assert sure.max() < 0.001


def test_an_object_is_as_uncertain_as_its_move() -> None:
    """It goes 3 pixels right with a probability of 0.7, left with 0.3, and is drawn as it was."""
    predictor = small_objects.make()
    head, copy = predictor.object_network.head, predictor.object_network.copy
    assert copy.bias is not None
    with torch.no_grad():
        head.weight.zero_()
        head.bias.copy_(torch.tensor([0, 0.7, 0.3, 0, 0]).log().clamp(min=-100))
        copy.weight.zero_()
        copy.bias[len(small_objects.PALETTE) + 2] = 100  # of a copy of its newest look
    frames = normalized(predictor, np.stack([squares((21, 12))] * 4)[None])
    state, action = predictor.observe(frames), torch.tensor([1])
    frame, _ = predictor.predict(state, action)
    assert (classes(predictor, frame)[0, 21 : 21 + SIDE, 15 : 15 + SIDE] == RED).all()
    uncertainty = predictor.uncertainty(state, action, frame)[0]
    assert torch.allclose(uncertainty[21 : 21 + SIDE, 15 : 15 + SIDE], torch.tensor(0.3), atol=1e-4), "where it goes"
    assert torch.allclose(uncertainty[21 : 21 + SIDE, 9 : 9 + SIDE], torch.tensor(0.3), atol=1e-4), "where it would go"
    assert torch.allclose(uncertainty[12:21, 9:15], torch.tensor(0.0), atol=1e-4), "the same in both futures"


def test_beyond_objects_the_grid_knows_where_it_may_be_wrong() -> None:
    predictor, action = small_objects.make(), torch.tensor([1])
    for shown, alike in ((floor(), slice(None)), (squares((4, 4)), slice(32, None))):
        state = predictor.observe(normalized(predictor, np.stack([shown] * 4)[None]))
        frame, _ = predictor.predict(state, action)
        found, of_grid = (
            kind.uncertainty(predictor, state, action, frame) for kind in (type(predictor), PixelPredictor)
        )
        assert torch.allclose(found[0, alike], of_grid[0, alike], atol=1e-6)
        assert of_grid.max() > 0.1
