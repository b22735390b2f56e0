"""The colours of a store: all of them, or 256 that stand for more."""

from __future__ import annotations

import cv2
import numpy as np

from acvp.data.palette import MAX_COLORS, Palette
from acvp.data.store import EpisodeStore
from acvp.errors import UserError
from acvp.seeding import generator

SAMPLED_FRAMES = 64
SAMPLED_PIXELS = 2**15
ROUNDS = 20


def colours_of(store: EpisodeStore, *, seed: int) -> tuple[Palette, bool]:
    """Return the palette of a store, and whether its colours stand for similar ones too: a game of over 256 colours.

    Those are the means that k-means finds among pixels of frames drawn at random.
    """
    if not len(store):
        raise UserError(f"{store.path}: the store has no episodes; record some with acvp collect")
    if store.palette is not None:
        return store.palette, False
    rng = generator("colours", seed)
    frames = [store[int(rng.integers(len(store)))] for _ in range(SAMPLED_FRAMES)]
    starts = [int(rng.integers(len(episode))) for episode in frames]
    pixels = np.concatenate(
        [episode.frames(at, at + 1).reshape(-1, 3) for episode, at in zip(frames, starts, strict=True)]
    )
    some = pixels[rng.integers(len(pixels), size=SAMPLED_PIXELS)].astype(np.float32)
    cv2.setRNGSeed(seed)
    ends = (cv2.TERM_CRITERIA_MAX_ITER, ROUNDS, 0.0)
    _, _, means = cv2.kmeans(some, MAX_COLORS, None, ends, 1, cv2.KMEANS_PP_CENTERS)  # type: ignore[call-overload]
    return np.unique(np.rint(means).astype(np.uint8), axis=0), True
