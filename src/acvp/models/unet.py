"""A small U-Net of residual blocks that the action multiplies and shifts at every scale.

Shapes: N rows, A actions, C channels, h, w cells of the grid.
"""

import torch
from torch import Tensor, nn
from torch.nn import functional

from acvp.models.layers import convolution, linear


class ActionBlock(nn.Module):
    """x + conv(relu((1 + γ_a) conv(relu(x)) + β_a)): at the start the identity, whatever the action."""

    def __init__(self, channels: int, actions: int, generator: torch.Generator) -> None:
        super().__init__()
        self.first = convolution(channels, channels, 3, 1, (1, 1), generator)
        self.action = linear(actions, 2 * channels, generator, bias=False, bound=0.0)  # γ and β
        self.second = convolution(channels, channels, 3, 1, (1, 1), generator)
        nn.init.zeros_(self.second.weight)

    def forward(self, x: Tensor, action: Tensor) -> Tensor:
        """Return features like x (N, C, h, w) under action vectors (N, A)."""
        gain, shift = self.action(action)[:, :, None, None].chunk(2, 1)
        hidden = self.first(functional.relu(x))
        changed: Tensor = self.second(functional.relu_(torch.addcmul(hidden + shift, hidden, gain)))
        return x + changed


class ActionUnet(nn.Module):
    """Halves the grid at every further scale and comes back, joining what it had on the way down by addition.

    ::

        x ── block ×b ──────────(+)── block ×b ── result
                 └─ half ─ … ─ double ┘
    """

    def __init__(
        self, channels: tuple[int, ...], blocks: tuple[int, ...], actions: int, generator: torch.Generator
    ) -> None:
        super().__init__()
        here, *deeper = channels
        count, *counts = blocks
        self.down = nn.ModuleList(ActionBlock(here, actions, generator) for _ in range(count))
        self.inner: ActionUnet | None = None
        if deeper:
            self.shrink = convolution(here, deeper[0], 2, 2, (0, 0), generator)
            self.inner = ActionUnet(tuple(deeper), tuple(counts), actions, generator)
            self.widen = convolution(deeper[0], here, 1, 1, (0, 0), generator)
            self.up = nn.ModuleList(ActionBlock(here, actions, generator) for _ in range(count))

    def forward(self, x: Tensor, action: Tensor) -> tuple[Tensor, Tensor]:
        """Return features like x (N, C, h, w) under action vectors (N, A), and those of the smallest grid."""
        for block in self.down:
            x = block(x, action)
        if self.inner is None:
            return x, x
        height, width = x.shape[-2:]
        even = functional.pad(x, (0, width % 2, 0, height % 2)) if width % 2 or height % 2 else x
        below, smallest = self.inner(self.shrink(even), action)
        wide = functional.interpolate(self.widen(below), scale_factor=2.0)  # nearest
        x = x + wide[..., :height, :width]
        for block in self.up:
            x = block(x, action)
        return x, smallest
