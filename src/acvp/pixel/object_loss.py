"""The training loss of objects: how they move to the next frame, and how they are drawn there.

Most objects neither change nor obey the player, so the loss takes a sample of those, with more weight. So it does where
many have the same color: the invaders of a fleet move alike. Controlled objects are learned in every frame of a window:
they decide whether keys work.

Shapes: B windows, T frames of a window, R rows (frames of all windows), n objects of all rows, H height, W width,
A actions, F features, D side of a drawn window.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
import torch
from torch import Tensor
from torch.nn import functional

from acvp.pixel.config import SEEN_FRAMES, ObjectConfig
from acvp.pixel.loss import NO_PIXEL
from acvp.pixel.object_network import DRAWN, ObjectNetwork, drawn_loss
from acvp.pixel.object_windows import (
    Kinds,
    Look,
    Memory,
    Objects,
    are_lively,
    as_objects,
    copy_sources,
    cut,
    look_at,
    owned,
    will_change,
    within,
)
from acvp.pixel.objects import FrameObjects, follow

QUIET_ONE_IN = 8
"""The loss takes one in so many objects that neither change nor are lively, with that weight."""
MOST_ALIKE = 128
"""Objects of one main color that the loss takes of an update, at most; they count for the others of that color."""
DRAWN_ONE_IN = 4
"""Of the objects that the loss takes, one in so many is drawn, with that weight."""
CONTROLLED_TARGETS = 12
"""Last frames of a window in which the moves of controlled objects are learned; other objects in the predicted ones."""
CONTROLLED_WEIGHT = 16.0
"""Weight of a controlled object's move beside that of another one."""


def learned_targets(frames: int, predict: int) -> int:
    """Return in how many last frames of a window the moves of controlled objects are learned."""
    return max(predict, min(CONTROLLED_TARGETS, frames - SEEN_FRAMES))


class Moving(NamedTuple):
    """Objects, and how they move to the next frame."""

    objects: Objects
    move: Tensor
    """Number of the move, the last one where an object vanishes, (n,)."""
    color: Tensor
    """Main color of the object, (n,)."""
    controlled: Tensor
    """Whether that is a controlled one, (n,)."""

    def some(self, chosen: Tensor) -> Moving:
        """Return some of the objects."""
        return Moving(self.objects.some(chosen), self.move[chosen], self.color[chosen], self.controlled[chosen])

    def renumbered(self, times: int, last: int) -> Moving:
        """Return objects of the last of ``times`` frames of each window, with rows that count only those frames."""
        window, time = self.objects.row // times, self.objects.row % times
        return self._replace(objects=self.objects._replace(row=window * last + time - (times - last)))


class StepLoss(NamedTuple):
    """The losses of objects in a step."""

    moves: Tensor
    drawing: Tensor
    left: Tensor
    """The target (R, H, W), NO_PIXEL where a pixel belongs to an object."""
    acted: Tensor
    """Features of the objects after the action, (n, F)."""
    row: Tensor
    """Rows of the objects, (n,)."""
    lively: Tensor
    """Whether they changed lately, (n,)."""


@dataclass(frozen=True)
class ObjectLoss:
    """Computes the losses of objects, step by step."""

    network: ObjectNetwork
    config: ObjectConfig
    kinds: Kinds
    shifts: Tensor
    """The moves, and none for an object that vanishes, (M + 1, 2)."""
    rng: np.random.Generator
    """Chooses which objects count."""

    def step(self, memory: Memory, vectors: Tensor, targets: Tensor, whole: int) -> StepLoss:
        """Return the losses of objects before ``targets`` (B, T, H, W), and what is left to the grid.

        In the last ``whole`` targets of a window all objects are learned, in the others the moves of controlled ones.
        """
        windows, times = targets.shape[:2]
        moving = self.moving(memory, targets)
        late = moving.objects.row % times >= times - whole
        target, shown = targets[:, -whole:].flatten(0, 1).long(), memory.last(times, whole)
        last = moving.some(late).renumbered(times, whole)
        if not len(last.move):
            return self._no_objects(target)
        center = within(last.objects.center + self.shifts[last.move], self.config.frame)
        at, mine = owned(last.objects.row, center, target.shape)
        left = target.flatten().index_fill(0, at[mine], NO_PIXEL).view_as(target)
        lively = are_lively(shown, last.objects)
        counted, weight = self._sample(last, lively | will_change(shown, last.objects, target))
        weight = weight[counted] / len(target)
        every = vectors[:, -whole:].flatten(0, 1)
        look, acted, drawing, loss = self._move_losses(shown, every, last.some(counted))
        share = torch.where(last.controlled[counted], whole / times, 1.0)
        of_moves = (loss * weight * share).sum()
        early = moving.some(~late & moving.controlled)
        if len(early.move):
            of_moves = of_moves + self._move_losses(memory, vectors.flatten(0, 1), early)[3].sum() / (windows * times)
        drawn = torch.from_numpy(self.rng.permutation(len(weight)) % DRAWN_ONE_IN == 0).to(lively)
        chosen = counted.nonzero()[:, 0][drawn]
        copies = copy_sources(shown, look.some(drawn), center[chosen], self.config)
        true = cut(target[:, None], last.objects.row[chosen], center[chosen], DRAWN, 0)[:, 0]
        pixels = drawn_loss(self.network.draw(drawing[drawn], last.move[chosen], copies), copies, true)
        of_drawing = ((pixels * mine[chosen]).sum((1, 2)) * weight[drawn]).sum() * (len(drawn) / len(chosen))
        return StepLoss(of_moves, of_drawing, left, acted, look.objects.row, lively[counted])

    def _sample(self, moving: Moving, busy: Tensor) -> tuple[Tensor, Tensor]:
        """Return which objects the loss takes, and the weight of each, (n,); ``busy``: they change or are lively."""
        counted = busy | torch.from_numpy(self.rng.random(len(busy)) * QUIET_ONE_IN < 1).to(busy)
        counted[int(self.rng.integers(len(counted)))] = True  # at least one
        weight = torch.where(busy, 1.0, float(QUIET_ONE_IN))
        colors = moving.color.masked_fill(~counted | moving.controlled, -1)
        for color in sorted(set(colors.tolist())):
            alike = (colors == color).nonzero()[:, 0]
            if color >= 0 and len(alike) > MOST_ALIKE:
                counted[alike[torch.from_numpy(self.rng.permutation(len(alike))[MOST_ALIKE:]).to(alike)]] = False
                weight[alike] *= len(alike) / MOST_ALIKE
        return counted, weight

    def moving(self, memory: Memory, targets: Tensor) -> Moving:
        """Return the objects before each of ``targets`` (B, T, H, W), with their moves."""
        numbers = {move: number for number, move in enumerate(self.config.moves)}
        recent = memory.recent.view(*targets.shape[:2], SEEN_FRAMES, *targets.shape[2:])
        parts = (recent[:, 0].flip(1), recent[:, 1:, 0], targets[:, -1:])
        every = torch.cat([part.to(torch.uint8) for part in parts], 1)  # (B, 3 + T + 1, H, W)
        pixels, kinds = every.numpy(force=True), self.kinds.of(every).numpy(force=True)
        before, moves = list[FrameObjects](), list[int]()
        for window in zip(pixels, kinds, strict=True):
            for objects, taken in follow(*window)[0][SEEN_FRAMES - 1 :]:
                before.append(objects)
                moves += [len(numbers) if move is None else numbers.get(move, len(numbers)) for move in taken]
        colors = np.concatenate([objects.main_colors for objects in before])
        controlled = torch.from_numpy(np.isin(colors, self.config.controlled_colors)).to(targets.device)
        numbered = torch.tensor(moves, device=targets.device, dtype=torch.long)
        return Moving(
            as_objects(before, targets.device), numbered, torch.from_numpy(colors).to(targets.device), controlled
        )

    def _no_objects(self, target: Tensor) -> StepLoss:
        """Return the losses where targets (R, H, W) have no object before them."""
        nothing, none = self.network.colors.new_zeros(()), target.new_zeros(0)
        return StepLoss(nothing, nothing, target, nothing.new_zeros(0, self.config.features), none, none.bool())

    def _move_losses(self, memory: Memory, vectors: Tensor, moving: Moving) -> tuple[Look, Tensor, Tensor, Tensor]:
        """Return how objects look, their features of moves and of drawings under actions (R, A), and their losses."""
        look = look_at(memory, moving.objects, self.kinds, self.network, self.config)
        acted, drawing = self.network.act(look.features, vectors[moving.objects.row])
        loss = functional.cross_entropy(self.network.head(acted), moving.move, reduction="none")
        return look, acted, drawing, loss * torch.where(moving.controlled, CONTROLLED_WEIGHT, 1.0)
