"""`acvp agent learn`: an agent that learns from few real agent steps, in rounds.

A round records real episodes with the agent so far and exploration, trains the predictor on from its last weights on
all data, and trains the agent inside it. Every part can be stopped and resumes by the same command: finished parts are
found in the run folder and not repeated.

    data/00 …                   a dataset for each round
    rounds/00/predictor-run     the predictor of the round, started from that of the round before
    rounds/00/calibration.json  the correction of its reward and termination heads
    rounds/00/agent-run         the agent of the round, started from that of the round before
    metrics.jsonl               a line for each round: real steps, scores, errors, time
    times.jsonl                 a line for each part that was run: wall-clock and processor seconds
    agent/                      the last agent
    learning.json, plots/       score by real agent steps, beside references and published results
"""

from __future__ import annotations

import json
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import asdict
from functools import partial
from math import isfinite
from pathlib import Path
from typing import Any

from rich.console import Console

from acvp.actions import require_numbered
from acvp.agents.agent import OF_A_RUN, load_agent
from acvp.agents.evaluate import EVALUATION_STEPS, References, evaluation_seed, play_references
from acvp.agents.play import mean_and_error
from acvp.agents.presets import DqnConfig
from acvp.agents.run import AT_ONCE
from acvp.control.config import LearnConfig
from acvp.control.figures import rounds_figure
from acvp.control.rounds import DAMAGE, EPISODES, PartStopped, Round, agent_seed, episode_limit, real_steps, scores
from acvp.data.store import EpisodeStore
from acvp.durable import append_line, finished_lines, write_atomic
from acvp.envs import Game, make_game
from acvp.errors import UserError
from acvp.figures import image
from acvp.harness import EXIT_DONE, require_same, start
from acvp.loaded import load, require_fit
from acvp.models import find_class, fingerprint
from acvp.runs import METRICS_NAME, PLOTS_NAME, RunFolder, write_results

PARTS = ("collect", "predictor", "agent")
PUBLISHED = {
    "ALE/Freeway-v5": {"DIAMOND": 33.3, "IRIS": 31.1, "SimPLe": 16.7},
    "ALE/Seaquest-v5": {"SimPLe": 683.3, "IRIS": 661.3, "DIAMOND": 551.2},
    "ALE/Qbert-v5": {"DIAMOND": 4499.3, "SimPLe": 1288.8, "IRIS": 745.7},
    "ALE/MsPacman-v5": {"DIAMOND": 1958.2, "SimPLe": 1480.0, "IRIS": 999.1},
}
"""Mean scores over 5 seeds after 100,000 agent steps, on a GPU, by method.

DIAMOND (Alonso et al., 2024) and IRIS (Micheli et al., 2023): means of the scores by seed that their authors published
with the code (results/data/DIAMOND.json, results/data/IRIS.json). SimPLe (Kaiser et al., 2020): those of IRIS' authors
(results/data/SimPLe.json). Their games differ from acvp's: a maximum over two frames, among others."""
REPORT_NAME, FIGURE_NAME = "learning.json", "learning.png"


def learn(config: LearnConfig, console: Console) -> int:
    """Learn in rounds until the budget is used up, and return the exit code."""
    run = RunFolder(config.run)
    with make_game(config.env_id, import_module=config.import_module) as game:
        require_numbered(game.action_range, "acvp agent learn")
        _check(config, game)
        with run.writing():
            start(run, _settings(config, game), resume="auto", check=partial(_refuse_change, run, config, game))
            loop = Loop(config, run, game, console)
            try:
                loop.all_rounds()
            except PartStopped as stopped:
                return stopped.code
    return EXIT_DONE


def _settings(config: LearnConfig, game: Game) -> dict[str, Any]:
    """Return what config.json holds: everything that decides what is learned."""
    values = {name: _plain(value) for name, value in asdict(config).items() if name not in ("run", "device")}
    weights = None if config.init is None else fingerprint(load(config.init))
    return values | {"env_id": game.env_id, "actions": list(game.action_meanings), "init_weights": weights}


def _plain(value: Any) -> Any:
    return list(value) if isinstance(value, tuple) else str(value) if isinstance(value, Path) else value


def _refuse_change(run: RunFolder, config: LearnConfig, game: Game, before: dict[str, Any]) -> None:
    """Refuse to resume with another config, or after the actions of the game have changed."""
    now, earlier = list(game.action_meanings), before.get("actions") or []
    if now != earlier:
        raise UserError(
            f"{game.env_id} has the actions {' '.join(now)}, and had {' '.join(earlier)} in the rounds before: what "
            "was learned does not fit them; restore the env, or choose another --run"
        )
    require_same(run, before, _settings(config, game))


def _check(config: LearnConfig, game: Game) -> None:
    """Refuse a budget whose episodes are too short for the predictor, and a predictor of another game."""
    initial = None if config.init is None else load(config.init)
    if initial is not None:
        require_fit(f"--init {config.init}", initial, game)
    context = _context(config.model) if initial is None else initial.context
    steps = episode_limit(config, game, config.budget // config.rounds)
    if steps < context:
        raise UserError(
            f"--budget {config.budget}: an episode of one of {config.rounds} rounds has {steps} agent steps, and the "
            f"predictor needs {context} frames before its first prediction; give --budget "
            f"{context * EPISODES * config.rounds} or more, or fewer --rounds"
        )


def _context(model: str) -> int:
    """Return the frames that a new predictor of a kind needs."""
    return int(find_class(model).config_class.__dataclass_fields__["context"].default)


class Loop:
    """The rounds of a run."""

    def __init__(self, config: LearnConfig, run: RunFolder, game: Game, console: Console) -> None:
        self.config, self.run, self.game, self.console = config, run, game, console
        self.rounds: list[Round] = []
        for _ in range(config.rounds):
            self.rounds.append(Round(config, run, game, console, tuple(self.rounds)))

    def all_rounds(self) -> None:
        """Run all rounds that are not finished, and write the report."""
        logged = {line["round"] for line in logged_rounds(self.run)}
        for number, place in enumerate(self.rounds):
            if number in logged:
                continue
            self.print(f"round {number + 1} of {len(self.rounds)}")
            self.run.add_metrics(self._round(place))
        last = load_agent(self.rounds[-1].agent)
        last.save(self.run.path / OF_A_RUN)
        self._report()

    def print(self, text: str) -> None:
        """Print a line."""
        self.console.print(text)

    def _round(self, place: Round) -> dict[str, Any]:
        """Run the parts of a round that are not finished; return its line of metrics."""
        with self._timed(place, "collect"):
            newest = place.collect()
        stores = [EpisodeStore(earlier.data) for earlier in self.rounds[: place.number + 1]]
        steps = sum(real_steps(store) for store in stores)
        self.print(f"{steps:,} of {self.config.budget:,} real agent steps, scores {scores(newest)}")
        place.require_rewards(stores)
        with self._timed(place, "predictor"):
            errors = place.errors(newest)
            place.train_predictor()
            place.calibrate()
        with self._timed(place, "agent"):
            place.train_agent()
        evaluation = [line for line in RunFolder(place.agent).metrics() if line["kind"] == "evaluation"][-1]
        self.print(f"round {place.number + 1}: score {evaluation['mean']:,.1f} in the real game")
        return {
            "kind": "round", "step": steps, "round": place.number, "real_steps": real_steps(newest),
            "recorded": mean_and_error(scores(newest)) | {"scores": scores(newest)},
            "evaluation": {name: evaluation[name] for name in ("mean", "standard_error", "scores", "epsilon")},
            "errors_on_newest": errors, "imagined_steps": self.config.agent_steps,
            "seconds": {part: self._seconds(place, part) for part in PARTS},
        }  # fmt: skip

    # --- Time and report ----------------------------------------------------------------------------------------------

    @contextmanager
    def _timed(self, place: Round, part: str) -> Iterator[None]:
        """Add the seconds of a part to times.jsonl, however it ends."""
        wall, processor = time.monotonic(), time.process_time()
        try:
            yield
        finally:
            line = {"round": place.number, "part": part, "wall": time.monotonic() - wall}
            append_line(self._times, json.dumps(line | {"processor": time.process_time() - processor}))

    @property
    def _times(self) -> Path:
        return self.run.path / "times.jsonl"

    def _seconds(self, place: Round, part: str) -> dict[str, float]:
        """Return the wall-clock and processor seconds of a part, over all starts of the run."""
        try:
            lines = [json.loads(line) for line in finished_lines(self._times)]
            chosen = [line for line in lines if (line["round"], line["part"]) == (place.number, part)]
            return {name: round(sum(line[name] for line in chosen), 1) for name in ("wall", "processor")}
        except DAMAGE as error:
            raise UserError(
                f"{self._times}: damaged ({error}); delete it to continue without the times so far"
            ) from error

    def _report(self) -> None:
        references = self._references() if self.config.references else None
        write_report(self.run, self.game.env_id, references, seed=self.config.seed)
        self.print(f"finished: {self.run.path / OF_A_RUN}; look at it: acvp agent evaluate --agent {self.run.path}")

    def _references(self) -> dict[str, Any]:
        """Play the best constant action and random play in the episodes of the last score."""
        config, limit = self.config, min(EVALUATION_STEPS, self.game.limit or EVALUATION_STEPS)
        seed = agent_seed(config, config.rounds - 1)
        with ExitStack() as stack:
            options = {"max_steps": limit, "import_module": config.import_module}
            games = [
                stack.enter_context(make_game(config.env_id, **options))  # type: ignore[arg-type]
                for _ in range(min(config.evaluate_episodes, AT_ONCE))
            ]
            return play_references(
                games, episodes=config.evaluate_episodes, epsilon=DqnConfig().evaluate_epsilon,
                seed=evaluation_seed(seed, 1),
            )  # fmt: skip


def logged_rounds(run: RunFolder) -> list[dict[str, Any]]:
    """Return the line of metrics of each finished round; UserError if one is damaged."""
    rounds = [line for line in run.metrics() if isinstance(line, dict) and line.get("kind") == "round"]
    for line in rounds:
        try:
            scored = [line[name][value] for name in ("recorded", "evaluation") for value in ("mean", "standard_error")]
            timed = [part[clock] for part in line["seconds"].values() for clock in ("wall", "processor")]
            if not all(isfinite(value or 0.0) for value in (line["round"], line["step"], *scored, *timed)):
                raise ValueError("not all of its numbers are finite")
        except DAMAGE as error:
            name = run.path / METRICS_NAME
            raise UserError(f"{name}: damaged ({type(error).__name__}: {error}); choose another --run") from error
    return rounds


def write_report(run: RunFolder, env_id: str, references: References | None, *, seed: int) -> dict[str, Any]:
    """Write learning.json and its figure into a run folder, and return what it holds."""
    rounds = logged_rounds(run)
    seconds = [part for line in rounds for part in line["seconds"].values()]
    body = {
        "what": "score in the real game by recorded agent steps; evaluation episodes are not recorded or learned from",
        "env_id": env_id,
        "rounds": rounds,
        "core_minutes": round(sum(part["processor"] for part in seconds) / 60, 1),
        "wall_minutes": round(sum(part["wall"] for part in seconds) / 60, 1),
        "references": references,
        "published": PUBLISHED.get(env_id),
    }
    write_results(run.path / REPORT_NAME, body, seed=seed)
    write_atomic(run.path / PLOTS_NAME / FIGURE_NAME, image(rounds_figure(body), "png"))
    return body
