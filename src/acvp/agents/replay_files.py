"""The replay to and from the arrays of a checkpoint; its frames are compressed, without loss."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from acvp.agents.replay import FrameReplay
from acvp.checkpoint import CheckpointError
from acvp.data.chunks import CHUNK_FRAMES, DamagedChunkError, compress, decompress

SMALL = ("actions", "rewards", "ends", "begins")
"""Arrays of a number per transition, kept as they are."""


def replay_arrays(replay: FrameReplay) -> dict[str, NDArray[Any]]:
    """Return what a replay holds."""
    filled = _filled(replay)
    chunks = [
        compress(replay.frames[first : min(first + CHUNK_FRAMES, filled), game])
        for game in range(replay.n_envs)
        for first in range(0, filled, CHUNK_FRAMES)
    ]
    return {
        "counts": np.array([replay.added, replay.draws]),
        "chunks": np.frombuffer(b"".join(chunks), np.uint8),
        "sizes": np.array([len(chunk) for chunk in chunks], np.int64),
    } | {name: getattr(replay, name)[:filled] for name in SMALL}


def restore_replay(replay: FrameReplay, arrays: dict[str, NDArray[Any]]) -> None:
    """Fill a new replay of the same settings with what `replay_arrays` returned."""
    try:
        replay.added, replay.draws = (int(count) for count in arrays["counts"])
        filled = _filled(replay)
        for name in SMALL:
            getattr(replay, name)[:filled] = arrays[name]
        _restore_frames(replay, arrays["chunks"].tobytes(), arrays["sizes"].tolist())
    except (KeyError, ValueError, DamagedChunkError) as error:
        raise CheckpointError(f"the saved replay is not one of this run ({error})") from error


def _restore_frames(replay: FrameReplay, data: bytes, sizes: list[int]) -> None:
    filled, begin, left = _filled(replay), 0, iter(sizes)
    for game in range(replay.n_envs):
        for first in range(0, filled, CHUNK_FRAMES):
            size = next(left, 0)
            frames = np.empty_like(replay.frames[first : min(first + CHUNK_FRAMES, filled), game])
            decompress(data[begin : begin + size], frames, len(frames))
            replay.frames[first : first + len(frames), game] = frames
            begin += size


def _filled(replay: FrameReplay) -> int:
    """Return the slots that hold a frame: one more than transitions were added, until the ring is full."""
    return min(replay.added + 1, replay.buffer_size) if replay.added else 0
