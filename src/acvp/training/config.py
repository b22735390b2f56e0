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

from tyro.conf import FlagCreatePairsOff, Suppress, arg

from acvp.console import Device, Module, optional
from acvp.errors import (
    AT_ONCE,
    LONGEST,
    MAX_MINUTES,
    MOST,
    UserError,
    require,
    require_above_zero,
    require_device,
    require_seed,
    require_share,
)

if TYPE_CHECKING:
    from acvp.models import PredictorConfig

ModelName = Literal["pixel", "objects", "feedforward", "recurrent", "no-action", "mlp"]
PresetName = Literal["paper", "authors", "gpu", "cpu", "smoke"]
ViewName = Literal["auto", "rgb", "gray84"]
DECAY_STEPS = 100_000
"""The paper multiplies the learning rate by 0.9 after so many iterations (appendix A)."""


@dataclass(frozen=True, kw_only=True)
class TrainConfig:
    """Train a predictor on a dataset. If interrupted, run the same command again to resume."""

    data: Annotated[tuple[Path, ...], arg(metavar="DATASET …")]
    """Dataset folder, made by acvp collect. Several are used as one: they need the same frame size and actions."""
    model: Annotated[str, arg(metavar="NAME")] = "feedforward"
    """pixel: classifies the color of every pixel; objects: also predicts moving objects one by one.
    feedforward, recurrent: the paper's networks.
    no-action, mlp: the paper's baselines. MODULE:CLASS: your own, together with --import MODULE."""
    preset: PresetName = "cpu"
    """Hyperparameters. paper: §4 and appendix A; authors: Adam, as in the authors' code;
    gpu: larger batches, in bf16 and compiled on a GPU; cpu: half an hour on two cores; smoke: seconds, for a test."""
    run: Annotated[Path | None, optional("PATH", "runs/{game}__{model}__{seed}__{time}")] = None
    """Run folder: checkpoints, metrics and the trained predictor."""
    minutes: Annotated[float | None, optional("FLOAT", "as in the preset")] = None
    """Training time in wall-clock minutes, divided among the phases as in the preset.
    A run that was started with fewer minutes trains for the difference. --clock core counts processor time instead."""
    view: ViewName = "auto"
    """Frames that the network sees. rgb: color, as recorded; gray84: grayscale, 84×84 pixels.
    auto: gray84 for preset cpu with one of the paper's networks on Atari, else rgb."""
    config: Annotated[Path | None, optional("FILE", "the preset")] = None
    """Run folder or its config.json: start from its config instead of the preset's.
    It gives model, view, seed, test fraction, network sizes, phases and optimizer; other options override it."""
    init: Annotated[str | None, optional("PREDICTOR", "random weights")] = None
    """Predictor to start from: a run, a predictor folder, or a packaged name (freeway).
    The network and its initial weights are those of this predictor."""
    shares: Annotated[tuple[float, ...], optional("SHARE …", "by the number of windows")] = ()
    """Shares of the windows drawn from each of several datasets, such as 0.7 0.3; they count relative to their sum."""
    help_all: Annotated[bool, FlagCreatePairsOff] = False
    """Print every field of the training config as an option, with its value and meaning, and exit (needs --data).
    Such options change single fields: --phases.0.lr 3e-4 or --predictor.channels 64 96 128."""
    knobs: Annotated[Mapping[str, Sequence[str]], Suppress] = field(default_factory=dict)
    """Fields of the training config to change: name, such as phases.0.lr, and value in words."""
    seed: int = 1
    """Random seed of the initial weights, the train/test split and the order of the data."""
    resume: Literal["auto", "never"] = "auto"
    """auto: continue from the latest checkpoint in --run, if any; never: fail if --run has already started."""
    test_fraction: float = 0.1
    """Fraction of the frames held out for validation, in whole episodes."""
    predict_rewards: bool = False
    """Also train reward and termination heads, and one for lost lives if the game has lives.
    pixel and objects always have them."""
    device: Device = "auto"
    devices: int = 1
    """Number of GPUs or CPU processes for data-parallel training. torchrun sets it itself."""
    precision: Literal["auto", "32", "bf16"] = "auto"
    """Floating-point precision of convolutions and matrix products: 32-bit, or bfloat16 mixed precision.
    auto: bf16 for preset gpu on a GPU that has it, else 32."""
    accumulate: int = 1
    """Gradient-accumulation steps: more need less memory and give the same update."""
    compile: Literal["auto", "on", "off"] = "auto"
    """Compile the network with torch.compile; on a CPU this needs a C++ compiler. auto: on for preset gpu on a GPU."""
    threads: int = 1
    """Threads that decode and prefetch batches."""
    save_minutes: float = 5.0
    """Wall-clock minutes between checkpoints. 0: after every training step."""
    keep: int = 2
    """Number of latest checkpoints to keep, in addition to the best one."""
    import_module: Module = None

    def __post_init__(self) -> None:
        require(1, AT_ONCE, devices=self.devices, accumulate=self.accumulate, threads=self.threads)
        require(1, LONGEST, keep=self.keep)
        require(0, MAX_MINUTES, save_minutes=self.save_minutes)
        require_above_zero(MAX_MINUTES, minutes=self.minutes)
        require_share(test_fraction=self.test_fraction)
        require_seed(self.seed)
        require_device(self.device)
        require_shares(self.shares, self.data)

    def command(self, run: Path, minutes: float) -> str:
        """Return the command line that continues a run with these options until it has had so many minutes."""
        words = ["acvp", "train", "--run", str(run), "--minutes", f"{minutes:g}"]
        for option in fields(self):
            value = getattr(self, option.name)
            if option.name in ("run", "minutes", "resume", "knobs") or value == option.default:
                continue
            name = "import" if option.name == "import_module" else option.name.replace("_", "-")
            words += [f"--{name}", *_words(value)]
        for name, values in self.knobs.items():
            words += [f"--{name.replace('_', '-')}", *values]
        return shlex.join(words)


def require_shares(shares: Sequence[float], data: Sequence[Path]) -> None:
    """Raise UserError unless there are no shares, or one above 0 for each dataset."""
    for share in shares:
        require_above_zero(MOST, shares=share)
    if shares and len(shares) != len(data):
        raise UserError(f"--shares has {len(shares)} values for {len(data)} datasets: give one for each, or none")


def _words(value: Any) -> list[str]:
    """Return an option's value as the words of a command line."""
    if isinstance(value, tuple):
        return [str(item) for item in value]
    return [] if value is True else [str(value)]


@dataclass(frozen=True, kw_only=True)
class OptimizerConfig:
    """The optimizer. Each phase has its own learning rate."""

    name: Literal["graves-rmsprop", "adam", "adamw", "muon"] = "graves-rmsprop"
    """graves-rmsprop: the paper's; adam: the authors' code's; muon: Muon for matrices, AdamW for the rest."""
    bias_rate: float = 1.0
    """Learning-rate factor of biases. The authors' code uses 2."""
    weight_decay: float = 0.0
    """Decoupled weight decay of weights, not of biases (adamw and muon)."""

    def __post_init__(self) -> None:
        if self.bias_rate <= 0:
            raise UserError(f"bias_rate is {self.bias_rate}; it must be above 0")
        if self.weight_decay and self.name not in ("adamw", "muon"):
            raise UserError(f"weight_decay is {self.weight_decay}; {self.name} has none, adamw and muon have")


@dataclass(frozen=True, kw_only=True)
class Phase:
    """One phase of the curriculum. It ends at the first limit reached: steps, minutes or patience."""

    predict: int
    """Number K of predicted frames per window."""
    context: int
    """Real frames before the first prediction."""
    batch_size: int
    """Windows per update, over all processes."""
    lr: float
    """Learning rate at the start, after the warm-up."""
    teacher_forcing: bool = False
    """Whether every prediction sees real frames only; else each prediction is input to the next."""
    steps: int | None = None
    """Updates after which the phase ends."""
    minutes: float | None = None
    """Minutes after which the phase ends, evaluation and saving included; by the wall clock unless --clock is core."""
    patience: int | None = None
    """Held-out evaluations in a row without improvement after which the phase ends."""
    warmup: int = 0
    """Updates over which the learning rate rises linearly from zero."""
    decay: float = 1.0
    """Factor on the learning rate after every 100,000 updates of the phase."""
    event_share: float = 0.0
    """Fraction of the windows sampled from those with a reward or a termination in the predicted steps; positive
    rewards, negative rewards and terminations are sampled equally often."""
    priority_share: float = 0.0
    """Fraction of the windows sampled by how rare the changes in their predicted steps are in the dataset."""
    reward_weight: float = 1.0
    """Weight of the losses of the reward and termination heads, relative to the loss of the frames."""
    anneal: bool = False
    """Whether the learning rate falls to zero along a cosine over the phase's steps or minutes."""

    def __post_init__(self) -> None:
        for name in ("predict", "context", "batch_size", "lr", "decay", "reward_weight"):
            if getattr(self, name) <= 0:
                raise UserError(f"phase: {name} is {getattr(self, name)}; it must be above 0")
        limits = (self.steps, self.minutes, self.patience)
        if all(limit is None for limit in limits) or any(limit is not None and limit <= 0 for limit in limits):
            raise UserError(f"phase: steps, minutes, patience are {limits}; at least one, above 0, must end the phase")
        if self.anneal and self.steps is None and self.minutes is None:
            raise UserError("phase: anneal needs steps or minutes to know where the phase ends")
        shares = (self.event_share, self.priority_share)
        if min(shares) < 0 or sum(shares) > 1:
            raise UserError(f"phase: event_share, priority_share are {shares}; each 0 or more, and together at most 1")
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
    """Name of the preset."""
    predictor: PredictorConfig
    """The network."""
    view: str
    """Frames that the network sees: rgb or gray84."""
    optimizer: OptimizerConfig
    """The optimizer, created again for each phase."""
    phases: tuple[Phase, ...]
    """The curriculum."""
    seed: int = 1
    """Random seed of the initial weights, the train/test split and the order of the data."""
    test_fraction: float = 0.1
    """Fraction of the frames held out for validation."""
    evaluate_every: int = 500
    """Updates of a phase between held-out evaluations; there is one more at its end."""
    windows: int = 32
    """Held-out windows."""
    horizons: tuple[int, ...] = (1, 10, 30)
    """Prediction steps at which the held-out error is measured."""
    calibration_steps: int = 1_000
    """Held-out agent steps on which the probabilities of rewards, terminations and lost lives are calibrated after
    training, and the thresholds chosen that are stored with the predictor. 0: neither."""
    shares: tuple[float, ...] = ()
    """Shares of the windows drawn from each of several datasets; empty: by the number of windows."""
    init: str = ""
    """Fingerprint of the predictor that training started from; empty: random weights."""
    clock: Literal["wall", "core"] = "wall"
    """What minutes count. wall: time on the clock; core: processor time, which other programs do not take away."""

    def __post_init__(self) -> None:
        if not self.phases:
            raise UserError("phases: a training config needs at least one")
        if self.evaluate_every < 1 or self.windows < 1 or not self.horizons or min(self.horizons) < 1:
            raise UserError(
                f"evaluate_every {self.evaluate_every}, windows {self.windows}, horizons {self.horizons}: at least 1"
            )
        if self.calibration_steps < 0:
            raise UserError(f"calibration_steps is {self.calibration_steps}; it must be 0 or more")
        needed = self.predictor.context
        for number, phase in enumerate(self.phases):
            if phase.context < needed:
                raise UserError(
                    f"phase: context {phase.context}, the predictor needs {needed} frames: add "
                    f"--phases.{number}.context {needed}"
                )

    def to_dict(self) -> dict[str, Any]:
        """Return the config as JSON can hold it."""
        values, predictor = asdict(self), cast(Any, self.predictor)
        if not values["predictor"]["action_range"]:
            del values["predictor"]["action_range"]  # as in runs of 0.1.0
        listed: dict[str, Any] = _listed(values | {"predictor": {"kind": predictor.kind} | values["predictor"]})
        return listed


def _listed(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _listed(item) for key, item in value.items()}
    return [_listed(item) for item in value] if isinstance(value, tuple | list) else value


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
    had, total = total_minutes(before), total_minutes(asked)
    if isclose(had, total, rel_tol=1e-6):
        return before
    if total < had:
        return None
    more = (total - had) / total
    return before + tuple(replace(phase, minutes=(phase.minutes or 0.0) * more) for phase in asked)
