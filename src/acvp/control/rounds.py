"""A round of `acvp agent learn`: where its parts are, and how each is made from those of the round before.

Every part can be stopped. If it is finished, making it again does nothing; otherwise it resumes.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import torch
from rich.console import Console

from acvp.agents.agent import load_agent
from acvp.agents.config import AgentTrainConfig
from acvp.agents.policies import load_any_policy
from acvp.agents.presets import DqnConfig, make_dqn_config
from acvp.agents.run import train_agent
from acvp.control.config import LearnConfig
from acvp.control.imagination import ImaginationConfig
from acvp.control.informed import InformedPlayer
from acvp.control.learning import ImaginedVecEnv
from acvp.data.collect import CollectConfig, collect
from acvp.data.merge import join, split
from acvp.data.policies import AGENT, Player, Policy
from acvp.data.store import EpisodeStore
from acvp.data.windows import Window, Windows
from acvp.durable import make_folder, read_file, write_atomic
from acvp.envs import Game
from acvp.errors import UserError
from acvp.evaluation.outcomes import measure_outcomes
from acvp.loaded import LoadedModel, as_model, load, view_of
from acvp.models import fingerprint, kind_of
from acvp.models.calibration import calibrate
from acvp.models.layers import Calibration
from acvp.runs import RunFolder
from acvp.seeding import derived_seed
from acvp.training.config import TrainConfig
from acvp.training.presets import make_config
from acvp.training.run import train

INFORMED = "informed:"
"""Beginning of the name of informed exploration by a predictor, as a policy of a round."""
EPISODES = 4
"""Fewest episodes of a round: their limit is a part of the round's agent steps."""
ERROR_WINDOWS, ERROR_STEPS, OUTCOME_STEPS = 16, 10, 200
"""Windows of the newest data, steps ahead, and steps with and without rewards, on which the predictor before is
measured."""
DAMAGE = (LookupError, TypeError, ValueError, AttributeError, RecursionError)
"""What a JSON file raises whose contents are not as acvp writes them."""
LATER_EPSILON = 0.3
"""Share of exploring actions with which the DQN begins in all rounds but the first."""


class PartStopped(Exception):
    """A part of a round has ended by a signal or a divergence, with this exit code."""

    def __init__(self, code: int) -> None:
        super().__init__(f"exit code {code}")
        self.code = code


def episode_limit(config: LearnConfig, game: Game, quota: int) -> int:
    """Return the agent steps after which the episodes of a round are truncated."""
    limits = (quota // EPISODES, config.max_steps, game.limit)
    return max(1, min(limit for limit in limits if limit is not None))


def agent_seed(config: LearnConfig, number: int) -> int:
    """Return the seed of the agent of a round."""
    return derived_seed("agent of a round", config.seed, number)


@dataclass(frozen=True)
class Round:
    """One round of a run."""

    config: LearnConfig
    run: RunFolder
    game: Game
    console: Console
    earlier: tuple[Round, ...]
    """The rounds before."""

    @property
    def number(self) -> int:
        return len(self.earlier)

    @property
    def data(self) -> Path:
        return self.run.path / "data" / f"{self.number:02d}"

    @property
    def folder(self) -> Path:
        return self.run.path / "rounds" / f"{self.number:02d}"

    @property
    def predictor(self) -> Path:
        return self.folder / "predictor-run"

    @property
    def agent(self) -> Path:
        return self.folder / "agent-run"

    @property
    def calibration(self) -> Path:
        return self.folder / "calibration.json"

    def collect(self) -> EpisodeStore:
        """Record episodes until another one might exceed the part of the budget that may be used by now."""
        config = self.config
        used = sum(real_steps(EpisodeStore(earlier.data)) for earlier in self.earlier)
        quota = config.budget * (self.number + 1) // config.rounds - used
        limit = episode_limit(config, self.game, quota)
        options = CollectConfig(
            env_id=config.env_id, out=self.data, policy=self._policies(), epsilon=(config.epsilon,),
            episodes=quota // limit, max_steps=limit, seed=derived_seed("round", config.seed, self.number),
            import_module=config.import_module,
        )  # fmt: skip
        while True:
            store = collect(options, load=partial(load_round_policy, self.run.path))
            left = quota - real_steps(store)
            if left < limit:
                return store
            assert options.episodes is not None
            options = replace(options, episodes=options.episodes + left // limit)

    def _policies(self) -> tuple[str, ...]:
        """Return who records: the agent so far, and informed exploration in the first rounds."""
        predictor, agent = (
            self._relative(path) if path is not None and self.earlier else path
            for path in (self._predictor_before, self._agent_before)
        )
        played = self.config.policy if agent is None else (f"{AGENT}{agent}",)
        informed = predictor is not None and self.number < self.config.explore_rounds
        return (*played, f"{INFORMED}{predictor}") if informed else played

    def _relative(self, path: Path) -> Path:
        """Return the place of what the rounds make in the run folder, which may be moved before a resume."""
        return path.relative_to(self.run.path)

    @property
    def _predictor_before(self) -> Path | None:
        return self.earlier[-1].predictor if self.earlier else self.config.init

    @property
    def _agent_before(self) -> Path | None:
        return self.earlier[-1].agent if self.earlier else None

    def require_rewards(self, stores: Sequence[EpisodeStore]) -> None:
        """Refuse to continue without any reward in the data so far."""
        if not any(episode.rewards.any() for store in stores for episode in store):
            raise UserError(
                f"no reward in the {sum(map(real_steps, stores)):,} real agent steps of {self.run.path / 'data'}: an "
                "agent cannot learn from them; start another --run with a --policy that reaches rewards (held, "
                "sticky-random, agent:NAME, or MODULE:FUNCTION of your own), or with a larger --budget"
            )

    def errors(self, newest: EpisodeStore) -> dict[str, Any] | None:
        """Return the errors of the predictor before on the newest data, which it has not seen; None: there is none."""
        file, predictor = self.folder / "errors.json", self._predictor_before
        if predictor is None:
            return None
        if not file.exists():
            make_folder(self.folder)
            model = as_model(predictor, load(predictor), self.config.device)
            write_atomic(file, json.dumps(errors_on(model, newest, seed=self.config.seed)).encode())
        errors: dict[str, Any] = self._read(file, dict)
        return errors

    def train_predictor(self) -> None:
        """Train the predictor on all data so far, from the weights of the one before."""
        config, before = self.config, self._predictor_before
        initial: dict[str, Any] = {"model": config.model}
        if before is not None:
            predictor = load(before)
            initial = {"init": str(_weights_of(before)), "model": kind_of(predictor.config)}
            initial["view"] = view_of(predictor).name
        options = TrainConfig(
            data=self._all_data, run=self.predictor, preset=config.preset, minutes=config.minutes,
            predict_rewards=True, seed=config.seed, device=config.device, import_module=config.import_module,
            **initial,
        )  # fmt: skip
        store = join(options.data)
        result = train(options, store, make_config(options, store), self.console, advise=False)
        _require_finished(result.exit_code)

    def calibrate(self) -> None:
        """Calibrate the heads on held-out episodes, on all if those have no reward, or not at all.

        Without thresholds: an agent learns from expected rewards, and a false end of an episode would cost it returns.
        """
        if self.calibration.exists():
            return
        store = join(self._all_data)
        _, held_out = split(store, test_fraction=0.1, seed=self.config.seed)
        model, calibration = as_model(self.predictor, load(self.predictor), self.config.device), Calibration()
        for judged in (held_out, store):
            if any(episode.rewards.any() for episode in judged):
                calibration = calibrate(model.predictor, model.view, judged, seed=self.config.seed, thresholds=False)
                break
        write_atomic(self.calibration, json.dumps(asdict(calibration)).encode())

    def train_agent(self) -> None:
        """Train the agent inside the predictor, from the weights of the one before."""
        config, before = self.config, self._agent_before
        options = AgentTrainConfig(
            env_id=config.env_id, preset=config.agent_preset, run=self.agent, steps=config.agent_steps,
            imagined=self._relative(self.predictor), data=Path("data"), max_steps=config.horizon, device=config.device,
            seed=agent_seed(config, self.number), import_module=config.import_module,
        )  # fmt: skip
        dqn = self._dqn(make_dqn_config(options), first=before is None)
        predictor, store = load(self.predictor), join(self._all_data)
        imagination = self._imagination()

        def make_games(count: int) -> ImaginedVecEnv:
            return ImaginedVecEnv(
                predictor, store, games=count, seed=options.seed, horizon=config.horizon, device=config.device,
                imagination=imagination,
            )  # fmt: skip

        initial = None if before is None else load_agent(before)
        _require_finished(
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

    def _imagination(self) -> ImaginationConfig:
        config = self.config
        return ImaginationConfig(
            rewards=config.rewards, calibration=self._read(self.calibration, Calibration.from_dict),
            recent=config.recent, temperature=config.temperature, max_entropy=config.max_entropy,
        )  # fmt: skip

    def _read(self, file: Path, build: Callable[[Any], Any]) -> Any:
        """Return what is built from a JSON file of the run; UserError if it is damaged."""
        try:
            return build(json.loads(read_file(file, self.run.path)))
        except OSError as error:
            raise UserError(f"{file}: cannot be read ({error.strerror})") from error
        except DAMAGE as error:
            raise UserError(f"{file}: damaged ({error}); delete it, and run the same command again") from error

    @property
    def _all_data(self) -> tuple[Path, ...]:
        """The datasets so far."""
        return (*(earlier.data for earlier in self.earlier), self.data)


def _weights_of(predictor: Path) -> Path:
    """Return the folder of a run's finished predictor, which does not know what it was trained on.

    Earlier episodes stay held out as data are added, unless a new one of under 32 frames shows that two of them are
    duplicates; `acvp train --init RUN` would refuse that.
    """
    finished = RunFolder(predictor).predictor
    return finished if finished.is_dir() else predictor


def _require_finished(code: int) -> None:
    """Stop the loop where a part was stopped."""
    if code:
        raise PartStopped(code)


def real_steps(store: EpisodeStore) -> int:
    """Return the agent steps that a dataset has recorded."""
    return sum(entry.frames - 1 for entry in store.entries)


def scores(store: EpisodeStore) -> list[float]:
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


def load_round_policy(run: Path, name: str) -> Policy:
    """Return informed exploration by a predictor, or any other policy; paths may begin at the run folder."""
    _, _, path = name.partition(":")
    path = str(run / path) if (run / path).is_dir() else path
    if name.startswith(AGENT):
        return load_any_policy(f"{AGENT}{path}")
    if not name.startswith(INFORMED):
        return load_any_policy(name)
    predictor = load(Path(path))

    def policy(action_meanings: tuple[str, ...], rng: np.random.Generator) -> Player:
        return InformedPlayer(predictor, int(rng.integers(2**31)))

    return policy
