"""A small U-Net of residual blocks that the action multiplies and shifts at every scale.

Shapes: N rows, A actions, C channels, h, w cells of the grid.
"""

import torch
from torch import Tensor, nn
from torch.nn import functional

from acvp.models.layers import convolution, linear


class ActionBlock(nn.Module):
    """x + conv(relu((1 + γ_a) conv(relu(x)) + β_a)): at the start the identity, whatever the action."""

    def __init__(self, channels: int, actions: int, generator: torch.Generator, *, round_edges: bool) -> None:
        super().__init__()
        self.round_edges = round_edges
        pad = (0, 0) if round_edges else (1, 1)
        self.first = convolution(channels, channels, 3, 1, pad, generator)
        self.action = linear(actions, 2 * channels, generator, bias=False, bound=0.0)  # γ and β
        self.second = convolution(channels, channels, 3, 1, pad, generator)
        nn.init.zeros_(self.second.weight)

    def forward(self, x: Tensor, action: Tensor) -> Tensor:
        """Return features like x (N, C, h, w) under action vectors (N, A)."""
        gain, shift = self.action(action)[:, :, None, None].chunk(2, 1)
        hidden = self.first(self._bordered(functional.relu(x)))
        changed: Tensor = self.second(self._bordered(functional.relu_(torch.addcmul(hidden + shift, hidden, gain))))
        return x + changed

    def _bordered(self, x: Tensor) -> Tensor:
        """Return features with the opposite edges as a border; without round edges the convolution adds zeros."""
        if not self.round_edges:
            return x
        wide = torch.cat((x[..., -1:], x, x[..., :1]), -1)
        return torch.cat((wide[..., -1:, :], wide, wide[..., :1, :]), -2)


class ActionUnet(nn.Module):
    """Halves the grid at every further scale and comes back, joining what it had on the way down by addition.

    With round edges every block sees the cells beyond an edge that lie at the opposite one, as things that leave a
    screen on one side and come back on the other do.

    ::

        x ── block ×b ──────────(+)── block ×b ── result
                 └─ half ─ … ─ double ┘
    """

    def __init__(
        self,
        channels: tuple[int, ...],
        blocks: tuple[int, ...],
        actions: int,
        generator: torch.Generator,
        *,
        round_edges: bool = False,
    ) -> None:
        super().__init__()
        here, *deeper = channels
        count, *counts = blocks
        self.down = nn.ModuleList(ActionBlock(here, actions, generator, round_edges=round_edges) for _ in range(count))
        self.inner: ActionUnet | None = None
        if deeper:
            self.shrink = convolution(here, deeper[0], 2, 2, (0, 0), generator)
            self.inner = ActionUnet(tuple(deeper), tuple(counts), actions, generator, round_edges=round_edges)
            self.widen = convolution(deeper[0], here, 1, 1, (0, 0), generator)
            self.up = nn.ModuleList(
                ActionBlock(here, actions, generator, round_edges=round_edges) for _ in range(count)
            )

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
