"""python -m benchmarks.gray_trials NAME…: what teaches the paper's gray network the controlled object on a CPU.

Every trial trains the same network for the same core-seconds, given as updates of the preset `cpu` (32 windows, one
predicted step): how many updates a trial gets follows from costs that are timed in turns with that update,
so trials compare configs and not how busy the machine was. The judge is the controlled object: kept for 10 and 30
steps, and counterfactual accuracy; the squared error stands beside them. Lines are added to results/gray_trials.json;
runs are kept and resumed.
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from statistics import median
from typing import Annotated, Any, Literal, cast
from unittest.mock import patch

import torch
import tyro
from rich.console import Console
from torch import Tensor, nn

from acvp.agents.policies import load_any_policy
from acvp.console import stages
from acvp.data.collect import CollectConfig, collect
from acvp.data.merge import Criteria, copy_filtered
from acvp.data.store import EpisodeStore
from acvp.evaluation.config import CounterfactualConfig, EvaluateConfig
from acvp.evaluation.counterfactual import counterfactual_runs
from acvp.evaluation.run import evaluate_runs
from acvp.models import FeedforwardConfig, Predictor, build_predictor
from acvp.models.networks import ENCODED_BOUND
from acvp.models.predictor import TrainingBatch
from acvp.runs import machine
from acvp.training.config import OptimizerConfig, PresetName, TrainConfig, TrainingConfig
from acvp.training.optimizers import make_optimizer
from acvp.training.presets import make_config
from acvp.training.run import train
from acvp.training.trainer import Trainer
from benchmarks.provenance import RESULTS, commit

FRAMES, TEST_FRAMES = 150_000, 25_000
MIX_POLICIES, MIX_EPSILON = ("agent:{game}", "agent:{game}", "held", "sticky-random"), (0.05, 0.3, 0.1, 0.3)
"""Who recorded the training data."""
JUDGED = (1, 10, 30, 100)
CHANGE_WEIGHT = 10.0
"""Weight of a pixel that changes, beside 1 of all others."""
AVERAGED = 0.999
"""Share of the averaged weights that an update keeps."""
TURNS = 7
"""How often the cost of an update is timed."""

Data = Literal["mixed", "agent", "sticky-random"]


@dataclass(frozen=True, kw_only=True)
class Trial:
    """A change of a preset."""

    data: Data = "mixed"
    """Training data: the whole mix, or only its episodes of the agent, or of sticky-random play."""
    preset: PresetName = "cpu"
    change: Callable[[TrainingConfig], TrainingConfig] = lambda config: config
    first_share: float = 2 / 3
    """Of the core-seconds, for the first of two phases."""
    patches: dict[str, Any] = field(default_factory=dict[str, Any])
    """What training uses in place of the product's own, by its name."""


@dataclass(frozen=True, kw_only=True)
class TrialsConfig:
    """Trials of training configs for the gray feedforward network."""

    names: Annotated[tuple[str, ...], tyro.conf.Positional]
    """Which trials; see TRIALS in benchmarks/gray_trials.py."""
    game: str = "freeway"
    updates: int = 1_000
    """Core-seconds of each trial, in updates of the preset cpu's first phase."""
    windows: int = 100
    """Test windows, of the agent at ε = 0.3, and states of counterfactual futures."""
    horizon: int = 30
    """Steps looked ahead."""
    data: Path | None = None
    """Training data recorded before; None: record it."""
    home: Path = Path("stores-and-runs")
    """Folder for datasets and runs."""
    out: Path = RESULTS / "gray_trials.json"
    """File to which the lines are added."""
    seed: int = 1


def phase_one(training: TrainingConfig, **changes: Any) -> TrainingConfig:
    """Return a config whose first phase is changed."""
    return replace(training, phases=(replace(training.phases[0], **changes), *training.phases[1:]))


def one_step_only(training: TrainingConfig) -> TrainingConfig:
    """Return the first phase alone."""
    return replace(training, phases=training.phases[:1])


def several_steps(training: TrainingConfig, steps: int) -> TrainingConfig:
    """Return a config all of whose phases predict several steps, with the second phase's batches."""
    return replace(training, phases=tuple(replace(phase, predict=steps, batch_size=8) for phase in training.phases))


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
        """Train through all phases, then take on the averaged weights."""
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


BATCH_8: Callable[[TrainingConfig], TrainingConfig] = lambda r: phase_one(r, batch_size=8, lr=5e-4)  # noqa: E731
WEIGHTED = {"acvp.models.predictor.Predictor.loss": weighted_loss}
AVERAGING = {"acvp.training.run.Trainer": AveragingTrainer}

TRIALS: dict[str, Trial] = {
    "cpu": Trial(),
    "agent data": Trial(data="agent"),
    "sticky-random data": Trial(data="sticky-random"),
    "batch 16": Trial(change=lambda r: phase_one(r, batch_size=16)),
    "batch 8": Trial(change=BATCH_8),
    "batch 8, lr 1e-3": Trial(change=lambda r: phase_one(r, batch_size=8)),
    "batch 4": Trial(change=lambda r: phase_one(r, batch_size=4, lr=5e-4)),
    "lr 3e-4": Trial(change=lambda r: phase_one(r, lr=3e-4)),
    "lr 2e-3": Trial(change=lambda r: phase_one(r, lr=2e-3)),
    "1-step only": Trial(change=one_step_only),
    "1-step only, batch 8": Trial(change=lambda r: one_step_only(BATCH_8(r))),
    "longer 1-step": Trial(first_share=5 / 6),
    "windows by priority": Trial(change=lambda r: phase_one(r, priority_share=0.5)),
    "averaged weights": Trial(patches=AVERAGING),
    "changed pixels ×10": Trial(patches=WEIGHTED),
    "changed pixels ×10, batch 8": Trial(change=BATCH_8, patches=WEIGHTED),
    "changed pixels ×10, batch 8, averaged": Trial(change=BATCH_8, patches=WEIGHTED | AVERAGING),
    "start paper": Trial(change=lambda r: replace(r, predictor=replace(cast(Any, r.predictor), start="paper"))),
    "start: W^a shared only": Trial(patches={"acvp.training.run.build_predictor": shared_action_only}),
    "Graves RMSProp (paper)": Trial(preset="paper"),
    "Adam 1e-4 (authors)": Trial(preset="authors"),
    "direct 3 steps": Trial(change=lambda r: phase_one(r, predict=3, batch_size=8)),
    "direct 5 steps": Trial(change=lambda r: several_steps(r, 5)),
}


def main(config: TrialsConfig) -> None:
    """Run the trials named."""
    for name in config.names:
        line = measure(name, TRIALS[name], config)
        print(json.dumps(line), flush=True)
        lines = json.loads(config.out.read_text()) if config.out.exists() else []
        config.out.write_text(json.dumps([*lines, line], indent=1) + "\n")


def measure(name: str, trial: Trial, config: TrialsConfig) -> dict[str, Any]:
    """Train, look ahead on the agent's test episodes, and return the trial's line."""
    at, before = commit(), time.monotonic()
    data, test = training_data(config, trial.data), test_data(config)
    run = config.home / "runs" / f"{config.game}-{_plain(name)}-{config.updates}-{config.seed}"
    options = TrainConfig(data=(data,), model="feedforward", preset=trial.preset, view="gray84", run=run)
    options = replace(options, seed=config.seed, device="cpu")
    store = EpisodeStore(data)
    training = budgeted(trial.change(make_config(options, store)), trial, config)
    spent = time.process_time()
    with patched(trial.patches):
        code = train(options, store, training, Console(stderr=True, highlight=False)).exit_code
    if code:
        raise SystemExit(code)
    core_seconds = time.process_time() - spent
    return {
        "trial": name,
        "game": config.game,
        "data": f"{trial.data}: {store.frames} frames",
        "budget": config.updates,
        "updates": [phase.steps for phase in training.phases],
        "windows": sum((phase.steps or 0) * phase.batch_size for phase in training.phases),
        **judge(run, data, test, config),
        "training_core_seconds": round(core_seconds),
        "minutes": round((time.monotonic() - before) / 60, 1),
        "threads": torch.get_num_threads(),
        "seed": config.seed,
        "command": f"python -m benchmarks.gray_trials {json.dumps(name)} --updates {config.updates}",
        "commit": at,
        "machine": machine(),
    }


def _plain(name: str) -> str:
    return "".join(letter if letter.isalnum() else "-" for letter in name)


def budgeted(training: TrainingConfig, trial: Trial, config: TrialsConfig) -> TrainingConfig:
    """Return phases of as many steps as take the core-seconds of the budget together."""
    shares = (1.0,) if len(training.phases) == 1 else (trial.first_share, 1 - trial.first_share)
    phases = []
    for phase, share in zip(training.phases, shares, strict=True):
        cost = relative_cost(config, training, phase.batch_size, phase.predict)
        phases.append(replace(phase, minutes=None, steps=round(config.updates * share / cost)))
    return replace(training, phases=tuple(phases), evaluate_every=10**6)


def relative_cost(config: TrialsConfig, training: TrainingConfig, batch: int, predict: int) -> float:
    """Return the core-seconds of an update, in updates of 32 windows with one predicted step by Adam.

    Timed once, in turns with such an update, and kept beside the runs, so that a resumed trial has the same steps.
    """
    file, key = config.home / "costs.json", f"{training.optimizer.name}, batch {batch}, {predict} steps"
    costs: dict[str, float] = json.loads(file.read_text()) if file.exists() else {}
    if key not in costs:
        network = replace(cast(FeedforwardConfig, training.predictor), start="shared")
        reference = update_of(network, OptimizerConfig(name="adam"), 32, 1)
        update = update_of(network, training.optimizer, batch, predict)
        update(), reference()  # the first ones allocate
        costs[key] = median(update() / reference() for _ in range(TURNS))
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(json.dumps(costs, indent=1) + "\n")
    return costs[key]


def update_of(network: FeedforwardConfig, options: OptimizerConfig, size: int, predict: int) -> Callable[[], float]:
    """Return a function that does an update on random frames and returns its core-seconds."""
    predictor = build_predictor(network)
    optimizer = make_optimizer(options, predictor)
    height, width, channels = network.frame
    frames = torch.randn(size, network.context + predict, channels, height, width)
    actions = torch.zeros(size, network.context + predict - 1, dtype=torch.int64)
    nothing = torch.zeros(actions.shape)
    batch = TrainingBatch(frames, actions, nothing, nothing, predict=predict)

    def update() -> float:
        began = time.process_time()
        torch.autograd.backward(predictor.loss(batch)[0])
        optimizer.step()
        optimizer.zero_grad(set_to_none=True)
        return time.process_time() - began

    return update


def training_data(config: TrialsConfig, kind: Data) -> Path:
    """Return the mix, or a copy of the episodes of one policy; what is not there is recorded."""
    mix = config.data or recorded(config, "mix", FRAMES, 11, *_mix(config.game))
    if kind == "mixed":
        return mix
    policy = f"agent:{config.game}" if kind == "agent" else kind
    out = config.home / "stores" / f"{config.game}-{kind}"
    copy_filtered(EpisodeStore(mix), Criteria(policies=(policy,)), out, lambda done, total: None)
    return out


def _mix(game: str) -> tuple[tuple[str, ...], tuple[float, ...]]:
    return tuple(name.format(game=game) for name in MIX_POLICIES), MIX_EPSILON


def test_data(config: TrialsConfig) -> Path:
    """Return episodes of the agent at ε = 0.3 that no trial is trained on."""
    return recorded(config, "test", TEST_FRAMES, 1001, (f"agent:{config.game}",), (0.3,))


def recorded(
    config: TrialsConfig, name: str, frames: int, seed: int, policy: tuple[str, ...], epsilon: tuple[float, ...]
) -> Path:
    """Record a dataset, or take the one that is there."""
    out = config.home / "stores" / f"{config.game}-{name}"
    options = CollectConfig(env_id=config.game, out=out, policy=policy, epsilon=epsilon, frames=frames, seed=seed)
    collect(options, lambda *done: None, load_any_policy)
    return out


@contextmanager
def patched(patches: dict[str, Any]) -> Iterator[None]:
    """Put a trial's own parts in place of the product's."""
    with ExitStack() as stack:
        for name, part in patches.items():
            stack.enter_context(patch(name, part))
        yield


def judge(run: Path, data: Path, test: Path, config: TrialsConfig) -> dict[str, Any]:
    """Return object kept and found and the error by steps ahead, and counterfactual accuracy, with 95 % bands."""
    shared: dict[str, Any] = {"predictors": (run,), "trained_on": data, "out": run / "judged", "device": "cpu"}
    looked = EvaluateConfig(
        **shared, data=(test,), horizon=config.horizon, windows=config.windows, shuffled_windows=0, videos=0
    )
    with stages() as stage:
        curves = evaluate_runs(looked, stage)["curves"]
        branches = counterfactual_runs(CounterfactualConfig(**shared, data=test, states=config.windows), stage)
    steps = [k for k in JUDGED if k <= config.horizon]
    names = {run.name: "trial", "copy-last-frame": "copy-last-frame"}
    scores: dict[str, Any] = {
        metric: {
            names[name]: {str(k): banded_at(curve[metric], k - 1) for k in steps}
            for name, curve in curves.items()
            if name in names and metric in curve
        }
        for metric in ("object_kept", "object_found", "error")
    }
    accuracy = branches["runs"][run.name]["accuracy"]
    return scores | {"counterfactual": banded_at(accuracy, 0), "chance": banded_at(branches["chance"], 0)}


def banded_at(curve: dict[str, Any], index: int) -> list[float | None]:
    """Return mean and both ends of the band at a step."""
    values = (curve[part][index] for part in ("mean", "low", "high"))
    return [None if value is None else round(value, 3) for value in values]


if __name__ == "__main__":
    main(tyro.cli(TrialsConfig, description=__doc__))
