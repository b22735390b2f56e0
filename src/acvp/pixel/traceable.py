"""The parts of a pixel predictor that an ONNX graph computes in another way, with the same result.

A graph neither warns nor branches on values, and in a browser its operations are slow, so it does less: a row of cells
gets logits of the colors that the palette mask allows in it, the mask is part of the bias, and copies are computed for
the pixels that may change only.

Shapes: N colors, F features, S ways to copy a color, H height, W width, h, w cells of the grid, q pixels of a cell,
K colors of a group of rows, n selected pixels.
"""

from __future__ import annotations

from itertools import groupby

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from acvp.pixel.config import PixelConfig
from acvp.pixel.loss import NO_PIXEL
from acvp.pixel.network import add_border, copied_colors, keeping_odds, to_cells, to_frames
from acvp.pixel.palette import Colors

BITS = (128, 64, 32, 16, 8, 4, 2, 1)


class TraceableColors(Colors):
    """Colors for a traced graph, which can neither warn nor look up: an unknown color becomes the first one."""

    def __init__(self, colors: Colors) -> None:
        super().__init__(tuple(tuple(color) for color in colors.palette.tolist()), quantized=colors.quantized)

    def classes(self, pixels: Tensor) -> Tensor:
        """Return the class of each of uint8 pixels (..., C)."""
        return (pixels[..., None, :] == self.palette).all(-1).to(torch.uint8).argmax(-1)


class TraceableDecoder(nn.Module):
    """Chooses the colors of one frame as `decode_changes` does, from logits by groups of rows."""

    offset: Tensor
    """Where the logits of each cell begin among all, (h·w,)."""
    width: Tensor
    """Colors of each cell's group, (h·w,)."""
    slot: Tensor
    """Index of a color among those of a row's group, −1 for one that it has not, (h·(N + 1),)."""
    row: Tensor
    """Where the slots of each cell's row begin, (h·w,)."""

    def __init__(self, head: nn.Linear, excluded: Tensor | None, config: PixelConfig) -> None:
        super().__init__()
        (rows, columns), pixels, count = config.grid, config.cell**2, len(config.palette)
        self.config, self.head = config, head
        allowed = np.ones((rows * columns, pixels, count), bool) if excluded is None else ~excluded.numpy()
        outside = (to_cells(torch.zeros(1, *config.frame[:2], dtype=torch.long), config)[0] == NO_PIXEL).numpy()
        if excluded is not None:
            allowed[outside] = np.arange(count) == 0  # nobody sees which
        self.cells: list[tuple[int, int]] = []
        offset, width, slot, used = [], [], [], 0
        for colors, members in groupby(range(rows), lambda row: _colors_of(allowed, row, columns)):
            group = list(members)
            first, end = group[0] * columns, (group[-1] + 1) * columns
            name = f"_{len(self.cells)}"
            self.register_buffer("colors" + name, torch.tensor(colors))
            if excluded is not None:
                bits = np.packbits(~allowed[first:end][..., colors], axis=2)
                self.register_buffer("excluded" + name, torch.from_numpy(bits))
            self.cells.append((first, end))
            offset.append(used + np.arange(end - first) * pixels * len(colors))
            width.append(np.full(end - first, len(colors)))
            index = np.full(count + 1, -1)
            index[list(colors)] = np.arange(len(colors))
            slot += [index] * len(group)
            used += (end - first) * pixels * len(colors)
        for field, values in (("offset", offset), ("width", width)):
            self.register_buffer(field, torch.from_numpy(np.concatenate(values)))
        self.register_buffer("slot", torch.from_numpy(np.concatenate(slot)))
        self.register_buffer("row", torch.arange(rows).repeat_interleave(columns) * (count + 1))

    def forward(self, features: Tensor, motion: Tensor, seen: Tensor) -> Tensor:
        """Return classes (1, H, W) of features (h·w, F) and logits of copying (h·w, S) after classes (1, 2, H, W)."""
        now = to_cells(seen[:, 1], self.config)[0]  # (h·w, q)
        parts = [self._own(group, features) for group in range(len(self.cells))]
        highest = torch.cat([part.amax(2) for part in parts])
        own = torch.cat([part.flatten() for part in parts])
        (cells, pixels), side = (torch.arange(size) for size in now.shape), now.shape[1]
        stays = self._logits(own, cells[:, None], pixels, now.clamp(min=0))
        may_change = (highest - stays > keeping_odds(motion)[:, None]) & (now != NO_PIXEL)
        cell, pixel = may_change.nonzero(as_tuple=True)  # (n,)
        moved = copied_colors(add_border(seen, self.config), torch.zeros_like(cell), cell, pixel, self.config)
        place = cell * side + pixel  # in the flattened cells: a graph finds one index faster than two
        best, way = (self._logits(own, cell[:, None], pixel[:, None], moved) + motion.index_select(0, cell)).max(1)
        now = now.flatten().index_put((place,), moved.gather(1, way[:, None])[:, 0])
        new = (best < _taken(highest.flatten(), place)).nonzero()[:, 0]  # of the n pixels, those that copy no color
        cell, pixel, place = (_taken(values, new) for values in (cell, pixel, place))
        every = torch.arange(len(self.config.palette))
        chosen = self._logits(own, cell[:, None], pixel[:, None], every).argmax(1)
        return to_frames(now.index_put((place,), chosen).view(-1, side), 1, self.config)

    def _own(self, group: int, features: Tensor) -> Tensor:
        """Return the logits (cells, q, K) of a group's own colors."""
        first, end = self.cells[group]
        colors, pixels = self.get_buffer(f"colors_{group}"), self.config.cell**2
        weight = self.head.weight.view(pixels, -1, features.shape[1])[:, colors].flatten(0, 1)  # (q·K, F)
        bias = self.head.bias.view(pixels, -1)[:, colors].flatten()[None]
        if hasattr(self, f"excluded_{group}"):
            bits = self.get_buffer(f"excluded_{group}")[..., None] & torch.tensor(BITS, dtype=torch.uint8)
            excluded = (bits != 0).flatten(2)[..., : len(colors)].flatten(1)  # (cells, q·K)
            bias = torch.where(excluded, torch.tensor(-torch.inf), bias)
        return torch.addmm(bias, features[first:end], weight.T).view(end - first, pixels, -1)

    def _logits(self, own: Tensor, cell: Tensor, pixel: Tensor, color: Tensor) -> Tensor:
        """Return the logits of colors for pixels of cells, among those of all groups; −∞ where a color cannot be."""
        slot = _taken(self.slot, _taken(self.row, cell) + color)
        index = _taken(self.offset, cell) + pixel * _taken(self.width, cell) + slot.clamp(min=0)
        return torch.where(slot < 0, torch.tensor(-torch.inf), _taken(own, index))


def _taken(values: Tensor, index: Tensor) -> Tensor:
    """Return ``values[index]``, by the operation that is fastest in a graph."""
    return values.index_select(0, index.flatten()).view_as(index)


def _colors_of(allowed: NDArray[np.bool_], row: int, columns: int) -> tuple[int, ...]:
    """Return the colors that the cells of a row can have, of whether each of (h·w, q, N) can."""
    return tuple(np.flatnonzero(allowed[row * columns : (row + 1) * columns].any((0, 1))).tolist())
