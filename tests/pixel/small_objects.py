"""A small predictor of objects, and frames in which a red square moves over a striped floor."""

from __future__ import annotations

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor

from acvp.models.predictor import TrainingBatch
from acvp.pixel import ObjectConfig, ObjectPredictor
from acvp.pixel.object_loss import ObjectLoss
from acvp.pixel.objects import Background
from tests.models.small_predictors import seeded, training_batch

PALETTE = ((0, 0, 0), (90, 90, 90), (255, 0, 0), (0, 255, 0))
FLOOR, STRIPE, RED, GREEN = range(4)
HEIGHT, WIDTH = 48, 40
SIDE = 6
MOVES = ((0, 0), (0, 3), (0, -3), (2, 0))
CONFIG = ObjectConfig(
    actions=3, palette=PALETTE, frame=(HEIGHT, WIDTH, 3), context=4, cell=8, embedding=4, channels=(6, 8),
    blocks=(1, 1), moves=MOVES, moving_colors=(RED,), features=16, events=2,
)  # fmt: skip
SHIFT = {0: 0, 1: 3, 2: -3}
"""Pixels to the right that each action moves the square."""


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


def moves_of(predictor: ObjectPredictor) -> ObjectLoss:
    rng = np.random.default_rng(0)
    return ObjectLoss(predictor.object_network, predictor.object_config, predictor.kinds, predictor.shifts, rng)


def normalized(predictor: ObjectPredictor, frames: NDArray[np.uint8]) -> Tensor:
    """Color classes (B, T, H, W) as normalized frames."""
    return predictor.normalizer.to_float(predictor.colors.pixels(torch.from_numpy(frames).long()))


def episode(rng: np.random.Generator, length: int) -> tuple[NDArray[np.uint8], NDArray[np.int64]]:
    """A square on its way: frames (T, H, W) and actions (T - 1,)."""
    top, left = int(rng.integers(2, HEIGHT - SIDE - 2)), int(rng.integers(12, WIDTH - SIDE - 12))
    frames, actions = [squares((top, left))], []
    for _ in range(length - 1):
        action = int(rng.integers(3))
        if not 2 <= left + SHIFT[action] <= WIDTH - SIDE - 2:
            action = 0
        left += SHIFT[action]
        actions.append(action)
        frames.append(squares((top, left)))
    return np.stack(frames), np.array(actions)


def batch_of(predictor: ObjectPredictor, rng: np.random.Generator, rows: int, predict: int) -> TrainingBatch:
    episodes = [episode(rng, predictor.context + predict) for _ in range(rows)]
    frames = normalized(predictor, np.stack([frames for frames, _ in episodes]))
    actions = torch.from_numpy(np.stack([actions for _, actions in episodes]))
    return training_batch(frames, actions, predict=predict, teacher_forcing=True)


def classes(predictor: ObjectPredictor, frames: Tensor) -> NDArray[np.int64]:
    shown: NDArray[np.int64] = predictor.colors.classes(predictor.normalizer.to_uint8(frames)).numpy()
    return shown
