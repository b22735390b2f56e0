"""`acvp explore` from ids to files: explore.json and plots/; explorations already made are kept in explore.jsonl.

One exploration of a game by one seed: when the first reward comes, where the controlled object goes.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from dataclasses import asdict, dataclass, field, replace
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from acvp.agents.observations import Pixels
from acvp.agents.play import standard_errors
from acvp.agents.references import FIRST_REWARD
from acvp.console import Stage, TextTable, number
from acvp.control.config import ExploreConfig, SourceName
from acvp.control.figures import coverage_figure, first_reward_figure, heat_figure, source_label
from acvp.control.informed import Rows, informed_by_emulator, informed_by_model
from acvp.control.kernel import covered, default_cell, visits
from acvp.data.policies import random_actions
from acvp.data.views import luminance
from acvp.durable import exclusive_writer, make_folder
from acvp.envs import Game, Step, make_game
from acvp.errors import UserError
from acvp.figures import write_figure
from acvp.loaded import Load, as_model
from acvp.models import Predictor, fingerprint, require_fit
from acvp.runs import PLOTS_NAME, ResultCache, write_results
from acvp.seeding import derived_seed, generator

ONLY = np.zeros(1, np.int64)
"""The row of the only play."""


class Strategy(Protocol):
    """A way of exploring, such as InformedExploration."""

    def see(self, frames: Pixels, begins: NDArray[np.bool_]) -> None:
        """Take in the newest frame (1, H, W, C), and whether a play begins with it."""

    def explore(self, rows: Rows) -> NDArray[np.int64]:
        """Return the next action (1,)."""


class RandomStrategy:
    """Every action alike."""

    def __init__(self, actions: int, *, seed: int) -> None:
        self.actions, self._rng = actions, generator("random exploration", seed)

    def see(self, frames: Pixels, begins: NDArray[np.bool_]) -> None:
        """Do nothing."""

    def explore(self, rows: Rows) -> NDArray[np.int64]:
        """Return a random action for each play."""
        return random_actions(self._rng, self.actions, len(rows))


class ConstantStrategy:
    """One action throughout."""

    def __init__(self, action: int) -> None:
        self.action = action

    def see(self, frames: Pixels, begins: NDArray[np.bool_]) -> None:
        """Do nothing."""

    def explore(self, rows: Rows) -> NDArray[np.int64]:
        """Return the action for each play."""
        return np.full(len(rows), self.action, np.int64)


@dataclass(frozen=True, kw_only=True)
class Limits:
    """How long an exploration goes on."""

    max_decisions: int
    """At most until the first reward."""
    map_decisions: int
    """At least, following the controlled object."""
    noops: int
    """Decisions of action 0 at the start: a number from 0 to this, by the seed."""


@dataclass
class ExplorationRun:
    """What came of an exploration."""

    first_reward: int | None = None
    """Decisions up to and with the first reward above 0; None: none came."""
    decisions: int = 0
    positions: list[tuple[float, float] | None] = field(default_factory=list)
    """(row, column) of the controlled object after each decision, as long as it is followed; None: not known."""


class EnvLoop:
    """A game that is explored across the ends of its episodes."""

    def __init__(self, game: Game, explorer: Strategy, seed: int) -> None:
        self.game, self.explorer, self.seed = game, explorer, seed
        self._episodes = 0
        self._begin()

    def step(self, action: int) -> Step:
        """Take a decision, show its frame, and begin a new episode after an end."""
        step = self.game.step(action)
        self._show(step.frame, begins=False)
        if step.terminated or step.truncated:
            self._begin()
        return step

    def _begin(self) -> None:
        self._show(self.game.reset(derived_seed("expedition", self.seed, self._episodes)), begins=True)
        self._episodes += 1

    def _show(self, frame: Pixels, *, begins: bool) -> None:
        self.explorer.see(frame[None], np.array([begins]))


def explore(
    game: Game,
    explorer: Strategy,
    route: Limits,
    *,
    seed: int,
    progress: Callable[[int], None] = lambda decision: None,
) -> ExplorationRun:
    """Explore a game from its start, at every decision (ε = 1)."""
    wanderer, found = EnvLoop(game, explorer, seed), ExplorationRun()
    for _ in range(generator("noops", seed).integers(route.noops + 1)):
        wanderer.step(0)
    while not _finished(found, route):
        step = wanderer.step(int(explorer.explore(ONLY)[0]))
        found.decisions += 1
        if step.reward > 0 and found.first_reward is None:
            found.first_reward = found.decisions
        if found.decisions <= route.map_decisions:
            found.positions.append(game.controlled_position())
        progress(found.decisions)
    return found


def _finished(found: ExplorationRun, route: Limits) -> bool:
    waiting = found.first_reward is None and found.decisions < route.max_decisions
    return not waiting and found.decisions >= route.map_decisions


EXPLORE_NAME, PARTS_NAME = "explore.json", "explore.jsonl"
CURVE_POINTS = 50
"""Of a coverage curve."""
QUICK_SHARE = 100
"""Actions are first held for this part of the decisions allowed, and longer only if none comes to a reward."""


def explore_sources(config: ExploreConfig, load: Load, stage: Stage) -> dict[str, Any]:
    """Explore a game in every way asked for, write all files, and return what explore.json holds."""
    started = time.monotonic()
    predictor = (
        None
        if config.predictor is None
        else as_model(config.predictor, load(config.predictor), config.device).predictor
    )
    with ExitStack() as stack:
        game = stack.enter_context(make_game(config.env_id, import_module=config.import_module))
        if config.predictor is not None and predictor is not None:
            require_fit(str(config.predictor), predictor, game)
        for source in config.chosen_sources:
            make_strategy(source, game, predictor, config)  # refuses early what cannot be done
        make_folder(config.out)
        stack.enter_context(exclusive_writer(config.out))
        ledger = ResultCache(config.out / PARTS_NAME)
        survey = Experiment(config, game, predictor, ledger, stage)
        found = {source: survey.of(source) for source in config.chosen_sources}
        body = _described(config, game, found)
        if survey.constant:
            body["sources"]["constant"] |= survey.constant
        _write_figures(body, luminance(game.reset(0)), config)
        earlier = ledger.earlier_seconds
        write_results(config.out / EXPLORE_NAME, body, seed=config.seed, started=started, earlier_seconds=earlier)
    return body


def make_strategy(
    source: SourceName,
    game: Game,
    predictor: Predictor | None,
    config: ExploreConfig,
    *,
    seed: int = 0,
    action: int = 0,
) -> Strategy:
    """Return a way of exploring a game; `action` is the one that the source `constant` holds."""
    kernel = config.kernel(game.env_id)
    if source == "constant":
        return ConstantStrategy(action)
    if source == "random":
        return RandomStrategy(len(game.action_meanings), seed=seed)
    if source == "informed-emulator":
        return informed_by_emulator([game], kernel, seed=seed, look_ahead=config.look_ahead)
    if predictor is None:
        raise UserError("informed-model asks a predictor: name one with --run")
    return informed_by_model(predictor, kernel, seed=seed, look_ahead=config.look_ahead)


class Experiment:
    """Explores seed by seed, or finds what an earlier command has explored."""

    def __init__(
        self, config: ExploreConfig, game: Game, predictor: Predictor | None, ledger: ResultCache, stage: Stage
    ) -> None:
        self.config, self.game, self.predictor, self.ledger, self.stage = config, game, predictor, ledger, stage
        self.constant: dict[str, Any] = {}
        """The best action to hold, and what holding each came to, once the source `constant` is explored."""
        self._weights = None if predictor is None else fingerprint(predictor)
        self._route = Limits(max_decisions=config.max_steps, map_decisions=config.map_steps, noops=config.noops)

    def of(self, source: SourceName) -> list[dict[str, Any]]:
        """Return all explorations of a source."""
        action = self._best_action() if source == "constant" else None
        short = replace(self._route, map_decisions=0)
        routes = [self._route if n < self.config.map_seeds else short for n in range(self.config.seeds)]
        return [self._expedition(source, number, route, action) for number, route in enumerate(routes)]

    def _best_action(self) -> int:
        """Return the action that, held, comes to a reward first in the median, and note what all came to."""
        most, seeds, meanings = self._route.max_decisions, self.config.seeds, self.game.action_meanings
        for limit in (max(1, most // QUICK_SHARE), most):
            route = replace(self._route, max_decisions=limit, map_decisions=0)
            tried = [
                first_rewards([self._expedition("constant", n, route, action) for n in range(seeds)], limit)
                for action in range(len(meanings))
            ]
            ranks = [(2 * each["never"] >= seeds, each["median"]) for each in tried]
            if not min(ranks)[0]:
                break
        best = ranks.index(min(ranks))
        actions = [{"action": name, **each} for name, each in zip(meanings, tried, strict=True)]
        self.constant = {"action": meanings[best], "actions_held_for": limit, "actions": actions}
        return best

    def _expedition(self, source: SourceName, number: int, route: Limits, action: int | None) -> dict[str, Any]:
        seed, held = self.config.seed + number, {} if action is None else {"action": action}
        settings = self._settings(source, route) | {"seed": seed} | held
        label = source if action is None else f"constant {self.game.action_meanings[action]}"

        def measure() -> dict[str, Any]:
            show = self.stage(f"{label}, seed {seed}")
            total = max(route.max_decisions, route.map_decisions)
            explorer = make_strategy(source, self.game, self.predictor, self.config, seed=seed, **held)
            return asdict(explore(self.game, explorer, route, seed=seed, progress=lambda d: show(d, total)))

        return self.ledger.part(settings, measure)

    def _settings(self, source: SourceName, route: Limits) -> dict[str, Any]:
        settings: dict[str, Any] = {"game": self.game.env_id, "settings": self.game.settings, "source": source}
        settings |= asdict(route)
        if source.startswith("informed"):
            settings |= asdict(self.config.kernel(self.game.env_id)) | {"look_ahead": self.config.look_ahead}
        if source == "informed-model":
            settings["predictor"] = self._weights
        return settings


def _described(config: ExploreConfig, game: Game, found: dict[SourceName, list[dict[str, Any]]]) -> dict[str, Any]:
    cell = config.cell or default_cell(game.frame_shape)
    body: dict[str, Any] = {
        "what": "exploration without learning: at every decision the exploring action (ε = 1)",
        "game": game.env_id,
        "frame_shape": list(game.frame_shape),
        "kernel": asdict(config.kernel(game.env_id)),
        "look_ahead": config.look_ahead,
        "seeds": config.seeds,
        "max_decisions": config.max_steps,
        "map_decisions": config.map_steps,
        "map_seeds": min(config.map_seeds, config.seeds),
        "noops": config.noops,
        "cell": cell,
        "sources": {source: first_rewards(rows, config.max_steps) for source, rows in found.items()},
    }
    for source, decisions in FIRST_REWARD.get(game.env_id, {}).items():
        if source in body["sources"]:
            body["sources"][source]["paper"] = decisions
    followed = {source: [row["positions"] for row in rows if row["positions"]] for source, rows in found.items()}
    known = any(place is not None for routes in followed.values() for route in routes for place in route)
    if config.map_steps and config.map_seeds and not known:
        body["note"] = (
            f"{game.env_id} does not tell where its controlled object is (docs/environments.md): no maps, no coverage"
        )
    if known:
        for source, routes in followed.items():
            body["sources"][source] |= _coverage(routes, game, cell)
    return body


def first_rewards(rows: Sequence[dict[str, Any]], most: int) -> dict[str, Any]:
    """Return the decisions to the first reward; those that never came count with the most that were allowed."""
    values = [row["first_reward"] for row in rows]
    within = [value if value is not None and value <= most else None for value in values]
    return {
        "first_reward": within,
        "median": float(np.median([most if value is None else value for value in within])),
        "never": within.count(None),
    }


def _coverage(routes: Sequence[Sequence[Any]], game: Game, cell: int) -> dict[str, Any]:
    """Return visits over all routes, and distinct cells with their standard error over routes."""
    curves = np.stack([covered(route, cell) for route in routes])  # (routes, decisions)
    at = np.unique(np.linspace(1, curves.shape[1], CURVE_POINTS).round().astype(np.int64))
    errors = standard_errors(curves[:, at - 1])
    total: NDArray[np.int64] = np.sum([visits(route, game.frame_shape, cell) for route in routes], 0)
    return {
        "cells": curves[:, -1].tolist(),
        "coverage": {
            "decisions": at.tolist(),
            "mean": curves[:, at - 1].mean(0).round(3).tolist(),
            "standard_error": None if errors is None else errors.round(3).tolist(),
        },
        "visits": total.tolist(),
    }


def _write_figures(body: dict[str, Any], background: NDArray[np.uint8], config: ExploreConfig) -> None:
    plots = config.out / PLOTS_NAME
    write_figure(first_reward_figure(body), plots, "first-reward")
    if any("visits" in found for found in body["sources"].values()):
        write_figure(heat_figure(body, background), plots, "heat-maps")
        write_figure(coverage_figure(body), plots, "coverage")


def explore_table(body: dict[str, Any]) -> TextTable:
    """Return the table of what explore.json holds."""
    rows, from_paper = [], any("paper" in found for found in body["sources"].values())
    for source, found in body["sources"].items():
        cells = f"{np.mean(found['cells']):.1f}" if "cells" in found else "–"
        at_least = "≥ " if 2 * found["never"] >= body["seeds"] else ""
        median = f"{at_least}{number(found['median'])}"
        paper = (number(found["paper"]) if "paper" in found else "–",) if from_paper else ()
        rows.append((source_label(source, found), median, *paper, f"{found['never']} of {body['seeds']}", cells))
    title = f"Exploring {body['game']}, {body['seeds']} seeds of at most {body['max_decisions']:,} decisions"
    heads = ("source", "median decisions to the first reward", *["paper"] * from_paper, "never", "cells covered")
    return TextTable(title, heads, tuple(rows))
