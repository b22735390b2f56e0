"""The oracle: the stored actions played again in the game must give the stored frames, bit for bit."""

from __future__ import annotations

import numpy as np

from acvp.data.episode import Episode
from acvp.data.store import EpisodeStore
from acvp.envs import Game, make_game
from acvp.errors import UserError


def replay_game(store: EpisodeStore) -> Game:
    """The game of a store, made as it was for the recording."""
    if store.info.policy.startswith("imported"):
        raise UserError(f"{store.path} was imported: it does not say how to make its game, so it cannot be replayed")
    return make_game(store.info.env_id, **store.info.settings)


def first_difference(episode: Episode, game: Game) -> str | None:
    """Play an episode again; None where everything agrees, else what differs first."""
    stored = episode.frames()
    if not np.array_equal(game.reset(episode.header.seed), stored[0]):
        return f"episode {episode.header.number}: the first frame differs"
    terminated = False
    for t, action in enumerate(episode.actions.tolist()):
        step = game.step(action)
        if not np.array_equal(step.frame, stored[t + 1]):
            return f"episode {episode.header.number}: frame {t + 1} differs"
        terminated = step.terminated
        if np.float32(step.reward) != episode.rewards[t]:
            return f"episode {episode.header.number}: the reward of action {t} differs"
    if terminated != episode.header.terminated:
        return (
            f"episode {episode.header.number}: the game {'ends' if terminated else 'does not end'} with its last action"
        )
    return None
