"""Frames as they are stored, one byte per pixel and lossless where the colors are few, and views of them.

Indices follow the order in which colors appear (new colors of one frame: the order of their RGB values). So equal
frames have equal codes, and a color keeps its index when others join.

A view is full color, or gray and small. The gray 84×84 view is that of Atari agents: the emulator's luminance, then
OpenCV's area interpolation, as in Gymnasium's AtariPreprocessing and ALE's vector env (without their maximum over two
emulator frames). A few pixels in 100,000 differ from ALE's vector env by one gray level, where its own build of OpenCV
rounds a half the other way.

Shapes: … any leading sizes, H height, W width, h and w the view's, K colors.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, NamedTuple

import cv2
import numpy as np
from numpy.typing import NDArray

from acvp.errors import UserError

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


LUMINANCE = (0.2989, 0.5870, 0.1140)
"""Weights of red, green and blue, as in the emulator."""


@dataclass(frozen=True)
class View:
    """A view; `apply` converts stored frames to (…, h, w, channels)."""

    name: str
    gray: bool = False
    size: tuple[int, int] | None = None
    """(height, width) after resizing; None: as recorded."""

    def shape(self, frame_shape: tuple[int, int, int]) -> tuple[int, int, int]:
        """Return (h, w, channels) of the view of frames of a shape."""
        height, width = self.size or frame_shape[:2]
        return height, width, 1 if self.gray else 3

    def apply(self, frames: NDArray[np.uint8], palette: Palette | None) -> NDArray[np.uint8]:
        """Convert palette indices (…, H, W), or RGB (…, H, W, 3) if palette is None, to uint8 (…, h, w, channels)."""
        if not self.gray:
            return frames if palette is None else colorize(frames, palette)
        grays = luminance(frames) if palette is None else _look_up(frames, luminance(palette))
        small = grays if self.size is None else resize_area(grays, self.size)
        return small[..., None]


RGB = View("rgb")
GRAY_84 = View("gray84", gray=True, size=(84, 84))
VIEWS = {view.name: view for view in (RGB, GRAY_84)}


def get_view(name: str) -> View:
    """Return a view by its name."""
    if name not in VIEWS:
        raise UserError(f"unknown view {name!r}: choose one of {', '.join(VIEWS)}")
    return VIEWS[name]


def luminance(colors: NDArray[np.uint8]) -> NDArray[np.uint8]:
    """Convert RGB (…, 3) to gray (…)."""
    red, green, blue = (weight * colors[..., c] for c, weight in enumerate(LUMINANCE))
    gray: NDArray[np.float64] = red + green + blue
    return np.floor(gray + 0.5).astype(np.uint8)


def resize_area(images: NDArray[np.uint8], size: tuple[int, int]) -> NDArray[np.uint8]:
    """Resize (…, H, W) to (…, *size): each new pixel is the mean of the area it covers."""
    flat = images.reshape(-1, *images.shape[-2:])
    small = np.empty((len(flat), *size), np.uint8)
    for image, out in zip(flat, small, strict=True):
        cv2.resize(image, size[::-1], dst=out, interpolation=cv2.INTER_AREA)
    return small.reshape(*images.shape[:-2], *size)


def _look_up(indices: NDArray[np.uint8], values: NDArray[np.uint8]) -> NDArray[np.uint8]:
    """Return values[indices], three times faster."""
    table = values.tobytes() + bytes(MAX_COLORS - len(values))
    return np.frombuffer(indices.tobytes().translate(table), np.uint8).reshape(indices.shape)
