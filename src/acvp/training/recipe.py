"""A recipe: everything that decides what is learned, apart from the store; a resumed run must have the same one."""

from __future__ import annotations

from dataclasses import MISSING, asdict, dataclass, fields
from typing import Any

from acvp.errors import UserError
from acvp.models import CONFIGS, AnyConfig, config_to_dict
from acvp.training.curriculum import Phase
from acvp.training.optimisers import OptimiserConfig


@dataclass(frozen=True, kw_only=True)
class Recipe:
    """A complete configuration of training, as the presets return it."""

    name: str
    """Of the preset."""
    predictor: AnyConfig
    """The network."""
    view: str
    """How it looks at frames: rgb or gray84."""
    optimiser: OptimiserConfig
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
            "predictor": _completed(recipe["predictor"], CONFIGS[recipe["predictor"]["kind"]]),
            "optimiser": _completed(recipe["optimiser"], OptimiserConfig),
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
