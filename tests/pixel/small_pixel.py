"""A small pixel-exact predictor with random weights, and frames for it."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from acvp.pixel import PixelConfig, PixelPredictor
from tests.models.small_predictors import seeded, training_batch

PALETTE = ((0, 0, 0), (255, 0, 0), (0, 255, 0), (40, 40, 200), (41, 40, 200))
CONFIG = PixelConfig(
    actions=3, palette=PALETTE, frame=(18, 13, 3), context=3, cell=5, embedding=4, channels=(6, 8), blocks=(1, 1),
    motions=((0, 0), (2, 0), (-1, 3)), older_motions=((0, 0), (4, -1)), palette_cycle=(0, 2, 1, 1, 4), events=2,
)  # fmt: skip


def make(config: PixelConfig = CONFIG, seed: int = 1) -> PixelPredictor:
    """A predictor with random weights everywhere, so that action, place and past all matter."""
    predictor = PixelPredictor(config, seeded(seed))
    with torch.no_grad():
        for weight in predictor.parameters():
            weight.copy_(torch.randn(weight.shape, generator=seeded(seed)) * 0.3)
    predictor.normalizer.set_mean(torch.rand(config.frame, generator=seeded(seed)) * 200)
    return predictor.eval()


def window(predictor: PixelPredictor, predict: int, rows: int = 2, seed: int = 2) -> tuple[Tensor, Tensor]:
    """Normalized frames (B, m + K, C, H, W) of random colors of the palette, and actions (B, m + K - 1)."""
    height, width, _ = predictor.config.frame
    times = predictor.context + predict
    classes = torch.randint(0, len(PALETTE), (rows, times, height, width), generator=seeded(seed))
    frames = predictor.normalizer.to_float(predictor.colors.pixels(classes))
    return frames, torch.randint(0, 3, (rows, times - 1), generator=seeded(seed))


def frame_loss(predictor: PixelPredictor, frames: Tensor, actions: Tensor, **options: Any) -> Tensor:
    """The frames' part of the loss of a window."""
    return predictor.loss(training_batch(frames, actions, **options))[1]["frame_loss"]
