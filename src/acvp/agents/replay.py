"""Replay buffer that stores every frame once: a million transitions of 84×84 frames in 7.1 GB instead of 56.

Slot t of a game holds the newest frame of its observation at t, the action taken then, and what that led to; sampled
observations, and those n agent steps later, are stacked from neighboring slots.

    slot      …  t−3  t−2  t−1   t  t+1 …  t+n
    frames       └─ observation ─┘
    frames            observation n agent steps later: t+n−3 … t+n

The first frame of an episode stands in for those before it. The ring has a few slots more than transitions, so that
the oldest and the newest transition are complete. In a checkpoint the frames are compressed, without loss.

Shapes: E games, N slots, B sampled transitions, S frames of an observation.
"""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
import torch
from gymnasium import spaces
from numpy.typing import NDArray
from stable_baselines3.common.buffers import ReplayBuffer
from stable_baselines3.common.type_aliases import ReplayBufferSamples

from acvp.checkpoint import CheckpointError
from acvp.data.episode import CHUNK_FRAMES, DamagedChunkError, compress, decompress
from acvp.errors import UserError
from acvp.seeding import generator

Array = NDArray[Any]
CONTINUES, TERMINATED, LIFE_LOST, TRUNCATED = range(4)
"""How a transition ended: the episode continues; it terminated; a life was lost, the frames continue; time limit."""

MOST_TRIES = 1000
"""Attempts to sample transitions that may be used."""


class Samples(NamedTuple):
    """Sampled transitions."""

    observations: NDArray[np.uint8]
    """(B, S, H, W)"""
    actions: NDArray[np.int64]
    """(B,)"""
    later: NDArray[np.uint8]
    """(B, S, H, W) observations up to n agent steps later; undefined where `ended`."""
    ended: NDArray[np.bool_]
    """(B,) whether no reward can follow."""
    rewards: NDArray[np.float32]
    """(B,) discounted sum over the agent steps between."""
    discounts: NDArray[np.float32]
    """(B,) discount of the value of `later`."""


class FrameReplay(ReplayBuffer):
    """A ring of single frames with the interface of Stable-Baselines3's replay buffer.

    `steps` is the n of n-step returns: it is shortened at a lost life, a termination, a time limit and the newest
    frame. The last transition before a time limit is not sampled, because its next frame is not stored.
    """

    def __init__(
        self,
        buffer_size: int,
        observation_space: spaces.Space[Any],
        action_space: spaces.Space[Any],
        device: torch.device | str = "auto",
        n_envs: int = 1,
        optimize_memory_usage: bool = False,
        handle_timeout_termination: bool = True,
        *,
        seed: int = 0,
        steps: int = 1,
        discount: float = 0.99,
        episodic_life: bool = False,
    ) -> None:
        """Allocate; `episodic_life`: a lost life (info["life_lost"]) ends the return."""
        super(ReplayBuffer, self).__init__(buffer_size, observation_space, action_space, device, n_envs)
        self.stack, *size = self.obs_shape
        self.seed, self.steps, self.discount, self.episodic_life = seed, steps, discount, episodic_life
        self.capacity = buffer_size // n_envs
        """Transitions stored per game."""
        if self.capacity < 1 or steps < 1:
            raise UserError(f"replay of {buffer_size} transitions for {n_envs} games, {steps} steps: at least 1 each")
        self.buffer_size = self.capacity + self.stack
        self.frames = np.empty(
            (self.buffer_size, n_envs, *size), np.uint8
        )  # the system allocates memory as it is filled
        self.actions = np.zeros((self.buffer_size, n_envs), np.uint8 if self.action_space.n <= 256 else np.int64)  # type: ignore[attr-defined]
        self.rewards = np.zeros((self.buffer_size, n_envs), np.float32)
        self.status = np.zeros((self.buffer_size, n_envs), np.uint8)
        self.begins = np.zeros((self.buffer_size, n_envs), np.bool_)
        self.added = self.draws = 0
        """Transitions added per game, and batches sampled, so far."""

    def size(self) -> int:
        """Return the number of transitions stored per game."""
        return min(self.added, self.capacity)

    def add(
        self, obs: Array, next_obs: Array, action: Array, reward: Array, done: Array, infos: list[dict[str, Any]]
    ) -> None:
        """Add an agent step of every game: observations (E, S, H, W) before and after it, and its results."""
        here, after = self.added % self.buffer_size, (self.added + 1) % self.buffer_size
        if self.added == 0:
            self.frames[here], self.begins[here] = obs[:, -1], True
        elif (ended := self._over(self.added - 1)).any():
            self.frames[here, ended] = obs[ended, -1]
        self.frames[after] = next_obs[:, -1]
        self.actions[here], self.rewards[here] = action.reshape(self.n_envs), reward
        self.status[here] = [self._status(over, info) for over, info in zip(done, infos, strict=True)]
        self.begins[after] = done
        self.added += 1

    def cut(self) -> None:
        """Note that the episodes under way do not continue: the next observations are first ones."""
        if self.added:
            last = (self.added - 1) % self.buffer_size
            continuing = ~self._over(self.added - 1)
            self.status[last, continuing] = TRUNCATED
            self.begins[self.added % self.buffer_size] = True

    def sample(self, batch_size: int, env: Any = None) -> ReplayBufferSamples:
        """Draw transitions, each alike; which ones follows from the seed and the number of draws before."""
        drawn = self.draw(*self.choose(batch_size))
        tensors = (drawn.observations, drawn.actions[:, None], drawn.later)
        numbers = (drawn.ended.astype(np.float32)[:, None], drawn.rewards[:, None], drawn.discounts[:, None])
        return ReplayBufferSamples(*(self.to_torch(array, copy=False) for array in (*tensors, *numbers)))

    def choose(self, count: int) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
        """Return numbers (count,) of transitions, counted from the first ever added, and of their games."""
        rng = generator("replay", self.seed, self.draws)
        self.draws += 1
        times, games = np.empty(0, np.int64), np.empty(0, np.int64)
        for _ in range(MOST_TRIES):
            time = rng.integers(self.added - self.size(), self.added, count)
            game = rng.integers(self.n_envs, size=count)
            kept = self.status[time % self.buffer_size, game] != TRUNCATED
            times, games = np.append(times, time[kept]), np.append(games, game[kept])
            if len(times) >= count:
                return times[:count], games[:count]
        raise UserError("there is nothing to learn from: every episode is truncated after its first agent step")

    def draw(self, times: NDArray[np.int64], games: NDArray[np.int64]) -> Samples:
        """Put together transitions by their numbers and games, (B,) each."""
        rewards = np.zeros(len(times), np.float32)
        going, ended = np.ones(len(times), np.bool_), np.zeros(len(times), np.bool_)
        length = np.zeros(len(times), np.int64)
        for step in range(self.steps):
            slots = (times + step) % self.buffer_size
            going = going & (times + step < self.added) & (self.status[slots, games] != TRUNCATED)
            rewards += np.where(going, self.discount**step * self.rewards[slots, games], 0).astype(np.float32)
            length += going
            stops = going & self._stops(self.status[slots, games])
            ended |= stops
            going &= ~stops
        return Samples(
            self._observations(times, games),
            self.actions[times % self.buffer_size, games].astype(np.int64),
            self._observations(times + length, games),
            ended,
            rewards,
            (self.discount**length).astype(np.float32),
        )

    def _observations(self, times: NDArray[np.int64], games: NDArray[np.int64]) -> NDArray[np.uint8]:
        """Return observations (B, S, H, W) at times (B,)."""
        slots = np.empty((len(times), self.stack), np.int64)
        slot = slots[:, -1] = times % self.buffer_size
        for back in range(self.stack - 2, -1, -1):
            slot = np.where(self.begins[slot, games], slot, (slot - 1) % self.buffer_size)
            slots[:, back] = slot
        frames: NDArray[np.uint8] = self.frames[slots, games[:, None]]
        return frames

    def _over(self, time: int) -> NDArray[np.bool_]:
        """Return in which games (E,) an episode ended with the transition at a time."""
        return np.isin(self.status[time % self.buffer_size], (TERMINATED, TRUNCATED))

    def _stops(self, status: Array) -> NDArray[np.bool_]:
        """Return after which of the transitions no reward can follow."""
        return np.isin(status, (TERMINATED, LIFE_LOST) if self.episodic_life else (TERMINATED,))

    def _status(self, over: bool, info: dict[str, Any]) -> int:
        if over:
            return TRUNCATED if info.get("TimeLimit.truncated", False) else TERMINATED
        return LIFE_LOST if info.get("life_lost", False) else CONTINUES


SMALL = ("actions", "rewards", "status", "begins")
"""Arrays of a number per transition, stored as they are."""


def replay_arrays(replay: FrameReplay) -> dict[str, NDArray[Any]]:
    """Return the contents of a replay buffer."""
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
    """Restore a new replay buffer of the same settings from `replay_arrays`."""
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
    """Return the number of slots with a frame: one more than transitions added, until the ring is full."""
    return min(replay.added + 1, replay.buffer_size) if replay.added else 0
