"""A recipe: everything that decides what is learned, apart from the store; a resumed run must have the same one.

Curriculum learning with multi-step prediction (§3.4): phases of 1, 3 and 5 predicted steps.

Each phase has windows, batch and learning rate of its own, and starts with a new optimizer.
"""

from __future__ import annotations

from dataclasses import MISSING, asdict, dataclass, fields, replace
from math import cos, isclose, pi
from typing import Any

from acvp.errors import UserError
from acvp.models import PredictorConfig, config_class, config_to_dict
from acvp.training.optimizers import OptimizerConfig

DECAY_STEPS = 100_000
"""The paper multiplies the learning rate by 0.9 after so many iterations (appendix A)."""
PAPER_DECAY = 0.9


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
    """Factor on the loss of reward and end beside that of the frames."""
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


def paper_curriculum(*, context: int, decay: float = PAPER_DECAY) -> tuple[Phase, ...]:
    """Return the paper's three phases of 1.5 M, 1 M and 1 M updates (§4, appendix A)."""
    first = Phase(predict=1, context=context, batch_size=32, lr=1e-4, steps=1_500_000, decay=decay)
    second = Phase(predict=3, context=context, batch_size=8, lr=1e-5, steps=1_000_000, decay=decay)
    return first, second, replace(second, predict=5)


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


@dataclass(frozen=True, kw_only=True)
class Recipe:
    """A complete configuration of training, as the presets return it."""

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
            raise UserError("a recipe needs at least one phase")
        if self.evaluate_every < 1 or self.windows < 1 or not self.horizons or min(self.horizons) < 1:
            raise UserError(
                f"evaluate_every {self.evaluate_every}, windows {self.windows}, horizons {self.horizons}: at least 1"
            )
        for phase in self.phases:
            if phase.context < self.predictor.context:
                raise UserError(f"phase: context {phase.context}, the predictor needs {self.predictor.context} frames")

    def to_dict(self) -> dict[str, Any]:
        """Return the recipe as JSON can hold it."""
        plain = asdict(self) | {"predictor": config_to_dict(self.predictor)}
        listed: dict[str, Any] = _listed(plain)
        return listed


def completed(recipe: dict[str, Any]) -> dict[str, Any]:
    """Return a recipe as an earlier version wrote it, with the defaults of fields that it did not have."""
    try:
        return _completed(recipe, Recipe) | {
            "predictor": _completed(recipe["predictor"], config_class(recipe["predictor"]["kind"])),
            "optimizer": _completed(recipe["optimizer"], OptimizerConfig),
            "phases": [_completed(phase, Phase) for phase in recipe["phases"]],
        }
    except (KeyError, TypeError) as error:
        raise UserError(f"the run's config.json holds no recipe of acvp ({error}); choose another --run") from error


def _completed(values: dict[str, Any], kind: type[Any]) -> dict[str, Any]:
    defaults = {field.name: _listed(field.default) for field in fields(kind) if field.default is not MISSING}
    return defaults | values


def _listed(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _listed(each) for key, each in value.items()}
    return [_listed(each) for each in value] if isinstance(value, tuple | list) else value
