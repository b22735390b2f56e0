"""Lossless palette coding: a frame of few colors as one byte per pixel.

Indices are given in the order in which colors appear (colors new in one frame: in the order of their RGB value), so
that equal frames have equal codes and the first colors of a game keep their index as others join.

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
    """The frames have more than 256 colors in all: they are to be kept as raw RGB."""


def pack_colors(colors: NDArray[np.uint8]) -> NDArray[np.uint32]:
    """(…, 3) RGB to (…) numbers 0xRRGGBB."""
    wide = colors.astype(np.uint32)
    return wide[..., 0] * np.uint32(1 << 16) + wide[..., 1] * np.uint32(1 << 8) + wide[..., 2]


def unpack_colors(packed: list[int]) -> Palette:
    """Numbers 0xRRGGBB to (K, 3) RGB."""
    return np.array([(c >> 16, c >> 8 & 255, c & 255) for c in packed], np.uint8).reshape(-1, 3)


class PaletteEncoder:
    """Turns the frames of one episode after another into indices and collects the palette of each."""

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
        """(H, W, 3) frame to (H, W) indices; `keys`, where given, are bytes that tell the colors apart (fast)."""
        if keys is not None:
            indices = np.asarray(cv2.LUT(keys, self._by_key), np.uint8)
            if indices.max() == MAX_COLORS - 1 and self._learn_keys(keys, keys[indices == MAX_COLORS - 1], frame):
                indices = np.asarray(cv2.LUT(keys, self._by_key), np.uint8)
            return indices
        if self._by_color is None:
            self._by_color = np.zeros(1 << 24, np.int16)
        colors = pack_colors(frame)
        found = self._by_color.take(colors)
        if found.min() == 0:
            new = np.unique(colors[found == 0])
            self._by_color[new] = self._learn(new.tolist()) + 1
            found = self._by_color.take(colors)
        return (found - 1).astype(np.uint8)

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
    """The colors of all palettes in the order of their first appearance; may exceed 256."""
    order = dict.fromkeys(c for palette in palettes for c in pack_colors(palette).tolist())
    return unpack_colors(list(order))


class Translation(NamedTuple):
    """From the indices of one palette to those of another."""

    table: bytes
    """256 bytes, for bytes.translate."""
    first_change: int
    """Indices below this one stay what they are."""


def translation(source: Palette, target: Palette) -> Translation | None:
    """From indices in `source` to indices in `target`; None where nothing changes."""
    index_in_target = {c: i for i, c in enumerate(pack_colors(target).tolist())}
    table = [index_in_target[c] for c in pack_colors(source).tolist()]
    changes = [i for i, index in enumerate(table) if i != index]
    if not changes:
        return None
    return Translation(bytes(table) + bytes(MAX_COLORS - len(table)), changes[0])


def colorize(indices: Indices, palette: Palette) -> NDArray[np.uint8]:
    """(…, H, W) indices to (…, H, W, 3) RGB: a view of a buffer with a fourth byte per pixel, which is faster."""
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
