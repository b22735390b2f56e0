"""Colors are predicted only where they can be."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
import torch
from numpy.typing import NDArray

from acvp.models import ConfigError
from acvp.models.artifact import predictor_files, predictor_from_files
from acvp.pixel import PixelPredictor
from tests.pixel.small_pixel import CONFIG, PALETTE, frame_loss, make, window

pytestmark = pytest.mark.usefixtures("statistics_not_cached")


def some_places(predictor: PixelPredictor, share: float) -> NDArray[np.bool_]:
    """Each color in a share of all places, and the first everywhere: no pixel is left without any."""
    height, width, _ = predictor.config.frame
    places = np.random.default_rng(7).random((len(PALETTE), height, width)) < share
    places[0] = True
    return places


@pytest.mark.parametrize("exhaustive", [False, True])
def test_a_color_is_predicted_only_where_it_can_be(exhaustive: bool) -> None:
    predictor = make()
    frames, actions = window(predictor, 3)
    state, free = predictor.observe(frames[:, :3]), predictor.observe(frames[:, :3])
    places = some_places(predictor, 0.4)
    predictor.exhaustive = exhaustive
    differs = False
    for step in range(3):
        _, free = predictor.predict(free, actions[:, 2 + step])
        predictor.set_palette_mask(places)
        _, state = predictor.predict(state, actions[:, 2 + step])
        predictor.set_palette_mask(np.ones_like(places))
        chosen = state.classes[:, 1].numpy()
        rows, columns = np.indices(chosen.shape[1:])
        assert places[chosen, rows, columns].all()  # whatever was there before: what cannot be is mended
        differs |= not torch.equal(free.classes, state.classes)
    assert differs


def test_both_ways_of_choosing_know_where_colors_can_be() -> None:
    predictor = make(replace(CONFIG, frame=(33, 28, 3)))
    predictor.set_palette_mask(some_places(predictor, 0.5))
    frames, _ = window(predictor, 1)
    quick = predictor.predict_all(predictor.observe(frames))
    predictor.exhaustive = True
    assert torch.equal(predictor.predict_all(predictor.observe(frames)), quick)


def test_where_colors_can_be_is_saved_and_loaded() -> None:
    predictor = make()
    assert predictor.excluded is None
    predictor.set_palette_mask(some_places(predictor, 0.5))
    again = predictor_from_files(predictor_files(predictor))
    assert isinstance(again, PixelPredictor)
    assert again.excluded is not None
    assert predictor.excluded is not None
    assert torch.equal(again.excluded, predictor.excluded)
    free = make()
    assert "palette_mask" not in free.state_dict()  # as in files of before there was such a thing
    again.load_state_dict(free.state_dict())
    assert again.excluded is None
    weights = predictor.state_dict()
    weights["palette_mask"] = weights["palette_mask"].float()
    with pytest.raises(ConfigError, match=r"palette_mask is torch\.float32"):
        again.load_state_dict(weights)
    with pytest.raises(ConfigError, match="palette mask has shape"):
        predictor.set_palette_mask(np.zeros((2, 3, 4), np.bool_))


def test_a_draw_too_is_of_what_can_be() -> None:
    predictor = make()
    places = some_places(predictor, 0.4)
    predictor.set_palette_mask(places)
    predictor.sample(temperature=1e6)  # nearly all alike
    frames, actions = window(predictor, 1)
    chosen = predictor.predict(predictor.observe(frames[:, :3]), actions[:, 2])[1].classes[:, 1].numpy()
    rows, columns = np.indices(chosen.shape[1:])
    assert places[chosen, rows, columns].all()
    assert len(np.unique(chosen)) > 1


def test_what_cannot_be_is_learned_too() -> None:
    predictor = make().train()
    frames, actions = window(predictor, 1)
    free = frame_loss(predictor, frames, actions, teacher_forcing=True)
    predictor.set_palette_mask(some_places(predictor, 0.4))
    assert torch.equal(frame_loss(predictor, frames, actions, teacher_forcing=True), free)


@pytest.mark.parametrize("masked", [False, True])
def test_a_traceable_predictor_chooses_the_same_colors(masked: bool) -> None:
    predictor = make(replace(CONFIG, frame=(33, 28, 3)))
    predictor.copy.bias.data[0] = 0.5  # so that pixels do change
    if masked:
        places = some_places(predictor, 0.5)
        places[1:, :10] = False  # rows of cells with a single color,
        places[2, 10:20] = False  # with all but one,
        predictor.set_palette_mask(places)  # and with all
    frames, actions = window(predictor, 4, rows=1)
    state = predictor.observe(frames[:, :3])
    traceable = predictor.traceable()
    assert traceable.decoder is not None
    assert len(traceable.decoder.cells) == (3 if masked else 1)
    for step in range(4):
        wanted, after = predictor.predict(state, actions[:, 2 + step])
        found, _ = traceable.predict(state, actions[:, 2 + step])
        assert torch.equal(found, wanted)
        assert not torch.equal(after.classes[:, 0], after.classes[:, 1]), "something changes"
        state = after
