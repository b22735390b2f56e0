"""Stored plays again in the emulator, frame by frame, each compared with what is stored."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from acvp.data.chunks import CHUNK_FRAMES
from acvp.data.episode import Episode
from acvp.envs import Game
from acvp.errors import UserError

CURE = "acvp data verify --replay lists all differences"


def replay(episode: Episode, game: Game, stop: int | None = None) -> Iterator[int]:
    """Yield 0, 1, … with the game at that frame of the episode, up to `stop` - 1; refuse a game that differs."""
    stop = len(episode) if stop is None else stop
    ended = False
    for first in range(0, stop, CHUNK_FRAMES):
        stored = episode.frames(first, min(first + CHUNK_FRAMES, stop))
        for t, wanted in enumerate(stored, first):
            if ended:
                raise UserError(f"episode {episode.header.number}: the game played again ends at frame {t - 1}; {CURE}")
            if t:
                frame, _, terminated, truncated = game.step(int(episode.actions[t - 1]))
                ended = terminated or truncated
            else:
                frame = game.reset(episode.header.seed)
            if not np.array_equal(frame, wanted):
                raise UserError(
                    f"episode {episode.header.number}: frame {t} of the game played again is not the stored one; {CURE}"
                )
            yield t
