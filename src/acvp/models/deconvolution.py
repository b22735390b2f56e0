"""One strided deconvolution, stored once, computed in whichever of two exactly equal forms is faster.

Shapes: N rows, I input channels, O output channels, k kernel, s stride, (h, w) input size, (H, W) output size.
"""

from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional

from acvp.models.layers import Pair, fill_uniform

SUB_PIXEL_OUTPUTS = 8
"""Up to this many output channels the sub-pixel forward is measured faster (docs/models.md): a transposed convolution
leaves most vector lanes empty when it writes 3 channels, the sub-pixel form writes stride² times as many."""


def sub_pixel_deconvolution(x: Tensor, weight: Tensor, bias: Tensor, stride: int, pad: Pair) -> Tensor:
    """Return conv_transpose2d(x, weight, bias, stride, pad), computed as a stride-1 convolution and a pixel shuffle.

    Output row s·q + r sums x[q - v] · weight[s·v + r] over v: each residue r is a convolution of its own.
    """
    inputs, outputs, kernel, _ = weight.shape
    taps = -(-kernel // stride)  # per residue, rounded up
    spare = taps * stride - kernel
    phases = functional.pad(weight, (0, spare, 0, spare)).view(inputs, outputs, taps, stride, taps, stride)
    phases = phases.permute(1, 3, 5, 0, 2, 4).flip(4, 5).reshape(outputs * stride**2, inputs, taps, taps)
    fine = functional.conv2d(x, phases, bias.repeat_interleave(stride**2), padding=taps - 1)  # (N, O·s², h+, w+)
    full = functional.pixel_shuffle(fine, stride)  # (N, O, s·(h+), s·(w+))
    height, width = ((size - 1) * stride + kernel - 2 * p for size, p in zip(x.shape[2:], pad, strict=True))
    return full[:, :, pad[0] : pad[0] + height, pad[1] : pad[1] + width]  # (N, O, H, W)


def deconvolution(x: Tensor, weight: Tensor, bias: Tensor, stride: int, pad: Pair) -> Tensor:
    """Return conv_transpose2d(x, weight, bias, stride, pad) in its faster form."""
    if stride > 1 and weight.shape[1] <= SUB_PIXEL_OUTPUTS:
        return sub_pixel_deconvolution(x, weight, bias, stride, pad)
    return functional.conv_transpose2d(x, weight, bias, stride, pad)


class _Deconvolution(torch.autograd.Function):
    """A deconvolution whose gradients are those of the transposed form, the bias's summed apart.

    That sum takes 2 ms for the paper's second deconvolution; asked for along with the others it takes 55 ms.
    """

    @staticmethod
    def forward(ctx: Any, x: Tensor, weight: Tensor, bias: Tensor, stride: int, pad: Pair) -> Tensor:
        ctx.save_for_backward(x, weight)
        ctx.stride, ctx.pad = stride, pad
        result = deconvolution(x, weight, bias, stride, pad)
        return result.clone() if result._is_view() else result  # a view must not leave a Function

    @staticmethod
    @torch.autograd.function.once_differentiable
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor | None, ...]:
        x, weight = ctx.saved_tensors
        stride, pad, wanted = [ctx.stride] * 2, list(ctx.pad), [*ctx.needs_input_grad[:2], False]
        by_bias = gradient.sum((0, 2, 3)) if ctx.needs_input_grad[2] else None
        by_x, by_weight, _ = torch.ops.aten.convolution_backward(
            gradient.to(x.dtype), x, weight.to(x.dtype), None, stride, pad, [1, 1], True, [0, 0], 1, wanted
        )
        return by_x, by_weight, by_bias, None, None


class Deconvolution(nn.Module):
    """Maps each input position to a k×k patch of the output at stride s, overlaps summed (§3.3)."""

    def __init__(
        self, inputs: int, outputs: int, kernel: int, stride: int, pad: Pair, generator: torch.Generator
    ) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.empty(inputs, outputs, kernel, kernel))  # as nn.ConvTranspose2d keeps it
        self.bias = nn.Parameter(torch.zeros(outputs))
        self.stride, self.pad = stride, pad
        fill_uniform(self.weight, generator)

    def forward(self, x: Tensor) -> Tensor:
        """Return the deconvolution (N, O, H, W) of x (N, I, h, w)."""
        arguments = (x, self.weight, self.bias, self.stride, self.pad)
        if not torch.is_grad_enabled():
            return deconvolution(*arguments)
        result: Tensor = _Deconvolution.apply(*arguments)  # type: ignore[no-untyped-call]
        return result
