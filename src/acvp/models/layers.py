"""Layers: Caffe's "xavier" initialization, a clipped LSTM, reward and termination heads, and factors of actions.

Biases begin at zero, every random number comes from the generator passed in. Here is also the one definition of reward
classes: 0 negative, 1 zero, 2 positive.

A head gives logits (Outcome). A predictor's Calibration makes probabilities of them and decides, by thresholds.

Shapes: B batch, K predicted steps, n hidden units.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from math import log, sqrt
from typing import Any, NamedTuple

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn
from torch.nn import functional

LSTM_BOUND = 0.08
"""LSTM weights are drawn from U(-0.08, 0.08) (appendix A)."""
REWARD_CLASSES = ("negative", "zero", "positive")

Pair = tuple[int, int]
"""(height, width)."""


def caffe_bound(weight: Tensor) -> float:
    """Return Caffe's xavier bound sqrt(3 / fan_in), fan_in being the size of weight[0] (also for a deconvolution)."""
    return sqrt(3.0 / weight[0].numel())


def fill_uniform(weight: Tensor, generator: torch.Generator, bound: float | None = None) -> None:
    """Fill a weight from U(-bound, bound) in place; without a bound, Caffe's."""
    limit = caffe_bound(weight) if bound is None else bound
    if not weight.is_meta:
        nn.init.uniform_(weight, -limit, limit, generator=generator)


def linear(
    inputs: int, outputs: int, generator: torch.Generator, *, bias: bool = True, bound: float | None = None
) -> nn.Linear:
    """Return a fully-connected layer, its weight from U(-bound, bound), its bias zero."""
    layer = nn.Linear(inputs, outputs, bias, device="meta").to_empty(device=torch.get_default_device())
    fill_uniform(layer.weight, generator, bound)
    if bias:
        nn.init.zeros_(layer.bias)
    return layer


def convolution(
    inputs: int, outputs: int, kernel: int, stride: int, pad: Pair, generator: torch.Generator
) -> nn.Conv2d:
    """Return a strided convolution with Caffe's initialization."""
    layer = nn.Conv2d(inputs, outputs, kernel, stride, pad, device="meta")
    layer = layer.to_empty(device=torch.get_default_device())
    fill_uniform(layer.weight, generator)
    assert layer.bias is not None
    nn.init.zeros_(layer.bias)
    return layer


class _RecurrentGradient(torch.autograd.Function):
    """Passes the inputs' share of the gates on; on the way back gives the recurrent weight its gradient.

    One product over all times in place of one for each: with the paper's sizes the sum of twenty 8192×2048 gradients
    takes longer than their products.
    """

    @staticmethod
    def forward(ctx: Any, from_x: Tensor, weight: Tensor, every_past_h: list[Tensor]) -> Tensor:
        ctx.every_past_h, ctx.dtype = every_past_h, weight.dtype
        return from_x.view_as(from_x)

    @staticmethod
    @torch.autograd.function.once_differentiable
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor, Tensor, None]:
        past_h = torch.stack(ctx.every_past_h, 1).flatten(0, 1)  # (B·T, n)
        return gradient, gradient.flatten(0, 1).T.to(ctx.dtype) @ past_h.to(ctx.dtype), None


class ClippedLstm(nn.Module):
    """One LSTM layer; the gradient of every gate pre-activation is clipped elementwise at every time step (§4)."""

    def __init__(self, inputs: int, hidden: int, gate_clip: float, generator: torch.Generator) -> None:
        super().__init__()
        self.inputs = linear(inputs, 4 * hidden, generator, bound=LSTM_BOUND)
        self.recurrent = nn.Parameter(torch.empty(4 * hidden, hidden))  # no bias: the inputs have it
        self.gate_clip = gate_clip
        fill_uniform(self.recurrent, generator, LSTM_BOUND)

    def start(self, rows: int) -> tuple[Tensor, Tensor]:
        """Return h and c at the start of a window: zeros (B, n)."""
        zeros = self.recurrent.new_zeros(rows, self.recurrent.shape[1])
        return zeros, zeros

    def forward(self, x: Tensor, h: Tensor, c: Tensor) -> tuple[Tensor, Tensor]:
        """Return every h (B, T, n) and the last c (B, n) over inputs x (B, T, I)."""
        every_past_h: list[Tensor] = []
        every_h = []
        from_x = self.inputs(x)  # (B, T, 4n): all times in one product
        from_x = _RecurrentGradient.apply(from_x, self.recurrent, every_past_h)  # type: ignore[no-untyped-call]
        for at_t in from_x.unbind(1):
            every_past_h.append(h.detach())
            h, c = self._step(at_t, h, c)
            every_h.append(h)
        return torch.stack(every_h, 1), c

    def _step(self, from_x: Tensor, h: Tensor, c: Tensor) -> tuple[Tensor, Tensor]:
        gates = from_x + functional.linear(h, self.recurrent.detach())  # (B, 4n)
        if gates.requires_grad and self.gate_clip:
            gates.register_hook(self._clip)  # type: ignore[no-untyped-call]
        i, f, o, g = gates.chunk(4, 1)
        c = f.sigmoid() * c + i.sigmoid() * g.tanh()
        return o.sigmoid() * c.tanh(), c

    def _clip(self, gradient: Tensor) -> Tensor:
        return gradient.clamp(-self.gate_clip, self.gate_clip)


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
    lost_life: Tensor | None = None
    """Logit of a lost life, (B,); None: not predicted."""

    @classmethod
    def combined(cls, outcomes: Sequence[Outcome], combine: Callable[[list[Tensor]], Tensor]) -> Outcome:
        """Return the outcome whose logits are combined from those of several, which predict the same."""
        lives = [outcome.lost_life for outcome in outcomes if outcome.lost_life is not None]
        return cls(
            reward=combine([outcome.reward for outcome in outcomes]),
            termination=combine([outcome.termination for outcome in outcomes]),
            lost_life=combine(lives) if lives else None,
        )

    def plus(self, other: Outcome) -> Outcome:
        """Return the outcome whose logits are the sums of both."""
        return Outcome.combined([self, other], lambda logits: logits[0] + logits[1])

    @classmethod
    def of_windows(cls, outcomes: Sequence[Outcome], rows: int) -> Outcome:
        """Return the logits (B, K, …) of windows, of K steps with B rows each, or of one batch of B·K."""
        return cls.combined(outcomes, lambda logits: torch.stack(logits, 1).view(rows, -1, *logits[0].shape[1:]))

    def expected_rewards(self) -> Tensor:
        """Return the expected sign of the reward, from −1 to 1: P(positive) − P(negative), (B,)."""
        probabilities = self.reward.float().softmax(1)
        return probabilities[:, 2] - probabilities[:, 0]

    def survival(self) -> Tensor:
        """Return the probability that the episode continues, (B,)."""
        return torch.sigmoid(-self.termination.float())

    def entropy(self) -> Tensor:
        """Return how unsure the reward's sign and the termination are together, in nats, (B,)."""
        of_reward, ending = self.reward.float().log_softmax(1), self.termination.float()
        of_termination = torch.stack((ending, torch.zeros_like(ending)), 1).log_softmax(1)
        return -(of_reward.exp() * of_reward).sum(1) - (of_termination.exp() * of_termination).sum(1)


Flags = NDArray[np.bool_]


@dataclass(frozen=True, kw_only=True)
class Calibration:
    """Makes probabilities of a predictor's outcomes, and decides by thresholds; both are found on held-out data.

    Logits are corrected so that probabilities are the frequencies found in data: scale · logits + bias (Platt, 1999).
    Heads are trained on windows in which rewards are more frequent than in the game, and may be too sure. The defaults
    correct nothing, and decide for what is likeliest.
    """

    reward_scale: float = 1.0
    reward_bias: tuple[float, float, float] = (0.0, 0.0, 0.0)
    """Of the classes negative, zero and positive."""
    termination_scale: float = 1.0
    termination_bias: float = 0.0
    lost_life_scale: float = 1.0
    lost_life_bias: float = 0.0
    reward_thresholds: tuple[float, float] | None = None
    """Probabilities of a negative and of a positive reward above which it is decided for; where both are above, the one
    that is above by the larger factor. None: the likeliest of the three classes."""
    termination_threshold: float = 0.5
    lost_life_threshold: float = 0.5

    def __post_init__(self) -> None:
        thresholds = (*(self.reward_thresholds or ()), self.termination_threshold, self.lost_life_threshold)
        if not all(0 < threshold < 1 for threshold in thresholds):
            raise ValueError(f"thresholds are {thresholds}; probabilities between 0 and 1 are possible")

    def apply(self, outcome: Outcome) -> Outcome:
        """Return the calibrated logits of an outcome."""
        bias = torch.tensor(self.reward_bias, device=outcome.reward.device)
        return Outcome(
            reward=self.reward_scale * outcome.reward.float() + bias,
            termination=self.termination_scale * outcome.termination.float() + self.termination_bias,
            lost_life=None
            if outcome.lost_life is None
            else self.lost_life_scale * outcome.lost_life.float() + self.lost_life_bias,
        )

    def reward_scores(self, calibrated: Outcome) -> Tensor:
        """Return scores of the reward classes, the highest of which is decided for, (B, 3)."""
        if self.reward_thresholds is None:
            return calibrated.reward
        below, above = self.reward_thresholds
        levels = torch.tensor([log(below), 0.0, log(above)], device=calibrated.reward.device)
        decisive = calibrated.reward.float().log_softmax(1) - levels
        return torch.cat((decisive[:, :1], torch.zeros_like(decisive[:, :1]), decisive[:, 2:]), 1)

    def reward_signs(self, calibrated: Outcome) -> NDArray[np.int64]:
        """Return the sign of the reward that is decided for, −1, 0 or 1, (B,)."""
        signs: NDArray[np.int64] = self.reward_scores(calibrated).argmax(1).numpy(force=True) - 1
        return signs

    def terminated(self, calibrated: Outcome) -> Flags:
        """Return whether the end of the episode is decided for, (B,)."""
        return _above(calibrated.termination, self.termination_threshold)

    def lost_lives(self, calibrated: Outcome) -> Flags | None:
        """Return whether a lost life is decided for, (B,); None: not predicted."""
        return None if calibrated.lost_life is None else _above(calibrated.lost_life, self.lost_life_threshold)

    def text(self) -> str:
        """Return the thresholds as a sentence has them."""
        negative, positive = self.reward_thresholds or (None, None)
        values = {
            "a negative reward": negative, "a positive reward": positive,
            "termination": self.termination_threshold, "a lost life": self.lost_life_threshold,
        }  # fmt: skip
        listed = [f"{name} above {value:.3g}" for name, value in values.items() if value not in (None, 0.5)]
        return f"probability of {', '.join(listed)}" if listed else "the likeliest outcome"

    @classmethod
    def from_dict(cls, values: dict[str, Any]) -> Calibration:
        """Return the calibration whose fields JSON holds."""
        fields: dict[str, Any] = {
            name: tuple(value) if isinstance(value, list) else value for name, value in values.items()
        }
        return cls(**fields)


def _above(logits: Tensor, threshold: float) -> Flags:
    """Return where probabilities, given as logits, are above a threshold."""
    above: Flags = logits.numpy(force=True) > log(threshold / (1 - threshold))
    return above


@dataclass(frozen=True, kw_only=True)
class ActionFactors:
    """Factors: where in a network the action multiplies. Similar actions have similar ones (§4.3)."""

    name: str
    """What they are called; those of one name are analyzed together."""
    weight: Tensor
    """The value of each factor under each action, (F, A): a parameter, or a view of one, to be changed in place."""
    bias: Tensor | None = None
    """What is added to them whatever the action, (F,)."""
    gates: bool | None = False
    """True: all that the network knows passes through them, so that 0 stops it; False: they only change it; None: they
    cannot be switched off one by one."""


class RewardTerminationHeads(nn.Module):
    """Reward and termination logits from the transformed feature: the paper's future work, off by default.

    The logit of a lost life is a third head. Its weight begins at zero and draws no random number, so that all other
    initial weights are those of a network without it.
    """

    def __init__(self, hidden: int, generator: torch.Generator, *, lives: bool = False) -> None:
        super().__init__()
        self.reward = linear(hidden, 3, generator)
        self.termination = linear(hidden, 1, generator)
        self.lost_life = linear(hidden, 1, torch.Generator(generator.device), bound=0.0) if lives else None

    def forward(self, h_dec: Tensor) -> Outcome:
        """Return the outcome of transformed features (B, n)."""
        lost_life = None if self.lost_life is None else self.lost_life(h_dec)[:, 0]
        return Outcome(reward=self.reward(h_dec), termination=self.termination(h_dec)[:, 0], lost_life=lost_life)


def head_losses(reward: Tensor, termination: Tensor, rewards: Tensor, terminations: Tensor) -> tuple[Tensor, Tensor]:
    """Return the cross-entropies of reward logits (B, K, 3) and of termination logits (B, K), beside the truth (B, K).

    Only a reward's sign is predicted: rewards of the games differ by orders of magnitude.
    """
    of_reward = functional.cross_entropy(reward.float().flatten(0, 1), reward_classes(rewards).flatten())
    return of_reward, flag_loss(termination, terminations)


def flag_loss(logits: Tensor, flags: Tensor) -> Tensor:
    """Return the cross-entropy of logits (B, K) of a termination or a lost life beside the truth (B, K)."""
    return functional.binary_cross_entropy_with_logits(logits.float(), flags.float())
