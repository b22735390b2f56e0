"""Records a game into a dataset: resumable, and the same for the same seed with any number of workers.

Episode e is a pure function of (seed, e). A collection is finished when episodes 0 … k together have the frames asked
for. Episodes beyond k that other workers had begun are dropped, so the dataset does not depend on their speed.

Workers only play and compress episodes; the parent alone writes. A worker whose parent is gone exits at once, even in
the middle of an episode.
"""

from __future__ import annotations

import multiprocessing
import os
import signal
import sys
import threading
import traceback
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from functools import partial
from itertools import islice
from math import inf
from multiprocessing import resource_tracker
from multiprocessing.connection import Connection, wait
from pathlib import Path
from statistics import fmean
from typing import Annotated, Any, Protocol

import numpy as np
from tyro.conf import arg

from acvp.actions import Action, checked_vector, random_vectors
from acvp.console import EnvId, Module, optional
from acvp.data.episode import MAX_ACTIONS, Episode, PolicyShare, parse, serialize
from acvp.data.policies import (
    LoadPolicy,
    Player,
    Policy,
    continuous_policy,
    load_policy,
    policy_shares,
    random_actions,
    share_of_episode,
    show,
)
from acvp.data.recording import EpisodeRecorder, Recorded, open_writer
from acvp.data.store import GOAL_NAME, EpisodeStore, StoreInfo
from acvp.durable import read_file, write_atomic
from acvp.envs import Game, load_module, make_game
from acvp.errors import AT_ONCE, LONGEST, Shard, UserError, parse_shard, require, require_probability, require_seed
from acvp.seeding import derived_seed, generator

PlayEpisode = Callable[[int], Episode]
MakePlayer = Callable[[Any], PlayEpisode]


class LocalWorker:
    """Plays in this process: `submit` plays an episode, `collect` returns it."""

    def __init__(self, play: PlayEpisode) -> None:
        self._play = play
        self._finished: list[Episode] = []

    @property
    def free(self) -> int:
        return 1 - len(self._finished)

    def submit(self, number: int) -> None:
        self._finished.append(self._play(number))

    def collect(self) -> list[Episode]:
        finished, self._finished = self._finished, []
        return finished

    def close(self) -> None:
        pass


@dataclass
class _Process:
    process: Any
    pipe: Connection
    busy: bool = False


class WorkerProcesses:
    """Plays in `count` processes; `collect` returns episodes in the order in which they finish."""

    def __init__(self, make_player: MakePlayer, config: Any, count: int) -> None:
        context = multiprocessing.get_context("spawn")  # a fork would share the emulator's and the lock's state
        self._workers: list[_Process] = []
        with _ctrl_c_blocked():
            for _ in range(count):
                here, there = context.Pipe()
                process = context.Process(target=_work, args=(there, make_player, config), daemon=True)
                process.start()
                there.close()
                self._workers.append(_Process(process, here))

    @property
    def free(self) -> int:
        return sum(not worker.busy for worker in self._workers)

    def submit(self, number: int) -> None:
        worker = next(worker for worker in self._workers if not worker.busy)
        try:
            worker.pipe.send_bytes(str(number).encode())
        except OSError as error:
            raise _died(worker) from error
        worker.busy = True

    def collect(self) -> list[Episode]:
        """Wait until an episode has finished, and return all that have."""
        ready = wait([worker.pipe for worker in self._workers if worker.busy])
        return [self._receive(worker) for worker in self._workers if worker.pipe in ready]

    def close(self) -> None:
        for worker in self._workers:
            worker.pipe.close()
            worker.process.terminate()
        for worker in self._workers:
            worker.process.join()

    def _receive(self, worker: _Process) -> Episode:
        try:
            kind, data = worker.pipe.recv_bytes(1), worker.pipe.recv_bytes()
        except (EOFError, OSError) as error:
            raise _died(worker) from error
        worker.busy = False
        if kind == b"e":
            raise UserError(data.decode())
        if kind == b"x":
            raise RuntimeError(f"in a worker process:\n{data.decode()}")
        return parse(data)


def _died(worker: _Process) -> UserError:
    worker.process.join()
    return UserError(
        f"a worker process died (exit code {worker.process.exitcode}); run again to continue. In a "
        'script of your own, call collect below `if __name__ == "__main__":`, because workers import the script'
    )


@contextmanager
def _ctrl_c_blocked() -> Iterator[None]:
    """Processes started in here ignore ctrl-C, even while they start; this one handles it afterward."""
    if not hasattr(signal, "pthread_sigmask"):  # pragma: no cover - Windows
        yield
        return
    resource_tracker.ensure_running()  # begun later, it would lift the mask
    before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


def _work(pipe: Connection, make_player: MakePlayer, config: Any) -> None:
    """Run a worker: receive numbers, send episodes."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the parent handles ctrl-C, also where masks do not exist
    threading.Thread(target=_end_with_parent, daemon=True).start()
    play: PlayEpisode | None = None
    with suppress(EOFError, BrokenPipeError, ConnectionResetError):
        while True:
            number = int(pipe.recv_bytes())
            try:
                play = play or make_player(config)
                kind, data = b"p", serialize(play(number))
            except UserError as error:
                kind, data = b"e", str(error).encode()
            except Exception:
                kind, data = b"x", traceback.format_exc().encode()
            pipe.send_bytes(kind)
            pipe.send_bytes(data)
    sys.exit(0)


def _end_with_parent() -> None:
    """Wait until the parent is gone, then exit this process, whatever it is doing."""
    parent = multiprocessing.parent_process()
    assert parent is not None
    wait([parent.sentinel])
    os._exit(1)


Progress = Callable[[int, int], None]
"""Called with (frames, bytes) of the dataset so far."""

MAX_STEPS = 27_000
"""Limit of games that have none: that of Atari, half an hour at four frames per agent step."""


@dataclass(frozen=True, kw_only=True)
class CollectConfig:
    """Record a game into a dataset. If interrupted, run it again to resume; with more --frames it adds episodes."""

    env_id: EnvId
    """Gymnasium id of the game (ALE/Freeway-v5, acvp/Toy-v0, …), or a bare Atari name (freeway)."""
    out: Path
    """Dataset folder."""
    policy: Annotated[tuple[str, ...], arg(metavar="POLICY …")] = ("sticky-random",)
    """random; sticky-random: random, repeated for a while; held: a direction held for 10 to 60 steps;
    agent:NAME: an agent, packaged or in a folder; plan:PREDICTOR: the best of imagined futures;
    MODULE:FUNCTION: your own. Several policies take turns: one of them plays each episode."""
    epsilon: Annotated[tuple[float, ...], arg(metavar="FLOAT …")] = (0.3,)
    """Probability of a random action instead of the policy's, at each agent step: one value, or one for each policy."""
    frames: int = 20_000
    """Number of frames to record. The last episode is recorded to its end, so there will be a few more."""
    episodes: Annotated[int | None, optional("INT", "as many as --frames needs")] = None
    """Number of episodes to record, instead of --frames."""
    shard: Annotated[str | None, optional("NUMBER/TOTAL", "all episodes")] = None
    """Record only a part of the --episodes, such as 3/16: every 16th, beginning with the third.
    acvp data merge makes all parts the dataset that one collection would have recorded."""
    workers: int = 1
    """Number of processes. The dataset does not depend on it."""
    seed: int = 1
    """Random seed; the same seed gives the same dataset."""
    sticky: float = 0.0
    """Probability that the emulator repeats the previous action, at each emulator frame.
    The dataset holds the actions that the policy chose."""
    frame_skip: Annotated[int | None, optional("INT", "Atari: 4, other games: 1")] = None
    """Emulator frames per agent step."""
    max_steps: Annotated[int | None, optional("INT", "the game's limit, or 27,000 if it has none")] = None
    """Agent steps after which an episode is truncated."""
    import_module: Module = None

    def __post_init__(self) -> None:
        for epsilon in self.epsilon:
            require_probability(epsilon=epsilon)
        policy_shares(self.policy, self.epsilon)
        require_probability(below_one=True, sticky=self.sticky)
        require(1, LONGEST, frames=self.frames, max_steps=self.max_steps)
        require(1, AT_ONCE, workers=self.workers, frame_skip=self.frame_skip)
        require(1, LONGEST, episodes=self.episodes)
        require_seed(self.seed)
        if self.shard is not None:
            parse_shard(self.shard)
            if self.episodes is None:
                raise UserError(f"--shard {self.shard}: give --episodes, the number of episodes of all shards together")

    @property
    def goal(self) -> float:
        """Frames that are enough; infinity: a number of episodes is asked for."""
        return self.frames if self.episodes is None else inf

    @property
    def numbers(self) -> range:
        """Numbers of the episodes to record; with --frames, it is known only at the end how many of them are needed."""
        shard = Shard(1, 1) if self.shard is None else parse_shard(self.shard)
        return range(shard.number - 1, LONGEST if self.episodes is None else self.episodes, shard.total)

    @property
    def shares(self) -> tuple[PolicyShare, ...]:
        """The policies with their ε."""
        return policy_shares(self.policy, self.epsilon)


@dataclass(frozen=True)
class EpisodePlayer:
    """Plays an episode of a collection by its number."""

    config: CollectConfig
    game: Game
    policies: dict[str, Policy]
    recorder: EpisodeRecorder

    def __call__(self, number: int) -> Episode:
        game, recorder, seed = self.game, self.recorder, derived_seed("game", self.config.seed, number)
        rng = generator("policy", self.config.seed, number)
        share = share_of_episode(self.config.shares, self.config.seed, number)
        player = self.policies[share.policy](game.action_meanings, rng)
        frame = game.reset(seed)
        recorder.start(frame, game.color_keys(), game.lives)
        terminated = truncated = False
        while not (terminated or truncated):
            action = self._choose(share, player, frame, rng)
            frame, reward, terminated, truncated = game.step(action)
            recorder.step(action, reward, frame, game.color_keys(), game.lives)
        played_by = share._asdict() if len(self.config.shares) > 1 else {}
        return recorder.finish(number=number, seed=seed, terminated=terminated, truncated=truncated, **played_by)

    def _choose(self, share: PolicyShare, player: Player, frame: np.ndarray, rng: np.random.Generator) -> Action:
        count, limits = len(self.game.action_meanings), self.game.action_range
        if rng.random() < share.epsilon:
            drawn: Action = random_vectors(rng, limits, 1)[0] if limits else int(random_actions(rng, count, 1)[0])
            show(player, frame, drawn)
            return drawn
        action = player(frame)
        if limits:
            return checked_vector(action, limits, f"policy {share.policy!r}")
        if np.ndim(action) or not 0 <= action < count:
            raise UserError(f"policy {share.policy!r} chose action {action}; the game has 0 to {count - 1}")
        return int(action)


def make_player(config: CollectConfig, load: LoadPolicy = load_policy) -> EpisodePlayer:
    """Return a player with a new game and policy."""
    policies = {name: load(name) for name in config.policy}
    options = {"sticky": config.sticky, "frame_skip": config.frame_skip, "import_module": config.import_module}
    game = make_game(config.env_id, max_steps=config.max_steps, **options)  # type: ignore[arg-type]
    if game.limit is None:
        game.close()
        game = make_game(config.env_id, max_steps=MAX_STEPS, **options)  # type: ignore[arg-type]
    if len(game.action_meanings) > MAX_ACTIONS:
        raise UserError(f"{game.env_id} has {len(game.action_meanings)} actions, a dataset can have {MAX_ACTIONS}")
    limits = game.action_range
    if limits:
        policies = {name: continuous_policy(name, limits, policy) for name, policy in policies.items()}
    return EpisodePlayer(config, game, policies, EpisodeRecorder(limits))


def _make_player_again(config: CollectConfig, load: LoadPolicy) -> EpisodePlayer:
    """Return the player of a worker process, which first imports the modules that the user named."""
    for module in (config.import_module, config.env_id.rpartition(":")[0]):
        if module:
            load_module(module)
    return make_player(config, load)


def collect(
    config: CollectConfig, progress: Progress = lambda frames, size: None, load: LoadPolicy = load_policy
) -> EpisodeStore:
    """Record until the dataset has the frames asked for; each finished episode is stored at once.

    `load` returns the policy of a name, here and in every worker; it must be a function of a module.
    """
    player = make_player(config, load)
    with open_writer(config.out, _describe(config, player.game)) as writer:
        progress(writer.frames, writer.size)
        recorded = Recorded(writer, config.numbers)
        if not recorded.enough(config.goal):
            goal = str(config.frames) if config.episodes is None else "episodes"
            write_atomic(config.out / GOAL_NAME, goal.encode())
            _fill(recorded, config, player, partial(_make_player_again, load=load), progress)
        _drop_surplus(recorded, config)
        progress(writer.frames, writer.size)
    player.game.close()
    return EpisodeStore(config.out)


class Workers(Protocol):
    """Plays episodes by their numbers."""

    @property
    def free(self) -> int: ...
    def submit(self, number: int) -> None: ...
    def collect(self) -> list[Episode]: ...
    def close(self) -> None: ...


def _fill(recorded: Recorded, config: CollectConfig, player: PlayEpisode, make: MakePlayer, progress: Progress) -> None:
    workers: Workers = LocalWorker(player) if config.workers == 1 else WorkerProcesses(make, config, config.workers)
    writer, missing = recorded.writer, recorded.missing()
    try:
        while not recorded.enough(config.goal):
            for number in islice(missing, workers.free):
                workers.submit(number)
            for episode in workers.collect():
                writer.add(episode)
            progress(writer.frames, writer.size)
    finally:
        workers.close()


def _drop_surplus(recorded: Recorded, config: CollectConfig) -> None:
    """Remove the episodes that this collection, or a killed one, recorded beyond what was asked for."""
    file, enough = config.out / GOAL_NAME, recorded.enough(config.goal)
    try:
        goal = read_file(file, config.out)[:20] if file.exists() else b""
    except OSError as error:
        raise UserError(f"{file}: cannot be read ({error.strerror})") from error
    if goal and (config.episodes is not None or not goal.isdigit()):
        recorded = Recorded(recorded.writer, range(config.numbers.start, LONGEST, config.numbers.step))
        recorded.enough(inf)  # to the first gap: what follows are episodes of other workers of a killed collection
        recorded.writer.remove_from(recorded.next_number)
        file.unlink()
    elif enough and goal and int(goal) <= config.frames:
        recorded.writer.remove_from(recorded.next_number)
        file.unlink()


def _describe(config: CollectConfig, game: Game) -> StoreInfo:
    shares = config.shares
    return StoreInfo(
        env_id=game.env_id,
        settings=game.settings,
        frame_shape=game.frame_shape,
        action_meanings=game.action_meanings,
        action_range=game.action_range,
        policy=", ".join(dict.fromkeys(config.policy)),
        epsilon=fmean(share.epsilon for share in shares),
        seed=config.seed,
        versions=game.versions,
        mix=shares if len(shares) > 1 else (),
        shard=config.shard or "",
    )
