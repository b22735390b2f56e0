"""True futures of every plan from the same state: stored episodes are replayed, and the game is branched.

Shapes: T given frames, P plans, L steps of a plan, h height, w width and C channels of the view.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from acvp.data.replay import replay, replay_game
from acvp.data.store import EpisodeStore
from acvp.data.views import View
from acvp.data.windows import WindowStart
from acvp.envs import Game
from acvp.errors import UserError
from acvp.seeding import generator

Plans = NDArray[np.int64]  # (P, L)
NEEDS = "counterfactuals need a store made by acvp collect, with its game, seeds and actions"


@dataclass(frozen=True, kw_only=True)
class BranchedState:
    """A state of a stored episode with the true future of several plans."""

    start: WindowStart
    given: NDArray[np.uint8]
    """(T, h, w, C), the frames that led to it."""
    between: NDArray[np.int64]
    """(T − 1,), the actions between them."""
    plans: Plans
    futures: NDArray[np.uint8]
    """(P, L, h, w, C), the frames that each plan leads to."""


def every_action(actions: int, steps: int) -> Plans:
    """Return one plan for each action, which is repeated for all steps."""
    return np.repeat(np.arange(actions)[:, None], steps, 1)


def sampled_plans(actions: int, steps: int, count: int, *key: int) -> Plans:
    """Return up to `count` different plans of uniformly random actions, a pure function of the key."""
    drawn = generator("plans", *key).integers(actions, size=(count, steps))
    return np.unique(drawn, axis=0)


def open_game(store: EpisodeStore) -> Game:
    """Return the game of a dataset; refuse one that cannot return to a saved state."""
    try:
        game = replay_game(store)
    except UserError as error:
        raise UserError(f"{NEEDS}: {error}") from error
    if not game.can_save:
        raise UserError(
            f"counterfactuals need a game that can save its state: {game.env_id} has no save_state and restore_state "
            "(docs/environments.md)"
        )
    return game


def branched_states(
    store: EpisodeStore, starts: Sequence[WindowStart], view: View, context: int, plans: Callable[[int], Plans]
) -> Iterator[BranchedState | None]:
    """Yield the state at the last given frame of each window, None where a plan ends the game too early.

    ``plans`` returns the plans of the n-th window.
    """
    by_episode: dict[int, dict[int, int]] = {}
    for number, start in enumerate(starts):
        by_episode.setdefault(start.episode, {})[start.frame + context - 1] = number
    with open_game(store) as game:
        for episode, numbers in by_episode.items():
            for t in _replayed(store, episode, game, max(numbers) + 1):
                if t in numbers:
                    yield _branched(store, starts[numbers[t]], view, context, plans(numbers[t]), game)


def _replayed(store: EpisodeStore, episode: int, game: Game, stop: int) -> Iterator[int]:
    try:
        yield from replay(store[episode], game, stop)
    except UserError as error:
        raise UserError(f"{NEEDS}: {error}") from error


def _branched(
    store: EpisodeStore, start: WindowStart, view: View, context: int, plans: Plans, game: Game
) -> BranchedState | None:
    episode, stop = store[start.episode], start.frame + context
    futures = list(game.branch(plans.tolist()))
    if any(len(steps) < plans.shape[1] for steps in futures):
        return None
    return BranchedState(
        start=start,
        given=view.apply(episode.stored(start.frame, stop), episode.palette),
        between=episode.actions[start.frame : stop - 1].astype(np.int64),
        plans=plans,
        futures=view.apply(np.stack([[step.frame for step in steps] for steps in futures]), None),
    )
