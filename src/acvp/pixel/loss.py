"""The training loss of the pixel-exact predictor, and the corruption of its input frames.

The loss is the copy mixture likelihood: a pixel's color is predicted directly or copied by a motion. Input corruption
puts patches of wrong pixels into input frames, so that the predictor learns to correct its own errors.

Shapes: n cells, q pixels of a cell, N colors, S motions, B rows, T frames, C channels, H height, W width,
h × w a patch.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from torch import Tensor
from torch.autograd.function import once_differentiable
from torch.nn import functional

from acvp.models.pixels import Normalizer

NO_PIXEL = -100
"""Class of the pixels that fill up cells at the right and lower edge: they count for nothing."""

SMALLEST_COLOR, SMALLEST_MOTION = -400.0, -300.0
"""Logarithms of the smallest weights beside the largest. The product of both is still a usual float64, and a color at
its smallest counts for nothing even beside one that motions all but rule out: exact for motions of up to 280."""


FOREGROUND_DIFFERENCE = 16
"""Difference from the mean image, of 255, above which a pixel belongs to the foreground."""


def copy_mixture_loss(own: Tensor, motion: Tensor, moved: Tensor, target: Tensor) -> Tensor:
    """Return −log of the probability of the target colors (n, q), summed over a cell's pixels, (n,).

    Takes the logits of colors (n, q, N) and of motions (n, S), and the colors (n, q, S) that each motion brings.
    """
    inputs = _with_float64(own, motion, moved, target)
    loss: Tensor = _CopyMixtureLoss.apply(*inputs)  # type: ignore[no-untyped-call]
    return loss.to(own.device)


def color_probability(own: Tensor, motion: Tensor, moved: Tensor, color: Tensor) -> Tensor:
    """Return the probability of colors (n, q), predicted directly or copied; takes what `copy_mixture_loss` takes."""
    device, given = own.device, own.dtype
    own, motion, moved, color = _with_float64(own, motion, moved, color)
    weight, _ = _weights(motion.double(), moved, own.shape[2])
    probability = (own.double() + weight.log()).softmax(2).gather(2, color.clamp(min=0)[..., None])[..., 0]
    return probability.to(device, given)


def _with_float64(*tensors: Tensor) -> tuple[Tensor, ...]:
    """Return tensors on a device that has float64, which mps has not."""
    return tuple(tensor.cpu() if tensor.device.type == "mps" else tensor for tensor in tensors)


def _weights(motion: Tensor, moved: Tensor, colors: int) -> tuple[Tensor, Tensor]:
    """Return the weights w (n, q, N) of colors and e^m (n, S) of motions, both over e^top.

    The largest logit, top, is taken out first: however large it is, nothing overflows.
    """
    top = motion.amax(1, keepdim=True).clamp_(min=0)
    copying, direct = _exp(motion - top, SMALLEST_MOTION), _exp(-top, SMALLEST_MOTION)  # e^m and 1, over e^top
    weight = direct[..., None].repeat(1, moved.shape[1], colors + 1)  # one color more, for what comes from outside
    return weight.scatter_add_(2, moved, copying[:, None].expand_as(moved))[..., :colors], copying


class _CopyMixtureLoss(torch.autograd.Function):
    """A color is predicted directly or copied, and its probabilities add up.

    A color's options are its own, o, and for each motion that brings it, o + m. With w = 1 + Σ e^m, the sum over the
    motions that bring it, a color has probability e^o w / Z, where Z = Σ e^o w over all colors. The gradient is
    worked out along with the loss, in fewer passes over memory than autograd takes. It takes float64: a color that
    motions all but rule out may still be predicted directly, and the other way round.
    """

    @staticmethod
    def forward(ctx: Any, own: Tensor, motion: Tensor, moved: Tensor, target: Tensor) -> Tensor:
        """Return the loss, and keep its gradient."""
        colors, given = own.shape[2], own.dtype
        own, motion = own.double(), motion.double()
        real, at = (target != NO_PIXEL)[..., None], target.clamp(min=0)[..., None]
        weight, copying = _weights(motion, moved, colors)
        highest = own.amax(2, keepdim=True)
        chosen = _exp(own - highest, SMALLEST_COLOR)
        share = chosen * weight
        total = share.sum(2, keepdim=True)  # Z, over e^highest
        right = weight.gather(2, at)
        loss = total.log() + highest - own.gather(2, at) - right.log()
        share.mul_(real / total).scatter_add_(2, at, -real.to(share.dtype))
        of_weight = share.new_zeros(*share.shape[:2], colors + 1)  # gradient of w
        torch.mul(chosen, real / total, out=of_weight[..., :colors])
        of_weight.scatter_add_(2, at, -(real / right))
        of_motion = of_weight.gather(2, moved).sum(1) * copying
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


def counted_cells(
    before: Tensor, after: Tensor, differs: Tensor, offset: Tensor, one_in: int
) -> tuple[Tensor, Tensor, Tensor]:
    """Return rows, cells and weights (n,) of the cells that the loss counts, of classes (B, cells, q) before and after.

    Those are all foreground cells, which change or differ from the mean image, and one in so many background cells,
    weighted accordingly. An offset (B,) determines the sample: the same for the same target, so that a run can be
    repeated.
    """
    counts = after != NO_PIXEL
    foreground = (((before != after) | differs) & counts).any(-1)
    number = torch.arange(foreground.shape[1], device=foreground.device) + offset[:, None]
    row, cell = (foreground | ((number % one_in == 0) & counts.any(-1))).nonzero(as_tuple=True)
    return row, cell, torch.where(foreground[row, cell], 1.0, float(one_in))


MOST_PATCHES = 2
"""Patches of a corrupted row, at most."""
LARGEST = 0.25
"""Sides of a patch, of the frame's, at most."""
FRAMES = 4.0
"""How long a patch stays, on average."""
DENSITIES = (1.0, 0.5, 0.2)
"""Shares of a patch's pixels that are corrupted, equally often."""


def corrupt_inputs(
    frames: Tensor, share: float, palette: Tensor, normalizer: Normalizer, rng: np.random.Generator
) -> Tensor:
    """Return normalized frames (B, T, C, H, W) with patches, in a share of the rows, that do not belong there.

    A patch shows one color of the palette (N, C), or what was there up to 8 frames before, or what another row shows
    there. It stays for some frames and is gone at the latest in the last one, which is never corrupted.
    """
    corrupted = frames.clone()
    rows, times = frames.shape[:2]
    for row in np.flatnonzero(rng.random(rows) < share):
        for _ in range(rng.integers(1, MOST_PATCHES + 1)):
            down, right = (_stretch(side, rng) for side in frames.shape[3:])
            end = int(rng.integers(max(times - 4, 1), times))
            start = max(0, end - int(rng.geometric(1 / FRAMES)))
            other = int(rng.integers(rows))
            patches = {
                "color": _plain(palette, normalizer, rng)[:, down, right],
                "older": frames[row, max(0, start - int(rng.integers(1, 9))), :, down, right],
                "elsewhere": frames[other, start:end, :, down, right],
            }
            patch = patches[str(rng.choice(sorted(patches)))]
            hit = torch.from_numpy(rng.random(patch.shape[-2:]) < rng.choice(DENSITIES)).to(frames.device)  # (h, w)
            region = corrupted[row, start:end, :, down, right]
            region.copy_(torch.where(hit, patch, region))
    return corrupted


def _stretch(side: int, rng: np.random.Generator) -> slice:
    """Return some of a frame's rows or columns."""
    length = int(rng.integers(1, max(2, int(side * LARGEST))))
    first = int(rng.integers(side - length + 1))
    return slice(first, first + length)


def _plain(palette: Tensor, normalizer: Normalizer, rng: np.random.Generator) -> Tensor:
    """Return a normalized frame (C, H, W) of one color."""
    color = palette[int(rng.integers(len(palette)))]
    return normalizer.to_float(color.expand(normalizer.mean.shape))
