"""The frame-wise replay against a plain one that keeps whole observations."""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pytest
from gymnasium import spaces
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from acvp.agents.replay import CONTINUES, LIFE_LOST, TERMINATED, TRUNCATED, FrameReplay
from acvp.errors import UserError

STACK, SIZE, ACTIONS = 4, (2, 3), 5
DISCOUNT = 0.5
"""A power of two: sums are exact."""


def make_replay(capacity: int, games: int = 1, **options: Any) -> FrameReplay:
    space = spaces.Box(0, 255, (STACK, *SIZE), np.uint8)
    options = {"seed": 1, "discount": DISCOUNT} | options
    return FrameReplay(capacity * games, space, spaces.Discrete(ACTIONS), "cpu", games, **options)


@dataclass
class Transition:
    """What a plain replay keeps."""

    observation: NDArray[np.uint8]
    action: int
    reward: float
    end: int
    next_observation: NDArray[np.uint8]


@dataclass
class PlainPlay:
    """A game whose frames carry their own number; it keeps every transition as it was."""

    transitions: list[Transition] = field(default_factory=list)
    frames: int = 0
    stack: deque[int] = field(default_factory=lambda: deque(maxlen=STACK))

    def begin(self) -> None:
        self.frames += 1
        self.stack.extend([self.frames] * STACK)

    def observation(self) -> NDArray[np.uint8]:
        frames = [np.arange(number, number + 6, dtype=np.uint8).reshape(SIZE) for number in self.stack]
        return np.stack(frames)

    def step(self, action: int, reward: float, end: int) -> NDArray[np.uint8]:
        """Add a transition and return the observation after it; a play that is over is followed by the next."""
        before = self.observation()
        self.frames += 1
        self.stack.append(self.frames)
        after = self.observation()
        self.transitions.append(Transition(before, action, reward, end, after))
        if end in (TERMINATED, TRUNCATED):
            self.begin()
        return after

    def look(self, time: int, steps: int, *, episodic_life: bool) -> tuple[float, bool, int, NDArray[np.uint8]]:
        """Rewards, whether nothing comes after them, decisions, and the observation then, by the definition."""
        total, length = 0.0, 0
        last = self.transitions[time].observation
        for one in self.transitions[time : time + steps]:
            if one.end == TRUNCATED:
                break
            total += DISCOUNT**length * one.reward
            length += 1
            last = one.next_observation
            if one.end == TERMINATED or (one.end == LIFE_LOST and episodic_life):
                return total, True, length, last
        return total, False, length, last


def play(replay: FrameReplay, plays: list[PlainPlay], moves: list[list[tuple[int, float, int]]]) -> None:
    """Let the same things happen to both; `moves` are (action, reward, end) by decision and game."""
    for move in moves:
        before = np.stack([each.observation() for each in plays])
        after = np.stack([each.step(*one) for each, one in zip(plays, move, strict=True)])
        actions, rewards, ends = (np.array(column) for column in zip(*move, strict=True))
        infos: list[dict[str, Any]] = [
            {"TimeLimit.truncated": end == TRUNCATED, "life_lost": end == LIFE_LOST} for end in ends
        ]
        replay.add(before, after, actions, rewards, np.isin(ends, (TERMINATED, TRUNCATED)), infos)


def compare(replay: FrameReplay, plays: list[PlainPlay], *, steps: int, episodic_life: bool) -> None:
    """Every transition that can be drawn is the plain one's."""
    added = len(plays[0].transitions)
    kept = range(added - min(added, replay.capacity), added)
    for game, plain in enumerate(plays):
        times = [time for time in kept if plain.transitions[time].end != TRUNCATED]
        drawn = replay.draw(np.array(times, np.int64), np.full(len(times), game))
        for row, time in enumerate(times):
            one = plain.transitions[time]
            total, ended, length, last = plain.look(time, steps, episodic_life=episodic_life)
            numbers = drawn.actions[row], drawn.rewards[row], drawn.ended[row], drawn.discounts[row]
            assert numbers == (one.action, total, ended, DISCOUNT**length)
            assert np.array_equal(drawn.observations[row], one.observation)
            assert ended or np.array_equal(drawn.later[row], last)


ends = st.sampled_from([CONTINUES] * 5 + [TERMINATED, LIFE_LOST, TRUNCATED])
move = st.tuples(st.integers(0, ACTIONS - 1), st.sampled_from([-1.0, 0.0, 1.0]), ends)


@pytest.mark.slow
@settings(max_examples=60)
@given(st.data(), st.integers(1, 12), st.integers(1, 3), st.integers(1, 5), st.booleans())
def test_every_transition_is_the_one_a_plain_replay_keeps(
    data: st.DataObject, capacity: int, games: int, steps: int, episodic_life: bool
) -> None:
    replay = make_replay(capacity, games, steps=steps, episodic_life=episodic_life)
    plays = [PlainPlay() for _ in range(games)]
    for each in plays:
        each.begin()
    for _ in range(data.draw(st.integers(1, 3))):
        moves = data.draw(st.lists(st.lists(move, min_size=games, max_size=games), min_size=1, max_size=30))
        play(replay, plays, moves)
        compare(replay, plays, steps=steps, episodic_life=episodic_life)


def long_play(replay: FrameReplay, decisions: int, ends: tuple[int, ...] = (CONTINUES,)) -> PlainPlay:
    plain = PlainPlay()
    plain.begin()
    play(replay, [plain], [[(t % ACTIONS, 1.0, ends[t % len(ends)])] for t in range(decisions)])
    return plain


def test_exactly_the_newest_transitions_are_drawn_each_alike() -> None:
    replay = make_replay(10)
    long_play(replay, 47, (CONTINUES, CONTINUES, CONTINUES, TERMINATED, TRUNCATED))
    times, games = replay.choose(8_000)
    wanted = [time for time in range(37, 47) if time % 5 != 4]
    assert replay.size() == 10
    assert not games.any()
    found, counts = np.unique(times, return_counts=True)
    assert found.tolist() == wanted
    assert counts == pytest.approx(np.full(8, 1_000), abs=130)


def test_draws_follow_from_seed_and_number() -> None:
    one, other, different = make_replay(20), make_replay(20), make_replay(20, seed=2)
    for replay in (one, other, different):
        long_play(replay, 30)
    first, second = one.choose(50)[0], one.choose(50)[0]
    assert np.array_equal(first, other.choose(50)[0])
    assert not np.array_equal(first, second)
    assert not np.array_equal(first, different.choose(50)[0])


def test_samples_are_what_the_algorithm_takes() -> None:
    replay = make_replay(20, steps=2)
    long_play(replay, 9)
    samples = replay.sample(7)
    assert samples.observations.shape == samples.next_observations.shape == (7, STACK, *SIZE)
    assert samples.actions.shape == samples.rewards.shape == samples.dones.shape == (7, 1)
    assert samples.discounts is not None
    assert set(samples.discounts.flatten().tolist()) <= {0.5, 0.25}


def test_a_cut_keeps_plays_apart() -> None:
    """A run that goes on with new plays: no observation mixes the old with the new."""
    replay, plain = make_replay(20), PlainPlay()
    plain.begin()
    play(replay, [plain], [[(1, 0.0, CONTINUES)]] * 6)
    replay.cut()
    plain.transitions[-1].end = TRUNCATED
    plain.begin()
    play(replay, [plain], [[(2, 0.0, CONTINUES)]] * 6)
    compare(replay, [plain], steps=1, episodic_life=False)
    assert 5 not in replay.choose(500)[0]


def test_a_million_transitions_take_less_than_8_gb() -> None:
    space = spaces.Box(0, 255, (STACK, 84, 84), np.uint8)
    replay = FrameReplay(10_000, space, spaces.Discrete(18), "cpu", 8)
    held = sum(array.nbytes for array in (replay.frames, replay.actions, replay.rewards, replay.status, replay.begins))
    assert held / (replay.capacity * 8) * 1e6 < 8e9


def test_nothing_but_cut_off_episodes_is_refused() -> None:
    replay = make_replay(5)
    long_play(replay, 3, (TRUNCATED,))
    with pytest.raises(UserError, match="every episode is truncated after its first agent step"):
        replay.choose(4)


def test_a_replay_without_room_is_refused() -> None:
    space = spaces.Box(0, 255, (STACK, *SIZE), np.uint8)
    with pytest.raises(UserError, match="replay of 3 transitions for 4 games"):
        FrameReplay(3, space, spaces.Discrete(2), "cpu", 4)
