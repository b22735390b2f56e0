"""The loss of the pixel-exact predictor: a pixel's colour is chosen, or copied by a motion.

Shapes: n cells, q pixels of a cell, N colours, S motions.
"""

from typing import Any

import torch
from torch import Tensor
from torch.autograd.function import once_differentiable

NO_PIXEL = -100
"""Class of the pixels that fill up cells at the right and lower edge: they count for nothing."""

SMALLEST = -60.0
"""Logarithm of the smallest probability."""


def options_loss(own: Tensor, motion: Tensor, moved: Tensor, wanted: Tensor) -> Tensor:
    """Return −log of the probability of the wanted colours (n, q), summed over a cell's pixels, (n,).

    Takes the logits of colours (n, q, N) and of motions (n, S), and the colours (n, q, S) that each motion brings.
    """
    loss: Tensor = _OptionsLoss.apply(own, motion, moved, wanted)  # type: ignore[no-untyped-call]
    return loss


class _OptionsLoss(torch.autograd.Function):
    """A colour may be chosen or copied, and its probabilities add up.

    A colour's options are its own, o, and for each motion that brings it, o + m. With Z = Σ e^o + Σ e^(o + m) the
    wanted colour has probability e^o (1 + Σ e^m) / Z, the sum in brackets over the motions that bring it. The gradient
    is worked out along with the loss, in place, in fewer passes than autograd takes.
    """

    @staticmethod
    def forward(ctx: Any, own: Tensor, motion: Tensor, moved: Tensor, wanted: Tensor) -> Tensor:
        """Return the loss, and keep its gradient."""
        colours = own.shape[2]
        real = wanted != NO_PIXEL
        at = wanted.clamp(min=0)[..., None]
        source = moved.clamp(max=colours - 1)
        right = own.gather(2, at)
        copied = own.gather(2, source).add_(motion[:, None]).masked_fill_(moved == colours, -torch.inf)
        highest = torch.maximum(own.amax(2, keepdim=True), copied.amax(2, keepdim=True))
        share, copied = (_exp_(each) for each in (own - highest, copied.sub_(highest)))
        total = share.sum(2, keepdim=True) + copied.sum(2, keepdim=True)  # Z, over e^highest
        brings = motion[:, None].expand_as(copied).masked_fill(moved != at, -torch.inf)
        top = brings.amax(2, keepdim=True).clamp_(min=0)
        brings = _exp_(brings.sub_(top))
        bracket = brings.sum(2, keepdim=True) + (-top).exp()  # over e^top
        loss = total.log() + highest - right - bracket.log() - top
        share, copied = (part.mul_(real[..., None] / total) for part in (share, copied))
        brings = brings.mul_(real[..., None] / bracket)
        of_motion = copied.sum(1) - brings.sum(1)
        share.scatter_add_(2, source, copied)
        share.scatter_add_(2, at, -real[..., None].to(share.dtype))
        ctx.save_for_backward(share, of_motion)
        return loss[..., 0].where(real, 0.0).sum(1)

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, *gradients: Tensor) -> tuple[Tensor, Tensor, None, None]:
        """Return the gradients of the logits."""
        of_own, of_motion = ctx.saved_tensors
        (gradient,) = gradients
        return of_own * gradient[:, None, None], of_motion * gradient[:, None], None, None


def _exp_(logits: Tensor) -> Tensor:
    """Return e^logits in place; what is too small to count is kept above the subnormal numbers, with which a product of
    matrices takes twenty times as long.
    """
    return logits.clamp_(min=SMALLEST).exp_()
