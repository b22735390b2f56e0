"""The palette: the colors of a game as the classes that the predictor distinguishes.

Shapes: ... any leading sizes (batch, time), C channels, H height, W width, N colors.
"""

import warnings

import torch
from torch import Tensor, nn

from acvp.models.checks import ConfigError

Palette = tuple[tuple[int, ...], ...]
"""A color each, of C values 0..255."""
MAX_COLORS = 256
CELL_BITS = 5
"""Bits per channel of the table from any color to the nearest known one."""


class UnknownColorWarning(UserWarning):
    """Frames have colors that were never seen in training: each is taken for the nearest known one."""


def require_palette(palette: Palette, channels: int) -> None:
    """Refuse anything but 1 to 256 different colors of so many values 0..255."""
    whole = all(type(value) is int and 0 <= value < 256 for color in palette for value in color)
    sized = all(len(color) == channels for color in palette)
    if not whole or not sized or not 1 <= len(set(palette)) == len(palette) <= MAX_COLORS:
        raise ConfigError(
            f"palette has {len(palette)} colors; it must be 1 to 256 different ones of {channels} values 0..255"
        )


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


class TraceableColors(Colors):
    """Colors for a traced graph, which can neither warn nor look up: an unknown color becomes the first one."""

    def __init__(self, colors: Colors) -> None:
        super().__init__(tuple(tuple(color) for color in colors.palette.tolist()), quantized=colors.quantized)

    def classes(self, pixels: Tensor) -> Tensor:
        """Return the class of each of uint8 pixels (..., C)."""
        return (pixels[..., None, :] == self.palette).all(-1).to(torch.uint8).argmax(-1)


def _codes(pixels: Tensor) -> Tensor:
    """Return each pixel (..., C) as one number (...)."""
    first, *others = pixels.unbind(-1)
    code = first.int()
    for channel in others:
        code = (code << 8) | channel
    return code
