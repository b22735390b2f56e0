"""Measures for single claims on real frames, beside what the console's RAM says happens."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
import pytest
from numpy.typing import NDArray

from acvp.data.frames import get_view
from acvp.envs import make_game
from acvp.evaluation.claims import find_collisions, find_wraps, marches

FLEET_ROW, FLEET_COLUMN = 24, 26
"""Bytes of Space Invaders' RAM that say where the fleet is."""
HIT, NO_HIT = 16, 255
"""Byte of Freeway's RAM that says which car has hit the chicken, and its value when none has."""


class Episode(NamedTuple):
    """What happened, step by step."""

    meanings: tuple[str, ...]
    frames: NDArray[np.uint8]
    actions: NDArray[np.int64]
    rewards: NDArray[np.float64]
    rows: NDArray[np.float64]
    """Positions of the controlled object, (T + 1, 2)."""
    ram: NDArray[np.uint8]


def played(name: str, shares: dict[str, float], steps: int) -> Episode:
    """Play random actions with these probabilities, each repeated for some steps."""
    game, rng = make_game(name), np.random.default_rng(1)
    console: Any = game
    names = list(shares)
    frames = [game.reset(1)]
    actions: list[int] = []
    rewards: list[float] = []
    rows, ram = [game.controlled_position()], [console._ale.getRAM()]
    while len(actions) < steps:
        action = game.action_meanings.index(rng.choice(names, p=list(shares.values())))
        for _ in range(int(rng.integers(1, 5))):
            frame, reward, _, _ = game.step(action)
            frames.append(frame)
            actions.append(action)
            rewards.append(reward)
            rows.append(game.controlled_position())
            ram.append(console._ale.getRAM())
    missing = (np.nan, np.nan)
    places = np.array([missing if row is None else row for row in rows])
    return Episode(game.action_meanings, np.stack(frames), np.array(actions), np.array(rewards), places, np.stack(ram))


@pytest.mark.parametrize("view", ["rgb", "gray84"])
def test_marches_are_the_steps_in_which_the_fleet_moves(view: str) -> None:
    episode = played("space_invaders", {"NOOP": 0.1, "RIGHTFIRE": 0.4, "LEFTFIRE": 0.4, "FIRE": 0.1}, 240)
    place = episode.ram[:, [FLEET_ROW, FLEET_COLUMN]].astype(np.int64)
    moves = (np.diff(place, axis=0) != 0).any(1)
    frames = get_view(view).apply(episode.frames, None).astype(np.float32).transpose(0, 3, 1, 2)
    assert moves.sum() >= 15
    assert marches(frames[1:], frames[:-1], frames[:-1]).tolist() == moves.tolist()


def test_wraps_are_freeways_rewards_and_collisions_its_hits() -> None:
    episode = played("freeway", {"NOOP": 0.1, "UP": 0.7, "DOWN": 0.2}, 1200)
    wraps = find_wraps(episode.rows[None], episode.frames.shape[1:])[0]
    assert wraps.sum() >= 3
    assert np.flatnonzero(wraps).tolist() == np.flatnonzero(episode.rewards).tolist()
    hits = np.flatnonzero((episode.ram[:-1, HIT] == NO_HIT) & (episode.ram[1:, HIT] != NO_HIT))
    begins = np.flatnonzero(find_collisions(episode.rows[None], episode.actions[None], episode.meanings)[0] & ~wraps)
    known = {int(hit) for begin in begins for hit in hits if begin - 1 <= hit <= begin}
    assert len(hits) >= 20
    assert len(known) >= 0.9 * len(begins), (begins, hits)  # a hit has one beginning; the byte misses short hits
    assert len(known) >= 0.7 * len(hits), (begins, hits)  # those of a chicken that walks down anyway are left out
