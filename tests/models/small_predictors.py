"""Small predictors of every kind for the tests, and random inputs for them."""

from typing import Any

import torch
from torch import Tensor

from acvp.models import (
    CopyLastFrameConfig,
    FeedforwardConfig,
    MeanFrameConfig,
    MlpConfig,
    NoActionConfig,
    Predictor,
    PredictorConfig,
    RecurrentConfig,
    TrainingBatch,
    build_predictor,
)

ACTIONS = 3
FRAME = (18, 12, 2)  # height, width, channels all different
SIZES: dict[str, Any] = {
    "actions": ACTIONS, "frame": FRAME, "channels": (6, 5), "kernels": (4, 4), "pads": ((0, 1), (1, 0)),
    "strides": (2, 2), "decoder_channels": (5,), "hidden": 10,
}  # fmt: skip
MLP: dict[str, Any] = {"actions": ACTIONS, "frame": FRAME, "hidden": (6, 8, 10, 7)}

LEARNED: dict[str, PredictorConfig] = {
    "feedforward": FeedforwardConfig(**SIZES, factors=9),
    "feedforward-tensor": FeedforwardConfig(**SIZES, transform="tensor"),
    "feedforward-heads": FeedforwardConfig(**SIZES, factors=9, factor_bias=False, predict_rewards=True),
    "recurrent": RecurrentConfig(**SIZES, factors=9, context=5),
    "recurrent-tensor-heads": RecurrentConfig(**SIZES, transform="tensor", context=5, predict_rewards=True),
    "no-action": NoActionConfig(**SIZES),
    "no-action-heads": NoActionConfig(**SIZES, predict_rewards=True),
    "mlp": MlpConfig(**MLP),
    "mlp-heads": MlpConfig(**MLP, predict_rewards=True),
}
EVERY: dict[str, PredictorConfig] = LEARNED | {
    "copy-last-frame": CopyLastFrameConfig(actions=ACTIONS, frame=FRAME),
    "mean-frame": MeanFrameConfig(actions=ACTIONS, frame=FRAME),
}


def seeded(seed: int) -> torch.Generator:
    """Return a generator with a seed."""
    return torch.Generator().manual_seed(seed)


def small_predictor(name: str, seed: int = 1) -> Predictor:
    """Return a small predictor with a mean image that is not zero."""
    predictor = build_predictor(EVERY[name], seeded(seed))
    predictor.normalizer.set_mean(torch.rand(FRAME, generator=seeded(seed)) * 200)
    return predictor


def training_batch(frames: Tensor, actions: Tensor, **options: Any) -> TrainingBatch:
    """Return a batch in which nothing is rewarded and nothing ends."""
    nothing = torch.zeros(actions.shape[:2])
    return TrainingBatch(frames, actions, nothing, nothing.bool(), **options)


def random_window(predictor: Predictor, predict: int, rows: int = 2, seed: int = 2) -> tuple[Tensor, Tensor]:
    """Return normalized frames (B, context + K, C, H, W) and action indices (B, context + K - 1)."""
    height, width, channels = FRAME
    times = predictor.context + predict
    frames = torch.randn(rows, times, channels, height, width, generator=seeded(seed))
    return frames, torch.randint(0, ACTIONS, (rows, times - 1), generator=seeded(seed))
