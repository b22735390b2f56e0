"""Views of stored frames: full color, or gray and small; and the mean image that the paper subtracts.

The gray 84×84 view is that of Atari agents: the emulator's luminance, then OpenCV's area interpolation, as in
Gymnasium's AtariPreprocessing and ALE's vector env (without their maximum over two emulator frames). A few pixels in
100,000 differ from ALE's vector env by one gray level, where its own build of OpenCV rounds a half the other way.

Shapes: … any leading sizes, H height, W width, h and w the view's, K colors.
"""

from __future__ import annotations

from dataclasses import dataclass

import cv2
import numpy as np
from numpy.typing import NDArray

from acvp.data.episode import CHUNK_FRAMES
from acvp.data.palette import MAX_COLORS, Palette, colorize
from acvp.data.store import EpisodeStore
from acvp.errors import UserError
from acvp.seeding import generator

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


MAX_FRAMES = 50_000
"""Of larger datasets, chunks are drawn at random: more frames do not change the mean visibly."""


def mean_frame(store: EpisodeStore, view: View = RGB, *, seed: int = 0) -> NDArray[np.float32]:
    """Return the mean over all frames of a dataset, per pixel and channel, in pixel values: (h, w, channels)."""
    chunks = [(i, first) for i, entry in enumerate(store.entries) for first in range(0, entry.frames, CHUNK_FRAMES)]
    if store.frames > MAX_FRAMES:
        drawn = generator("mean", seed).choice(len(chunks), MAX_FRAMES // CHUNK_FRAMES, replace=False)
        chunks = [chunks[k] for k in sorted(drawn.tolist())]
    total, count = np.zeros(view.shape(store.info.frame_shape), np.float64), 0
    for i, first in chunks:
        episode = store[i]
        frames = view.apply(episode.stored(first, min(first + CHUNK_FRAMES, len(episode))), episode.palette)
        total += frames.sum(axis=0, dtype=np.uint32)
        count += len(frames)
    return (total / max(count, 1)).astype(np.float32)
