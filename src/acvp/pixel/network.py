"""A small U-Net of residual blocks that the action multiplies and shifts at every scale.

Shapes: N rows, A actions, C channels, h, w cells of the grid.

From the grids of the pixel-exact network to reward and end: two parts, whose logits add up.

One tells what stands where, as the end of the game does by what is at certain places; the other that something
happens, wherever it does, as a hit.

Which colors each pixel can have: kept as bits beside the weights, used by cells.

Shapes: H height, W width, N colors, h, w cells of the grid, q pixels of a cell.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn
from torch.nn import functional

from acvp.models.checks import ConfigError
from acvp.models.encoder_decoder import convolution, linear
from acvp.models.transform import OutcomeHeads
from acvp.pixel.config import PixelConfig


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


PLACED_CHANNELS = 8
"""Channels of the smallest grid that are read place by place."""


def placed_heads(config: PixelConfig, generator: torch.Generator) -> nn.Sequential:
    """Return the layers from the smallest grid to an outcome: a weight for each place."""
    height, width = config.grid
    for _ in config.channels[1:]:
        height, width = -(-height // 2), -(-width // 2)
    return nn.Sequential(
        convolution(config.channels[-1], PLACED_CHANNELS, 1, 1, (0, 0), generator),
        nn.ReLU(),
        nn.Flatten(),
        OutcomeHeads(PLACED_CHANNELS * height * width, generator),
    )


def event_heads(config: PixelConfig, generator: torch.Generator) -> nn.Sequential:
    """Return the layers from the finest grid to an outcome: the largest value of each feature, wherever it is."""
    return nn.Sequential(
        convolution(config.channels[0], config.events, 1, 1, (0, 0), generator),
        nn.MaxPool2d(config.grid),
        nn.Flatten(),
        OutcomeHeads(config.events, generator),
    )


NAME = "possible"
"""Of the buffer, in the network and in its file."""
INVERSE = "impossible"
"""Of the buffer that is made of it."""


def packed(places: NDArray[np.bool_], config: PixelConfig) -> Tensor:
    """Return where each color can be, (N, H, W), as bits (H, W, ⌈N / 8⌉)."""
    wanted = (len(config.palette), *config.frame[:2])
    if places.shape != wanted:
        raise ConfigError(f"places have shape {places.shape}, expected {wanted}: colors, height, width")
    return torch.from_numpy(np.packbits(places.transpose(1, 2, 0), axis=2))


def impossible_by_cell(bits: Tensor, config: PixelConfig) -> Tensor:
    """Return whether a pixel of a cell cannot have a color, (h·w, q, N); beyond the frame it can have all."""
    places = np.unpackbits(bits.numpy(force=True), axis=2, count=len(config.palette))  # (H, W, N)
    (rows, columns), cell = config.grid, config.cell
    whole = np.ones((rows * cell, columns * cell, places.shape[2]), np.uint8)
    whole[: places.shape[0], : places.shape[1]] = places
    by_cell = whole.reshape(rows, cell, columns, cell, -1).transpose(0, 2, 1, 3, 4).reshape(rows * columns, cell**2, -1)
    return torch.from_numpy(by_cell == 0).to(bits.device)


def unpack(predictor: nn.Module, *_: Any) -> None:
    """After weights are loaded, or set: make the network's `impossible` of its `possible`."""
    bits, config = getattr(predictor, NAME), predictor.config
    assert isinstance(config, PixelConfig)
    setattr(predictor, INVERSE, None if bits is None else impossible_by_cell(bits, config))


def make_room(predictor: nn.Module, weights: dict[str, Tensor], prefix: str, *_: Any) -> None:
    """Before weights are loaded: have the buffer if they do. Those of earlier versions, or of any colors, do not."""
    given, config = weights.get(prefix + NAME), predictor.config
    assert isinstance(config, PixelConfig)
    if given is not None and given.dtype != torch.uint8:
        raise ConfigError(f"{NAME} is {given.dtype}, expected {torch.uint8}")
    shape = (*config.frame[:2], -(-len(config.palette) // 8))
    setattr(predictor, NAME, None if given is None else torch.empty(shape, dtype=torch.uint8, device=given.device))
