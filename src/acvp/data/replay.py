"""The oracle: the stored actions played again in the game must give the stored frames, bit for bit.

Stored plays again in the emulator, frame by frame, each compared with what is stored.
"""

from __future__ import annotations

from collections.abc import Iterator
from types import NoneType

import numpy as np
from numpy.typing import NDArray

from acvp.data.episode import CHUNK_FRAMES, Episode
from acvp.data.store import EpisodeStore
from acvp.envs import Game, make_game
from acvp.errors import UserError

SETTINGS: dict[str, set[type]] = {
    "sticky": {int, float},
    "frame_skip": {int},
    "max_steps": {int, NoneType},
    "import_module": {str, NoneType},
}
"""What makes a game besides its id, and the types it may have."""
PIECE = 64
"""Frames decoded at a time."""


def replay_game(store: EpisodeStore) -> Game:
    """The game of a store, made as it was for the recording.

    A store may name a module that registers its game; make_game imports none, so the user must have done so.
    """
    if store.info.policy.startswith("imported"):
        raise UserError(f"{store.path} was imported: it does not say how to make its game, so it cannot be replayed")
    settings = store.info.settings
    if settings.keys() != SETTINGS.keys():
        raise UserError(f"{store.path}: its settings are {sorted(settings)}, those of a game are {sorted(SETTINGS)}")
    for name, kinds in SETTINGS.items():
        if type(settings[name]) not in kinds:
            raise UserError(f"{store.path}: its setting {name} is {settings[name]!r:.80}, which makes no game")
    try:
        return make_game(store.info.env_id, **settings)
    except UserError as error:
        raise UserError(f"{store.path}: {error}") from error


def first_difference(episode: Episode, game: Game) -> str | None:
    """Play an episode again; None where everything agrees, else what differs first."""
    stored = _frames(episode)
    if not np.array_equal(game.reset(episode.header.seed), next(stored)):
        return f"episode {episode.header.number}: the first frame differs"
    terminated = truncated = False
    for t, (action, frame) in enumerate(zip(episode.actions.tolist(), stored, strict=True)):
        if terminated or truncated:
            return f"episode {episode.header.number}: the game ends with action {t - 1} already"
        step = game.step(action)
        if not np.array_equal(step.frame, frame):
            return f"episode {episode.header.number}: frame {t + 1} differs"
        terminated, truncated = step.terminated, step.truncated
        if np.float32(step.reward) != episode.rewards[t] or game.lives != episode.lives[t + 1]:
            return f"episode {episode.header.number}: the reward or the lives after action {t} differ"
    if terminated != episode.header.terminated:
        return (
            f"episode {episode.header.number}: the game {'ends' if terminated else 'does not end'} with its last action"
        )
    return None


def _frames(episode: Episode) -> Iterator[NDArray[np.uint8]]:
    """The frames of an episode one by one, decoded in pieces."""
    for start in range(0, len(episode), PIECE):
        yield from episode.frames(start, min(start + PIECE, len(episode)))


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
