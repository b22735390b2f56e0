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
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import asdict, dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from rich.console import Console

from acvp.agents.agent import OF_A_RUN, FrameStack, agent_view, load_agent
from acvp.agents.config import AgentTrainConfig
from acvp.agents.evaluate import EVALUATION_STEPS, evaluation_seed, play_references
from acvp.agents.play import mean_and_error
from acvp.agents.policies import load_any_policy
from acvp.agents.presets import DqnConfig, make_dqn_config
from acvp.agents.run import AT_ONCE, train_agent
from acvp.control.config import LearnConfig
from acvp.control.imagined_env import ImaginationConfig
from acvp.control.informed import InformedExploration
from acvp.control.learning import ImaginedVecEnv
from acvp.control.learning_report import write_report
from acvp.data.collect import CollectConfig, collect
from acvp.data.merge import join, split
from acvp.data.policies import AGENT, Player, Policy
from acvp.data.store import EpisodeStore
from acvp.data.windows import Window, Windows
from acvp.durable import append_line, finished_lines, make_folder, read_file, write_atomic
from acvp.envs import Game, make_game
from acvp.errors import UserError
from acvp.evaluation.outcomes import NoRewardsError, calibrate, measure_outcomes
from acvp.harness import EXIT_DONE, require_same, start
from acvp.loaded import LoadedModel, as_model, load, require_fit, view_of
from acvp.models import find_class, fingerprint, kind_of
from acvp.models.layers import Calibration
from acvp.runs import RunFolder
from acvp.seeding import derived_seed
from acvp.training.config import TrainConfig
from acvp.training.presets import make_config
from acvp.training.run import train

PARTS = ("collect", "predictor", "agent")
INFORMED = "informed:"
"""Beginning of the name of informed exploration by a predictor, as a policy of a round."""
EPISODES = 4
"""Fewest episodes of a round: their limit is a part of the round's agent steps."""
CALIBRATION_STEPS = 1_000
"""Held-out agent steps by which the heads of a predictor are calibrated, at most."""
ERROR_WINDOWS, ERROR_STEPS, OUTCOME_STEPS = 16, 10, 200
"""Windows of the newest data, steps ahead, and steps with and without rewards, on which the predictor before is
measured."""
LATER_EPSILON = 0.3
"""Share of exploring actions with which the DQN begins in all rounds but the first."""


class PartStopped(Exception):
    """A part of a round has ended by a signal or a divergence, with this exit code."""

    def __init__(self, code: int) -> None:
        super().__init__(f"exit code {code}")
        self.code = code


@dataclass(frozen=True)
class Round:
    """Where the parts of a round are."""

    home: Path
    number: int

    @property
    def data(self) -> Path:
        return self.home / "data" / f"{self.number:02d}"

    @property
    def folder(self) -> Path:
        return self.home / "rounds" / f"{self.number:02d}"

    @property
    def predictor(self) -> Path:
        return self.folder / "predictor-run"

    @property
    def agent(self) -> Path:
        return self.folder / "agent-run"

    @property
    def calibration(self) -> Path:
        return self.folder / "calibration.json"


def learn(config: LearnConfig, console: Console) -> int:
    """Learn in rounds until the budget is used up, and return the exit code."""
    run = RunFolder(config.run)
    with make_game(config.env_id, import_module=config.import_module) as game, run.writing():
        _check(config, game)
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


def episode_limit(config: LearnConfig, game: Game, quota: int) -> int:
    """Return the agent steps after which the episodes of a round are truncated."""
    limits = (quota // EPISODES, config.max_steps, game.limit)
    return max(1, min(limit for limit in limits if limit is not None))


class Loop:
    """The rounds of a run."""

    def __init__(self, config: LearnConfig, run: RunFolder, game: Game, console: Console) -> None:
        self.config, self.run, self.game, self.console = config, run, game, console
        self.rounds = [Round(run.path, number) for number in range(config.rounds)]

    def all_rounds(self) -> None:
        """Run all rounds that are not finished, and write the report."""
        logged = {line["round"] for line in self.run.metrics()}
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
            newest = self._collect(place)
        stores = [EpisodeStore(earlier.data) for earlier in self.rounds[: place.number + 1]]
        steps = sum(real_steps(store) for store in stores)
        self.print(f"{steps:,} of {self.config.budget:,} real agent steps, scores {_scores(newest)}")
        self._require_rewards(place, stores)
        with self._timed(place, "predictor"):
            errors = self._errors(place, newest)
            self._train_predictor(place)
            self._calibrate(place)
        with self._timed(place, "agent"):
            self._train_agent(place)
        evaluation = [line for line in RunFolder(place.agent).metrics() if line["kind"] == "evaluation"][-1]
        self.print(f"round {place.number + 1}: score {evaluation['mean']:,.1f} in the real game")
        return {
            "kind": "round", "step": steps, "round": place.number, "real_steps": real_steps(newest),
            "recorded": mean_and_error(_scores(newest)) | {"scores": _scores(newest)},
            "evaluation": {name: evaluation[name] for name in ("mean", "standard_error", "scores", "epsilon")},
            "errors_on_newest": errors, "imagined_steps": self.config.agent_steps,
            "seconds": {part: self._seconds(place, part) for part in PARTS},
        }  # fmt: skip

    # --- The parts of a round -----------------------------------------------------------------------------------------

    def _collect(self, place: Round) -> EpisodeStore:
        """Record episodes until another one might exceed the part of the budget that may be used by now."""
        config, before = self.config, self.rounds[: place.number]
        used = sum(real_steps(EpisodeStore(earlier.data)) for earlier in before)
        quota = config.budget * (place.number + 1) // config.rounds - used
        limit = episode_limit(config, self.game, quota)
        policies = self._policies(place)
        options = CollectConfig(
            env_id=config.env_id, out=place.data, policy=policies, epsilon=(config.epsilon,), episodes=quota // limit,
            max_steps=limit, seed=derived_seed("round", config.seed, place.number), import_module=config.import_module,
        )  # fmt: skip
        while True:
            store = collect(options, load=load_round_policy)
            left = quota - real_steps(store)
            if left < limit:
                return store
            assert options.episodes is not None
            options = replace(options, episodes=options.episodes + left // limit)

    def _policies(self, place: Round) -> tuple[str, ...]:
        """Return who records: the agent so far, and informed exploration in the first rounds."""
        predictor, agent = self._predictor_before(place), self._agent_before(place)
        played = self.config.policy if agent is None else (f"{AGENT}{agent}",)
        informed = predictor is not None and place.number < self.config.explore_rounds
        return (*played, f"{INFORMED}{predictor}") if informed else played

    def _predictor_before(self, place: Round) -> Path | None:
        return self.rounds[place.number - 1].predictor if place.number else self.config.init

    def _agent_before(self, place: Round) -> Path | None:
        return self.rounds[place.number - 1].agent if place.number else None

    def _require_rewards(self, place: Round, stores: Sequence[EpisodeStore]) -> None:
        if not any(episode.rewards.any() for store in stores for episode in store):
            raise UserError(
                f"no reward in the {sum(map(real_steps, stores)):,} real agent steps of {self.run.path / 'data'}: an "
                "agent cannot learn from them; start another --run with a --policy that reaches rewards (held, "
                "sticky-random, agent:NAME, or MODULE:FUNCTION of your own), or with a larger --budget"
            )

    def _errors(self, place: Round, newest: EpisodeStore) -> dict[str, Any] | None:
        """Return the errors of the predictor before on the newest data, which it has not seen; None: there is none."""
        file, predictor = place.folder / "errors.json", self._predictor_before(place)
        if predictor is None:
            return None
        if not file.exists():
            make_folder(place.folder)
            model = as_model(predictor, load(predictor), self.config.device)
            write_atomic(file, json.dumps(errors_on(model, newest, seed=self.config.seed)).encode())
        errors: dict[str, Any] = json.loads(read_file(file, self.run.path))
        return errors

    def _train_predictor(self, place: Round) -> None:
        config, before = self.config, self._predictor_before(place)
        initial: dict[str, Any] = {"model": config.model}
        if before is not None:
            predictor = load(before)
            initial = {"init": str(_weights_of(before)), "model": kind_of(predictor.config)}
            initial["view"] = view_of(predictor).name
        options = TrainConfig(
            data=tuple(earlier.data for earlier in self.rounds[: place.number + 1]), run=place.predictor,
            preset=config.preset, minutes=config.minutes, predict_rewards=True, seed=config.seed,
            device=config.device, import_module=config.import_module, **initial,
        )  # fmt: skip
        store = join(options.data)
        _done(train(options, store, make_config(options, store), self.console).exit_code)

    def _calibrate(self, place: Round) -> None:
        """Calibrate the heads on held-out episodes, on all if those have no reward, or not at all."""
        if place.calibration.exists():
            return
        store = self._data(place)
        _, held_out = split(store, test_fraction=0.1, seed=self.config.seed)
        model, calibration = as_model(place.predictor, load(place.predictor), self.config.device), Calibration()
        for judged in (held_out, store):
            with suppress(NoRewardsError):
                calibration = calibrate(model, judged, count=CALIBRATION_STEPS, seed=self.config.seed)
                break
        write_atomic(place.calibration, json.dumps(asdict(calibration)).encode())

    def _train_agent(self, place: Round) -> None:
        config, before = self.config, self._agent_before(place)
        options = AgentTrainConfig(
            env_id=config.env_id, preset=config.agent_preset, run=place.agent, steps=config.agent_steps,
            imagined=place.predictor, data=self.run.path / "data", max_steps=config.horizon, device=config.device,
            seed=derived_seed("agent of a round", config.seed, place.number), import_module=config.import_module,
        )  # fmt: skip
        dqn = self._dqn(make_dqn_config(options), first=before is None)
        predictor, store = load(place.predictor), self._data(place)
        imagination = self._imagination(place)

        def make_games(count: int) -> ImaginedVecEnv:
            return ImaginedVecEnv(
                predictor, store, games=count, seed=options.seed, horizon=config.horizon, device=config.device,
                imagination=imagination,
            )  # fmt: skip

        initial = None if before is None else load_agent(before)
        _done(
            train_agent(
                options, self.console, None, make_games, fingerprint(predictor), dqn, initial=initial, references=False
            ).exit_code
        )

    def _dqn(self, preset: DqnConfig, *, first: bool) -> DqnConfig:
        """Return the config of the DQN of a round: an evaluation before and after, and less exploration later."""
        return replace(
            preset,
            replay=min(preset.replay, max(self.config.agent_steps, preset.games)),
            learning_starts=min(preset.learning_starts, self.config.agent_steps // 10),
            epsilon_first=preset.epsilon_first if first else min(preset.epsilon_first, LATER_EPSILON),
            evaluations=1,
            evaluate_episodes=self.config.evaluate_episodes,
        )

    def _imagination(self, place: Round) -> ImaginationConfig:
        config = self.config
        values = json.loads(read_file(place.calibration, self.run.path))
        return ImaginationConfig(
            rewards=config.rewards, calibration=Calibration.from_dict(values), recent=config.recent,
            temperature=config.temperature, max_entropy=config.max_entropy,
        )  # fmt: skip

    def _data(self, place: Round) -> EpisodeStore:
        return join([earlier.data for earlier in self.rounds[: place.number + 1]])

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
        lines = [json.loads(line) for line in finished_lines(self._times)]
        chosen = [line for line in lines if (line["round"], line["part"]) == (place.number, part)]
        return {name: round(sum(line[name] for line in chosen), 1) for name in ("wall", "processor")}

    def _report(self) -> None:
        references = self._references() if self.config.references else None
        write_report(self.run, self.game.env_id, references, seed=self.config.seed)
        self.print(f"finished: {self.run.path / OF_A_RUN}; look at it: acvp agent evaluate --agent {self.run.path}")

    def _references(self) -> dict[str, Any]:
        """Play the best constant action and random play in the episodes of the last score."""
        config, limit = self.config, min(EVALUATION_STEPS, self.game.limit or EVALUATION_STEPS)
        seed = derived_seed("agent of a round", config.seed, config.rounds - 1)
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


def _weights_of(predictor: Path) -> Path:
    """Return the folder of a run's finished predictor, which does not know what it was trained on.

    What is held out changes as data are added, and `acvp train --init RUN` refuses episodes that were trained on.
    """
    finished = RunFolder(predictor).predictor
    return finished if finished.is_dir() else predictor


def _done(code: int) -> None:
    """Stop the loop where a part was stopped."""
    if code:
        raise PartStopped(code)


def real_steps(store: EpisodeStore) -> int:
    """Return the agent steps that a dataset has recorded."""
    return sum(entry.frames - 1 for entry in store.entries)


def _scores(store: EpisodeStore) -> list[float]:
    """Return the sum of rewards of every episode."""
    return [float(episode.rewards.sum()) for episode in store]


def errors_on(model: LoadedModel, store: EpisodeStore, *, seed: int) -> dict[str, Any]:
    """Return a model's mean squared error per channel at step 1 and later, beside copying the last frame, and outcomes.

    Errors are in pixel values 0..255 of the model's view, over windows spread evenly over the data.
    """
    context = model.predictor.context
    windows = Windows(
        store, Window(context, min(ERROR_STEPS, min(entry.frames for entry in store.entries) - 1)), model.view
    )
    batch = windows.batch(np.linspace(0, len(windows) - 1, min(ERROR_WINDOWS, len(windows))).astype(np.int64))
    given, true = batch.frames[:, :context], batch.frames[:, context:].astype(np.float64)
    errors: dict[str, Any] = {"windows": len(given), "squared_error": {}, "copy_last_frame": {}}
    with torch.inference_mode():
        for step, predicted in enumerate(model.look_ahead(given, batch.actions), 1):
            target = true[:, step - 1]
            seen = predicted.permute(0, 2, 3, 1).double().numpy()
            errors["squared_error"][str(step)] = float(((seen - target) ** 2).mean())
            errors["copy_last_frame"][str(step)] = float(((given[:, -1] - target) ** 2).mean())
    outcomes = measure_outcomes(
        model, store, count=OUTCOME_STEPS, seed=seed, batch_size=32, progress=lambda done, total: None
    )
    kept = ("balanced_accuracy", "area_under_curve", "calibration_error")
    return errors | {
        kind: {name: outcomes[kind][name] for name in kept} for kind in ("reward", "termination") if kind in outcomes
    }


def load_round_policy(name: str) -> Policy:
    """Return informed exploration by a predictor, or any other policy."""
    if not name.startswith(INFORMED):
        return load_any_policy(name)
    predictor = load(Path(name.removeprefix(INFORMED)))

    def policy(action_meanings: tuple[str, ...], rng: np.random.Generator) -> Player:
        return InformedPlayer(predictor, int(rng.integers(2**31)))

    return policy


class InformedPlayer:
    """Plays one episode by informed exploration alone."""

    def __init__(self, predictor: Any, seed: int) -> None:
        self._frame: NDArray[np.uint8] | None = None
        self._stack: FrameStack | None = None
        self._strategy = InformedExploration.from_predictor(
            predictor, seed=seed, screens=lambda: np.asarray(self._frame)[None]
        )

    def __call__(self, frame: NDArray[np.uint8]) -> int:
        """Return the action whose predicted frame was visited least."""
        return int(self._choose(frame, 1.0))

    def observe(self, frame: NDArray[np.uint8]) -> None:
        """Remember a frame after which a random action is taken."""
        self._choose(frame, 0.0)

    def _choose(self, frame: NDArray[np.uint8], epsilon: float) -> int:
        self._frame, seen = frame, agent_view(frame[None])
        if self._stack is None:
            self._stack = FrameStack(1, 4)
            self._stack.begin(seen[:, None])
        else:
            self._stack.add(seen)
        return int(self._strategy.choose(self._stack.frames, np.zeros(1, np.int64), epsilon)[0])
