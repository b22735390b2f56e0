"""Which colours each pixel can have: kept as bits beside the weights, used by cells.

Shapes: H height, W width, N colours, h, w cells of the grid, q pixels of a cell.
"""

from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from acvp.models.checks import ConfigError
from acvp.models.pixel_config import PixelConfig

NAME = "possible"
"""Of the buffer, in the network and in its file."""
INVERSE = "impossible"
"""Of the buffer that is made of it."""


def packed(places: NDArray[np.bool_], config: PixelConfig) -> Tensor:
    """Return where each colour can be, (N, H, W), as bits (H, W, ⌈N / 8⌉)."""
    wanted = (len(config.palette), *config.frame[:2])
    if places.shape != wanted:
        raise ConfigError(f"places have shape {places.shape}, expected {wanted}: colours, height, width")
    return torch.from_numpy(np.packbits(places.transpose(1, 2, 0), axis=2))


def impossible_by_cell(bits: Tensor, config: PixelConfig) -> Tensor:
    """Return whether a pixel of a cell cannot have a colour, (h·w, q, N); beyond the frame it can have all."""
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
    """Before weights are loaded: have the buffer if they do. Those of earlier versions, or of any colours, do not."""
    given, config = weights.get(prefix + NAME), predictor.config
    assert isinstance(config, PixelConfig)
    if given is not None and given.dtype != torch.uint8:
        raise ConfigError(f"{NAME} is {given.dtype}, expected {torch.uint8}")
    shape = (*config.frame[:2], -(-len(config.palette) // 8))
    setattr(predictor, NAME, None if given is None else torch.empty(shape, dtype=torch.uint8, device=given.device))
