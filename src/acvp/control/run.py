"""`acvp control`: an agent plays by predicted frames; the emulator executes its actions and gives the score (figure 5).

Writes control.json and plots/; points already measured are in control.jsonl.

Shapes: R running episodes, H height, W width.
"""

from __future__ import annotations

import hashlib
import time
from collections.abc import Callable, Sequence
from contextlib import ExitStack, suppress
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, Protocol

import numpy as np
import torch
from numpy.typing import NDArray

from acvp.agents.agent import (
    AGENT_SIZE,
    STACK,
    AgentAbout,
    FrameStack,
    Pixels,
    Rows,
    agent_view,
    check_actions,
    load_agent,
    predictor_view,
)
from acvp.agents.evaluate import best_constant, constant_label, limit_steps
from acvp.agents.play import (
    CONTROL_STREAMS,
    Actions,
    ConstantAction,
    NoObservations,
    ObservationSource,
    Player,
    RealObservations,
    format_mean,
    mean_and_error,
    play_episodes,
)
from acvp.console import Stage, TextTable, counted, number
from acvp.control.config import ControlConfig
from acvp.control.figures import control_figure
from acvp.envs import Game, make_game
from acvp.errors import UserError
from acvp.figures import write_figure
from acvp.loaded import LoadedModel, as_model, load, require_fit
from acvp.models import Predictor, State, fingerprint
from acvp.models.rollout import select_rows
from acvp.result_cache import OtherShardError, ResultCache, locked_results
from acvp.runs import PLOTS_NAME, default_out, write_results

CONTROL_NAME, PARTS_NAME = "control.json", "control.jsonl"
SEVERAL = Path("evaluation")


class PlayingAgent(Player, Protocol):
    """An agent that was trained."""

    @property
    def about(self) -> AgentAbout: ...
    def values(self, frames: Pixels) -> NDArray[np.float32]:
        """Return the value (B, A) of each action."""


@dataclass
class _Batch:
    """Episodes that began together."""

    slots: Rows
    real: Pixels
    """(R, context, H, W, C): the last real frames."""
    actions: NDArray[np.int64]
    """(R, context − 1): those between them."""
    known: int = 1
    """Real frames seen so far."""
    state: State | None = None
    predicted: int = 0
    """Predictions since the last resync with real frames."""

    def keep(self, kept: NDArray[np.bool_]) -> None:
        """Forget all episodes but some."""
        if not kept.all():
            rows = np.flatnonzero(kept)
            self.slots, self.real, self.actions = self.slots[rows], self.real[rows], self.actions[rows]
            self.state = None if self.state is None else select_rows(self.state, rows)


class PredictedObservations:
    """Predicted frames only, resynced with real ones every `horizon` agent steps (figure 5).

    A predictor needs `context` real frames before its first prediction; until then the agent sees real ones.
    """

    def __init__(self, predictor: Predictor, horizon: int) -> None:
        self.predictor, self.horizon = predictor, horizon
        self._batches: list[_Batch] = []

    def begin(self, slots: Rows, games: Sequence[Game], frames: Sequence[Pixels]) -> Pixels:
        """Return the first frames: there is nothing to predict them from."""
        first = np.stack(frames)
        real = predictor_view(self.predictor, first)
        history = FrameStack(len(real), self.predictor.context, real.shape[1:])
        history.begin(real[:, None])
        for batch in self._batches:
            batch.keep(~np.isin(batch.slots, slots))
        between = np.zeros((len(slots), self.predictor.context - 1), np.int64)  # replaced before the first prediction
        self._batches.append(_Batch(slots, history.frames, between))
        return agent_view(first)

    @torch.inference_mode()
    def step(self, slots: Rows, games: Sequence[Game], actions: Actions, frames: Sequence[Pixels]) -> Pixels:
        """Return what the predictor expects of the actions; the real frames are for the next resync."""
        seen = np.empty((len(slots), *AGENT_SIZE), np.uint8)
        for batch in self._batches:
            batch.keep(np.isin(batch.slots, slots))
        self._batches = [batch for batch in self._batches if len(batch.slots)]
        places = {slot: place for place, slot in enumerate(slots.tolist())}
        for batch in self._batches:
            rows = np.array([places[slot] for slot in batch.slots.tolist()])
            seen[rows] = self._step(batch, actions[rows], np.stack([frames[row] for row in rows]))
        return seen

    def _step(self, batch: _Batch, actions: Actions, frames: Pixels) -> Pixels:
        enough = batch.known >= self.predictor.context
        seen = self._predict(batch, actions) if enough else agent_view(frames)
        newest = predictor_view(self.predictor, frames)[:, None]
        batch.real = np.concatenate((batch.real[:, 1:], newest), axis=1)
        batch.actions = np.concatenate((batch.actions, actions[:, None]), axis=1)[:, 1:]  # (R, context − 1)
        batch.known += 1
        return seen

    def _predict(self, batch: _Batch, actions: Actions) -> Pixels:
        predictor, normalizer = self.predictor, self.predictor.normalizer
        device = normalizer.mean.device
        if batch.state is None or batch.predicted == self.horizon:
            real = torch.from_numpy(batch.real).to(device)
            between = torch.from_numpy(batch.actions).to(device)
            batch.state, batch.predicted = predictor.observe(normalizer.to_float(real), between), 0
        frame, batch.state = predictor.predict(batch.state, torch.from_numpy(actions).to(device))
        batch.predicted += 1
        return agent_view(normalizer.to_uint8(frame).numpy(force=True))


@dataclass(frozen=True, kw_only=True)
class Point:
    """Episodes that are measured together."""

    label: str
    player: Player
    epsilon: float
    make_source: Callable[[], ObservationSource]
    identity: dict[str, Any]
    """What the scores depend on, besides what all points share."""


def control_runs(config: ControlConfig, stage: Stage) -> dict[str, Any]:
    """Let the agent play by the predictions of each run, write all files, and return what control.json holds."""
    started, out = time.monotonic(), control_out(config)
    agent = load_agent(config.agent)
    models = [as_model(path, load(path), config.device) for path in config.predictors]
    with ExitStack() as stack:
        games = [
            stack.enter_context(
                make_game(agent.about.env_id, max_steps=config.max_steps, import_module=config.import_module)
            )
            for _ in range(config.episodes)
        ]
        _check(config, agent, models, games[0])
        cache = stack.enter_context(locked_results(out / PARTS_NAME, config.shard))
        measurements = Measurements(config, agent, games, cache, stage)
        if config.shard is not None:
            _measure_shard(config, agent, models, measurements)
            return cache.shard_body()
        body = _measure(config, agent, models, measurements)
        write_figure(control_figure(body), out / PLOTS_NAME, "control")
        earlier = cache.earlier_seconds
        write_results(out / CONTROL_NAME, body, seed=config.seed, started=started, earlier_seconds=earlier)
    return body


def control_out(config: ControlConfig) -> Path:
    """Return the output folder; a predictor of the package has none for results."""
    if config.out is not None:
        return config.out
    return default_out(config.predictors) if config.predictors[0].is_dir() else SEVERAL


def _check(config: ControlConfig, agent: PlayingAgent, models: Sequence[LoadedModel], game: Game) -> None:
    check_actions(agent.about, game.action_meanings, game.env_id)
    for model in models:
        require_fit(model.name, model.predictor, game)
    names = [model.name for model in models]
    if len(set(names)) < len(names):
        raise UserError(f"--runs: two are called {max(names, key=names.count)}; give each another folder name")


class Measurements:
    """Measures points, or reads what an earlier command measured."""

    def __init__(
        self, config: ControlConfig, agent: PlayingAgent, games: Sequence[Game], cache: ResultCache, stage: Stage
    ) -> None:
        self.config, self.games, self.cache, self.stage = config, games, cache, stage
        self._shared = {
            "game": games[0].env_id,
            "settings": games[0].settings,
            "agent": agent_fingerprint(agent),
            "episodes": config.episodes,
            "seed": config.seed,
            "random_numbers": "of each episode",
        }
        self._longest = games[0].limit or 0

    def horizons(self, weights: str) -> list[int]:
        """Return the horizons to show of a predictor: those asked for, and those that earlier commands measured."""
        before = self.cache.values("horizon", self._shared | {"epsilon": self.config.epsilon, "observations": weights})
        return sorted({*self.config.horizons, *before})

    def of(self, point: Point) -> dict[str, Any]:
        """Return scores and steps of the episodes of a point, with mean and standard error."""
        settings = self._shared | {"epsilon": point.epsilon} | point.identity

        def measure() -> dict[str, Any]:
            show, longest = self.stage(point.label), self._longest
            played = play_episodes(
                point.player, self.games, point.make_source(), episodes=len(self.games), epsilon=point.epsilon,
                seed=self.config.seed, streams=CONTROL_STREAMS, progress=lambda _, steps: show(steps, longest),
            )  # fmt: skip
            return {"scores": played.scores, "steps": played.steps}

        measured = self.cache.part(settings, measure)
        self._longest = max(measured["steps"])
        return mean_and_error(measured["scores"]) | measured


def _measure(
    config: ControlConfig, agent: PlayingAgent, models: Sequence[LoadedModel], measurements: Measurements
) -> dict[str, Any]:
    game = measurements.games[0]
    references = {point.label: measurements.of(point) for point in _reference_points(config, agent, game)}
    with limit_steps(measurements.games):
        scores = [measurements.of(point)["scores"] for point in _constant_points(config, game)]
    references["constant"] = best_constant(game.action_meanings, scores)
    runs = {
        model.name: [
            {"horizon": point.identity["horizon"]} | measurements.of(point)
            for point in _horizon_points(config, agent, model, measurements)
        ]
        for model in models
    }
    return {
        "what": "score of an agent that sees predicted frames only, resynced with real ones every n steps (horizon)",
        "game": game.env_id,
        "agent": config.agent,
        "episodes": config.episodes,
        "epsilon": config.epsilon,
        "max_steps": config.max_steps,
        "horizons": sorted({point["horizon"] for curve in runs.values() for point in curve}),
        **references,
        "runs": runs,
    }


def _measure_shard(
    config: ControlConfig, agent: PlayingAgent, models: Sequence[LoadedModel], measurements: Measurements
) -> None:
    """Measure the points of a shard."""
    game = measurements.games[0]
    _measure_some(_reference_points(config, agent, game), measurements)
    with limit_steps(measurements.games):
        _measure_some(_constant_points(config, game), measurements)
    for model in models:
        _measure_some(_horizon_points(config, agent, model, measurements), measurements)


def _measure_some(points: Sequence[Point], measurements: Measurements) -> None:
    for point in points:
        with suppress(OtherShardError):
            measurements.of(point)


def _reference_points(config: ControlConfig, agent: PlayingAgent, game: Game) -> list[Point]:
    """Return the agent that sees the game, and random actions."""
    emulator = Point(
        label="emulator",
        player=agent,
        epsilon=config.epsilon,
        make_source=RealObservations,
        identity={"observations": "emulator"},
    )
    random = Point(
        label="random", player=ConstantAction(0, len(game.action_meanings)), epsilon=1.0, make_source=NoObservations,
        identity={"observations": "random", "agent": None},
    )  # fmt: skip
    return [emulator, random]


def _constant_points(config: ControlConfig, game: Game) -> list[Point]:
    """Return every constant action, with the random numbers of the agent's episodes."""
    meanings = game.action_meanings
    return [
        Point(
            label=f"constant {name}", player=ConstantAction(action, len(meanings)), epsilon=config.epsilon,
            make_source=NoObservations, identity={"observations": "constant", "action": action, "agent": None},
        )
        for action, name in enumerate(meanings)
    ]  # fmt: skip


def _horizon_points(
    config: ControlConfig, agent: PlayingAgent, model: LoadedModel, measurements: Measurements
) -> list[Point]:
    """Return the agent that sees predictions of a model, for each horizon."""
    weights = fingerprint(model.predictor)
    return [
        Point(
            label=f"{model.name}, n = {horizon}", player=agent, epsilon=config.epsilon,
            make_source=partial(PredictedObservations, model.predictor, horizon),
            identity={"observations": weights, "horizon": horizon},
        )
        for horizon in measurements.horizons(weights)
    ]  # fmt: skip


def agent_fingerprint(agent: PlayingAgent) -> str:
    """Return a hash of an agent's values for some fixed frames."""
    frames = np.random.default_rng(0).integers(256, size=(2, STACK, *AGENT_SIZE)).astype(np.uint8)
    return hashlib.sha256(np.asarray(agent.values(frames), np.float32).tobytes()).hexdigest()[:16]


def control_table(body: dict[str, Any]) -> TextTable:
    """Return the table of what control.json holds."""
    labels = {"emulator": "emulator", "constant": constant_label(body["constant"]), "random": "random"}
    references = ", ".join(f"{label} {scored(body[name])}" for name, label in labels.items())
    curves = [{point["horizon"]: scored(point) for point in curve} for curve in body["runs"].values()]
    rows = [(str(horizon), *(curve.get(horizon, "–") for curve in curves)) for horizon in body["horizons"]]
    title = f"Score in {body['game']}, {counted(body['episodes'], 'episode')}: {references}; by predicted frames:"
    return TextTable(title, ("resync every n", *body["runs"]), tuple(rows))


def scored(point: dict[str, Any]) -> str:
    """Return a mean with its standard error."""
    return format_mean(point["mean"], point["standard_error"], number)
