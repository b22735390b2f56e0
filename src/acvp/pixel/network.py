"""The network: a small U-Net of residual blocks that the action multiplies and shifts at every scale, and its heads.

Two heads predict reward and termination, and their logits add up. One reads the smallest grid position by position, as
the end of a game shows at certain positions; the other takes the maximum over positions, as a hit may be anywhere.

Shapes: N rows, A actions, C channels, h, w cells of the grid.
"""

from __future__ import annotations

import torch
from torch import Tensor, nn
from torch.nn import functional

from acvp.models.encoder_decoder import convolution, linear
from acvp.models.heads import RewardTerminationHeads
from acvp.pixel.config import PixelConfig


class ActionBlock(nn.Module):
    """x + conv(relu((1 + γ_a) conv(relu(x)) + β_a)): at the start the identity, whatever the action."""

    def __init__(self, channels: int, actions: int, generator: torch.Generator, *, circular_padding: bool) -> None:
        super().__init__()
        self.circular_padding = circular_padding
        pad = (0, 0) if circular_padding else (1, 1)
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
        """Return features with a border of the opposite edges; without circular padding the convolution adds zeros."""
        if not self.circular_padding:
            return x
        wide = torch.cat((x[..., -1:], x, x[..., :1]), -1)
        return torch.cat((wide[..., -1:, :], wide, wide[..., :1, :]), -2)


class ActionUnet(nn.Module):
    """Halves the grid at every further scale and doubles it again, adding the features of the way down.

    With circular padding every block sees the opposite edge beyond an edge: in many games what leaves the screen on one
    side returns on the other.

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
        circular_padding: bool = False,
    ) -> None:
        super().__init__()
        here, *deeper = channels
        count, *counts = blocks
        self.down = nn.ModuleList(
            ActionBlock(here, actions, generator, circular_padding=circular_padding) for _ in range(count)
        )
        self.inner: ActionUnet | None = None
        if deeper:
            self.shrink = convolution(here, deeper[0], 2, 2, (0, 0), generator)
            self.inner = ActionUnet(tuple(deeper), tuple(counts), actions, generator, circular_padding=circular_padding)
            self.widen = convolution(deeper[0], here, 1, 1, (0, 0), generator)
            self.up = nn.ModuleList(
                ActionBlock(here, actions, generator, circular_padding=circular_padding) for _ in range(count)
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


POSITION_CHANNELS = 8
"""Channels of the smallest grid that are read position by position."""


def position_heads(config: PixelConfig, generator: torch.Generator) -> nn.Sequential:
    """Return the layers from the smallest grid to an outcome: a weight for each position."""
    height, width = config.grid
    for _ in config.channels[1:]:
        height, width = -(-height // 2), -(-width // 2)
    return nn.Sequential(
        convolution(config.channels[-1], POSITION_CHANNELS, 1, 1, (0, 0), generator),
        nn.ReLU(),
        nn.Flatten(),
        RewardTerminationHeads(POSITION_CHANNELS * height * width, generator),
    )


def event_heads(config: PixelConfig, generator: torch.Generator) -> nn.Sequential:
    """Return the layers from the finest grid to an outcome: the largest value of each feature, wherever it is."""
    return nn.Sequential(
        convolution(config.channels[0], config.events, 1, 1, (0, 0), generator),
        nn.MaxPool2d(config.grid),
        nn.Flatten(),
        RewardTerminationHeads(config.events, generator),
    )
