"""The loop of a run: Stable-Baselines3 plays and learns; between two rounds, the run is logged, evaluated and saved.

A round is one agent step in every game (or several, if updates are rarer) and the updates that follow it. The files of
a checkpoint:

    state.json            counters and scores
    state.safetensors     networks, optimizer state, exploration, games and last observations
    replay.safetensors    the replay, if it is to be saved
    agent-…               the best agent so far: after a kill, that of the run's folder may be newer than the checkpoint

Randomness follows from the seed and counters, so no generator's state is saved.
"""

from __future__ import annotations

import json
import sys
import time
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path
from typing import Any, TypeVar

import numpy as np
import torch
from stable_baselines3.common.callbacks import BaseCallback
from stable_baselines3.common.logger import KVWriter
from torch import Tensor

from acvp.agents.agent import OF_A_RUN, Agent, AgentAbout
from acvp.agents.config import AgentTrainConfig
from acvp.agents.dqn import AcvpDqn, Resumable
from acvp.agents.evaluate import evaluation_seed
from acvp.agents.play import Scores, play_episodes
from acvp.agents.replay import replay_arrays, restore_replay
from acvp.agents.vec_env import AgentVecEnv, EpisodeState, GameVecEnv
from acvp.checkpoint import Checkpoint, CheckpointError, optimizer_tensors, restore_optimizer, to_bytes, to_tensors
from acvp.compat import current_run
from acvp.durable import read_file
from acvp.envs import Game
from acvp.exits import StoppedError, StopRequest
from acvp.harness import Display, MetricsLog, Saver
from acvp.runs import RunFolder, clock, machine

T = TypeVar("T")

STATE_NAME, TENSORS_NAME, REPLAY_NAME = "state.json", "state.safetensors", "replay.safetensors"
AGENT_PREFIX = "agent-"
COUNTERS = ("num_timesteps", "_n_calls", "_n_updates", "_episode_num", "exploration_rate")
"""Stable-Baselines3's own, by its names."""

ENDLESS = sys.maxsize // 2
"""Agent steps that Stable-Baselines3 is asked for: the trainer stops it."""
LOG_EVERY = 2_000
"""Agent steps between two lines of training."""
KEPT = 1
"""Checkpoints kept: with its replay each may take a gigabyte."""


@dataclass(kw_only=True)
class TrainerState:
    """Counters and scores of a run, besides those of the DQN itself."""

    seconds: float = 0.0
    """Wall-clock seconds of playing, learning and saving so far; evaluations do not count."""
    evaluations: int = 0
    """Points of the learning curve so far."""
    best: float | None = None
    """The highest of their mean scores less standard error."""
    lines: int | None = None
    """Lines of metrics.jsonl at the time of the checkpoint; None in early checkpoints."""
    finished: list[dict[str, float]] = field(default_factory=list)
    """Scores (r) and lengths in agent steps (l) of the last episodes."""


def to_files(dqn: AcvpDqn, env: AgentVecEnv, state: TrainerState, agent: Path, *, replay: bool) -> dict[str, bytes]:
    """Return the files of a checkpoint; `agent` is the folder of the best agent so far."""
    episodes = dqn.ep_info_buffer or ()
    state.finished = [{"r": float(episode["r"]), "l": int(episode["l"])} for episode in episodes]
    body = {
        "trainer": asdict(state),
        "counters": {name: getattr(dqn, name) for name in COUNTERS},
        "episodes": [asdict(episode) for episode in env.episodes],
    }
    tensors = _prefixed("policy", dqn.policy.state_dict())
    tensors |= _prefixed("optimizer", optimizer_tensors(dqn.policy.optimizer))
    arrays: dict[str, np.ndarray] = {}
    if isinstance(dqn.exploration, Resumable):
        arrays |= _prefixed("exploration", dqn.exploration.state())
    if isinstance(env, GameVecEnv) and env.can_save:
        arrays |= {f"games.{number}": np.frombuffer(saved, np.uint8) for number, saved in enumerate(env.save())}
        arrays["stacks.frames"] = env.stack.frames
    files = {STATE_NAME: json.dumps(body, indent=1).encode(), TENSORS_NAME: to_bytes(tensors | _tensors(arrays))}
    files |= {f"{AGENT_PREFIX}{path.name}": _read(path, agent.parent) for path in agent.glob("[!.]*")}
    return files | ({REPLAY_NAME: to_bytes(_tensors(replay_arrays(dqn.replay_buffer)))} if replay else {})


def _read(file: Path, run: Path) -> bytes:
    try:
        return read_file(file, run)
    except OSError as error:
        raise CheckpointError(f"{file}: cannot be saved in the checkpoint ({error.strerror}); move it away") from error


def kept_agent(checkpoint: Checkpoint) -> dict[str, bytes]:
    """Return the files of the best agent at the time of the checkpoint."""
    files = checkpoint.files.items()
    return {name.removeprefix(AGENT_PREFIX): data for name, data in files if name.startswith(AGENT_PREFIX)}


def restore(checkpoint: Checkpoint, dqn: AcvpDqn, env: AgentVecEnv) -> TrainerState:
    """Restore a new DQN and its games from a checkpoint; parts that it does not hold start again."""
    try:
        body = current_run(json.loads(checkpoint.files[STATE_NAME]))
        tensors = to_tensors(checkpoint.files[TENSORS_NAME], checkpoint.path / TENSORS_NAME)
        for name in COUNTERS:
            setattr(dqn, name, body["counters"][name])
        dqn.policy.load_state_dict(_part(tensors, "policy"))
        restore_optimizer(dqn.policy.optimizer, _part(tensors, "optimizer"))
        _restore_exploration(dqn, tensors)
        _restore_replay(dqn, checkpoint)
        _restore_games(dqn, env, tensors, [EpisodeState(**episode) for episode in body["episodes"]])
        state = TrainerState(**body["trainer"])
    except (KeyError, TypeError, ValueError, RuntimeError, RecursionError) as error:
        raise CheckpointError(f"{checkpoint.path}: not a checkpoint of this run ({str(error)[:200]})") from error
    dqn.ep_info_buffer = deque(state.finished, maxlen=dqn._stats_window_size)
    dqn.ep_success_buffer = deque(maxlen=dqn._stats_window_size)
    return state


def _restore_exploration(dqn: AcvpDqn, tensors: dict[str, Tensor]) -> None:
    if isinstance(dqn.exploration, Resumable):
        dqn.exploration.restore({name: tensor.numpy() for name, tensor in _part(tensors, "exploration").items()})


def _restore_replay(dqn: AcvpDqn, checkpoint: Checkpoint) -> None:
    """Fill the replay; without a saved one, play as much as at the start before learning continues."""
    if REPLAY_NAME in checkpoint.files:
        saved = to_tensors(checkpoint.files[REPLAY_NAME], checkpoint.path / REPLAY_NAME)
        restore_replay(dqn.replay_buffer, {name: tensor.numpy() for name, tensor in saved.items()})
    else:
        dqn.learning_starts = dqn.num_timesteps + dqn.settings.learning_starts


def _restore_games(dqn: AcvpDqn, env: AgentVecEnv, tensors: dict[str, Tensor], episodes: list[EpisodeState]) -> None:
    """Restore the games; those that cannot be saved start their next episodes."""
    if isinstance(env, GameVecEnv) and (games := _part(tensors, "games")):
        saved = [games[str(number)].numpy().tobytes() for number in range(len(games))]
        env.restore(saved, episodes, tensors["stacks.frames"].numpy())
        dqn._last_obs = env.stack.frames.copy()
    else:
        env.episodes = episodes
        dqn.replay_buffer.cut()


def _prefixed(prefix: str, items: dict[str, T]) -> dict[str, T]:
    return {f"{prefix}.{name}": item for name, item in items.items()}


def _part(tensors: dict[str, Tensor], prefix: str) -> dict[str, Tensor]:
    return {
        name.removeprefix(f"{prefix}."): tensor for name, tensor in tensors.items() if name.startswith(f"{prefix}.")
    }


def _tensors(arrays: dict[str, np.ndarray]) -> dict[str, Tensor]:
    return {name: torch.tensor(array) for name, array in arrays.items()}


class AgentLog(KVWriter):
    """Writes what Stable-Baselines3 records, under its names; `step` counts the agent steps of all games."""

    def __init__(self, run: RunFolder, last_step: int = -1) -> None:
        """Continue after the step of a checkpoint."""
        self._metrics = MetricsLog(run, last_step)

    def write(self, key_values: dict[str, Any], key_excluded: dict[str, tuple[str, ...]], step: int = 0) -> None:
        """Write a line of training."""
        values = {name: float(value) for name, value in key_values.items() if isinstance(value, int | float)}
        self._metrics.write({"kind": "train", "step": step} | values, values)

    def evaluation(self, step: int, updates: int, seconds: float, scores: Scores, *, epsilon: float) -> None:
        """Write a point of the learning curve; `seconds` is the wall-clock time of the run so far."""
        line = {
            "kind": "evaluation",
            "step": step,
            "updates": updates,
            "seconds": round(seconds, 1),
            "epsilon": epsilon,
            "mean": scores.mean,
            "standard_error": scores.standard_error,
            "scores": scores.scores,
        }
        self._metrics.write(line, {"evaluation/score": scores.mean})
        self._metrics.flush()

    def flush(self) -> None:
        """Put everything on the disk, before a checkpoint that is to come after it."""
        self._metrics.flush()

    def close(self) -> None:
        """Close the files."""
        self._metrics.close()


class RoundCallback(BaseCallback):
    """Calls a function before every round; when it returns True, Stable-Baselines3 stops."""

    def __init__(self, before_round: Callable[[], bool]) -> None:
        super().__init__()
        self._before_round, self._over = before_round, False

    def _on_rollout_start(self) -> None:
        self._over = self._before_round()

    def _on_step(self) -> bool:
        return not self._over


class AgentTrainer:
    """Trains a DQN until its budget is used up: `fit`."""

    def __init__(
        self,
        dqn: AcvpDqn,
        env: AgentVecEnv,
        *,
        options: AgentTrainConfig,
        games: Sequence[Game],
        run: RunFolder,
        display: Display,
        log: AgentLog,
        stop: StopRequest,
        state: TrainerState,
    ) -> None:
        """Take everything that a run needs; `games` are those of evaluations."""
        self.dqn, self.env, self.options, self.games = dqn, env, options, games
        self.run, self.display, self.log, self.stop, self.state = run, display, log, stop, state
        self.settings = dqn.settings
        dqn.progress = lambda: self.progress
        self.steps = dqn.num_timesteps
        """Agent steps of all games before this round; the round that follows a stop does not count."""
        self.over = False
        """Whether the budget is used up and the learning curve is complete."""
        self._saver = Saver(run, minutes=options.save_minutes, keep=KEPT)
        self._ticked = time.monotonic()
        self._logged = self.steps // LOG_EVERY

    @property
    def progress(self) -> float:
        """How much of the run is done, from 0 to 1."""
        return self.settings.progress(self.dqn.num_timesteps, self.state.seconds)

    def fit(self) -> None:
        """Train until the budget is used up; raise StoppedError if a signal stops the run before."""
        self._ticked = time.monotonic()
        self._saver.restart_clock()
        self.over = self.progress >= 1.0
        if not self.over:
            callback = RoundCallback(self._before_round)
            self.dqn.learn(ENDLESS, callback=callback, log_interval=None, reset_num_timesteps=False)  # type: ignore[arg-type]
        if not self.over:
            raise StoppedError(self.stop.number)

    def _before_round(self) -> bool:
        """Log, evaluate and save what is due; return whether to stop.

        A stop after the budget is used up comes too late: the last point of the curve is still made.
        """
        self.steps = self.dqn.num_timesteps
        self._tick()
        self._log_if_due()
        self.over = self.progress >= 1.0
        while self.state.evaluations <= self.progress * self.settings.evaluations:
            if self.stop.number and not self.over:
                break
            self._evaluate()
        stopping = bool(self.stop.number)
        if self.over or stopping or self._saver.due:
            self.save()
        return self.over or stopping

    def _tick(self) -> None:
        """Count the time since the last round."""
        now = time.monotonic()
        self.state.seconds += now - self._ticked
        self._ticked = now

    def _log_if_due(self) -> None:
        dqn = self.dqn
        if self.steps // LOG_EVERY > self._logged:
            self._logged = self.steps // LOG_EVERY
            dqn.logger.record("time/seconds", self.state.seconds)
            dqn.dump_logs()
        self.display.show(f"{self.progress:.0%}", self.progress, self._text)

    def _text(self) -> str:
        """Return agent steps, mean score of the last episodes, ε, speed and time left."""
        seconds, progress = self.state.seconds, self.progress
        scores = [episode["r"] for episode in self.dqn.ep_info_buffer or ()]
        score = f"score {float(np.mean(scores)):,.1f}" if scores else "no episode finished yet"
        speed = self.steps / max(seconds, 1e-9)
        left = seconds * (1 - progress) / progress if progress > 0 else 0.0
        return (
            f"{self.steps:,} agent steps  {score}  ε {self.dqn.exploration_rate:.2f}  {speed:,.0f} steps/s  "
            f"{clock(left)} left"
        )

    def _evaluate(self) -> None:
        """Add a point to the learning curve; keep the agent if none was better, or if it learns in imagined games.

        To choose by the score in the real game would be to learn from the real game.
        """
        settings, state, dqn = self.settings, self.state, self.dqn
        agent = Agent(dqn.network(), self.about())
        scores = play_episodes(
            agent,
            self.games,
            episodes=settings.evaluate_episodes,
            epsilon=settings.evaluate_epsilon,
            seed=evaluation_seed(self.options.seed, state.evaluations),
        )
        state.evaluations += 1
        self._ticked = time.monotonic()  # evaluations are not part of the budget
        self.log.evaluation(self.steps, dqn._n_updates, state.seconds, scores, epsilon=settings.evaluate_epsilon)
        self.display.print(f"{self.steps:,} agent steps, {clock(state.seconds)}: score {scores}")
        lower = scores.mean - (scores.standard_error or 0.0)  # one high score raises the mean, and its error too
        if self.options.imagined or state.best is None or lower >= state.best:
            state.best = lower
            agent.about = replace(agent.about, score=f"{scores} at ε = {settings.evaluate_epsilon:g} while it learned")
            agent.save(self.run.path / OF_A_RUN)

    def about(self) -> AgentAbout:
        """Return what is known about the agent so far."""
        dqn, settings = self.dqn, self.settings
        return AgentAbout(
            env_id=self.env.env_id,
            action_meanings=self.env.action_meanings,
            training=f"DQN, preset {settings.name}, seed {self.options.seed}, exploration {settings.exploration}"
            f"{f', only inside the predictor {self.options.imagined}' if self.options.imagined else ''}: "
            f"{self.steps:,} agent steps and {dqn._n_updates:,} updates in {clock(self.state.seconds)} "
            f"on {machine()} ({dqn.device.type})",
        )

    def save(self) -> None:
        """Write a checkpoint."""
        self.log.flush()
        self.state.lines = len(self.run.metrics())
        files = to_files(self.dqn, self.env, self.state, self.run.path / OF_A_RUN, replay=self.options.save_replay)
        self._saver.save(self.steps, files)
