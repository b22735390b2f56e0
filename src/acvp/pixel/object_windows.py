"""What objects are seen by: the memory of the last frames, and windows around objects that are cut out of it.

Shapes: R frames, C planes, H height, W width, A actions, n objects of all frames, D side of a drawn window, V of a seen
one.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor
from torch.nn import functional

from acvp.models.config import FrameShape
from acvp.pixel.config import OLD, PAST_ACTIONS, SEEN_FRAMES, ObjectConfig
from acvp.pixel.object_network import (
    DRAWN,
    LOOKS,
    SEEN,
    ObjectNetwork,
    Seen,
    Trail,
    cell_ages,
    drawn_loss,
    find_trail,
    screen_ages,
    summarize,
)
from acvp.pixel.objects import BACKGROUND, MOVING, Background, FrameObjects

LIVELY = 6
"""An object is lively if a pixel of it changed in fewer than so many steps."""
LIKELY_MOVES = 4
"""Moves of an object, the likeliest first, over which the probability of a color is summed."""


class Kinds:
    """The kind of a pixel by its color and place, looked up in a table."""

    def __init__(self, background: Background, device: torch.device) -> None:
        self.table = torch.from_numpy(background.kinds_table()).flatten().to(device)  # (N·H·W,)
        self._frame = background.usual.shape

    def of(self, classes: Tensor) -> Tensor:
        """Return the kinds of the pixels of color classes (..., H, W), uint8."""
        pixels = classes.shape[-2] * classes.shape[-1]
        at = classes.flatten(-2).int() * pixels + torch.arange(pixels, dtype=torch.int32, device=classes.device)
        return self.table.index_select(0, at.flatten()).view_as(classes)

    def around(self, classes: Tensor, center: Tensor) -> Tensor:
        """Return the kinds of windows of color classes (n, V, V) around centers (n, 2); BACKGROUND beyond the frame."""
        height, width = self._frame
        line = torch.arange(classes.shape[-1], device=classes.device) - classes.shape[-1] // 2
        down, right = (center[:, axis, None] + line for axis in (0, 1))  # (n, V)
        within = ((down >= 0) & (down < height))[:, :, None] & ((right >= 0) & (right < width))[:, None]
        at = (classes * height + down[:, :, None]) * width + right[:, None]
        return self.table[at.where(within, 0)].masked_fill(~within, BACKGROUND)


class Memory(NamedTuple):
    """What objects are seen by, for R frames."""

    recent: Tensor
    """Color classes of the last frames, newest first, (R, 4, H, W) int16."""
    under: Tensor
    """What each pixel last showed of the background, (R, H, W) int16."""
    age: Tensor
    """Steps since each pixel last changed, at most `ObjectConfig.oldest`, (R, H, W) uint8."""
    before: Tensor
    """What each pixel showed before it last changed, (R, H, W) int16."""
    past: Tensor
    """The last actions as vectors, oldest first, (R, 3, A); zeros where they are not known."""

    def last(self, times: int, count: int) -> Memory:
        """Return the memory at the last ``count`` of every ``times`` frames."""
        return Memory(*(plane.view(-1, times, *plane.shape[1:])[:, -count:].flatten(0, 1) for plane in self))

    def first(self, rows: int) -> Memory:
        """Return the memory of the first rows."""
        return Memory(*(plane[:rows] for plane in self))


def remember(age: Tensor, before: Tensor, last: Tensor, now: Tensor, oldest: int) -> tuple[Tensor, Tensor]:
    """Return the ages, and what pixels showed before they changed, (R, H, W), after the frames ``last`` and ``now``."""
    changed = now != last
    return (age + 1).clamp_(max=oldest).masked_fill_(changed, 0), torch.where(changed, last, before)


class Objects(NamedTuple):
    """The objects of several frames."""

    row: Tensor
    """Number of the frame, (n,)."""
    box: Tensor
    """Top, left, bottom, right and kind, (n, 5)."""
    unseen: Tensor
    """Steps since each object was last seen, (n,)."""

    @property
    def center(self) -> Tensor:
        """Rounded down, (n, 2)."""
        return (self.box[:, :2] + self.box[:, 2:4]) // 2

    def some(self, chosen: Tensor) -> Objects:
        """Return some of the objects."""
        return Objects(self.row[chosen], self.box[chosen], self.unseen[chosen])


def as_objects(frames: Sequence[FrameObjects], device: torch.device) -> Objects:
    """Return the objects of frames, a row each."""
    row = np.repeat(np.arange(len(frames)), [len(objects.boxes) for objects in frames])
    box, unseen = (np.concatenate([getattr(objects, name) for objects in frames]) for name in ("boxes", "unseen"))
    return Objects(*(torch.from_numpy(array).to(device) for array in (row, box, unseen)))


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


class Look(NamedTuple):
    """Objects, and what the network makes of them before the action."""

    objects: Objects
    trail: Trail
    features: Tensor
    """(n, F)"""

    def some(self, chosen: Tensor) -> Look:
        """Return the look of some of the objects."""
        trail = Trail(self.trail.offset[chosen], self.trail.present[chosen])
        return Look(self.objects.some(chosen), trail, self.features[chosen])

    def repeated(self, count: int) -> Look:
        """Return the look in ``count`` copies of each frame, one after the other."""
        number = torch.arange(len(self.objects.row), device=self.objects.row.device).repeat_interleave(count)
        look = self.some(number)
        copy = torch.arange(len(number), device=number.device) % count
        return look._replace(objects=look.objects._replace(row=look.objects.row * count + copy))


def see(memory: Memory, objects: Objects, kinds: Kinds, config: ObjectConfig) -> tuple[Seen, Trail]:
    """Return what is seen of objects, and their trails."""
    none, center = len(config.palette), objects.center
    planes = torch.cat((memory.recent, memory.under[:, None]), 1)
    colors = cut(planes, objects.row, center, SEEN, none).long()
    age = cut(memory.age[:, None], objects.row, center, SEEN, config.oldest)[:, 0].float()
    shown = colors[torch.arange(len(colors), device=colors.device), objects.unseen]  # when it was last seen, (n, V, V)
    own = inside(objects) & (kinds.around(shown, center) == objects.box[:, 4, None, None])
    since = torch.where(own, age, config.oldest).amin((1, 2))
    short = age.clamp(max=OLD)
    recency = torch.stack((torch.exp(-short / 3), torch.exp(-short / 12), own.float()), 1)
    size = objects.box[:, 2:4] - objects.box[:, :2] + 1
    trail = find_trail(colors[:, :SEEN_FRAMES], shown, own, none)
    summary = summarize(center, size, objects.box[:, 4] == MOVING, since, trail, config.frame[:2])
    clock = screen_ages(cell_ages(memory.age, config), config)[objects.row] if config.recalls else None
    return Seen(colors, recency, summary, memory.past[objects.row].flatten(1), since.long(), clock), trail


def look_at(memory: Memory, objects: Objects, kinds: Kinds, network: ObjectNetwork, config: ObjectConfig) -> Look:
    """Return what the network makes of objects."""
    seen, trail = see(memory, objects, kinds, config)
    return Look(objects, trail, network.look(seen))


def copy_sources(memory: Memory, look: Look, center: Tensor, config: ObjectConfig) -> Tensor:
    """Return the colors that the pixels of drawn windows around new centers can copy, (n, 5, D, D)."""
    none, row, objects = len(config.palette), look.objects.row, look.objects
    sources = [cut(torch.stack((memory.recent[:, 0], memory.under), 1), row, center, DRAWN, none)]
    for frame in LOOKS:
        moved = within(objects.center + look.trail.offset[:, frame], config.frame) if frame else objects.center
        sources.append(cut(memory.recent[:, frame, None], row, moved, DRAWN, none))
    return torch.cat(sources, 1).long()


def shown_by_objects(
    memory: Memory,
    look: Look,
    network: ObjectNetwork,
    vectors: Tensor,
    shifts: Tensor,
    shown: Tensor,
    config: ObjectConfig,
) -> tuple[Tensor, Tensor]:
    """Return how probably objects cover the pixels of frames (R, H, W), and cover them with the classes ``shown``.

    Each object takes its likeliest moves, by ``shifts``, after actions (R, A); all objects take the first one at the
    same time, then the second one, and so on: where windows overlap, the nearest object counts.
    """
    row, (covered, right) = look.objects.row, look.features.new_zeros(2, shown.numel())
    moving, drawing = network.act(look.features, vectors[row])
    likely = network.head(moving).softmax(1).topk(min(LIKELY_MOVES, len(shifts)))
    for probability, move in zip(likely.values.T, likely.indices.T, strict=True):
        center = within(look.objects.center + shifts[move], config.frame)
        copies = copy_sources(memory, look, center, config)
        at, mine = owned(row, center, shown.shape)
        share = probability[:, None, None].expand(at.shape)
        drawn = torch.exp(-drawn_loss(network.draw(drawing, move, copies), copies, shown.flatten()[at]))
        covered[at[mine]] += share[mine]
        right[at[mine]] += (share * drawn)[mine]
    return covered.view(shown.shape), right.view(shown.shape)


def within(center: Tensor, frame: FrameShape) -> Tensor:
    """Return centers (n, 2) moved to the nearest pixel of the frame."""
    return center.clamp(min=0).minimum(torch.tensor(frame[:2], device=center.device) - 1)


def are_lively(memory: Memory, objects: Objects) -> Tensor:
    """Return which objects changed lately, (n,)."""
    age = cut(memory.age[:, None], objects.row, objects.center, SEEN, LIVELY)[:, 0]
    return torch.where(inside(objects), age, LIVELY).amin((1, 2)) < LIVELY


def will_change(memory: Memory, objects: Objects, target: Tensor) -> Tensor:
    """Return in which objects, or close around them, a pixel changes until the next frames (R, H, W), (n,)."""
    changed = (memory.recent[:, 0] != target).to(torch.uint8)
    windows = cut(changed[:, None], objects.row, objects.center, SEEN, 0)[:, 0].bool()
    return (windows & inside(objects, 2)).flatten(1).any(1)


def past_actions(vectors: Tensor, count: int) -> Tensor:
    """Return the actions before each of the last ``count`` of T action vectors (B, T, A), (B, count, 3, A)."""
    last = vectors.shape[1]
    return torch.stack([vectors[:, end - PAST_ACTIONS : end] for end in range(last - count, last)], 1)
