"""What the emulator tells about moments of stored plays: where the object was, and every action's next frame.

Shapes: S moments, A actions, h height, w width and C channels of the view.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from acvp.data.replay import replay_game
from acvp.data.store import EpisodeStore
from acvp.data.views import View
from acvp.envs import Game
from acvp.errors import UserError
from acvp.evaluation.horizon import Progress
from acvp.evaluation.places import Place
from acvp.evaluation.replays import replay

NOT_DRAWN = (np.nan, np.nan)


@dataclass(frozen=True)
class Emulated:
    """What one pass through the emulator brings."""

    positions: NDArray[np.float64]
    """Row and column of the controlled object before and after the action taken, (S, 2, 2); NaN while not drawn."""
    futures: NDArray[np.uint8] | None
    """The next frame under every action, (S, A, h, w, C); None where the game cannot save its state."""


def emulate(store: EpisodeStore, places: list[Place], view: View, context: int, progress: Progress) -> Emulated:
    """Play the episodes of the places again, and look around at the last given frame of each."""
    wanted: dict[int, dict[int, int]] = {}
    for number, (episode, start) in enumerate(places):
        wanted.setdefault(episode, {})[start + context - 1] = number
    positions = np.full((len(places), 2, 2), np.nan)
    futures = np.zeros((len(places), store.action_count, *view.shape(store.info.frame_shape)), np.uint8)
    with replay_game(store) as game:
        for done, (episode, numbers) in enumerate(wanted.items()):
            progress(done, len(wanted))
            for t in replay(store[episode], game, max(numbers) + 2):
                if t - 1 in numbers:
                    positions[numbers[t - 1], 1] = game.controlled_position() or NOT_DRAWN
                if t in numbers:
                    positions[numbers[t], 0] = game.controlled_position() or NOT_DRAWN
                    if game.can_save:
                        futures[numbers[t]] = view.apply(_every_next_frame(game, store.action_count), None)
        return Emulated(positions, futures if game.can_save else None)


def _every_next_frame(game: Game, actions: int) -> NDArray[np.uint8]:
    """Return the frames (A, H, W, 3) that each action leads to, and leave the game where it was."""
    now, frames = game.save(), []
    for action in range(actions):
        frames.append(game.step(action).frame)
        game.restore(now)
    return np.stack(frames)


def require_positions(emulated: Emulated, store: EpisodeStore) -> NDArray[np.float64]:
    """Return where the object was, or say that the game does not tell."""
    if np.isnan(emulated.positions).all():
        raise UserError(f"{store.info.env_id} does not tell where its controlled object is (docs/environments.md)")
    return emulated.positions


def require_futures(emulated: Emulated, store: EpisodeStore) -> NDArray[np.uint8]:
    """Return every action's next frame, or say that the game cannot go back to a state."""
    if emulated.futures is None:
        raise UserError(
            f"{store.info.env_id} cannot save its state: it has no save_state and restore_state (docs/environments.md)"
        )
    return emulated.futures
