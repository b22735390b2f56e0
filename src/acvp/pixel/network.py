"""The network, a small U-Net of residual blocks that the action multiplies and shifts at every scale; and its outputs.

A cell is p×p pixels. A pixel's color is either predicted directly, by one logit per color, or copied: a motion brings
the color of another pixel of one of the last two frames, or palette cycling turns the pixel's own color into the next.

Two heads predict reward and termination, and their logits add up. One reads the smallest grid position by position, as
the end of a game shows at certain positions; the other takes the maximum over positions, as a hit may be anywhere.

Shapes: N rows, frames or colors, A actions, C channels, H height, W width, h, w cells of the grid, q = p·p pixels of
a cell, S ways to copy a color, n selected cells or pixels.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

import torch
from torch import Tensor, nn
from torch.nn import functional

from acvp.models.layers import ActionFactors, RewardTerminationHeads, convolution, linear
from acvp.pixel.config import PixelConfig
from acvp.pixel.loss import NO_PIXEL


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

    def factors(self, scale: int = 1) -> Iterator[ActionFactors]:
        """Yield the gains and shifts of every block, by scale."""
        for block in (*self.down, *(self.up if self.inner is not None else ())):
            yield ActionFactors(name=f"scale {scale}", weight=block.action.weight, bias=block.action.bias)
        if self.inner is not None:
            yield from self.inner.factors(scale + 1)


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
        RewardTerminationHeads(POSITION_CHANNELS * height * width, generator, lives=config.predict_lives),
    )


def event_heads(config: PixelConfig, generator: torch.Generator) -> nn.Sequential:
    """Return the layers from the finest grid to an outcome: the largest value of each feature, wherever it is."""
    return nn.Sequential(
        convolution(config.channels[0], config.events, 1, 1, (0, 0), generator),
        nn.MaxPool2d(config.grid),
        nn.Flatten(),
        RewardTerminationHeads(config.events, generator, lives=config.predict_lives),
    )


def pad_to_cells(images: Tensor, config: PixelConfig, value: float) -> Tensor:
    """Return images (..., H, W) filled up with ``value`` to whole cells at the right and lower edge."""
    height, width = images.shape[-2:]
    cell = config.cell
    if not (height % cell or width % cell):
        return images
    return functional.pad(images, (0, -width % cell, 0, -height % cell), value=value)


def to_cells(classes: Tensor, config: PixelConfig) -> Tensor:
    """Return color classes (N, H, W) by cells, (N, h·w, q)."""
    cell = config.cell
    padded = pad_to_cells(classes, config, NO_PIXEL)
    rows = padded.view(len(classes), padded.shape[1] // cell, cell, -1, cell)
    return rows.transpose(2, 3).reshape(len(classes), -1, cell * cell)


def to_frames(cells: Tensor, count: int, config: PixelConfig) -> Tensor:
    """Return color classes by cells (N·h·w, q) as ``count`` frames (N, H, W)."""
    (rows, columns), cell = config.grid, config.cell
    frames = cells.view(count, rows, columns, cell, cell).transpose(2, 3)
    frames = frames.reshape(count, rows * cell, columns * cell)
    return frames[:, : config.frame[0], : config.frame[1]]


def add_border(seen: Tensor, config: PixelConfig) -> Tensor:
    """Return classes (N, 2 or 3, H, W) with a border as wide as the longest motion, of class N, which is no color."""
    motions = config.motions + config.older_motions
    border, none = max(abs(shift) for motion in motions for shift in motion), len(config.palette)
    return functional.pad(pad_to_cells(seen, config, none), (border,) * 4, value=none)


def copied_in_cells(bordered: Tensor, row: Tensor, cell: Tensor, config: PixelConfig) -> Tensor:
    """Return the colors that can be copied to all pixels of cells (n,) of rows (n,), (n, q, S)."""
    pixels = torch.arange(config.cell**2, device=bordered.device)
    return copied_colors(bordered, row[:, None], cell[:, None], pixels, config)


def copied_colors(bordered: Tensor, row: Tensor, cell: Tensor, pixel: Tensor, config: PixelConfig) -> Tensor:
    """Return the color that each way to copy brings to pixels of cells of rows, from `add_border`'s frames, (..., S).

    From outside the frame comes class N, which is no color. With palette cycling, the way after the motions is the
    color that the pixel's own color turns into. The last one is what it showed before its last change, if that is
    recalled.
    """
    none, device = len(config.palette), bordered.device
    side, border = config.cell, (bordered.shape[3] - config.grid[1] * config.cell) // 2
    width, size = bordered.shape[3], bordered[0, 0].numel()
    corner = row * bordered.shape[1] * size + cell // config.grid[1] * side * width + cell % config.grid[1] * side
    inside = (pixel // side + border) * width + pixel % side + border
    newest, older = (
        [down * width + right for down, right in motions] for motions in (config.motions, config.older_motions)
    )
    back = torch.tensor([offset - size for offset in newest] + older + [-2 * size] * config.recalls, device=device)
    source = (corner + inside)[..., None] - back
    moved = bordered.flatten().gather(0, source.flatten()).view_as(source)  # faster than indexing
    if not config.palette_cycle:
        return moved
    turned = torch.tensor((*config.palette_cycle, none), device=device)[moved[..., :1]]
    of_motions = moved[..., : len(newest) + len(older)]
    return torch.cat((of_motions, turned, moved[..., of_motions.shape[-1] :]), -1)


def decode(
    own: Tensor,
    motion: Tensor,
    seen: Tensor,
    excluded: Tensor | None,
    config: PixelConfig,
    add_noise: Callable[[Tensor], Tensor] | None = None,
) -> Tensor:
    """Return the most probable color (N·h·w, q) of each pixel after frames of classes ``seen`` (N, 2, H, W).

    Takes the logits of colors (N·h·w, q, N) and of ways to copy (N·h·w, S). The logit of a copied color is the sum of
    both. With noise added to the logits, the color is a sample.
    """
    count, cells = len(own) // len(seen), torch.arange(len(own), device=own.device)
    if excluded is not None:
        own = own.masked_fill(excluded[cells % count], -torch.inf)
    moved = copied_in_cells(add_border(seen, config), cells // count, cells % count, config)
    colors = own.shape[2]
    copied = own.gather(2, moved.clamp(max=colors - 1)) + motion[:, None]
    copied = copied.masked_fill(moved == colors, -torch.inf)
    if add_noise is not None:
        own, copied = add_noise(own), add_noise(copied)
    best, chosen = own.max(-1)
    best_copied, way = copied.max(-1)
    return torch.where(best_copied >= best, moved.gather(2, way[..., None])[..., 0], chosen)


def decode_changes(
    own: Tensor, motion: Tensor, seen: Tensor, now: Tensor, excluded: Tensor | None, config: PixelConfig
) -> Tensor:
    """Return what `decode` returns for one frame, whose colors were ``now`` (h·w, q), in half the time.

    Most pixels certainly keep their color; copies are computed for the other n pixels only. Overwrites ``own``.
    """
    if excluded is not None:
        own.masked_fill_(excluded, -torch.inf)
    highest, stays = own.amax(2), own.gather(2, now.clamp(min=0)[..., None])[..., 0]
    may_change = (highest - stays > keeping_odds(motion)[:, None]) & (now != NO_PIXEL)
    cell, pixel = may_change.nonzero(as_tuple=True)  # (n,)
    moved = copied_colors(add_border(seen[None], config), torch.zeros_like(cell), cell, pixel, config)
    colors = own.shape[2]
    first = (cell * now.shape[1] + pixel) * colors
    copied = own.flatten()[first[:, None] + moved.clamp(max=colors - 1)] + motion[cell]
    best, way = copied.masked_fill_(moved == colors, -torch.inf).max(1)
    after = moved.gather(1, way[:, None])[:, 0]
    not_copied = (best < highest[cell, pixel]).nonzero()[:, 0]
    after[not_copied] = own[cell[not_copied], pixel[not_copied]].argmax(1)
    return now.index_put((cell, pixel), after)


def keeping_odds(motion: Tensor) -> Tensor:
    """Return by how much keeping a color is more probable than any other way to get one, of logits (h·w, S), (h·w,).

    A pixel certainly keeps its color if no other logit of a color is above this color's by more than that.
    """
    others = torch.cat((torch.zeros_like(motion[:, :1]), motion[:, 1:]), 1).amax(1)  # 0: a color that is not copied
    return motion[:, 0] - others


def joined(embedded: Tensor) -> Tensor:
    """Return embeddings (B, m, h, w, E) of the last m frames as (B, h, w, m·E)."""
    return embedded.permute(0, 2, 3, 1, 4).flatten(3)


def as_rows(frames: Tensor) -> Tensor:
    """Return frames (B, T, C, H, W) as (B·T, C, H, W), channels last in memory as the normalizer leaves them."""
    return frames.movedim(-3, -1).flatten(0, 1).movedim(-1, -3)
