"""Lossless palette coding: a frame of few colors as one byte per pixel.

Indices follow the order in which colors appear (new colors of one frame: the order of their RGB values). So equal
frames have equal codes, and a color keeps its index when others join.

Shapes: H height, W width, K colors.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import cv2
import numpy as np
from numpy.typing import NDArray

MAX_COLORS = 256

Frame = NDArray[np.uint8]  # (H, W, 3)
Indices = NDArray[np.uint8]  # (…, H, W)
Palette = NDArray[np.uint8]  # (K, 3)


class TooManyColorsError(Exception):
    """The frames have over 256 colors: they must be stored as raw RGB."""


def pack_colors(colors: NDArray[np.uint8]) -> NDArray[np.uint32]:
    """Convert RGB (…, 3) to numbers 0xRRGGBB (…)."""
    wide = colors.astype(np.uint32)
    return wide[..., 0] * np.uint32(1 << 16) + wide[..., 1] * np.uint32(1 << 8) + wide[..., 2]


def unpack_colors(packed: list[int]) -> Palette:
    """Convert numbers 0xRRGGBB to RGB (K, 3)."""
    return np.array([(c >> 16, c >> 8 & 255, c & 255) for c in packed], np.uint8).reshape(-1, 3)


class PaletteEncoder:
    """Converts the frames of an episode to palette indices and builds its palette; `reset` begins the next episode."""

    def __init__(self) -> None:
        self._index_of: dict[int, int] = {}
        # From color to index + 1; 0 is unknown, so that the table costs nothing until it is touched.
        self._by_color: NDArray[np.int16] | None = None
        # From key to index in one fast pass; the last index may also mean unknown and leads to a closer look.
        self._by_key = np.full(256, MAX_COLORS - 1, np.uint8)
        self._key_known = np.zeros(256, np.bool_)

    @property
    def palette(self) -> Palette:
        return unpack_colors(list(self._index_of))

    def reset(self) -> None:
        """Begin a new episode with an empty palette."""
        if self._by_color is not None:
            self._by_color[list(self._index_of)] = 0  # cheaper than clearing 2²⁴ entries
        self._by_key[:] = MAX_COLORS - 1
        self._key_known[:] = False
        self._index_of = {}

    def encode(self, frame: Frame, keys: NDArray[np.uint8] | None = None) -> Indices:
        """Convert a frame (H, W, 3) to indices (H, W); `keys` (H, W), equal where colors are equal, make it faster."""
        if keys is not None:
            indices = np.asarray(cv2.LUT(keys, self._by_key), np.uint8)
            if indices.max() == MAX_COLORS - 1 and self._learn_keys(keys, keys[indices == MAX_COLORS - 1], frame):
                indices = np.asarray(cv2.LUT(keys, self._by_key), np.uint8)
            return indices
        if self._by_color is None:
            self._by_color = np.zeros(1 << 24, np.int16)
        colors = pack_colors(frame)
        entries = self._by_color.take(colors)
        if entries.min() == 0:
            new = np.unique(colors[entries == 0])
            self._by_color[new] = self._learn(new.tolist()) + 1
            entries = self._by_color.take(colors)
        return (entries - 1).astype(np.uint8)

    def _learn_keys(self, keys: NDArray[np.uint8], doubtful: NDArray[np.uint8], frame: Frame) -> bool:
        """Give those of the doubtful keys that are new their indices; return whether there were any."""
        there = np.unique(doubtful)
        new = there[~self._key_known[there]]
        first = [int((keys == key).argmax()) for key in new]
        self._by_key[new] = self._learn(pack_colors(frame.reshape(-1, 3)[first]).tolist())
        self._key_known[new] = True
        return len(new) > 0

    def _learn(self, colors: list[int]) -> NDArray[np.int16]:
        """Return the indices of colors, new ones in the order of their RGB value."""
        for color in sorted(set(colors) - self._index_of.keys()):
            self._index_of[color] = len(self._index_of)
        if len(self._index_of) > MAX_COLORS:
            raise TooManyColorsError
        return np.array([self._index_of[color] for color in colors], np.int16)


def merge_palettes(palettes: list[Palette]) -> Palette:
    """Return the colors of all palettes in order of first appearance; there may be over 256."""
    order = dict.fromkeys(c for palette in palettes for c in pack_colors(palette).tolist())
    return unpack_colors(list(order))


class Translation(NamedTuple):
    """A table from the indices of one palette to those of another."""

    table: bytes
    """256 bytes, for bytes.translate."""
    first_change: int
    """Indices below this one stay what they are."""


def translation(source: Palette, target: Palette) -> Translation | None:
    """Return the table from indices in `source` to indices in `target`; None if nothing changes."""
    index_in_target = {c: i for i, c in enumerate(pack_colors(target).tolist())}
    table = [index_in_target[c] for c in pack_colors(source).tolist()]
    changes = [i for i, index in enumerate(table) if i != index]
    if not changes:
        return None
    return Translation(bytes(table) + bytes(MAX_COLORS - len(table)), changes[0])


def colorize(indices: Indices, palette: Palette) -> NDArray[np.uint8]:
    """Convert indices (…, H, W) to RGB (…, H, W, 3), a view of a buffer with four bytes per pixel (faster)."""
    padded = np.zeros((MAX_COLORS, 4), np.uint8)
    padded[: len(palette), :3] = palette
    table = padded.view(np.uint32)[:, 0]
    rgbx = np.empty(indices.shape, np.uint32)
    for image, out in zip(_images(indices), _images(rgbx), strict=True):  # one by one: take needs 8 bytes an index
        np.take(table, image, out=out, mode="clip")
    return rgbx.view(np.uint8).reshape(*indices.shape, 4)[..., :3]


def _images(array: NDArray[Any]) -> NDArray[Any]:
    """(…, H, W) as (n, H, W), without a copy."""
    return array.reshape(-1, *array.shape[-2:])
