"""The network that predicts objects, one by one, in windows that move with each of them.

An object is seen in a window of the last frames that is centered on it, and by its trail: where its main color was in
each of these frames. From there, from the last actions and from the new one, the network predicts its move: one of the
moves that objects of the dataset make, or none where it vanishes. Given the move, it draws a window centered on the
object's new place: for each pixel a color, or a copy of what the pixel shows now, of the background under it, or of the
object as it was in one of the last frames. Drawing after the choice keeps objects whole where their move is uncertain.

Shapes: n objects of all frames, N colors, M moves, A actions, F features, V side of a seen window, D of a drawn one,
R frames, C planes, H height, W width.
"""

from __future__ import annotations

from math import pi
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn
from torch.nn import functional

from acvp.models.layers import convolution, fill_uniform, linear
from acvp.pixel.config import PAST_ACTIONS, SEEN_FRAMES, ObjectConfig
from acvp.pixel.network import pad_to_cells

SEEN, DRAWN = 32, 32
"""Sides of the windows in pixels."""
LOOKS = (0, 1, 3)
"""Frames whose view of the object can be copied: the newest, the one before it, and the oldest seen."""
COPIES = 2 + len(LOOKS)
"""Ways to copy a pixel's color: from where it is, from the background, from the looks."""
EMBEDDING, CHANNELS, SMALLEST = 4, (24, 48, 64), 4
"""Numbers per color, channels of the convolutions, and the side of what they leave of the seen window."""
SKETCH, SKETCH_SIDE, SHARP, STROKES = 32, 8, 24, 16
"""Channels and side of the drawing before it is enlarged, its channels after one and after two enlargements."""
AGES = (1, 2, 3, 4, 6, 8, 12, 16)
"""Steps since an object last changed, as thresholds."""
WAVES = (1, 2, 4, 8)
"""Half periods per frame of the waves that describe a position."""
RECALL_ODDS = -2.0
"""Logit, before training, of a pixel showing what it showed before: such a network predicts as one without."""
STRIDE = 8
"""Pixels that the trail distinguishes in a step, either way."""
TRAIL = SEEN_FRAMES + 2 * (SEEN_FRAMES - 1) * (2 * STRIDE + 1)
"""Numbers that describe a trail: in which frames the color was seen, and a bit for each step down and right."""
SUMMARY = 2 + 2 + 1 + 4 * len(WAVES) + len(AGES) + TRAIL
"""Numbers that describe an object beside its window: position, size, kind, waves of the position, ages, trail."""
STAY_ODDS, REVEAL_ODDS = 4.0, 2.0
"""Logits before training of keeping a pixel's color and of showing the background."""


class Trail(NamedTuple):
    """Where the main color of objects was in the last frames, newest first."""

    offset: Tensor
    """Middle of its pixels, from the middle of the window (down, right), (n, 4, 2); zero where there are none."""
    present: Tensor
    """Whether there are any, (n, 4)."""

    def features(self) -> Tensor:
        """Return the trail as numbers (n, TRAIL)."""
        steps = (self.offset[:, :-1] - self.offset[:, 1:]).clamp(-STRIDE, STRIDE) + STRIDE  # (n, 3, 2)
        known = (self.present[:, :-1] & self.present[:, 1:])[..., None, None]
        bits = (functional.one_hot(steps, 2 * STRIDE + 1) * known).flatten(1)
        return torch.cat((self.present, bits), 1)


def find_trail(colors: Tensor, shown: Tensor, own: Tensor, number: int) -> Trail:
    """Return the trails of objects in windows (n, 4, V, V) of the last frames, of ``number`` colors.

    ``shown`` (n, V, V) are the windows in which the objects were last seen, ``own`` (n, V, V) their pixels there.
    """
    side = colors.shape[-1]
    counts = torch.zeros(len(colors), number + 1, device=colors.device)
    main = counts.scatter_add_(1, shown.flatten(1), own.flatten(1).float()).argmax(1)  # (n,)
    shown = colors == main[:, None, None, None]  # (n, 4, V, V)
    lines = torch.stack((shown.any(3), shown.any(2)), 2).to(torch.uint8)  # (n, 4, 2, V)
    first, last = lines.argmax(3), side - 1 - lines.flip(3).argmax(3)  # (n, 4, 2)
    present = lines[:, :, 0].any(2)
    return Trail(((first + last) // 2 - side // 2) * present[..., None], present)


class Seen(NamedTuple):
    """What the network sees of objects before the action."""

    colors: Tensor
    """Windows of the last frames, newest first, and of the background, (n, 5, V, V) classes; N beyond the frame."""
    planes: Tensor
    """Recency of the last change, twice, and the object's own pixels, (n, 3, V, V)."""
    summary: Tensor
    """(n, SUMMARY)"""
    past: Tensor
    """The last actions, (n, 3·A); zeros where they are not known."""
    age: Tensor
    """Steps since the object last changed, (n,)."""
    clock: Tensor | None
    """Which steps ago something on the screen changed, (n, context); None without a longer memory."""


class Features(nn.Module):
    """Features of objects before the action."""

    def __init__(self, config: ObjectConfig, generator: torch.Generator) -> None:
        super().__init__()
        features = config.features
        self.gather = linear(CHANNELS[-1] * SMALLEST**2, features, generator)
        self.summary = linear(SUMMARY, features, generator)
        self.past = linear(PAST_ACTIONS * config.actions, features, generator, bias=False)
        self.age = nn.Parameter(torch.zeros(config.context, features)) if config.recalls else None
        self.clock = nn.Parameter(torch.zeros(config.context, features)) if config.recalls else None

    def forward(self, hidden: Tensor, seen: Seen) -> Tensor:
        """Return features (n, F) of what the convolutions leave of the seen windows, and of the rest."""
        features: Tensor = self.gather(hidden) + self.summary(seen.summary) + self.past(seen.past)
        if self.age is None or self.clock is None or seen.clock is None:
            return features
        return features + self.age[seen.age] + seen.clock @ self.clock


class ObjectNetwork(nn.Module):
    """Moves and draws objects.

    ::

        x_t-3:t, background, recency ── conv ×4 ─┬─ linear ──(+)── · action ── move
        23×32×32                        64×4×4   │   128   summary, a_t-3:t-1   └──────┐
                                                 └─ linear ──(+)── + action ── + move ─┴─ sketch ── colors
                                                                 x_t, background, x_t-3:t moved ─┘   (N+5)×32×32

    Move and drawing have separate features: the loss of a drawing sums hundreds of pixels and would outweigh a move.
    """

    def __init__(self, config: ObjectConfig, generator: torch.Generator) -> None:
        super().__init__()
        colors, moves, actions, features = len(config.palette), len(config.moves), config.actions, config.features
        first, second, third = CHANNELS
        self.colors = nn.Parameter(torch.empty(colors + 1, EMBEDDING))
        fill_uniform(self.colors, generator, 1.0)
        self.stem = convolution((SEEN_FRAMES + 1) * EMBEDDING + 3, first, 4, 2, (1, 1), generator)
        self.shrink = convolution(first, second, 3, 2, (1, 1), generator)
        self.smallest = convolution(second, third, 3, 2, (1, 1), generator)
        self.refine = convolution(third, third, 3, 1, (1, 1), generator)
        self.moving = Features(config, generator)
        self.drawing = Features(config, generator)
        self.action = linear(actions, 2 * features, generator, bias=False, bound=0.0)
        self.drawing_action = linear(actions, features, generator, bias=False, bound=0.0)
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
        """Return features (n, 2·F) of objects before the action: of their moves, and of their drawings."""
        colors = embedded(seen.colors, self.colors)
        hidden = functional.relu(self.stem(torch.cat((colors, seen.planes), 1)))  # (n, 24, 16, 16)
        hidden = functional.relu(self.shrink(hidden))  # (n, 48, 8, 8)
        hidden = functional.relu(self.smallest(hidden))  # (n, 64, 4, 4)
        hidden = functional.relu(hidden + self.refine(hidden)).flatten(1)
        return torch.cat((self.moving(hidden, seen), self.drawing(hidden, seen)), 1)

    def act(self, features: Tensor, actions: Tensor) -> tuple[Tensor, Tensor]:
        """Return features (n, F) of moves, and of drawings, of objects with features (n, 2·F) under actions (n, A)."""
        moving, drawing = features.chunk(2, 1)
        gain, shift = self.action(actions).chunk(2, 1)
        moving = functional.relu(torch.addcmul(moving + shift, moving, gain))
        moving = functional.relu(moving + self.mixed(functional.relu(self.mix(moving))))
        return moving, drawing + self.drawing_action(actions)

    def draw(self, features: Tensor, move: Tensor, copies: Tensor) -> Tensor:
        """Return logits (n, N + 5, D, D) of colors and of copies, after moves (n,); ``copies`` are (n, 5, D, D)."""
        sketch = functional.relu(self.sketch(functional.relu(features + self.moved[move])))
        sketch = sketch.view(-1, SKETCH, SKETCH_SIDE, SKETCH_SIDE)
        sketch = functional.relu(functional.pixel_shuffle(self.enlarge(sketch), 2))  # (n, 24, 16, 16)
        sketch = functional.relu(functional.pixel_shuffle(self.sharpen(sketch), 2))  # (n, 16, 32, 32)
        colors = embedded(copies, self.colors)
        hidden = functional.relu(self.place(torch.cat((colors, sketch), 1)))  # (n, 24, 32, 32)
        logits: Tensor = self.copy(functional.relu(hidden + self.blend(hidden)))
        return logits


class _Embedded(torch.autograd.Function):
    """Numbers of colors: PyTorch's own backward pass of an embedding took a seventh of the training time."""

    @staticmethod
    def forward(context: Any, colors: Tensor, table: Tensor) -> Tensor:
        context.save_for_backward(colors, table)
        return functional.embedding(colors, table).movedim(-1, 2).flatten(1, 2)

    @staticmethod
    def backward(context: Any, *gradients: Tensor) -> tuple[None, Tensor]:
        colors, table = context.saved_tensors
        number, planes, *sides = colors.shape
        of_numbers = gradients[0].view(number, planes, -1, *sides).unbind(2)  # (n, P, V, V) each
        sums = [colors.flatten().bincount(of.flatten(), len(table)) for of in of_numbers]
        return None, torch.stack(sums, 1).to(table.dtype)


def embedded(colors: Tensor, table: Tensor) -> Tensor:
    """Return windows of P planes of colors (n, P, V, V) as numbers of a table (N + 1, E), (n, P·E, V, V)."""
    numbers: Tensor = _Embedded.apply(colors, table)  # type: ignore[no-untyped-call]
    return numbers


def summarize(
    center: Tensor, size: Tensor, moving: Tensor, age: Tensor, trail: Trail, frame: tuple[int, int]
) -> Tensor:
    """Return the summaries (n, SUMMARY) of objects: centers and sizes (n, 2), whether of a moving color, age (n,)."""
    position = center / torch.tensor(frame, device=center.device)  # 0..1
    waves = [wave(pi * count * position) for count in WAVES for wave in (torch.sin, torch.cos)]
    older = age[:, None] >= torch.tensor(AGES, device=age.device)
    return torch.cat((2 * position - 1, size / 16, moving[:, None], *waves, older, trail.features()), 1).float()


def drawn_loss(logits: Tensor, copies: Tensor, target: Tensor) -> Tensor:
    """Return −log of the probability of colors ``target`` (n, D, D) under logits (n, N + 5, D, D), by pixel.

    The probabilities of drawing a color and of copying it add up.
    """
    colors = logits.shape[1] - COPIES
    drawn = logits[:, :colors].gather(1, target.clamp(max=colors - 1)[:, None])
    copied = logits[:, colors:].masked_fill(copies != target[:, None], float("-inf"))
    return logits.logsumexp(1) - torch.cat((drawn, copied), 1).logsumexp(1)


def drawn_colors(logits: Tensor, copies: Tensor) -> Tensor:
    """Return the most probable color (n, D, D) of logits (n, N + 5, D, D)."""
    colors = logits.shape[1] - COPIES
    share = (logits - logits.amax(1, keepdim=True)).exp()
    total = torch.cat((share[:, :colors], torch.zeros_like(share[:, :1])), 1)  # a color more, from beyond the frame
    return total.scatter_add(1, copies, share[:, colors:])[:, :colors].argmax(1)


def screen_ages(cell_ages: Tensor, config: ObjectConfig) -> Tensor:
    """Return on which steps before some cell of ages (R, h, w) last changed, (R, context): clocks that no object shows.

    They are small numbers: dozens of them add up, and an optimizer moves the weights of all of them at once.
    """
    ages = torch.zeros(len(cell_ages), config.context, device=cell_ages.device)
    return ages.scatter_(1, cell_ages.flatten(1), 1 / config.context)


def cell_ages(age: Tensor, config: ObjectConfig) -> Tensor:
    """Return the steps since each cell last changed, (R, h, w), of the ages of pixels (R, H, W)."""
    (height, width), cell = config.grid, config.cell
    padded = pad_to_cells(age, config, config.oldest)
    return padded.reshape(len(age), height, cell, width, cell).amin((2, 4)).long()


class Recall(nn.Module):
    """Features of the grid's cells from the longer memory: what they showed before, and clocks that no frame shows."""

    def __init__(self, config: ObjectConfig, generator: torch.Generator) -> None:
        super().__init__()
        self.config, features = config, config.channels[0]
        self.shown = convolution(config.frame[2], features, config.cell, config.cell, (0, 0), generator)
        nn.init.zeros_(self.shown.weight)
        self.copy = linear(features, 1, generator, bound=0.0)
        nn.init.constant_(self.copy.bias, RECALL_ODDS)
        self.cell_age = nn.Parameter(torch.zeros(config.context, features))
        self.screen_age = nn.Parameter(torch.zeros(config.context, features))

    def forward(self, before: Tensor, age: Tensor) -> Tensor:
        """Return features (R, F, h, w) of normalized frames (R, C, H, W) and of ages of pixels (R, H, W)."""
        ages = cell_ages(age, self.config)
        clock = screen_ages(ages, self.config) @ self.screen_age  # (R, F)
        shown: Tensor = self.shown(pad_to_cells(before, self.config, 0.0))
        return shown + (self.cell_age[ages] + clock[:, None, None]).permute(0, 3, 1, 2)
