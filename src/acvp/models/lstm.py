"""The recurrent layer of equation 2: an LSTM without peepholes whose gate gradients are clipped.

Shapes: B batch, T time, I inputs, n hidden units; gates in the order i, f, o, g.
"""

from typing import Any

import torch
from torch import Tensor, nn
from torch.nn import functional

from acvp.models.layers import fill_uniform, linear

LSTM_BOUND = 0.08
"""LSTM weights are drawn from U(-0.08, 0.08) (appendix A)."""


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
