"""What is minimised: equation 6 or the predictor's own, with outcome heads the reward's sign and the end too.

Shapes: B windows, L frames of a window, K predicted steps.
"""

from __future__ import annotations

from torch import Tensor
from torch.nn import functional

from acvp.models import Predictions, squared_error_loss
from acvp.training.batches import DeviceBatch


def objective(predictions: Predictions, batch: DeviceBatch, outcome_weight: float = 1.0) -> Tensor:
    """Return the loss of K predictions of a batch: of the frames, plus the heads' cross-entropies."""
    loss = predictions.frame_loss
    if loss is None:
        loss = squared_error_loss(predictions.frames, batch.frames[:, -predictions.frames.shape[1] :])
    if predictions.reward is None or predictions.end is None:
        return loss
    steps = predictions.reward.shape[1]
    signs = batch.rewards[:, -steps:].sign().long() + 1  # 0 negative, 1 zero, 2 positive
    reward = functional.cross_entropy(predictions.reward.float().flatten(0, 1), signs.flatten())
    end = functional.binary_cross_entropy_with_logits(predictions.end.float(), batch.ends[:, -steps:].float())
    return loss + outcome_weight * (reward + end)
