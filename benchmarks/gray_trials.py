"""python -m benchmarks.gray_trials NAME…: what teaches the paper's gray network the controlled object on a CPU.

Every trial trains the same network on the same number of frames predicted, so trials compare what an update teaches
and not how busy the machine was. The judge is the controlled object: kept for 10, 30 and 100 steps, and counterfactual
accuracy; the squared error stands beside them. Lines are added to results/gray_trials.json; runs are kept and resumed.
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Annotated, Any, cast
from unittest.mock import patch

import numpy as np
import torch
import tyro
from rich.console import Console
from torch import Tensor, nn

from acvp.agents.agent import load_any_policy
from acvp.console import stages
from acvp.data.collect import CollectConfig, collect
from acvp.data.policies import Player, sticky_random_policy
from acvp.data.store import EpisodeStore
from acvp.evaluation.config import CounterfactualConfig, EvaluateConfig
from acvp.evaluation.counterfactual import counterfactual_runs
from acvp.evaluation.run import evaluate_runs
from acvp.models import FeedforwardConfig, Predictor, build_predictor
from acvp.models.networks import ENCODED_BOUND
from acvp.models.predictor import TrainingBatch
from acvp.runs import machine
from acvp.training.config import TrainConfig, TrainingConfig
from acvp.training.presets import make_config
from acvp.training.run import train
from acvp.training.trainer import Trainer
from benchmarks.provenance import RESULTS, commit

FRAMES, TEST_FRAMES = 100_000, 25_000
EPSILON = 0.3
JUDGED = (1, 10, 30, 100)
CHANGE_WEIGHT = 10.0
"""Weight of a pixel that changes, beside 1 of all others."""
AVERAGED = 0.999
"""Share of the mean_and_error weights that an update keeps."""


@dataclass(frozen=True, kw_only=True)
class Trial:
    """A change of the preset `cpu`."""

    data: str = "agent"
    """Policy that recorded the training data: agent, sticky-random or mixed."""
    change: Callable[[TrainingConfig], TrainingConfig] = lambda config: config
    patches: dict[str, Any] = field(default_factory=dict[str, Any])
    """What training uses in place of the product's own, by its name."""


@dataclass(frozen=True, kw_only=True)
class TrialsConfig:
    """Trials of training configs for the gray feedforward network."""

    names: Annotated[tuple[str, ...], tyro.conf.Positional]
    """Which trials; see TRIALS in benchmarks/gray_trials.py."""
    game: str = "freeway"
    predicted: int = 72_000
    """Frames that each trial predicts in training, over all phases."""
    windows: int = 100
    """Test windows, driven by the agent at ε = 0.3."""
    home: Path = Path("stores-and-runs")
    """Folder for datasets and runs."""
    seed: int = 1


def phase_one(training: TrainingConfig, **changes: Any) -> TrainingConfig:
    """Return a config whose first phase is changed."""
    return replace(training, phases=(replace(training.phases[0], **changes), *training.phases[1:]))


def one_step_only(training: TrainingConfig) -> TrainingConfig:
    """Return the first phase alone."""
    return replace(training, phases=training.phases[:1])


def shared_action_only(config: FeedforwardConfig, generator: torch.Generator | None = None) -> nn.Module:
    """Build the network with a W^a that starts at 1 ± 0.1 and with appendix A's U(−1, 1) for W^enc."""
    predictor = build_predictor(config, generator)
    encoded = predictor.get_submodule("transform.encoded")
    assert isinstance(encoded, nn.Linear)
    with torch.no_grad():
        encoded.weight.uniform_(-ENCODED_BOUND, ENCODED_BOUND, generator=generator)
    return predictor


def weighted_loss(predictor: Predictor, batch: TrainingBatch) -> tuple[Tensor, dict[str, Tensor]]:
    """Return half the squared error in which pixels that change between two frames count CHANGE_WEIGHT times."""
    steps = batch.predict
    predictions = predictor(batch.frames, batch.actions, predict=steps, teacher_forcing=batch.teacher_forcing)
    target, before = batch.frames[:, -steps:], batch.frames[:, -steps - 1 : -1]
    weight = torch.where(target != before, CHANGE_WEIGHT, 1.0)
    return (weight * (predictions.frames - target).square()).sum() / (2 * len(target) * steps), {}


class AveragingTrainer(Trainer):
    """Training whose finished predictor has an exponential moving average of the weights."""

    def fit(self) -> None:
        """Train through all phases, then take on the mean_and_error weights."""
        self.average = [weight.detach().clone() for weight in self.predictor.parameters()]
        super().fit()
        with torch.no_grad():
            for weight, average in zip(self.predictor.parameters(), self.average, strict=True):
                weight.copy_(average)
        self.evaluate()

    def update(self, *arguments: Any) -> Any:
        """Do one update and average."""
        report = super().update(*arguments)
        kept = min(AVERAGED, (1 + self.state.step) / (10 + self.state.step))
        torch._foreach_lerp_(self.average, [weight.detach() for weight in self.predictor.parameters()], 1 - kept)
        return report


TRIALS: dict[str, Trial] = {
    "cpu": Trial(),
    "sticky-random data": Trial(data="sticky-random"),
    "mixed data": Trial(data="mixed"),
    "batch 8": Trial(change=lambda r: phase_one(r, batch_size=8, lr=5e-4)),
    "batch 8, lr 1e-3": Trial(change=lambda r: phase_one(r, batch_size=8)),
    "batch 16": Trial(change=lambda r: phase_one(r, batch_size=16)),
    "lr 2e-3": Trial(change=lambda r: phase_one(r, lr=2e-3)),
    "1-step only": Trial(change=one_step_only),
    "1-step only, batch 8": Trial(change=lambda r: one_step_only(phase_one(r, batch_size=8, lr=5e-4))),
    "rare windows": Trial(change=lambda r: phase_one(r, priority_share=0.5)),
    "averaged weights": Trial(patches={"acvp.training.run.Trainer": AveragingTrainer}),
    "moving pixels ×10": Trial(patches={"acvp.models.predictor.Predictor.loss": weighted_loss}),
    "moving pixels ×10, batch 8": Trial(
        change=lambda r: phase_one(r, batch_size=8, lr=5e-4),
        patches={"acvp.models.predictor.Predictor.loss": weighted_loss},
    ),
    "start paper": Trial(change=lambda r: replace(r, predictor=replace(cast(Any, r.predictor), start="paper"))),
    "start: W^a shared only": Trial(patches={"acvp.training.run.build_predictor": shared_action_only}),
}


def main(config: TrialsConfig) -> None:
    """Run the trials named."""
    for name in config.names:
        line = measure(name, TRIALS[name], config)
        print(json.dumps(line), flush=True)
        file = RESULTS / "gray_trials.json"
        lines = json.loads(file.read_text()) if file.exists() else []
        file.write_text(json.dumps([*lines, line], indent=1) + "\n")


def measure(name: str, trial: Trial, config: TrialsConfig) -> dict[str, Any]:
    """Train, look ahead on the agent's test episodes, and return the trial's line."""
    data, test = record(config, trial.data, FRAMES, seed=1), record(config, "agent", TEST_FRAMES, seed=2)
    folder = "".join(letter if letter.isalnum() else "-" for letter in name)
    run = config.home / "runs" / f"{config.game}-gray-{folder}-{config.predicted}"
    options = TrainConfig(data=(data,), model="feedforward", preset="cpu", run=run, seed=config.seed)
    store = EpisodeStore(data)
    training = budgeted(trial.change(make_config(options, store)), config.predicted)
    started, spent = time.monotonic(), time.process_time()
    with patched(trial.patches):
        code = train(options, store, training, Console(stderr=True, highlight=False)).exit_code
    if code:
        raise SystemExit(code)
    seconds, core_seconds = time.monotonic() - started, time.process_time() - spent
    return {
        "trial": name,
        "game": config.game,
        "data": trial.data,
        "predicted": config.predicted,
        "updates": [phase.steps for phase in training.phases],
        **judge(run, data, test, config),
        "threads": torch.get_num_threads(),
        "core_minutes": round(core_seconds / 60, 1),
        "minutes": round(seconds / 60, 1),
        "seed": config.seed,
        "commit": commit(),
        "machine": machine(),
    }


def budgeted(training: TrainingConfig, predicted: int) -> TrainingConfig:
    """Return phases of as many steps as predict so many frames together: two thirds in the first of two."""
    shares = (1.0,) if len(training.phases) == 1 else (2 / 3, 1 / 3)
    phases = tuple(
        replace(phase, minutes=None, steps=round(predicted * share / (phase.batch_size * phase.predict)))
        for phase, share in zip(training.phases, shares, strict=True)
    )
    return replace(training, phases=phases, evaluate_every=10**6)


def record(config: TrialsConfig, policy: str, frames: int, *, seed: int) -> Path:
    """Record a dataset, or take the one that is there."""
    out = config.home / "stores" / f"{config.game}-{policy}{'' if seed == 1 else '-test'}"
    named = {"agent": f"agent:{config.game}", "mixed": f"mixed:{config.game}"}.get(policy, policy)
    options = CollectConfig(env_id=config.game, out=out, policy=(named,), epsilon=(EPSILON,), frames=frames, seed=seed)
    collect(options, lambda *done: None, mixed_policy)
    return out


def mixed_policy(name: str) -> Callable[[tuple[str, ...], np.random.Generator], Player]:
    """Return a policy by its name; `mixed:GAME` is the packaged agent in half of the episodes, else sticky-random."""
    if not name.startswith("mixed:"):
        return load_any_policy(name)
    agent = load_any_policy(f"agent:{name.removeprefix('mixed:')}")
    return lambda meanings, rng: (agent if rng.random() < 0.5 else sticky_random_policy)(meanings, rng)


@contextmanager
def patched(patches: dict[str, Any]) -> Iterator[None]:
    """Put a trial's own parts in place of the product's."""
    with ExitStack() as stack:
        for name, part in patches.items():
            stack.enter_context(patch(name, part))
        yield


def judge(run: Path, data: Path, test: Path, config: TrialsConfig) -> dict[str, Any]:
    """Return error, object kept and found by steps ahead, and counterfactual accuracy."""
    shared: dict[str, Any] = {"predictors": (run,), "data": (test,), "trained_on": data, "out": run / "judged"}
    with stages() as stage:
        curves = evaluate_runs(EvaluateConfig(**shared, windows=config.windows, shuffled_windows=0, videos=0), stage)[
            "curves"
        ]
        branches = counterfactual_runs(CounterfactualConfig(**shared, states=config.windows), stage)
    scores: dict[str, Any] = {}
    for metric in ("error", "object_kept", "object_found"):
        scores[metric] = {
            name: {str(k): round(curve[metric]["mean"][k - 1], 3) for k in JUDGED}
            for name, curve in curves.items()
            if metric in curve
        }
    accuracy = {name: result["accuracy"]["mean"] for name, result in branches["runs"].items()}
    return scores | {"counterfactual": accuracy, "chance": branches["chance"]["mean"]}


if __name__ == "__main__":
    main(tyro.cli(TrialsConfig, description=__doc__))
