"""Configs of predictors: the fields that all have, the dataset they are made for, kinds by name, and JSON.

A class registers itself where it is defined: ``class MyPredictor(Predictor, kind="mine")``. The module of a built-in
kind, and that of an installed package's entry point (group ``acvp.predictors``, named after the kind), is imported
when the kind is first asked for. A name that a file holds only selects among these: nothing that a file names is
imported. A configuration's dictionary holds its ``kind`` and every field; with it and a state dict a predictor is
complete.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass, fields
from importlib import import_module
from importlib.metadata import EntryPoint, entry_points
from typing import Any, ClassVar

import torch

from acvp.actions import ActionRange, checked_range
from acvp.data.frames import View
from acvp.data.store import EpisodeStore
from acvp.errors import UserError

BUILT_IN = {
    "feedforward": "acvp.models.networks",
    "no-action": "acvp.models.networks",
    "recurrent": "acvp.models.networks",
    "mlp": "acvp.models.baselines",
    "copy-last-frame": "acvp.models.baselines",
    "mean-frame": "acvp.models.baselines",
    "pixel": "acvp.pixel.predictor",
    "objects": "acvp.pixel.object_predictor",
}
"""The module of each kind that comes with acvp."""
ENTRY_POINTS = "acvp.predictors"
"""Entry point group of installed packages that bring predictors."""
_CLASSES: dict[str, type[Any]] = {}
FrameShape = tuple[int, int, int]
"""(height, width, channels) of one frame."""


class ConfigError(UserError, ValueError):
    """A configuration that no network can be built from."""


def require_positive(**values: int | float) -> None:
    """Refuse the first value that is not above zero, by name."""
    for name, value in values.items():
        if not value > 0:
            raise ConfigError(f"{name} is {value}; it must be above 0")


def require_whole(**values: int) -> None:
    """Refuse the first value that is not a whole number above zero, by name."""
    for name, value in values.items():
        if type(value) is not int or value < 1:
            raise ConfigError(f"{name} is {value}; it must be a whole number above 0")


def require_flags(config: Any) -> None:
    """Refuse anything but true and false for a field of type bool, by name."""
    for field in fields(config):
        value = getattr(config, field.name)
        if field.type in ("bool", bool) and type(value) is not bool:
            raise ConfigError(f"{field.name} is {value!r}; it must be true or false")


def require_frame(frame: FrameShape) -> None:
    """Refuse anything but three whole numbers above zero."""
    if len(frame) != 3 or not all(type(side) is int and side > 0 for side in frame):
        raise ConfigError(f"frame is {frame}; it must be (height, width, channels), whole numbers above 0")


@dataclass(frozen=True, kw_only=True)
class PredictorConfig:
    """Sizes that a predictor shares with its dataset; a kind of predictors adds its own fields in a subclass."""

    kind: ClassVar[str] = ""
    """Name of the kind; set by ``class MyPredictor(Predictor, kind="mine")``."""
    actions: int
    """Number of actions, or length of a continuous action vector."""
    frame: FrameShape = (210, 160, 3)
    """(height, width, channels) of a frame."""
    context: int = 4
    """Real frames needed before the first prediction."""
    pixel_scale: float = 255.0
    """What (pixel - mean) is divided by."""
    action_range: ActionRange = ()
    """Lowest and highest value of each component of a continuous action; empty: actions are numbers."""

    def __post_init__(self) -> None:
        require_flags(self)
        require_frame(self.frame)
        require_whole(actions=self.actions, context=self.context)
        require_positive(pixel_scale=self.pixel_scale)
        if self.action_range == ():
            return
        try:
            limits = checked_range(self.action_range)
        except ValueError as error:
            raise ConfigError(str(error)) from error
        if limits and len(limits) != self.actions:
            raise ConfigError(f"action_range has {len(limits)} pairs for {self.actions} components of actions")


Progress = Callable[[int, int], None]
"""Takes work done and total work, again and again; it may raise to stop the work."""


@dataclass(frozen=True, kw_only=True)
class DatasetSplit:
    """Training and held-out episodes of one dataset, in the view of the predictor."""

    train: EpisodeStore
    held_out: EpisodeStore
    """For choices that need unseen data; never for what is predicted."""
    view: View
    seed: int
    """Of everything that is drawn."""

    @property
    def frame(self) -> tuple[int, int, int]:
        """(height, width, channels) of a frame in the view."""
        return self.view.shape(self.train.info.frame_shape)

    @property
    def actions(self) -> int:
        """Number of actions, or of components of a continuous action."""
        return len(self.train.info.action_meanings)

    @property
    def resampled_view(self) -> View | None:
        """The view, or None where it shows frames as they are stored."""
        return self.view if self.view.gray or self.view.size is not None else None


def register(kind: str, predictor: type[Any]) -> None:
    """Register a class of predictors under the name of its kind."""
    known = _CLASSES.setdefault(kind, predictor)
    if (known.__module__, known.__qualname__) != (predictor.__module__, predictor.__qualname__):
        raise ConfigError(f"kind {kind!r} is {known.__module__}.{known.__qualname__} already; choose another name")
    _CLASSES[kind] = predictor


def kinds() -> list[str]:
    """Return the names of all kinds of predictors: built in, installed and registered."""
    return sorted({*BUILT_IN, *_CLASSES, *_installed()})


def predictor_class(kind: Any) -> type[Any]:
    """Return the class of a kind of predictors."""
    kind = kind if isinstance(kind, str) else repr(kind)
    if kind in BUILT_IN:
        import_module(BUILT_IN[kind])
    elif kind not in _CLASSES and kind in (installed := _installed()):
        _load(installed[kind])
    if kind not in _CLASSES:
        raise ConfigError(
            f"kind is {kind!r}, which no imported module defines: import its module first (--import my_module, or "
            f"`import my_module` in Python); known kinds are {', '.join(kinds())}"
        )
    return _CLASSES[kind]


def find_class(name: str) -> type[Any]:
    """Return the class that a user names: a kind ("pixel"), or "my_module:MyPredictor" of a module already imported."""
    module, colon, attribute = name.partition(":")
    if not colon:
        return predictor_class(name)
    if module not in sys.modules:
        raise ConfigError(f"{name}: the module {module} is not imported; pass --import {module}")
    named = getattr(sys.modules[module], attribute, None)
    if not isinstance(named, type) or named not in _CLASSES.values():
        raise ConfigError(
            f'{name}: {module} has no predictor of this name; it is written class {attribute}(Predictor, kind="mine")'
        )
    return named


def _installed() -> dict[str, EntryPoint]:
    """Return the entry points of installed packages by kind; reads metadata and imports nothing."""
    return {point.name: point for point in entry_points(group=ENTRY_POINTS)}


def _load(point: EntryPoint) -> None:
    """Import the module of an installed package that registers a kind."""
    package = point.dist.name if point.dist else "an installed package"
    try:
        point.load()
    except Exception as error:
        raise ConfigError(
            f"kind {point.name!r} is installed by {package} as {point.value}, which cannot be imported "
            f"({type(error).__name__}: {error}); fix or uninstall {package}"
        ) from error
    if point.name not in _CLASSES:
        raise ConfigError(f"{point.value} of {package} defines no predictor with kind={point.name!r}")


def config_class(kind: Any) -> type[Any]:
    """Return the class of the configurations of a kind of predictors."""
    cls: type[Any] = predictor_class(kind).config_class
    return cls


def kind_of(config: Any) -> str:
    """Return the name of the kind of predictors that a configuration is of."""
    kind: str | None = getattr(config, "kind", None)
    if not kind or not isinstance(config, config_class(kind)):
        raise ConfigError(f"{type(config).__name__} is no predictor's configuration; one of {kinds()} is")
    return kind


def build(config: Any, generator: torch.Generator | None = None) -> Any:
    """Return a newly initialized predictor; without a generator, one seeded with 0 draws its weights."""
    return predictor_class(kind_of(config))(config, generator or torch.Generator().manual_seed(0))


def config_to_dict(config: Any) -> dict[str, Any]:
    """Return a configuration as a dictionary that JSON can hold."""
    values = {name: _listed(value) for name, value in asdict(config).items()}
    if not values["action_range"]:
        del values["action_range"]  # versions before 0.2 do not know it
    return {"kind": kind_of(config)} | values


def config_from_dict(values: Mapping[str, Any]) -> Any:
    """Return the configuration that ``config_to_dict`` made a dictionary of."""
    kind = values.get("kind")
    made = config_class(kind)
    known = {field.name for field in fields(made)}
    unknown = sorted(set(values) - known - {"kind"})
    if unknown or "actions" not in values:
        raise ConfigError(f"a {kind} configuration has fields {sorted(known)}; unknown {unknown}, 'actions' required")
    return made(**{name: _tupled(values[name]) for name in values if name != "kind"})


def _listed(value: Any) -> Any:
    return [_listed(part) for part in value] if isinstance(value, tuple) else value


def _tupled(value: Any) -> Any:
    return tuple(_tupled(part) for part in value) if isinstance(value, list) else value
