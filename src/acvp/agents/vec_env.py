"""Several games at once as a VecEnv of Stable-Baselines3: four gray frames each, rewards clipped to their sign.

Shapes: E games, S frames of a stack.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from ale_py.vector_env import AtariVectorEnv
from gymnasium import spaces
from numpy.typing import NDArray
from stable_baselines3.common.vec_env import VecEnv

from acvp.agents.agent import SIDE, STACK, FrameStack, Gray, Preprocessor
from acvp.envs import Game, SavedState
from acvp.envs.atari import AtariGame, atari_games
from acvp.errors import UserError
from acvp.seeding import derived_seed

Observations = NDArray[np.uint8]  # (E, S, 84, 84)


class StepResult(NamedTuple):
    """What an agent step led to in one game."""

    frame: Gray
    reward: float
    terminated: bool
    truncated: bool
    lives: int
    """Left; those of the next episode where this one ended."""
    next_first: Gray | None
    """First frame of the next episode where this one ended."""


@dataclass
class EpisodeState:
    """An episode that is running."""

    number: int = -1
    score: float = 0.0
    steps: int = 0
    lives: int = -1


class AgentVecEnv(VecEnv):
    """Keeps stacks, scores and lives; subclasses run the games.

    Rewards are 1, 0 or −1. `info` has `life_lost`, and at the end of an episode `episode` with the true score (r) and
    the agent steps (l), `terminal_observation` and `TimeLimit.truncated`.
    """

    def __init__(self, count: int, env_id: str, action_meanings: Sequence[str]) -> None:
        self.env_id, self.action_meanings = env_id, tuple(action_meanings)
        self.episodes = [EpisodeState() for _ in range(count)]
        self.stack = FrameStack(count, STACK)
        self._actions: NDArray[np.int64] = np.zeros(count, np.int64)
        observations = spaces.Box(0, 255, (STACK, SIDE, SIDE), np.uint8)
        super().__init__(count, observations, spaces.Discrete(len(self.action_meanings)))

    def reset(self) -> Observations:
        """Begin an episode in every game."""
        for game, (frame, lives) in enumerate(self._begin_all()):
            self._begin_episode(game, frame, lives)
        return self.stack.frames.copy()

    def step_async(self, actions: NDArray[np.int64]) -> None:
        """Take the actions (E,)."""
        self._actions = actions

    def step_wait(self) -> tuple[Observations, NDArray[np.float32], NDArray[np.bool_], list[dict[str, Any]]]:
        """Make one agent step in every game; where an episode ends, the next begins at once."""
        results = self._advance(self._actions)
        infos = [self._record(game, result) for game, result in enumerate(results)]
        rewards = self._clipped(np.array([result.reward for result in results])).astype(np.float32)
        dones = np.array([result.terminated or result.truncated for result in results])
        return self.stack.frames.copy(), rewards, dones, infos

    @abstractmethod
    def _begin_all(self) -> list[tuple[Gray, int]]:
        """Return the first frame and the lives of a new episode in every game."""

    @abstractmethod
    def _advance(self, actions: NDArray[np.int64]) -> list[StepResult]:
        """Take the actions (E,) for one agent step."""

    def _clipped(self, rewards: NDArray[np.float64]) -> NDArray[np.float64]:
        """Return rewards (E,) as an agent learns from them: their signs."""
        return np.sign(rewards)

    def _begin_episode(self, game: int, frame: Gray, lives: int) -> None:
        self.episodes[game] = EpisodeState(number=self.episodes[game].number + 1, lives=lives)
        self.stack.begin(frame[None, None], slice(game, game + 1))

    def _record(self, game: int, result: StepResult) -> dict[str, Any]:
        """Record what an agent step led to and return its info."""
        episode = self.episodes[game]
        episode.score += result.reward
        episode.steps += 1
        self.stack.add(result.frame[None], slice(game, game + 1))
        if result.next_first is None:
            lost, episode.lives = result.lives < episode.lives, result.lives
            return {"life_lost": True} if lost else {}
        info = {
            "episode": {"r": episode.score, "l": episode.steps},
            "terminal_observation": self.stack.frames[game].copy(),
            "TimeLimit.truncated": result.truncated and not result.terminated,
        }
        self._begin_episode(game, result.next_first, result.lives)
        return info

    def get_attr(self, attr_name: str, indices: Any = None) -> list[Any]:
        """Return an attribute of this object, once per game."""
        return [getattr(self, attr_name, None)] * len(list(self._get_indices(indices)))

    def set_attr(self, attr_name: str, value: Any, indices: Any = None) -> None:
        """Refuse: games are set up before."""
        raise NotImplementedError(f"{attr_name} cannot be set while games run")

    def env_method(self, method_name: str, *args: Any, indices: Any = None, **options: Any) -> list[Any]:
        """Refuse: games have no methods that Stable-Baselines3 needs."""
        raise NotImplementedError(f"{method_name} cannot be called on running games")

    def env_is_wrapped(self, wrapper_class: Any, indices: Any = None) -> list[bool]:
        """Return False for every game."""
        return [False] * len(list(self._get_indices(indices)))


class GameVecEnv(AgentVecEnv):
    """Games stepped one after the other; episode p of game g has a seed that follows from (seed, g, p)."""

    def __init__(self, games: Sequence[Game], seed: int) -> None:
        self.games, self._seed, self._preprocessor = tuple(games), seed, Preprocessor()
        self.screens: NDArray[np.uint8] = np.zeros((len(games), *games[0].frame_shape), np.uint8)
        """What each game shows now, (E, H, W, C)."""
        super().__init__(len(games), games[0].env_id, games[0].action_meanings)

    @property
    def can_save(self) -> bool:
        """Whether a stopped run can resume in the middle of an episode."""
        return all(game.can_save for game in self.games)

    def save(self) -> list[bytes]:
        """Return the states of the games."""
        return [game.save().to_bytes() for game in self.games]

    def restore(self, states: list[bytes], episodes: list[EpisodeState], frames: Observations) -> None:
        """Resume from saved states, with the scores and frame stacks that belong to them."""
        for number, (game, state) in enumerate(zip(self.games, states, strict=True)):
            self.screens[number] = game.restore(SavedState.from_bytes(state))
        self.episodes, self.stack.frames[:] = episodes, frames

    def close(self) -> None:
        """Free the games."""
        for game in self.games:
            game.close()

    def _begin_all(self) -> list[tuple[Gray, int]]:
        return [(self._first_frame(number), game.lives) for number, game in enumerate(self.games)]

    def _first_frame(self, number: int) -> Gray:
        """Begin a game's next episode and return its first frame."""
        game = self.games[number]
        frame = game.reset(derived_seed("agent's game", self._seed, number, self.episodes[number].number + 1))
        self.screens[number] = frame
        return self._preprocessor.apply(game, frame)

    def _advance(self, actions: NDArray[np.int64]) -> list[StepResult]:
        return [self._step(number, int(action)) for number, action in enumerate(actions)]

    def _step(self, number: int, action: int) -> StepResult:
        game = self.games[number]
        frame, reward, terminated, truncated = game.step(action)
        self.screens[number] = frame
        seen = self._preprocessor.apply(game, frame)
        first = self._first_frame(number) if terminated or truncated else None
        return StepResult(seen, reward, terminated, truncated, game.lives, first)


class AleVecEnv(AgentVecEnv):
    """ALE's own vector env: threads outside Python, for machines with many cores; cannot be saved in an episode.

    Its maximum over two frames, its stack, no-ops, FIRE at the start and clipping are off, so that it shows the frames
    of GameVecEnv; only the last frame of an episode, of which nothing is learned, is the one before it (ale-py 0.12).
    """

    can_save = False

    def __init__(self, game: Game, count: int, seed: int) -> None:
        if not isinstance(game, AtariGame):
            raise UserError(f"--emulator ale runs Atari games only, not {game.env_id}: choose --emulator own")
        skip = int(game.settings["frame_skip"] or 1)
        self._ale = AtariVectorEnv(
            atari_games()[game.env_id], count, frameskip=skip, max_num_frames_per_episode=(game.limit or 0) * skip,
            stack_num=1, maxpool=False, noop_max=0, use_fire_reset=False, reward_clipping=False,
            autoreset_mode="SameStep",
        )  # fmt: skip
        self._seed = seed
        super().__init__(count, game.env_id, game.action_meanings)

    def close(self) -> None:
        """Free the emulators."""
        self._ale.close()

    def _begin_all(self) -> list[tuple[Gray, int]]:
        frames, info = self._ale.reset(seed=self._seed)
        return [(frame[0], int(lives)) for frame, lives in zip(frames, info["lives"], strict=True)]

    def _advance(self, actions: NDArray[np.int64]) -> list[StepResult]:
        frames, rewards, terminated, truncated, info = self._ale.step(np.asarray(actions, np.int64))
        ended = terminated | truncated
        last = info.get("final_obs", frames)
        return [
            StepResult(
                last[game, 0] if ended[game] else frames[game, 0], float(rewards[game]), bool(terminated[game]),
                bool(truncated[game]), int(info["lives"][game]), frames[game, 0] if ended[game] else None,
            )
            for game in range(self.num_envs)
        ]  # fmt: skip
