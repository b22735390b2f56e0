"""An agent plays many episodes: one loop, whatever it sees, and the mean ± standard error of its scores.

An observation source gives the agent real frames, predicted frames or none. Each episode follows from the seed and its
number alone, however many are played at once.

Shapes: B running episodes, R some of them, H height, W width.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from acvp.agents.agent import AGENT_SIZE, STACK, FrameStack, Pixels, Preprocessor, Rows
from acvp.console import counted
from acvp.data.policies import Player as PolicyPlayer
from acvp.data.policies import Policy, random_actions, show
from acvp.envs import Game, Step
from acvp.seeding import derived_seed, generator

Actions = NDArray[np.int64]


def standard_errors(samples: NDArray[Any]) -> NDArray[np.float64] | None:
    """Return the standard error of the mean over the first axis; None for a single sample."""
    if len(samples) < 2:
        return None
    errors: NDArray[np.float64] = np.std(samples, axis=0, ddof=1) / np.sqrt(len(samples))
    return errors


def standard_error(values: Sequence[float]) -> float | None:
    """Return the standard error of the mean; None for a single value."""
    error = standard_errors(np.asarray(values, np.float64))
    return None if error is None else float(error)


def mean_and_error(values: Sequence[float]) -> dict[str, Any]:
    """Return mean and standard error, as result files hold them."""
    return {"mean": float(np.mean(values)), "standard_error": standard_error(values)}


def format_mean(mean: float, error: float | None, show: Callable[[float], str] = "{:,.1f}".format) -> str:
    """Return a mean with its standard error, such as 23.1 ± 0.3."""
    return show(mean) if error is None else f"{show(mean)} ± {show(error)}"


class Player(Protocol):
    """Who plays, such as an Agent."""

    @property
    def actions(self) -> int: ...
    def act(self, frames: Pixels) -> Actions:
        """Return the best actions (B,) for frames (B, 4, 84, 84), oldest first."""


@dataclass(frozen=True)
class ConstantAction:
    """A player that always takes the same action; with ε = 1 it plays at random."""

    action: int
    actions: int
    """Number of actions."""

    def act(self, frames: Pixels) -> Actions:
        """Return the action (B,) for each episode."""
        return np.full(len(frames), self.action, np.int64)


class ObservationSource(Protocol):
    """What a player sees of the games; a slot is the index of a game in the list of games."""

    def begin(self, slots: Rows, games: Sequence[Game], frames: Sequence[Pixels]) -> Pixels:
        """Return what is seen (R, 84, 84) of episodes that begin with frames (H, W, 3)."""

    def step(self, slots: Rows, games: Sequence[Game], actions: Actions, frames: Sequence[Pixels]) -> Pixels:
        """Return what is seen (R, 84, 84) after actions (R,) that led to real frames (H, W, 3)."""


class RealObservations:
    """The games' own frames."""

    def __init__(self) -> None:
        self._preprocessor = Preprocessor()

    def begin(self, slots: Rows, games: Sequence[Game], frames: Sequence[Pixels]) -> Pixels:
        """Return the first frames."""
        return np.stack([self._preprocessor.apply(game, frame) for game, frame in zip(games, frames, strict=True)])

    def step(self, slots: Rows, games: Sequence[Game], actions: Actions, frames: Sequence[Pixels]) -> Pixels:
        """Return the frames."""
        return self.begin(slots, games, frames)


class NoObservations:
    """Black frames, for players that do not look: saves time."""

    def begin(self, slots: Rows, games: Sequence[Game], frames: Sequence[Pixels]) -> Pixels:
        """Return black frames."""
        return np.zeros((len(slots), *AGENT_SIZE), np.uint8)

    def step(self, slots: Rows, games: Sequence[Game], actions: Actions, frames: Sequence[Pixels]) -> Pixels:
        """Return black frames."""
        return self.begin(slots, games, frames)


class Screens(NoObservations):
    """Keeps the newest frame (H, W, 3) of every game, for policies that look at it themselves."""

    def __init__(self) -> None:
        self.frames: dict[int, Pixels] = {}
        """By slot."""

    def begin(self, slots: Rows, games: Sequence[Game], frames: Sequence[Pixels]) -> Pixels:
        """Keep the frames; return black ones."""
        self.frames |= dict(zip(slots.tolist(), frames, strict=True))
        return super().begin(slots, games, frames)


@dataclass(frozen=True)
class Streams:
    """The random numbers of an episode: scores depend on the names of their streams and on the order of draws."""

    game: str
    """Stream of the game's seed."""
    actions: str
    """Stream of the random actions."""
    draws_unused: bool
    """Draw a random action at every step, whether it is taken or not."""

    def choose(self, rng: np.random.Generator, best: int, actions: int, epsilon: float) -> int:
        """Return the best action, or with probability ε a random one."""
        explores = rng.random() < epsilon
        drawn = int(random_actions(rng, actions, 1)[0]) if explores or self.draws_unused else best
        return drawn if explores else best


AGENT_STREAMS = Streams("agent's play", "agent's play", draws_unused=False)
CONTROL_STREAMS = Streams("play", "predicted-play", draws_unused=True)
"""Of `acvp control`."""


@dataclass
class PlayedEpisode:
    """One episode, running or finished."""

    number: int
    seed: int
    """Of the game."""
    score: float = 0.0
    actions: list[int] = field(default_factory=list)


@dataclass(frozen=True)
class Scores:
    """What some episodes scored."""

    episodes: tuple[PlayedEpisode, ...]

    @property
    def scores(self) -> list[float]:
        """Score of each episode."""
        return [episode.score for episode in self.episodes]

    @property
    def steps(self) -> list[int]:
        """Agent steps of each episode."""
        return [len(episode.actions) for episode in self.episodes]

    @property
    def mean(self) -> float:
        """Mean score."""
        return float(np.mean(self.scores))

    @property
    def standard_error(self) -> float | None:
        """Standard error of the mean; None for a single episode."""
        return standard_error(self.scores)

    def __str__(self) -> str:
        count = len(self.episodes)
        return f"{format_mean(self.mean, self.standard_error)} ({counted(count, 'episode')})"


def play_episodes(
    player: Player,
    games: Sequence[Game],
    source: ObservationSource | None = None,
    *,
    episodes: int,
    epsilon: float,
    seed: int,
    first: int = 0,
    streams: Streams = AGENT_STREAMS,
    progress: Callable[[int, int], None] = lambda finished, steps: None,
) -> Scores:
    """Play some episodes, as many at once as there are games; each action is random with probability ε.

    The player sees what `source` gives it, by default the real frames. `first` is the number of the first episode.
    `progress` is called with the episodes finished and the steps made in each game so far.
    """
    loop = _EnvLoop(games, source or RealObservations(), iter(range(first, first + episodes)), seed, streams)
    while loop.running:
        best = player.act(loop.observations()).tolist()
        loop.step(
            [
                loop.choose(slot, action, player.actions, epsilon)
                for slot, action in zip(loop.running, best, strict=True)
            ]
        )
        progress(len(loop.finished), loop.steps)
    return Scores(tuple(sorted(loop.finished, key=lambda episode: episode.number)))


NO_ACTION = -1


def play_policy(
    policy: Policy,
    games: Sequence[Game],
    *,
    episodes: int,
    epsilon: float,
    seed: int,
    first: int = 0,
    progress: Callable[[int, int], None] = lambda finished, steps: None,
) -> Scores:
    """Play some episodes of a policy of `acvp collect`, in the episodes that `play_episodes` gives an agent.

    A player with a method `observe` is asked only where no random action is taken; others are asked at every step.
    """
    screens, meanings = Screens(), games[0].action_meanings
    loop = _EnvLoop(games, screens, iter(range(first, first + episodes)), seed, AGENT_STREAMS)
    players: dict[int, PolicyPlayer] = {}

    def choose(slot: int, number: int) -> int:
        if number not in players:
            players[number] = policy(meanings, generator("policy's play", seed, number))
        player, frame = players[number], screens.frames[slot]
        drawn = loop.choose(slot, NO_ACTION, len(meanings), epsilon)
        if drawn != NO_ACTION and hasattr(player, "observe"):
            show(player, frame, drawn)
            return drawn
        best = player(frame)
        return best if drawn == NO_ACTION else drawn

    while loop.running:
        loop.step([choose(slot, episode.number) for slot, episode in loop.running.items()])
        progress(len(loop.finished), loop.steps)
    return Scores(tuple(sorted(loop.finished, key=lambda episode: episode.number)))


class _EnvLoop:
    """Steps games at once; where an episode ends, the next one begins."""

    def __init__(
        self, games: Sequence[Game], source: ObservationSource, numbers: Iterator[int], seed: int, streams: Streams
    ) -> None:
        self._games, self._source, self._numbers, self._seed, self._streams = games, source, numbers, seed, streams
        self._stack = FrameStack(len(games), STACK)
        self._rngs: dict[int, np.random.Generator] = {}
        self.running: dict[int, PlayedEpisode] = {}
        """Episodes by their slot."""
        self.finished: list[PlayedEpisode] = []
        self.steps = 0
        self._begin(range(len(games)))

    def observations(self) -> Pixels:
        """Return what the player sees (B, 4, 84, 84) of the running episodes."""
        return self._stack.frames[list(self.running)]

    def choose(self, slot: int, best: int, actions: int, epsilon: float) -> int:
        """Return the action of one game: the best one or a random one."""
        return self._streams.choose(self._rngs[slot], best, actions, epsilon)

    def step(self, actions: Sequence[int]) -> None:
        """Take an action in each running game."""
        slots = list(self.running)
        games = [self._games[slot] for slot in slots]
        steps = [game.step(action) for game, action in zip(games, actions, strict=True)]
        for slot, action, step in zip(slots, actions, steps, strict=True):
            self.running[slot].score += step.reward
            self.running[slot].actions.append(action)
        rows, frames = np.array(slots), [step.frame for step in steps]
        self._stack.add(self._source.step(rows, games, np.array(actions), frames), rows)
        self.steps += 1
        ended = [slot for slot, step in zip(slots, steps, strict=True) if _ended(step)]
        self.finished += [self.running.pop(slot) for slot in ended]
        self._begin(ended)

    def _begin(self, slots: Sequence[int]) -> None:
        """Start the next episodes in free slots, while there are any."""
        started = dict(zip(slots, self._numbers, strict=False))
        if not started:
            return
        for slot, number in started.items():
            self.running[slot] = PlayedEpisode(number, derived_seed(self._streams.game, self._seed, number))
            self._rngs[slot] = generator(self._streams.actions, self._seed, number)
        games, rows = [self._games[slot] for slot in started], np.array(list(started))
        frames = [game.reset(self.running[slot].seed) for slot, game in zip(started, games, strict=True)]
        self._stack.begin(self._source.begin(rows, games, frames)[:, None], rows)


def _ended(step: Step) -> bool:
    return step.terminated or step.truncated
