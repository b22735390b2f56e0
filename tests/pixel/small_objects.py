"""A small predictor of objects, and frames in which a red square moves over a striped floor."""

from __future__ import annotations

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from acvp.pixel import ObjectConfig, ObjectPredictor
from acvp.pixel.objects import Background
from tests.models.small_predictors import seeded

PALETTE = ((0, 0, 0), (90, 90, 90), (255, 0, 0), (0, 255, 0))
FLOOR, STRIPE, RED, GREEN = range(4)
HEIGHT, WIDTH = 48, 40
SIDE = 6
MOVES = ((0, 0), (0, 3), (0, -3), (2, 0))
CONFIG = ObjectConfig(
    actions=3, palette=PALETTE, frame=(HEIGHT, WIDTH, 3), context=4, cell=8, embedding=4, channels=(6, 8),
    blocks=(1, 1), moves=MOVES, moving_colors=(RED,), features=16, events=2,
)  # fmt: skip


def floor() -> NDArray[np.uint8]:
    """A floor with a stripe."""
    frame = np.full((HEIGHT, WIDTH), FLOOR, np.uint8)
    frame[:, 20:22] = STRIPE
    return frame


def squares(*corners: tuple[int, int], color: int = RED) -> NDArray[np.uint8]:
    """The floor with squares of a color."""
    frame = floor()
    for top, left in corners:
        frame[top : top + SIDE, left : left + SIDE] = color
    return frame


def background() -> Background:
    """The background of these frames."""
    usual = floor()
    colors = np.zeros((len(PALETTE), HEIGHT, WIDTH), np.bool_)
    np.put_along_axis(colors, usual[None].astype(np.int64), True, 0)
    return Background(colors, usual, (RED,))


def make(config: ObjectConfig = CONFIG, seed: int = 1) -> ObjectPredictor:
    """A predictor with random weights everywhere."""
    predictor = ObjectPredictor(config, seeded(seed))
    with torch.no_grad():
        for weight in predictor.parameters():
            weight.copy_(torch.randn(weight.shape, generator=seeded(seed)) * 0.3)
    predictor.normalizer.set_mean(torch.rand(config.frame, generator=seeded(seed)) * 200)
    predictor.set_background(background())
    return predictor.eval()


def normalized(predictor: ObjectPredictor, frames: NDArray[np.uint8]) -> Tensor:
    """Color classes (B, T, H, W) as normalized frames."""
    return predictor.normalizer.to_float(predictor.colors.pixels(torch.from_numpy(frames).long()))
