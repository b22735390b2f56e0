"""What objects are seen by: the memory of the last frames, and windows around objects that are cut out of it.

Shapes: R frames, C planes, H height, W width, A actions, n objects of all frames, D side of a drawn window, V of a seen
one.
"""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import Tensor
from torch.nn import functional

from acvp.pixel.object_network import DRAWN, OLD, SEEN


class Memory(NamedTuple):
    """What objects are seen by, for R frames."""

    recent: Tensor
    """Color classes of the last frames, newest first, (R, 4, H, W) int16."""
    under: Tensor
    """What each pixel last showed of the background, (R, H, W) int16."""
    age: Tensor
    """Steps since each pixel last changed, at most OLD, (R, H, W) uint8."""
    past: Tensor
    """The last actions as vectors, oldest first, (R, 3, A); zeros where they are not known."""


def remember(under: Tensor, age: Tensor, before: Tensor, now: Tensor, kinds: Tensor) -> tuple[Tensor, Tensor]:
    """Return the background and the ages (R, H, W) after one more frame of some kinds of pixels."""
    older = (age + 1).clamp_(max=OLD)
    return torch.where(kinds == 0, now, under), older.masked_fill_(now != before, 0)


class Objects(NamedTuple):
    """The objects of several frames."""

    row: Tensor
    """Number of the frame, (n,)."""
    box: Tensor
    """Top, left, bottom, right and kind, (n, 5)."""

    @property
    def center(self) -> Tensor:
        return (self.box[:, :2] + self.box[:, 2:4]) // 2


def cut(planes: Tensor, row: Tensor, center: Tensor, side: int, fill: int) -> Tensor:
    """Return windows (n, C, side, side) of planes (R, C, H, W), each of a row and around a center (n, 2)."""
    half = side // 2
    padded = functional.pad(planes, (half,) * 4, value=fill)
    _, channels, height, width = padded.shape
    corner = (row * channels * height + center[:, 0]) * width + center[:, 1]  # (n,)
    line = torch.arange(side, device=planes.device)
    inside = line[:, None] * width + line  # (side, side)
    layer = torch.arange(channels, device=planes.device) * height * width
    at = corner[:, None, None, None] + layer[:, None, None] + inside
    return padded.flatten()[at]


def owned(row: Tensor, center: Tensor, shape: tuple[int, ...] | torch.Size) -> tuple[Tensor, Tensor]:
    """Return for drawn windows which pixels of frames (R, H, W) they cover, and which of those they own, (n, D, D).

    A pixel belongs to the object whose center is nearest; of equally near ones to the first.
    """
    _, height, width = shape
    line = torch.arange(DRAWN, device=row.device) - DRAWN // 2
    down, right = (center[:, axis, None] + line for axis in (0, 1))  # (n, D)
    inside = ((down >= 0) & (down < height))[:, :, None] & ((right >= 0) & (right < width))[:, None]
    at = (row[:, None, None] * height + down[:, :, None]) * width + right[:, None]
    at = at.where(inside, 0)
    distance = torch.maximum(line.abs()[:, None], line.abs())
    key = distance * len(row) + torch.arange(len(row), device=row.device)[:, None, None]
    far = torch.full((shape[0] * height * width,), DRAWN * (len(row) + 1), device=row.device)
    nearest = far.scatter_reduce(0, at[inside], key[inside], "amin")
    return at, inside & (nearest[at] == key)


def inside(objects: Objects, margin: int = 0) -> Tensor:
    """Return which pixels of seen windows are within their objects' boxes, or close to them, (n, V, V)."""
    line = torch.arange(SEEN, device=objects.box.device) - SEEN // 2
    top, left, bottom, right = objects.box[:, :4].unbind(1)
    down, across = (objects.center[:, axis, None] + line for axis in (0, 1))
    rows = (down >= top[:, None] - margin) & (down <= bottom[:, None] + margin)
    columns = (across >= left[:, None] - margin) & (across <= right[:, None] + margin)
    return rows[:, :, None] & columns[:, None]
