"""The mean image that the paper subtracts from every frame."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from acvp.data.chunks import CHUNK_FRAMES
from acvp.data.store import EpisodeStore
from acvp.data.views import RGB, View
from acvp.seeding import generator

MAX_FRAMES = 50_000
"""More frames do not change the mean by what a pixel can show; of larger stores, chunks are drawn at random."""


def mean_frame(store: EpisodeStore, view: View = RGB, *, seed: int = 0) -> NDArray[np.float32]:
    """(h, w, channels): the mean over all frames of a store, per pixel and channel, in pixel values."""
    places = [(i, first) for i, entry in enumerate(store.entries) for first in range(0, entry.frames, CHUNK_FRAMES)]
    if store.frames > MAX_FRAMES:
        drawn = generator("mean", seed).choice(len(places), MAX_FRAMES // CHUNK_FRAMES, replace=False)
        places = [places[k] for k in sorted(drawn.tolist())]
    total, count = np.zeros(view.shape(store.info.frame_shape), np.float64), 0
    for i, first in places:
        episode = store[i]
        frames = view.apply(episode.stored(first, min(first + CHUNK_FRAMES, len(episode))), episode.palette)
        total += frames.sum(axis=0, dtype=np.uint32)
        count += len(frames)
    return (total / max(count, 1)).astype(np.float32)
