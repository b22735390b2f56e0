"""`acvp control` from paths to files: control.json and plots/; points already measured are kept in control.jsonl."""

from __future__ import annotations

import hashlib
import time
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np

from acvp.agents.observations import AGENT_SIZE
from acvp.agents.play import HeldAction, averaged, best_constant, constant_label, limited, with_error
from acvp.console import Stage, TextTable, number
from acvp.control.config import ControlConfig
from acvp.control.figures import control_figure
from acvp.control.predicted_play import (
    NoSight,
    Player,
    PlayingAgent,
    Plays,
    PredictedSight,
    Sight,
    TrueSight,
    play,
    refuse_other_actions,
)
from acvp.durable import exclusive_writer, make_folder
from acvp.envs import Game, make_game
from acvp.errors import UserError
from acvp.figures import write_figure
from acvp.loaded import Load, LoadedModel, as_model
from acvp.models import fingerprint, require_fit
from acvp.runs import PLOTS_NAME, ResultCache, default_out, write_results

CONTROL_NAME, PARTS_NAME = "control.json", "control.jsonl"
SEVERAL = Path("evaluation")

LoadAgent = Callable[[str], PlayingAgent]


@dataclass(frozen=True, kw_only=True)
class Point:
    """Plays that are measured together."""

    label: str
    player: Player
    epsilon: float
    make_sight: Callable[[], Sight]
    identity: dict[str, Any]
    """What decides the scores, besides what all points share."""


def control_runs(config: ControlConfig, load: Load, load_agent: LoadAgent, stage: Stage) -> dict[str, Any]:
    """Let the agent play by the frames of each run, write all files, and return what control.json holds."""
    started, out = time.monotonic(), control_out(config)
    agent = load_agent(config.agent)
    subjects = [as_model(path, load(path), config.device) for path in config.runs]
    with ExitStack() as stack:
        games = [
            stack.enter_context(
                make_game(agent.about.env_id, max_steps=config.max_steps, import_module=config.import_module)
            )
            for _ in range(config.plays)
        ]
        _check(config, agent, subjects, games[0])
        make_folder(out)
        stack.enter_context(exclusive_writer(out))
        ledger = ResultCache(out / PARTS_NAME)
        measurements = Measurements(config, agent, games, ledger, stage)
        body = _measure(config, agent, subjects, measurements)
        write_figure(control_figure(body), out / PLOTS_NAME, "control")
        spent = {"started": started, "earlier_seconds": ledger.earlier_seconds}
        write_results(out / CONTROL_NAME, body, seed=config.seed, **spent)
    return body


def control_out(config: ControlConfig) -> Path:
    """Return where results go; a predictor of the package has no folder of its own for them."""
    if config.out is not None:
        return config.out
    return default_out(config.runs) if config.runs[0].is_dir() else SEVERAL


def _check(config: ControlConfig, agent: PlayingAgent, subjects: Sequence[LoadedModel], game: Game) -> None:
    refuse_other_actions(config.agent, agent.about, game)
    for subject in subjects:
        require_fit(subject.name, subject.predictor, game)
    names = [subject.name for subject in subjects]
    if len(set(names)) < len(names):
        raise UserError(f"--runs: two are called {max(names, key=names.count)}; give each another folder name")


class Measurements:
    """Measures points, or finds what an earlier command has measured."""

    def __init__(
        self, config: ControlConfig, agent: PlayingAgent, games: Sequence[Game], ledger: ResultCache, stage: Stage
    ) -> None:
        self.config, self.games, self.ledger, self.stage = config, games, ledger, stage
        self._shared = {
            "game": games[0].env_id,
            "settings": games[0].settings,
            "agent": agent_fingerprint(agent),
            "plays": config.plays,
            "seed": config.seed,
            "random_numbers": "of each play",
        }
        self._longest = games[0].limit or 0

    def depths(self, weights: str) -> list[int]:
        """Return the depths to show of a predictor: those asked for, and those that earlier commands have measured."""
        before = self.ledger.values("depth", self._shared | {"epsilon": self.config.epsilon, "sight": weights})
        return sorted({*self.config.depths, *before})

    def of(self, point: Point) -> Plays:
        """Return the plays of a point."""
        settings = self._shared | {"epsilon": point.epsilon} | point.identity

        def measure() -> dict[str, Any]:
            show, longest = self.stage(point.label), self._longest
            options: dict[str, Any] = {"epsilon": point.epsilon, "seed": self.config.seed}
            sight = point.make_sight()
            return asdict(play(self.games, point.player, sight, progress=lambda d: show(d, longest), **options))

        known = self.ledger.part(settings, measure)
        plays = Plays(tuple(known["scores"]), tuple(known["decisions"]))
        self._longest = max(plays.decisions)
        return plays


def _measure(
    config: ControlConfig, agent: PlayingAgent, subjects: Sequence[LoadedModel], measurements: Measurements
) -> dict[str, Any]:
    game = measurements.games[0]
    emulator = Point(
        label="emulator", player=agent, epsilon=config.epsilon, make_sight=TrueSight, identity={"sight": "emulator"}
    )
    random = Point(
        label="random", player=HeldAction(0, len(game.action_meanings)), epsilon=1.0, make_sight=NoSight,
        identity={"sight": "random", "agent": None},
    )  # fmt: skip
    references = {point.label: _described(measurements.of(point)) for point in (emulator, random)}
    references["constant"] = _constant(config, measurements)
    runs = {subject.name: _curve(config, agent, subject, measurements) for subject in subjects}
    return {
        "what": "score of an agent that sees predicted frames only, grounded in real ones every n decisions (depth)",
        "game": game.env_id,
        "agent": config.agent,
        "plays": config.plays,
        "epsilon": config.epsilon,
        "max_steps": config.max_steps,
        "depths": sorted({point["depth"] for curve in runs.values() for point in curve}),
        **references,
        "runs": runs,
    }


def _constant(config: ControlConfig, measurements: Measurements) -> dict[str, Any]:
    """Return the best action to hold throughout, with the random numbers of the agent's plays."""
    meanings = measurements.games[0].action_meanings
    points = [
        Point(
            label=f"constant {name}", player=HeldAction(action, len(meanings)), epsilon=config.epsilon,
            make_sight=NoSight, identity={"sight": "constant", "action": action, "agent": None},
        )
        for action, name in enumerate(meanings)
    ]  # fmt: skip
    with limited(measurements.games):
        return best_constant(meanings, [measurements.of(point).scores for point in points])


def _curve(
    config: ControlConfig, agent: PlayingAgent, subject: LoadedModel, measurements: Measurements
) -> list[dict[str, Any]]:
    """Return the scores of a run for each depth."""
    weights = fingerprint(subject.predictor)
    curve = []
    for depth in measurements.depths(weights):

        def sight(depth: int = depth) -> Sight:
            return PredictedSight(subject.predictor, depth)

        point = Point(
            label=f"{subject.name}, n = {depth}", player=agent, epsilon=config.epsilon, make_sight=sight,
            identity={"sight": weights, "depth": depth},
        )  # fmt: skip
        curve.append({"depth": depth} | _described(measurements.of(point)))
    return curve


def _described(plays: Plays) -> dict[str, Any]:
    return averaged(plays.scores) | asdict(plays)


def agent_fingerprint(agent: PlayingAgent) -> str:
    """Return a hash of how an agent values some fixed pictures."""
    pictures = np.random.default_rng(0).integers(256, size=(2, agent.stack, *AGENT_SIZE)).astype(np.uint8)
    return hashlib.sha256(np.asarray(agent.values(pictures), np.float32).tobytes()).hexdigest()[:16]


def control_table(body: dict[str, Any]) -> TextTable:
    """Return the table of what control.json holds."""
    labels = {"emulator": "emulator", "constant": constant_label(body["constant"]), "random": "random"}
    references = ", ".join(f"{label} {scored(body[name])}" for name, label in labels.items())
    curves = [{point["depth"]: scored(point) for point in curve} for curve in body["runs"].values()]
    rows = [(str(depth), *(curve.get(depth, "–") for curve in curves)) for depth in body["depths"]]
    title = f"Score in {body['game']}, {body['plays']} plays: {references}; by predicted frames:"
    return TextTable(title, ("grounded every n", *body["runs"]), tuple(rows))


def scored(point: dict[str, Any]) -> str:
    """Return a mean with its standard error."""
    return with_error(point["mean"], point["standard_error"], number)
