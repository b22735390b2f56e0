"""Reward and termination heads, and the one definition of reward classes: 0 negative, 1 zero, 2 positive.

Shapes: B batch, K predicted steps, n hidden units.
"""

from __future__ import annotations

from typing import NamedTuple, Self

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn
from torch.nn import functional

from acvp.models.encoder_decoder import linear

REWARD_CLASSES = ("negative", "zero", "positive")


def reward_class(reward: float) -> int:
    """Return the class of a reward."""
    return int(np.sign(reward)) + 1


def reward_classes(rewards: Tensor) -> Tensor:
    """Return the classes of rewards of any shape, int64."""
    return rewards.sign().long() + 1


class Outcome(NamedTuple):
    """What a step brings besides its frame, as logits."""

    reward: Tensor
    """Logits of the reward classes, (B, 3)."""
    termination: Tensor
    """Logit of the end of the episode, (B,)."""

    def plus(self, other: Self) -> Self:
        """Return the outcome whose logits are the sums of both."""
        return self._replace(reward=self.reward + other.reward, termination=self.termination + other.termination)

    def reward_signs(self) -> NDArray[np.int64]:
        """Return the sign of the likeliest reward, −1, 0 or 1, (B,)."""
        signs: NDArray[np.int64] = self.reward.argmax(1).numpy(force=True) - 1
        return signs

    def terminated(self) -> NDArray[np.bool_]:
        """Return whether the end of the episode is likelier than not, (B,)."""
        ended: NDArray[np.bool_] = self.termination.numpy(force=True) > 0
        return ended


class RewardTerminationHeads(nn.Module):
    """Reward and termination logits from the transformed feature: the paper's future work, off by default."""

    def __init__(self, hidden: int, generator: torch.Generator) -> None:
        super().__init__()
        self.reward = linear(hidden, 3, generator)
        self.termination = linear(hidden, 1, generator)

    def forward(self, h_dec: Tensor) -> Outcome:
        """Return the outcome of transformed features (B, n)."""
        return Outcome(reward=self.reward(h_dec), termination=self.termination(h_dec)[:, 0])


def head_losses(reward: Tensor, termination: Tensor, rewards: Tensor, terminations: Tensor) -> tuple[Tensor, Tensor]:
    """Return the cross-entropies of reward logits (B, K, 3) and of termination logits (B, K), beside the truth (B, K).

    Only a reward's sign is predicted: rewards of the games differ by orders of magnitude.
    """
    of_reward = functional.cross_entropy(reward.float().flatten(0, 1), reward_classes(rewards).flatten())
    of_termination = functional.binary_cross_entropy_with_logits(termination.float(), terminations.float())
    return of_reward, of_termination
