"""The network that predicts objects, one by one, in windows that move with each of them.

An object is seen in a window of the last frames that is centered on it. From there and from the action, the network
predicts its move: one of the moves that objects of the dataset make, or none where it vanishes. Given the move, it
draws a smaller window, centered on the object's new place: for each pixel a color, or a copy of what the pixel shows
now, of the background under it, or of the object as it is now. Drawing after the choice keeps objects whole where
their move is uncertain.

Shapes: n objects of all frames, N colors, M moves, A actions, F features, V side of a seen window, D of a drawn one,
R frames, C planes, H height, W width.
"""

from __future__ import annotations

from math import pi
from typing import NamedTuple

import torch
from torch import Tensor, nn
from torch.nn import functional

from acvp.models.encoder_decoder import convolution, fill_uniform, linear
from acvp.pixel.config import SEEN_FRAMES

SEEN, DRAWN = 40, 32
"""Sides of the windows in pixels."""
COPIES = 3
"""Ways to copy a pixel's color."""
EMBEDDING, CHANNELS, SMALLEST = 6, (24, 48, 64), 5
"""Numbers per color, channels of the convolutions, and the side of what they leave of the seen window."""
SKETCH, SKETCH_SIDE, SHARP, STROKES = 32, 8, 24, 16
"""Channels and side of the drawing before it is enlarged, its channels after one and after two enlargements."""
AGES = (1, 2, 3, 4, 6, 8, 12, 16)
"""Steps since an object last changed, as thresholds."""
OLD = 16
"""Steps after which a pixel that has not changed counts as old."""
WAVES = (1, 2, 4, 8)
"""Half periods per frame of the waves that describe a position."""
SUMMARY = 2 + 2 + 1 + 4 * len(WAVES) + len(AGES)
"""Numbers that describe an object beside its window: position, size, kind, waves of the position, ages."""
STAY_ODDS, REVEAL_ODDS = 4.0, 2.0
"""Logits before training of keeping a pixel's color and of showing the background."""


class Seen(NamedTuple):
    """What the network sees of objects before the action."""

    colors: Tensor
    """Windows of the last frames, newest first, and of the background, (n, 5, V, V) classes; N beyond the frame."""
    planes: Tensor
    """Recency of the last change, twice, and the object's own pixels, (n, 3, V, V)."""
    summary: Tensor
    """(n, SUMMARY)"""


class ObjectNetwork(nn.Module):
    """Moves and draws objects.

    ::

        x_t-3:t, background, recency ── conv ×4 ── linear ──(+)── · action ── features ─┬── move
        33×40×40                        64×5×5      128   summary                        └── + move ── sketch ── colors
                                                                 x_t, background, x_t moved ──────────┘     (N+3)×32×32
    """

    def __init__(self, colors: int, moves: int, actions: int, features: int, generator: torch.Generator) -> None:
        super().__init__()
        first, second, third = CHANNELS
        self.colors = nn.Parameter(torch.empty(colors + 1, EMBEDDING))
        fill_uniform(self.colors, generator, 1.0)
        self.stem = convolution((SEEN_FRAMES + 1) * EMBEDDING + 3, first, 4, 2, (1, 1), generator)
        self.shrink = convolution(first, second, 3, 2, (1, 1), generator)
        self.refine = convolution(second, second, 3, 1, (1, 1), generator)
        self.smallest = convolution(second, third, 3, 2, (1, 1), generator)
        self.gather = linear(third * SMALLEST**2, features, generator)
        self.summary = linear(SUMMARY, features, generator)
        self.action = linear(actions, 2 * features, generator, bias=False, bound=0.0)
        self.mix = linear(features, features, generator)
        self.mixed = linear(features, features, generator)
        self.head = linear(features, moves + 1, generator)
        self.moved = nn.Parameter(torch.empty(moves + 1, features))
        fill_uniform(self.moved, generator, 1.0)
        self.sketch = linear(features, SKETCH * SKETCH_SIDE**2, generator)
        self.enlarge = convolution(SKETCH, 4 * SHARP, 3, 1, (1, 1), generator)
        self.sharpen = convolution(SHARP, 4 * STROKES, 1, 1, (0, 0), generator)
        self.place = convolution(COPIES * EMBEDDING + STROKES, SHARP, 3, 1, (1, 1), generator)
        self.blend = convolution(SHARP, SHARP, 3, 1, (1, 1), generator)
        self.copy = convolution(SHARP, colors + COPIES, 1, 1, (0, 0), generator)
        assert self.copy.bias is not None
        with torch.no_grad():
            self.copy.bias[colors : colors + 2] = torch.tensor((STAY_ODDS, REVEAL_ODDS))

    def look(self, seen: Seen) -> Tensor:
        """Return features (n, F) of objects before the action."""
        colors = functional.embedding(seen.colors, self.colors).permute(0, 1, 4, 2, 3).flatten(1, 2)
        hidden = functional.relu(self.stem(torch.cat((colors, seen.planes), 1)))  # (n, 24, 20, 20)
        hidden = functional.relu(self.shrink(hidden))  # (n, 48, 10, 10)
        hidden = functional.relu(hidden + self.refine(hidden))
        hidden = functional.relu(self.smallest(hidden))  # (n, 64, 5, 5)
        features: Tensor = self.gather(hidden.flatten(1)) + self.summary(seen.summary)
        return features

    def act(self, features: Tensor, actions: Tensor) -> Tensor:
        """Return features (n, F) under action vectors (n, A)."""
        gain, shift = self.action(actions).chunk(2, 1)
        features = functional.relu(torch.addcmul(features + shift, features, gain))
        return functional.relu(features + self.mixed(functional.relu(self.mix(features))))

    def draw(self, features: Tensor, move: Tensor, copies: Tensor) -> Tensor:
        """Return logits (n, N + 3, D, D) of colors and of copies, after moves (n,); ``copies`` are (n, 3, D, D)."""
        sketch = functional.relu(self.sketch(functional.relu(features + self.moved[move])))
        sketch = sketch.view(-1, SKETCH, SKETCH_SIDE, SKETCH_SIDE)
        sketch = functional.relu(functional.pixel_shuffle(self.enlarge(sketch), 2))  # (n, 24, 16, 16)
        sketch = functional.relu(functional.pixel_shuffle(self.sharpen(sketch), 2))  # (n, 16, 32, 32)
        colors = functional.embedding(copies, self.colors).permute(0, 1, 4, 2, 3).flatten(1, 2)
        hidden = functional.relu(self.place(torch.cat((colors, sketch), 1)))  # (n, 24, 32, 32)
        logits: Tensor = self.copy(functional.relu(hidden + self.blend(hidden)))
        return logits


def summarize(center: Tensor, size: Tensor, moving: Tensor, age: Tensor, frame: tuple[int, int]) -> Tensor:
    """Return the summaries (n, SUMMARY) of objects: centers and sizes (n, 2), whether of a moving color, age (n,)."""
    position = center / torch.tensor(frame, device=center.device)  # 0..1
    waves = [wave(pi * count * position) for count in WAVES for wave in (torch.sin, torch.cos)]
    older = age[:, None] >= torch.tensor(AGES, device=age.device)
    return torch.cat((2 * position - 1, size / 16, moving[:, None], *waves, older), 1).float()


def drawn_loss(logits: Tensor, copies: Tensor, target: Tensor) -> Tensor:
    """Return −log of the probability of colors ``target`` (n, D, D) under logits (n, N + 3, D, D), by pixel.

    The probabilities of drawing a color and of copying it add up.
    """
    colors = logits.shape[1] - COPIES
    drawn = logits[:, :colors].gather(1, target.clamp(max=colors - 1)[:, None])
    copied = logits[:, colors:].masked_fill(copies != target[:, None], float("-inf"))
    return logits.logsumexp(1) - torch.cat((drawn, copied), 1).logsumexp(1)


def drawn_colors(logits: Tensor, copies: Tensor) -> Tensor:
    """Return the most probable color (n, D, D) of logits (n, N + 3, D, D)."""
    colors = logits.shape[1] - COPIES
    share = (logits - logits.amax(1, keepdim=True)).exp()
    total = torch.cat((share[:, :colors], torch.zeros_like(share[:, :1])), 1)  # a color more, from beyond the frame
    return total.scatter_add(1, copies, share[:, colors:])[:, :colors].argmax(1)


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
