"""The loop of a run: Stable-Baselines3 plays and learns; between two rounds the run is looked after.

A round is one decision of every game (or several, where updates are rarer) and the updates that follow it.
"""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import replace

import numpy as np
from stable_baselines3.common.callbacks import BaseCallback

from acvp.agents.agent import OF_A_RUN, Agent, AgentAbout
from acvp.agents.config import AgentTrainConfig
from acvp.agents.dqn import AcvpDqn
from acvp.agents.log import AgentLog, Display
from acvp.agents.play import play_episodes
from acvp.agents.references import evaluation_seed
from acvp.agents.state import Position, to_files
from acvp.agents.vec_env import AgentVecEnv
from acvp.checkpoint import prune, save_checkpoint
from acvp.envs import Game
from acvp.exits import StoppedError, StopRequest
from acvp.runs import RunFolder, clock, provenance

ENDLESS = sys.maxsize // 2
"""Decisions that Stable-Baselines3 is asked for: when to stop is decided here."""
LOG_EVERY = 2_000
"""Decisions between two lines of training."""
KEPT = 1
"""Checkpoints kept: with its replay each may take a gigabyte."""


class BetweenRounds(BaseCallback):
    """Calls a function before every round; when it returns True, Stable-Baselines3 stops."""

    def __init__(self, look_after: Callable[[], bool]) -> None:
        super().__init__()
        self._look_after, self._over = look_after, False

    def _on_rollout_start(self) -> None:
        self._over = self._look_after()

    def _on_step(self) -> bool:
        return not self._over


class AgentTrainer:
    """Lets a DQN learn until its budget is used up: `fit`."""

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
        position: Position,
    ) -> None:
        """Take everything that a run needs; `games` are those of evaluations."""
        self.dqn, self.env, self.options, self.games = dqn, env, options, games
        self.run, self.display, self.log, self.stop, self.position = run, display, log, stop, position
        self.settings = dqn.settings
        dqn.progress = lambda: self.progress
        self.decisions = dqn.num_timesteps
        """At the last look; Stable-Baselines3 goes on for a round after it is told to stop, which does not count."""
        self.over = False
        """Whether the budget is used up and the last point of the curve is done."""
        self._ticked = self._saved = time.monotonic()
        self._logged = self.decisions // LOG_EVERY

    @property
    def progress(self) -> float:
        """How much of the run is done, from 0 to 1."""
        return self.settings.progress(self.dqn.num_timesteps, self.position.seconds)

    def fit(self) -> None:
        """Learn until the budget is used up; raise where the run was stopped before."""
        self._ticked = self._saved = time.monotonic()
        self.over = self.progress >= 1.0
        if not self.over:
            callback = BetweenRounds(self._look_after)
            self.dqn.learn(ENDLESS, callback=callback, log_interval=None, reset_num_timesteps=False)  # type: ignore[arg-type]
        if not self.over:
            raise StoppedError(self.stop.number)

    def _look_after(self) -> bool:
        """Log, evaluate and save what is due; return whether to stop.

        A stop that comes when the budget is used up already comes too late: the last point of the curve is still made.
        """
        self.decisions = self.dqn.num_timesteps
        self._tick()
        self._log_if_due()
        self.over = self.progress >= 1.0
        while self.position.evaluations <= self.progress * self.settings.evaluations:
            if self.stop.number and not self.over:
                break
            self._evaluate()
        stopping = bool(self.stop.number)
        due = time.monotonic() - self._saved >= 60 * self.options.save_minutes
        if self.over or due or stopping:
            self.save()
        return self.over or stopping

    def _tick(self) -> None:
        """Take in the time since the last look."""
        now = time.monotonic()
        self.position.seconds += now - self._ticked
        self._ticked = now

    def _log_if_due(self) -> None:
        dqn = self.dqn
        if self.decisions // LOG_EVERY > self._logged:
            self._logged = self.decisions // LOG_EVERY
            dqn.logger.record("time/seconds", self.position.seconds)
            dqn.dump_logs()
        scores = [one["r"] for one in dqn.ep_info_buffer or ()]
        mean = float(np.mean(scores)) if scores else None
        self.display.show(self.progress, self.decisions, self.position.seconds, mean, dqn.exploration_rate)

    def _evaluate(self) -> None:
        """Add a point to the learning curve and keep the agent if none was better; an imagined game's is always kept.

        To choose by the real game's score would be to learn from the real game.
        """
        settings, position, dqn = self.settings, self.position, self.dqn
        agent = Agent(dqn.network(), self.about())
        scores = play_episodes(
            agent,
            self.games,
            episodes=settings.evaluate_plays,
            epsilon=settings.evaluate_epsilon,
            seed=evaluation_seed(self.options.seed, position.evaluations),
        )
        position.evaluations += 1
        self._ticked = time.monotonic()  # evaluations are not part of the budget
        self.log.evaluation(self.decisions, dqn._n_updates, position.seconds, scores, epsilon=settings.evaluate_epsilon)
        self.display.say(f"{self.decisions:,} decisions, {clock(position.seconds)}: score {scores}")
        sure = scores.mean - (scores.standard_error or 0.0)  # a lucky play raises the mean, and its error too
        if self.options.imagined or position.best is None or sure >= position.best:
            position.best = sure
            agent.about = replace(agent.about, score=f"{scores} at ε = {settings.evaluate_epsilon:g} while it learned")
            agent.save(self.run.path / OF_A_RUN)

    def about(self) -> AgentAbout:
        """Return what is known about the agent by now."""
        dqn, settings = self.dqn, self.settings
        return AgentAbout(
            env_id=self.env.env_id,
            action_meanings=self.env.action_meanings,
            training=f"DQN, preset {settings.name}, seed {self.options.seed}, exploration {settings.exploration}"
            f"{f', only inside the predictor {self.options.imagined}' if self.options.imagined else ''}: "
            f"{self.decisions:,} decisions and {dqn._n_updates:,} updates in {clock(self.position.seconds)} "
            f"on {provenance()['machine']} ({dqn.device.type})",
        )

    def save(self) -> None:
        """Write a checkpoint and prune older ones."""
        self.log.flush()
        self.position.lines = len(self.run.metrics())
        files = to_files(self.dqn, self.env, self.position, self.run.path / OF_A_RUN, replay=self.options.save_replay)
        save_checkpoint(self.run.checkpoints, self.decisions, files)
        prune(self.run.checkpoints, KEPT)
        self._saved = time.monotonic()
