"""What decides how a predictor is trained: the options of `acvp train`, and the config that presets return.

Curriculum learning with multi-step prediction (§3.4): phases of 1, 3 and 5 predicted steps. Imports no torch, so that
the command line stays quick.
"""

from __future__ import annotations

import shlex
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field, fields, replace
from math import cos, isclose, pi
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal, cast

from tyro.conf import Suppress, arg

from acvp.errors import UserError
from acvp.options import AT_ONCE, LONGEST, MAX_MINUTES, require, require_above_zero, require_seed, require_share

if TYPE_CHECKING:
    from acvp.models import PredictorConfig

ModelName = Literal["pixel", "feedforward", "recurrent", "no-action", "mlp"]
PresetName = Literal["paper", "authors", "cpu", "smoke"]
ViewName = Literal["auto", "rgb", "gray84"]
DECAY_STEPS = 100_000
"""The paper multiplies the learning rate by 0.9 after so many iterations (appendix A)."""


@dataclass(frozen=True, kw_only=True)
class TrainConfig:
    """Train a predictor on a store; the same command again goes on after a stop."""

    data: Path
    """Folder of the store (acvp collect makes one)."""
    model: Annotated[str, arg(metavar="NAME")] = "feedforward"
    """Kind of predictor: pixel (classifies every pixel's color), feedforward or recurrent (the paper's networks),
    no-action or mlp (its baselines), or MODULE:CLASS for one of your own, with --import MODULE."""
    preset: PresetName = "cpu"
    """paper: §4 and appendix A; authors: their code's Adam; cpu: half an hour on two cores; smoke: seconds."""
    run: Path | None = None
    """Folder of the run; None: runs/{game}__{model}__{seed}__{time}."""
    view: ViewName = "auto"
    """Frames in color as recorded, or gray 84×84; auto: gray84 with cpu for the paper's networks of Atari."""
    config: Annotated[Path | None, arg(metavar="FILE", help_behavior_hint="(default: none)")] = None
    """Run folder, or its config.json, whose config is used instead of the preset's: model, view, seed, test fraction,
    network sizes, phases, optimizer. Options given beside it change it. What comes from the dataset is found again."""
    help_all: bool = False
    """Print every field of the training config as an option with its value, for --data, --model and --preset; then
    exit. Such an option, --phases.0.lr 3e-4 or --predictor.channels 64 96 128, changes one field."""
    knobs: Annotated[Mapping[str, Sequence[str]], Suppress] = field(default_factory=dict)
    """Fields of the training config to change: name, such as phases.0.lr, and value in words."""
    seed: int = 1
    """Weights, split and order of the data follow from it."""
    resume: Literal["auto", "never"] = "auto"
    """auto: go on from the newest checkpoint of --run if there is one; never: refuse a run that has begun."""
    test_fraction: float = 0.1
    """Share of the frames held out for the errors shown during training; whole episodes."""
    minutes: float | None = None
    """Wall-clock minutes for all phases together, in the preset's proportions; None: the preset's own lengths. More
    than a run was started with: the difference is added to it."""
    predict_rewards: bool = False
    """Learn reward signs and ends of episodes too; the pixel-exact predictor always does."""
    device: Literal["auto", "cpu", "cuda", "mps"] = "auto"
    """Where to compute."""
    devices: int = 1
    """Processes of this machine that share each batch (under torchrun: its own number)."""
    precision: Literal["32", "bf16"] = "32"
    """Floats of convolutions and products."""
    accumulate: int = 1
    """Parts in which each batch is computed, to save memory; the update stays the same."""
    compile: bool = False
    """Compile the networks first; on a CPU this needs a C++ compiler."""
    threads: int = 1
    """Threads that decode batches ahead of need."""
    save_minutes: float = 5.0
    """Wall-clock minutes between checkpoints; 0: one after every step."""
    keep: int = 2
    """Newest checkpoints kept, besides the best one."""
    import_module: Annotated[str | None, arg(name="import", metavar="MODULE", help_behavior_hint="(default: none)")] = (
        None
    )
    """Module to import first, for a predictor or a game of your own; do so only if you trust it."""

    def __post_init__(self) -> None:
        require(1, AT_ONCE, devices=self.devices, accumulate=self.accumulate, threads=self.threads)
        require(1, LONGEST, keep=self.keep)
        require(0, MAX_MINUTES, save_minutes=self.save_minutes)
        require_above_zero(MAX_MINUTES, minutes=self.minutes)
        require_share(test_fraction=self.test_fraction)
        require_seed(self.seed)

    def command(self, run: Path, minutes: float) -> str:
        """Return the command line that continues a run with these options until it has had so many minutes."""
        words = ["acvp", "train", "--run", str(run), "--minutes", f"{minutes:g}"]
        for option in fields(self):
            value = getattr(self, option.name)
            if option.name in ("run", "minutes", "resume", "knobs") or value == option.default:
                continue
            name = "import" if option.name == "import_module" else option.name.replace("_", "-")
            words += [f"--{name}", *([] if value is True else [str(value)])]
        for name, values in self.knobs.items():
            words += [f"--{name.replace('_', '-')}", *values]
        return shlex.join(words)


@dataclass(frozen=True, kw_only=True)
class OptimizerConfig:
    """Which optimizer; its learning rate comes from the phase."""

    name: Literal["graves-rmsprop", "adam", "adamw", "muon"] = "graves-rmsprop"
    """The paper's, the authors' code's, Adam with decoupled weight decay, or Muon with that for what is no matrix."""
    bias_rate: float = 1.0
    """Factor on the learning rate of biases (the authors' code: 2)."""
    weight_decay: float = 0.0
    """Decoupled weight decay of weights, not of biases (adamw and muon)."""

    def __post_init__(self) -> None:
        if self.bias_rate <= 0:
            raise UserError(f"bias_rate is {self.bias_rate}; it must be above 0")
        if self.weight_decay and self.name not in ("adamw", "muon"):
            raise UserError(f"weight_decay is {self.weight_decay}; {self.name} has none, adamw and muon have")


@dataclass(frozen=True, kw_only=True)
class Phase:
    """One objective of the curriculum; it ends with whichever of steps, minutes and patience comes first."""

    predict: int
    """Predicted frames K of a window."""
    context: int
    """Real frames before the first prediction."""
    batch_size: int
    """Windows of an update, over all processes together."""
    lr: float
    """Learning rate at the start, after the warm-up."""
    teacher_forcing: bool = False
    """Whether every prediction sees real frames only; else each prediction is input to the next."""
    steps: int | None = None
    """Updates after which the phase ends."""
    minutes: float | None = None
    """Wall-clock minutes after which the phase ends, evaluation and saving included."""
    patience: int | None = None
    """Held-out evaluations in a row without improvement after which the phase ends."""
    warmup: int = 0
    """Updates over which the learning rate rises linearly from zero."""
    decay: float = 1.0
    """Factor on the learning rate after every 100,000 updates of the phase."""
    event_share: float = 0.0
    """Share of the windows that are drawn from those with a reward or an end among the predicted steps; rewards above
    0, those below 0 and ends come equally often."""
    rare_share: float = 0.0
    """Share of the windows that are drawn by how rare the changes of the predicted steps are in the store."""
    reward_weight: float = 1.0
    """Factor on the losses of the reward and termination heads beside that of the frames."""
    anneal: bool = False
    """Whether the learning rate falls to zero along a cosine over the phase's steps or minutes."""

    def __post_init__(self) -> None:
        for name in ("predict", "context", "batch_size", "lr", "decay", "reward_weight"):
            if getattr(self, name) <= 0:
                raise UserError(f"phase: {name} is {getattr(self, name)}; it must be above 0")
        ends = (self.steps, self.minutes, self.patience)
        if all(end is None for end in ends) or any(end is not None and end <= 0 for end in ends):
            raise UserError(f"phase: steps, minutes, patience are {ends}; at least one, above 0, must end the phase")
        if self.anneal and self.steps is None and self.minutes is None:
            raise UserError("phase: anneal needs steps or minutes to know where the phase ends")
        shares = (self.event_share, self.rare_share)
        if min(shares) < 0 or sum(shares) > 1:
            raise UserError(f"phase: event_share, rare_share are {shares}; each 0 or more, and together at most 1")
        if self.warmup < 0:
            raise UserError(f"phase: warmup is {self.warmup}; it must be 0 or more")

    def progress(self, steps: int, seconds: float) -> float:
        """Return the share of the phase that is over, 1 at its end; patience is not foreseen."""
        by_steps = steps / self.steps if self.steps else 0.0
        by_time = seconds / (60 * self.minutes) if self.minutes else 0.0
        return min(1.0, max(by_steps, by_time))

    def learning_rate(self, steps: int, seconds: float) -> float:
        """Return the learning rate of the update after ``steps`` updates and ``seconds`` of the phase."""
        rate = self.lr * self.decay ** (steps // DECAY_STEPS)
        if self.anneal:
            rate *= (1 + cos(pi * self.progress(steps, seconds))) / 2
        return rate * min(1.0, (steps + 1) / (self.warmup + 1))


@dataclass(frozen=True, kw_only=True)
class TrainingConfig:
    """All that decides what is learned, apart from the dataset: a preset, with what the command line changes in it."""

    name: str
    """Of the preset."""
    predictor: PredictorConfig
    """The network."""
    view: str
    """How it looks at frames: rgb or gray84."""
    optimizer: OptimizerConfig
    """Made anew for each phase."""
    phases: tuple[Phase, ...]
    """The curriculum."""
    seed: int = 1
    """Weights, split and order of the data follow from it."""
    test_fraction: float = 0.1
    """Share of the frames that is held out."""
    evaluate_every: int = 500
    """Updates of a phase between held-out evaluations; there is one more at its end."""
    windows: int = 32
    """Held-out windows."""
    horizons: tuple[int, ...] = (1, 10, 30)
    """Steps ahead at which the held-out error is taken."""

    def __post_init__(self) -> None:
        if not self.phases:
            raise UserError("phases: a training config needs at least one")
        if self.evaluate_every < 1 or self.windows < 1 or not self.horizons or min(self.horizons) < 1:
            raise UserError(
                f"evaluate_every {self.evaluate_every}, windows {self.windows}, horizons {self.horizons}: at least 1"
            )
        for phase in self.phases:
            if phase.context < self.predictor.context:
                raise UserError(f"phase: context {phase.context}, the predictor needs {self.predictor.context} frames")

    def to_dict(self) -> dict[str, Any]:
        """Return the config as JSON can hold it."""
        values, predictor = asdict(self), cast(Any, self.predictor)
        listed: dict[str, Any] = _listed(values | {"predictor": {"kind": predictor.kind} | values["predictor"]})
        return listed


def _listed(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _listed(each) for key, each in value.items()}
    return [_listed(each) for each in value] if isinstance(value, tuple | list) else value


def within_minutes(phases: tuple[Phase, ...], minutes: float) -> tuple[Phase, ...]:
    """Return phases that take these wall-clock minutes together, in proportion to the minutes they have or else steps.

    Other ends stay as they are: a phase still stops at its last step or for lack of improvement.
    """
    timed = all(phase.minutes for phase in phases)
    shares = [(phase.minutes if timed else phase.steps) or 1.0 for phase in phases]
    return tuple(
        replace(phase, minutes=minutes * share / sum(shares), steps=None if phase.anneal else phase.steps)
        for phase, share in zip(phases, shares, strict=True)
    )


def total_minutes(phases: tuple[Phase, ...]) -> float:
    """Return the wall-clock minutes of the phases that end by the clock."""
    return sum(phase.minutes or 0.0 for phase in phases)


def prolonged(before: tuple[Phase, ...], asked: tuple[Phase, ...]) -> tuple[Phase, ...] | None:
    """Return a run's phases, followed by those asked for in the minutes that it has not had; None: of another kind.

    A phase that is over stays as it was: what is added starts with a new optimizer and its own learning rates.
    """
    rounds, rest = divmod(len(before), len(asked))
    kinds = [replace(phase, steps=1, minutes=None) for phase in (*before, *asked)]
    if rest or kinds != kinds[-len(asked) :] * (rounds + 1):
        return None
    had, wanted = total_minutes(before), total_minutes(asked)
    if isclose(had, wanted, rel_tol=1e-6):
        return before
    if wanted < had:
        return None
    more = (wanted - had) / wanted
    return before + tuple(replace(phase, minutes=(phase.minutes or 0.0) * more) for phase in asked)
