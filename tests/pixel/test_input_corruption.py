"""Input corruption: known colors only, never in the last frame, and the targets stay as they were."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

from acvp.models import ConfigError, Normalizer
from acvp.pixel import PixelConfig, PixelPredictor
from acvp.pixel.loss import corrupt_inputs
from acvp.pixel.predictor import PixelState
from tests.models.small_predictors import seeded, training_batch

PALETTE = torch.tensor([[0, 0, 0], [255, 0, 0], [40, 40, 200]], dtype=torch.uint8)


def some(height: int, width: int, rows: int, times: int, seed: int) -> tuple[Normalizer, Tensor]:
    normalizer = Normalizer((height, width, 3), 255.0)
    normalizer.set_mean(torch.rand(height, width, 3, generator=seeded(seed)) * 255)
    classes = torch.randint(0, 2, (rows, times, height, width), generator=seeded(seed))  # never the third color
    return normalizer, normalizer.to_float(PALETTE[classes])


@given(st.integers(1, 40), st.integers(1, 40), st.integers(1, 4), st.integers(2, 9), st.integers(0, 2**31))
@settings(max_examples=100)
def test_known_colors_only_and_the_last_frame_untouched(h: int, w: int, rows: int, times: int, seed: int) -> None:
    normalizer, frames = some(h, w, rows, times, seed)
    before = frames.clone()
    corrupted = corrupt_inputs(frames, 1.0, PALETTE, normalizer, np.random.default_rng(seed))
    assert torch.equal(frames, before)
    assert torch.equal(corrupted[:, -1], frames[:, -1])
    pixels = normalizer.to_uint8(corrupted)[..., None, :]
    assert (pixels == PALETTE).all(-1).any(-1).all()
    again = corrupt_inputs(frames, 1.0, PALETTE, normalizer, np.random.default_rng(seed))
    assert torch.equal(again, corrupted)


def test_a_share_of_the_rows_is_corrupted_in_patches_that_stay() -> None:
    normalizer, frames = some(40, 40, 200, 12, 3)
    corrupted = corrupt_inputs(frames, 0.3, PALETTE, normalizer, np.random.default_rng(1))
    changed = (normalizer.to_uint8(corrupted) != normalizer.to_uint8(frames)).any(-1)  # (B, T, H, W)
    assert 30 < int(changed.flatten(1).any(1).sum()) < 75
    assert changed.float().sum((2, 3)).max() <= 2 * 10 * 10
    long = changed.any(-1).any(-1).sum(1)  # frames of each row
    assert long.max() > 3


def test_a_network_sees_corrupted_frames_and_learns_to_predict_the_real_ones(monkeypatch: pytest.MonkeyPatch) -> None:
    config = PixelConfig(
        actions=3, palette=((0, 0, 0), (255, 0, 0), (40, 40, 200)), frame=(20, 20, 3), context=3, cell=5, embedding=4,
        channels=(6, 8), blocks=(1, 1),
    )  # fmt: skip
    _, frames = some(20, 20, 8, 5, 4)
    loss, seen = PixelPredictor._loss, []

    def remember(self: PixelPredictor, features: Tensor, state: PixelState, target: Tensor) -> Tensor:
        seen.append((state.frame, target))
        return loss(self, features, state, target)

    monkeypatch.setattr(PixelPredictor, "_loss", remember)
    for share in (0.0, 1.0):
        predictor = PixelPredictor(replace(config, input_corruption=share), seeded(1)).train()
        predictor.normalizer.set_mean(some(20, 20, 1, 1, 4)[0].mean)
        predictor.loss(training_batch(frames, torch.zeros(8, 4, dtype=torch.long), predict=2, teacher_forcing=True))
    (real, targets), (corrupted, same_targets) = seen
    assert torch.equal(targets, same_targets)
    assert (real != corrupted).any()


def test_a_wrong_share_is_refused() -> None:
    with pytest.raises(ConfigError, match=r"input_corruption is 1.5"):
        PixelConfig(actions=3, palette=((0, 0, 0),), input_corruption=1.5)
