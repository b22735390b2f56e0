"""`acvp explore`: agent steps to the first reward, and where the controlled object goes, without learning.

Writes explore.json and plots/; finished exploration runs, one per strategy and seed, are in explore.jsonl.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from contextlib import ExitStack, suppress
from dataclasses import asdict, dataclass, field, replace
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from acvp.actions import require_numbered
from acvp.agents.agent import Pixels, Rows
from acvp.agents.evaluate import FIRST_REWARD
from acvp.agents.play import standard_errors
from acvp.compat import EXPLORATION_STREAM
from acvp.console import Stage, TextTable, counted, number
from acvp.control.config import ExploreConfig, StrategyName
from acvp.control.figures import coverage_figure, first_reward_figure, heat_figure, source_label
from acvp.control.informed import InformedExploration
from acvp.control.kernel import covered, default_cell, visits
from acvp.data.frames import luminance
from acvp.data.policies import random_actions
from acvp.envs import Game, Step, make_game
from acvp.errors import UserError
from acvp.figures import write_figure
from acvp.loaded import as_model, load, require_fit
from acvp.models import Predictor, fingerprint
from acvp.result_cache import OtherShardError, ResultCache, locked_results
from acvp.runs import PLOTS_NAME, write_results
from acvp.seeding import derived_seed, generator

ONLY = np.zeros(1, np.int64)
"""The row of the only game."""


class Strategy(Protocol):
    """Chooses exploring actions, such as InformedExploration."""

    def observe(self, frames: Pixels, begins: NDArray[np.bool_]) -> None:
        """Take in the newest frame (1, H, W, C), and whether an episode begins with it."""

    def explore(self, rows: Rows) -> NDArray[np.int64]:
        """Return the next action (1,)."""


class RandomStrategy:
    """Random actions."""

    def __init__(self, actions: int, *, seed: int) -> None:
        self.actions, self._rng = actions, generator("random exploration", seed)

    def observe(self, frames: Pixels, begins: NDArray[np.bool_]) -> None:
        """Do nothing."""

    def explore(self, rows: Rows) -> NDArray[np.int64]:
        """Return a random action for each row."""
        return random_actions(self._rng, self.actions, len(rows))


class ConstantStrategy:
    """The same action throughout."""

    def __init__(self, action: int) -> None:
        self.action = action

    def observe(self, frames: Pixels, begins: NDArray[np.bool_]) -> None:
        """Do nothing."""

    def explore(self, rows: Rows) -> NDArray[np.int64]:
        """Return the action for each row."""
        return np.full(len(rows), self.action, np.int64)


@dataclass(frozen=True, kw_only=True)
class Limits:
    """How long an exploration run lasts."""

    max_steps: int
    """Agent steps after which a run without reward is stopped."""
    map_steps: int
    """Agent steps for which the controlled object is followed."""
    noops: int
    """Largest number of agent steps of action 0 at the start; drawn by the seed."""


@dataclass
class ExplorationRun:
    """The result of exploring a game with one seed."""

    first_reward: int | None = None
    """Agent steps up to the first reward above 0; None: there was none."""
    steps: int = 0
    positions: list[tuple[float, float] | None] = field(default_factory=list)
    """(row, column) of the controlled object after each step of the map; None: not known."""


class EnvLoop:
    """Steps a game, episode after episode, and shows its frames to a strategy."""

    def __init__(self, game: Game, strategy: Strategy, seed: int) -> None:
        self.game, self.strategy, self.seed = game, strategy, seed
        self._episodes = 0
        self._begin()

    def step(self, action: int) -> Step:
        """Take an action, show its frame, and start the next episode where one ended."""
        step = self.game.step(action)
        self._show(step.frame, begins=False)
        if step.terminated or step.truncated:
            self._begin()
        return step

    def _begin(self) -> None:
        self._show(self.game.reset(derived_seed(EXPLORATION_STREAM, self.seed, self._episodes)), begins=True)
        self._episodes += 1

    def _show(self, frame: Pixels, *, begins: bool) -> None:
        self.strategy.observe(frame[None], np.array([begins]))


def explore(
    game: Game,
    strategy: Strategy,
    limits: Limits,
    *,
    seed: int,
    progress: Callable[[int], None] = lambda steps: None,
) -> ExplorationRun:
    """Explore a game with one seed: every action is an exploring one (ε = 1)."""
    loop, run = EnvLoop(game, strategy, seed), ExplorationRun()
    for _ in range(generator("noops", seed).integers(limits.noops + 1)):
        loop.step(0)
    while not _finished(run, limits):
        step = loop.step(int(strategy.explore(ONLY)[0]))
        run.steps += 1
        if step.reward > 0 and run.first_reward is None:
            run.first_reward = run.steps
        if run.steps <= limits.map_steps:
            run.positions.append(game.controlled_position())
        progress(run.steps)
    return run


def _finished(run: ExplorationRun, limits: Limits) -> bool:
    waiting = run.first_reward is None and run.steps < limits.max_steps
    return not waiting and run.steps >= limits.map_steps


EXPLORE_NAME, PARTS_NAME = "explore.json", "explore.jsonl"
CURVE_POINTS = 50
"""Points of a coverage curve."""
QUICK_SHARE = 100
"""Constant actions first get 1/100 of the steps, and all of them only if no action has a reward by then."""


def explore_game(config: ExploreConfig, stage: Stage) -> dict[str, Any]:
    """Explore a game with every strategy asked for, write all files, and return what explore.json holds."""
    started = time.monotonic()
    predictor = (
        None
        if config.predictor is None
        else as_model(config.predictor, load(config.predictor), config.device).predictor
    )
    with ExitStack() as stack:
        game = stack.enter_context(make_game(config.env_id, import_module=config.import_module))
        require_numbered(game.action_range, "acvp explore")
        if config.predictor is not None and predictor is not None:
            require_fit(str(config.predictor), predictor, game)
        for source in config.chosen_strategies:
            make_strategy(source, game, predictor, config)  # refuse early
        cache = stack.enter_context(locked_results(config.out / PARTS_NAME, config.shard))
        experiment = Experiment(config, game, predictor, cache, stage)
        if config.shard is not None:
            experiment.measure_shard()
            return cache.shard_body()
        runs = {source: experiment.runs(source) for source in config.chosen_strategies}
        body = _body(config, game, runs)
        if experiment.constant:
            body["sources"]["constant"] |= experiment.constant
        _write_figures(body, luminance(game.reset(0)), config)
        earlier = cache.earlier_seconds
        write_results(config.out / EXPLORE_NAME, body, seed=config.seed, started=started, earlier_seconds=earlier)
    return body


def make_strategy(
    source: StrategyName,
    game: Game,
    predictor: Predictor | None,
    config: ExploreConfig,
    *,
    seed: int = 0,
    action: int = 0,
) -> Strategy:
    """Return a strategy for a game; `action` is that of the strategy `constant`."""
    kernel = config.kernel(game.env_id)
    if source == "constant":
        return ConstantStrategy(action)
    if source == "random":
        return RandomStrategy(len(game.action_meanings), seed=seed)
    if source == "informed-emulator":
        return InformedExploration.from_emulator([game], kernel, seed=seed, look_ahead=config.look_ahead)
    if predictor is None:
        raise UserError("informed-model asks a predictor: name one with --run")
    return InformedExploration.from_predictor(predictor, kernel, seed=seed, look_ahead=config.look_ahead)


class Experiment:
    """Explores seed by seed, or reads what an earlier command explored."""

    def __init__(
        self, config: ExploreConfig, game: Game, predictor: Predictor | None, cache: ResultCache, stage: Stage
    ) -> None:
        self.config, self.game, self.predictor, self.cache, self.stage = config, game, predictor, cache, stage
        self.constant: dict[str, Any] = {}
        """The best constant action, and the results of all, once the strategy `constant` is explored."""
        self._weights = None if predictor is None else fingerprint(predictor)
        self._limits = Limits(max_steps=config.max_steps, map_steps=config.map_steps, noops=config.noops)

    def runs(self, source: StrategyName) -> list[dict[str, Any]]:
        """Return all exploration runs of a strategy."""
        action = self._best_action() if source == "constant" else None
        return [self._run(source, number, limits, action) for number, limits in enumerate(self._limits_of_runs())]

    def measure_shard(self) -> None:
        """Measure the exploration runs of a shard; what follows from the best constant action is left to the join."""
        runs: list[tuple[StrategyName, int, Limits, int | None]] = [
            (source, number, limits, None)
            for source in self.config.chosen_strategies
            if source != "constant"
            for number, limits in enumerate(self._limits_of_runs())
        ]
        quick = self._limits_of_tries()[0]
        runs += [
            ("constant", number, quick, action)
            for action in range(len(self.game.action_meanings))
            for number in range(self.config.seeds)
            if "constant" in self.config.chosen_strategies
        ]
        for run in runs:
            with suppress(OtherShardError):
                self._run(*run)

    def _limits_of_runs(self) -> list[Limits]:
        """Return the limits of each run of a strategy: the first ones record maps."""
        short = replace(self._limits, map_steps=0)
        return [self._limits if n < self.config.map_seeds else short for n in range(self.config.seeds)]

    def _limits_of_tries(self) -> list[Limits]:
        """Return the limits that constant actions are tried with, until one gets a reward."""
        most = self._limits.max_steps
        return [replace(self._limits, max_steps=limit, map_steps=0) for limit in (max(1, most // QUICK_SHARE), most)]

    def _best_action(self) -> int:
        """Return the constant action with the earliest first reward (median), and record the results of all."""
        seeds, meanings = self.config.seeds, self.game.action_meanings
        for limits in self._limits_of_tries():
            limit = limits.max_steps
            tried = [
                first_rewards([self._run("constant", n, limits, action) for n in range(seeds)], limit)
                for action in range(len(meanings))
            ]
            ranks = [(2 * row["never"] >= seeds, row["median"]) for row in tried]
            if not min(ranks)[0]:
                break
        best = ranks.index(min(ranks))
        actions = [{"action": name, **row} for name, row in zip(meanings, tried, strict=True)]
        self.constant = {"action": meanings[best], "actions_held_for": limit, "actions": actions}
        return best

    def _run(self, source: StrategyName, number: int, limits: Limits, action: int | None) -> dict[str, Any]:
        seed, constant = self.config.seed + number, {} if action is None else {"action": action}
        settings = self._settings(source, limits) | {"seed": seed} | constant
        label = source if action is None else f"constant {self.game.action_meanings[action]}"

        def measure() -> dict[str, Any]:
            show = self.stage(f"{label}, seed {seed}")
            total = max(limits.max_steps, limits.map_steps)
            strategy = make_strategy(source, self.game, self.predictor, self.config, seed=seed, **constant)
            return asdict(explore(self.game, strategy, limits, seed=seed, progress=lambda steps: show(steps, total)))

        return self.cache.part(settings, measure)

    def _settings(self, source: StrategyName, limits: Limits) -> dict[str, Any]:
        settings: dict[str, Any] = {"game": self.game.env_id, "settings": self.game.settings, "source": source}
        settings |= asdict(limits)
        if source.startswith("informed"):
            settings |= asdict(self.config.kernel(self.game.env_id)) | {"look_ahead": self.config.look_ahead}
        if source == "informed-model":
            settings["predictor"] = self._weights
        return settings


def _body(config: ExploreConfig, game: Game, runs: dict[StrategyName, list[dict[str, Any]]]) -> dict[str, Any]:
    cell = config.cell or default_cell(game.frame_shape)
    body: dict[str, Any] = {
        "what": "exploration without learning: every action is an exploring one (ε = 1)",
        "game": game.env_id,
        "frame_shape": list(game.frame_shape),
        "kernel": asdict(config.kernel(game.env_id)),
        "look_ahead": config.look_ahead,
        "seeds": config.seeds,
        "max_steps": config.max_steps,
        "map_steps": config.map_steps,
        "map_seeds": min(config.map_seeds, config.seeds),
        "noops": config.noops,
        "cell": cell,
        "sources": {source: first_rewards(rows, config.max_steps) for source, rows in runs.items()},
    }
    for source, steps in FIRST_REWARD.get(game.env_id, {}).items():
        if source in body["sources"]:
            body["sources"][source]["paper"] = steps
    followed = {source: [row["positions"] for row in rows if row["positions"]] for source, rows in runs.items()}
    known = any(position is not None for paths in followed.values() for path in paths for position in path)
    if config.map_steps and config.map_seeds and not known:
        body["note"] = (
            f"{game.env_id} does not report where its controlled object is (docs/environments.md): no maps, no coverage"
        )
    if known:
        for source, paths in followed.items():
            body["sources"][source] |= _coverage(paths, game, cell)
    return body


def first_rewards(rows: Sequence[dict[str, Any]], most: int) -> dict[str, Any]:
    """Return the agent steps to the first reward; a run without reward counts with the most that were allowed."""
    values = [row["first_reward"] for row in rows]
    within = [value if value is not None and value <= most else None for value in values]
    return {
        "first_reward": within,
        "median": float(np.median([most if value is None else value for value in within])),
        "never": within.count(None),
    }


def _coverage(paths: Sequence[Sequence[Any]], game: Game, cell: int) -> dict[str, Any]:
    """Return visits over all paths, and distinct cells with their standard error over paths."""
    curves = np.stack([covered(path, cell) for path in paths])  # (paths, steps)
    at = np.unique(np.linspace(1, curves.shape[1], CURVE_POINTS).round().astype(np.int64))
    errors = standard_errors(curves[:, at - 1])
    total: NDArray[np.int64] = np.sum([visits(path, game.frame_shape, cell) for path in paths], 0)
    return {
        "cells": curves[:, -1].tolist(),
        "coverage": {
            "steps": at.tolist(),
            "mean": curves[:, at - 1].mean(0).round(3).tolist(),
            "standard_error": None if errors is None else errors.round(3).tolist(),
        },
        "visits": total.tolist(),
    }


def _write_figures(body: dict[str, Any], background: NDArray[np.uint8], config: ExploreConfig) -> None:
    plots = config.out / PLOTS_NAME
    write_figure(first_reward_figure(body), plots, "first-reward")
    if any("visits" in row for row in body["sources"].values()):
        write_figure(heat_figure(body, background), plots, "heat-maps")
        write_figure(coverage_figure(body), plots, "coverage")


def explore_table(body: dict[str, Any]) -> TextTable:
    """Return the table of what explore.json holds."""
    rows, from_paper = [], any("paper" in result for result in body["sources"].values())
    for source, result in body["sources"].items():
        cells = f"{np.mean(result['cells']):.1f}" if "cells" in result else "–"
        at_least = "≥ " if 2 * result["never"] >= body["seeds"] else ""
        median = f"{at_least}{number(result['median'])}"
        paper = (number(result["paper"]) if "paper" in result else "–",) if from_paper else ()
        rows.append((source_label(source, result), median, *paper, f"{result['never']} of {body['seeds']}", cells))
    title = f"Exploring {body['game']}, {counted(body['seeds'], 'seed')} of at most {body['max_steps']:,} agent steps"
    heads = ("strategy", "median agent steps to the first reward", *["paper"] * from_paper, "never", "cells covered")
    return TextTable(title, heads, tuple(rows))
