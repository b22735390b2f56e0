"""Stored episodes played again in their game: the same seed and actions must give the same frames, bit for bit.

So they also report what is not recorded: where the controlled object was, according to the emulator's RAM.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from itertools import chain
from types import NoneType

import numpy as np
from numpy.typing import NDArray

from acvp.data.episode import Episode
from acvp.data.store import EpisodeStore
from acvp.envs import Game, Step, make_game
from acvp.errors import UserError

SETTINGS: dict[str, set[type]] = {
    "sticky": {int, float},
    "frame_skip": {int},
    "max_steps": {int, NoneType},
    "import_module": {str, NoneType},
}
"""Arguments of make_game besides the id, and their types."""

Positions = dict[int, NDArray[np.float64]]
"""(frames, 2) rows and columns by position of the episode in the store; NaN while the object is not drawn."""


class ReplayError(UserError):
    """The game, played again, differs from the stored episode."""

    def __init__(self, difference: str) -> None:
        super().__init__(f"{difference}; acvp data verify --replay lists all differences")
        self.difference = difference
        """The episode and what differs first."""


def replay_game(store: EpisodeStore) -> Game:
    """Make the game of a dataset as it was made for the recording.

    A dataset may name a module that registers its game. It is not imported here: the user must have done so.
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


def replay(episode: Episode, game: Game, stop: int | None = None) -> Iterator[int]:
    """Yield 0, 1, …, stop - 1 with the game at that frame of the episode; ReplayError where the game differs.

    Frames, rewards, lives and, at the last frame, the termination are compared.
    """
    frames = chain.from_iterable(episode.blocks(stop))
    ended = False
    for t, frame in enumerate(frames):
        if ended:
            raise _difference(episode, f"the game ends with action {t - 2}, before the recording does")
        if t:
            step = game.step(episode.actions[t - 1])
        else:
            step = Step(game.reset(episode.header.seed), 0.0, terminated=False, truncated=False)
        _compare(episode, t, frame, step, game.lives)
        ended = step.terminated or step.truncated
        yield t


def first_difference(episode: Episode, game: Game) -> str | None:
    """Play an episode again and return what differs first; None where everything agrees."""
    try:
        for _ in replay(episode, game):
            pass
    except ReplayError as error:
        return error.difference
    return None


def _compare(episode: Episode, t: int, frame: np.ndarray, step: Step, lives: int) -> None:
    """Refuse a step that is not the one that led to frame t of an episode."""
    if not np.array_equal(step.frame, frame):
        raise _difference(episode, f"frame {t} differs")
    if t and (np.float32(step.reward) != episode.rewards[t - 1] or lives != episode.lives[t]):
        raise _difference(episode, f"the reward or the lives after action {t - 1} differ")
    if t == len(episode) - 1 and step.terminated != episode.header.terminated:
        raise _difference(episode, f"the game {'ends' if step.terminated else 'does not end'} with its last action")


def _difference(episode: Episode, what: str) -> ReplayError:
    return ReplayError(f"episode {episode.header.number}: {what}")


def find_positions(
    store: EpisodeStore,
    windows: Iterable[tuple[int, int]],
    length: int,
    progress: Callable[[int, int], None] = lambda done, total: None,
) -> Positions:
    """Replay the episodes of windows of some length, (episode, first frame) each, and return where the object was.

    Raises UserError where the episodes cannot be replayed or the game does not report the position.
    """
    last: dict[int, int] = {}
    for episode, start in windows:
        last[episode] = max(last.get(episode, 0), start + length)
    positions: Positions = {}
    with replay_game(store) as game:
        for done, (position, stop) in enumerate(last.items()):
            progress(done, len(last))
            rows = [game.controlled_position() or (np.nan, np.nan) for _ in replay(store[position], game, stop)]
            positions[position] = np.array(rows, np.float64)
    if all(np.isnan(rows).all() for rows in positions.values()):
        raise UserError(f"{store.info.env_id} does not report where its controlled object is (docs/environments.md)")
    return positions
