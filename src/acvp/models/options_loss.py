"""The loss of the pixel-exact predictor: a pixel's colour is chosen, or copied by a motion.

Shapes: n cells, q pixels of a cell, N colours, S motions.
"""

from typing import Any

import torch
from torch import Tensor
from torch.autograd.function import once_differentiable
from torch.nn import functional

NO_PIXEL = -100
"""Class of the pixels that fill up cells at the right and lower edge: they count for nothing."""

SMALLEST_COLOUR, SMALLEST_MOTION = -400.0, -300.0
"""Logarithms of the smallest weights beside the largest. The product of both is still a usual float64, and a colour at
its smallest counts for nothing even beside one that motions all but rule out: exact for motions of up to 280."""


def options_loss(own: Tensor, motion: Tensor, moved: Tensor, wanted: Tensor) -> Tensor:
    """Return −log of the probability of the wanted colours (n, q), summed over a cell's pixels, (n,).

    Takes the logits of colours (n, q, N) and of motions (n, S), and the colours (n, q, S) that each motion brings.
    """
    given = (own, motion, moved, wanted)
    on = (each.cpu() for each in given) if own.device.type == "mps" else given  # which has no float64
    loss: Tensor = _OptionsLoss.apply(*on)  # type: ignore[no-untyped-call]
    return loss.to(own.device)


class _OptionsLoss(torch.autograd.Function):
    """A colour may be chosen or copied, and its probabilities add up.

    A colour's options are its own, o, and for each motion that brings it, o + m. With w = 1 + Σ e^m, the sum over the
    motions that bring it, a colour has probability e^o w / Z, where Z = Σ e^o w over all colours. The gradient is
    worked out along with the loss, in fewer passes over memory than autograd takes. It takes float64: a colour that
    motions all but rule out may still be chosen, and the other way round.
    """

    @staticmethod
    def forward(ctx: Any, own: Tensor, motion: Tensor, moved: Tensor, wanted: Tensor) -> Tensor:
        """Return the loss, and keep its gradient."""
        colours, given = own.shape[2], own.dtype
        own, motion = own.double(), motion.double()
        real, at = (wanted != NO_PIXEL)[..., None], wanted.clamp(min=0)[..., None]
        top = motion.amax(1, keepdim=True).clamp_(min=0)
        likely, alone = (_exp(each, SMALLEST_MOTION) for each in (motion - top, -top))  # e^m and 1, over e^top
        ways = alone[..., None].repeat(1, own.shape[1], colours + 1)  # one colour more, for what comes from outside
        ways = ways.scatter_add_(2, moved, likely[:, None].expand_as(moved))[..., :colours]  # w
        highest = own.amax(2, keepdim=True)
        chosen = _exp(own - highest, SMALLEST_COLOUR)
        share = chosen * ways
        total = share.sum(2, keepdim=True)  # Z, over e^highest
        right = ways.gather(2, at)
        loss = total.log() + highest - own.gather(2, at) - right.log()
        share.mul_(real / total).scatter_add_(2, at, -real.to(share.dtype))
        each_way = share.new_zeros(*share.shape[:2], colours + 1)  # what one more way to a colour changes
        torch.mul(chosen, real / total, out=each_way[..., :colours])
        each_way.scatter_add_(2, at, -(real / right))
        of_motion = each_way.gather(2, moved).sum(1) * likely
        ctx.save_for_backward(share.to(given), of_motion.to(given))
        return loss.where(real, 0.0).sum((1, 2)).to(given)

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, *gradients: Tensor) -> tuple[Tensor, Tensor, None, None]:
        """Return the gradients of the logits."""
        of_own, of_motion = ctx.saved_tensors
        (gradient,) = gradients
        return _usual(of_own * gradient[:, None, None]), _usual(of_motion * gradient[:, None]), None, None


def _usual(gradient: Tensor) -> Tensor:
    """Return a gradient without subnormal numbers, with which a product of matrices takes twenty times as long."""
    return functional.hardshrink(gradient, torch.finfo(gradient.dtype).tiny)


def _exp(logits: Tensor, smallest: float) -> Tensor:
    """Return e^logits, in place."""
    return logits.clamp_(min=smallest).exp_()
