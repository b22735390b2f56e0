"""The palette: the colors of a game as classes of pixels, and which of them each pixel can have.

Many pixels only ever show a few of a game's colors, such as those of a score. A palette mask that is derived from the
dataset keeps errors from persisting there when predictions are fed back. It is stored as bits and applied by cells.

Shapes: ... any leading sizes (batch, time), T frames, C channels, H height, W width, N colors of the predictor,
K colors of a dataset, h, w cells of the grid, q pixels of a cell.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import cv2
import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from acvp.data.statistics import Arrays, cached, frame_blocks, in_order
from acvp.data.store import EpisodeStore
from acvp.data.windows import Window, Windows
from acvp.models.config import ConfigError, DatasetSplit, Progress
from acvp.pixel.config import Palette, PixelConfig

CELL_BITS = 5
"""Bits per channel of the table from any color to the nearest known one."""


class UnknownColorWarning(UserWarning):
    """Frames have colors that were never seen in training: each is taken for the nearest known one."""


class Colors(nn.Module):
    """Turns pixels into classes and back."""

    palette: Tensor
    """(N, C) uint8."""
    _codes: Tensor
    """The colors as numbers, rising, (N,)."""
    _class_of_code: Tensor
    """The class of each of them, (N,)."""
    _nearest: Tensor | None
    """Class of the nearest color for each cell of the color space; made when first needed."""

    def __init__(self, palette: Palette, *, quantized: bool) -> None:
        super().__init__()
        self.quantized = quantized
        colors = torch.tensor(palette, dtype=torch.uint8, device="cpu")  # what meta tensors cannot hold
        codes, order = _codes(colors).sort()
        self.register_buffer("palette", colors, persistent=False)
        self.register_buffer("_codes", codes, persistent=False)
        self.register_buffer("_class_of_code", order, persistent=False)
        self._nearest = None

    def __len__(self) -> int:
        return len(self.palette)

    def classes(self, pixels: Tensor) -> Tensor:
        """Return the class of each of uint8 pixels (..., C), int64; warn where a color is not known."""
        codes = _codes(pixels)
        at = torch.searchsorted(self._codes, codes).clamp_(max=len(self._codes) - 1)
        classes = self._class_of_code[at]
        unknown = self._codes[at] != codes
        if not bool(unknown.any()):
            return classes
        if not self.quantized:
            novel = {tuple(color) for color in pixels[unknown].tolist()}
            some = ", ".join(str(color) for color in sorted(novel)[:3])
            warnings.warn(
                f"{int(unknown.sum()):,} of {unknown.numel():,} pixels have one of {len(novel)} colors never seen in "
                f"training ({some}): each is taken for the nearest known color",
                UnknownColorWarning,
                stacklevel=2,
            )
        classes[unknown] = self._look_up(pixels[unknown])
        return classes

    def nearest(self, palette: Tensor) -> Tensor:
        """Return the class of each color of a dataset's palette (P, C), or that of the nearest known color, (P,)."""
        at = torch.searchsorted(self._codes, _codes(palette)).clamp_(max=len(self._codes) - 1)
        known = self._codes[at] == _codes(palette)
        return torch.where(known, self._class_of_code[at], self._look_up(palette))

    def pixels(self, classes: Tensor) -> Tensor:
        """Return the uint8 pixels (..., C) of classes."""
        return self.palette[classes]

    def _look_up(self, pixels: Tensor) -> Tensor:
        channels = pixels.shape[-1]
        if self._nearest is None:
            steps = torch.arange(2**CELL_BITS, device=pixels.device, dtype=torch.float32) * 2 ** (8 - CELL_BITS)
            centers = torch.cartesian_prod(*[steps + 2 ** (7 - CELL_BITS)] * channels).view(-1, channels)
            self._nearest = torch.cdist(centers, self.palette.float()).argmin(1)
        cells = pixels.long() >> (8 - CELL_BITS)
        cell = torch.zeros(cells.shape[:-1], dtype=torch.long, device=pixels.device)
        for channel in range(channels):
            cell = (cell << CELL_BITS) + cells[..., channel]
        return self._nearest[cell]


def _codes(pixels: Tensor) -> Tensor:
    """Return each pixel (..., C) as one number (...)."""
    first, *others = pixels.unbind(-1)
    code = first.int()
    for channel in others:
        code = (code << 8) | channel
    return code


Color = tuple[int, ...]
Mask = NDArray[np.bool_]
"""Whether a pixel can have a color, (N, H, W)."""

REACHES = (0, 1, 2, 4, 8)
"""Pixels by which a mask is widened; the first that is enough is taken."""
MOST_VIOLATIONS = 0.5
"""Pixels of a held-out frame, on average, whose color the mask may exclude."""


@dataclass(frozen=True)
class PaletteMask:
    """A mask, and how it was found."""

    mask: Mask
    reach: int | None
    """Pixels by which it was widened; None: it excludes nothing."""
    violations: float
    """Pixels of a held-out frame, on average, whose color it excludes."""


def calibrated_mask(
    data: DatasetSplit, palette: Palette, report: Callable[[str], None], progress: Progress
) -> Mask | None:
    """Return the mask of a dataset, reporting what it is; None where any pixel may have any color."""
    report(f"looking up where each of {len(palette)} colors occurs in {data.train.frames:,} frames")
    palette_mask = None if data.resampled_view else find_mask(data.train, data.held_out, palette, progress)
    if palette_mask is None or palette_mask.reach is None:
        report("palette mask: none, any pixel may have any color")
        return None
    report(
        f"palette mask: {palette_mask.mask.sum(0).mean():.1f} of {len(palette)} colors per pixel, those recorded up to "
        f"{palette_mask.reach} pixels away; it excludes {palette_mask.violations:.2f} pixels of a held-out frame"
    )
    return palette_mask.mask


def find_mask(
    train: EpisodeStore,
    held_out: EpisodeStore,
    colors: Sequence[Color],
    progress: Progress = lambda done, total: None,
) -> PaletteMask:
    """Return the mask of the colors that training episodes show at, or close to, each pixel.

    The held-out episodes decide how close: the mask may exclude few of their pixels. It excludes nothing where even
    the widest reach violates that, as in a small dataset, or where the training episodes have other colors too. Other
    colors of held-out episodes always count as excluded.
    """
    if not _known(train, colors) or held_out.palette is None:
        return PaletteMask(np.ones((len(colors), *train.info.frame_shape[:2]), np.bool_), None, 0.0)

    def compute() -> Arrays:
        palette_mask = _find_mask(train, held_out, colors, progress)
        numbers = [np.nan if palette_mask.reach is None else palette_mask.reach, palette_mask.violations]
        return {"mask": palette_mask.mask, "numbers": np.array(numbers, np.float64)}

    settings = {"held_out": held_out.digest, "colors": colors, "reaches": REACHES, "violations": MOST_VIOLATIONS}
    arrays = cached(train, "palette-mask", settings, compute, lambda: progress(0, len(train)))
    reach, violations = arrays["numbers"].tolist()
    return PaletteMask(arrays["mask"], None if np.isnan(reach) else int(reach), violations)


def _find_mask(train: EpisodeStore, held_out: EpisodeStore, colors: Sequence[Color], progress: Progress) -> PaletteMask:
    """Compute the mask of `find_mask`."""
    seen = _seen(train, colors, progress)
    for reach in REACHES:
        wider = _widened(seen, reach)
        violations = count_violations(held_out, colors, wider, progress)
        if violations <= MOST_VIOLATIONS:
            return PaletteMask(wider, reach, violations)
    return PaletteMask(np.ones_like(seen), None, 0.0)


def count_violations(
    store: EpisodeStore,
    colors: Sequence[Color],
    mask: Mask,
    progress: Progress = lambda done, total: None,
) -> float:
    """Return the number of pixels of a frame, on average over a dataset, whose color the mask excludes."""
    windows, numbers = Windows(store, Window(1, 0)), color_numbers(store, colors)
    mask = np.concatenate((mask, np.zeros_like(mask[:1])))  # one color more, for those that are not known
    rows, columns = np.indices(mask.shape[1:])
    excluded = 0
    for position in range(len(store)):
        for _, frames in frame_blocks(windows, position, overlap=0):
            excluded += sum(int(np.count_nonzero(~mask[numbers[frame], rows, columns])) for frame in frames)
        progress(position + 1, len(store))
    return excluded / max(1, store.frames)


def _seen(store: EpisodeStore, colors: Sequence[Color], progress: Progress) -> Mask:
    """Return which colors each pixel has in a dataset."""
    seen = np.zeros((len(colors), *store.info.frame_shape[:2]), np.bool_)
    windows, numbers = Windows(store, Window(1, 0)), color_numbers(store, colors)
    rows, columns = np.indices(seen.shape[1:])

    def look(position: int) -> None:  # threads write nothing but True
        for first, frames in frame_blocks(windows, position, overlap=1):
            if first == 0:
                seen[numbers[frames[0]], rows, columns] = True
            changed = np.flatnonzero(frames[1:] != frames[:-1])
            color = numbers[frames[1:].reshape(-1)[changed]]
            seen.reshape(-1)[color * rows.size + changed % rows.size] = True

    for done, _ in enumerate(in_order(look, len(store)), 1):
        progress(done, len(store))
    return seen


def _known(store: EpisodeStore, colors: Sequence[Color]) -> bool:
    """Return whether all colors of a dataset are among ``colors``."""
    return store.palette is not None and {tuple(color) for color in store.palette.tolist()} <= set(colors)


def color_numbers(store: EpisodeStore, colors: Sequence[Color]) -> NDArray[np.int64]:
    """Return the number among ``colors`` of each of a dataset's colors, (K,); N where it is not among them."""
    assert store.palette is not None
    number = {color: i for i, color in enumerate(colors)}
    return np.array([number.get(tuple(color), len(colors)) for color in store.palette.tolist()])


def _widened(mask: Mask, reach: int) -> Mask:
    """Return a mask that allows every color also up to ``reach`` pixels away along either side."""
    square = np.ones((2 * reach + 1,) * 2, np.uint8)
    return np.stack([cv2.dilate(pixels.astype(np.uint8), square) for pixels in mask]).astype(np.bool_)


BITS_NAME = "palette_mask"
"""Of the buffer with the bits, in the network and in its file."""
EXCLUDED_NAME = "excluded"
"""Of the buffer by cells that is derived from it."""


def packed(mask: Mask, config: PixelConfig) -> Tensor:
    """Return a mask (N, H, W) as bits (H, W, ⌈N / 8⌉)."""
    shape = (len(config.palette), *config.frame[:2])
    if mask.shape != shape:
        raise ConfigError(f"the palette mask has shape {mask.shape}, expected {shape}: colors, height, width")
    return torch.from_numpy(np.packbits(mask.transpose(1, 2, 0), axis=2))


def excluded_by_cell(bits: Tensor, config: PixelConfig) -> Tensor:
    """Return whether a pixel of a cell cannot have a color, (h·w, q, N); beyond the frame it can have all."""
    allowed = np.unpackbits(bits.numpy(force=True), axis=2, count=len(config.palette))  # (H, W, N)
    (rows, columns), cell = config.grid, config.cell
    whole = np.ones((rows * cell, columns * cell, allowed.shape[2]), np.uint8)
    whole[: allowed.shape[0], : allowed.shape[1]] = allowed
    by_cell = whole.reshape(rows, cell, columns, cell, -1).transpose(0, 2, 1, 3, 4).reshape(rows * columns, cell**2, -1)
    return torch.from_numpy(by_cell == 0).to(bits.device)


def unpack(predictor: nn.Module, *_: Any) -> None:
    """Derive the buffer by cells from the bits, after these were set or loaded."""
    bits, config = getattr(predictor, BITS_NAME), predictor.config
    assert isinstance(config, PixelConfig)
    setattr(predictor, EXCLUDED_NAME, None if bits is None else excluded_by_cell(bits, config))


def make_room(predictor: nn.Module, weights: dict[str, Tensor], prefix: str, *_: Any) -> None:
    """Have the buffer, before weights are loaded, exactly if they hold it: a predictor without a mask has none."""
    bits, config = weights.get(prefix + BITS_NAME), predictor.config
    assert isinstance(config, PixelConfig)
    if bits is not None and bits.dtype != torch.uint8:
        raise ConfigError(f"{BITS_NAME} is {bits.dtype}, expected {torch.uint8}")
    shape = (*config.frame[:2], -(-len(config.palette) // 8))
    setattr(predictor, BITS_NAME, None if bits is None else torch.empty(shape, dtype=torch.uint8, device=bits.device))


def allowed(mask: Tensor | None, at: Tensor, colors: Tensor) -> Tensor:
    """Return whether a packed mask (H, W, ⌈N / 8⌉) allows colors (n, D, D) at pixels ``at`` of frames (R, H, W)."""
    if mask is None:
        return torch.ones_like(colors, dtype=torch.bool)
    bits = mask.flatten(0, 1)  # (H·W, ⌈N / 8⌉), the first color in the highest bit
    return (bits[at % len(bits), colors // 8] >> (7 - colors % 8)) & 1 == 1
