"""The loop of a run: Stable-Baselines3 plays and learns; between two rounds, the run is logged, evaluated and saved.

A round is one agent step in every game (or several, if updates are rarer) and the updates that follow it.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
from stable_baselines3.common.callbacks import BaseCallback
from stable_baselines3.common.logger import KVWriter

from acvp.agents.agent import OF_A_RUN, Agent, AgentAbout
from acvp.agents.config import AgentTrainConfig
from acvp.agents.dqn import AcvpDqn
from acvp.agents.play import Scores, play_episodes
from acvp.agents.references import evaluation_seed
from acvp.agents.state import TrainerState, to_files
from acvp.agents.vec_env import AgentVecEnv
from acvp.envs import Game
from acvp.exits import StoppedError, StopRequest
from acvp.harness import Display, MetricsLog, Saver
from acvp.runs import RunFolder, clock, machine

ENDLESS = sys.maxsize // 2
"""Agent steps that Stable-Baselines3 is asked for: the trainer stops it."""
LOG_EVERY = 2_000
"""Agent steps between two lines of training."""
KEPT = 1
"""Checkpoints kept: with its replay each may take a gigabyte."""


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
