"""Kinds of predictors by name, and their configurations to JSON and back.

A class registers itself where it is defined: ``class MyPredictor(Predictor, kind="mine")``. The module of a built-in
kind is imported when the kind is first asked for. A configuration's dictionary holds its ``kind`` and every field;
with it and a state dict a predictor is complete.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, fields
from importlib import import_module
from typing import Any

import torch

from acvp.models.checks import ConfigError

BUILT_IN = {
    "feedforward": "acvp.models.feedforward",
    "no-action": "acvp.models.feedforward",
    "recurrent": "acvp.models.recurrent",
    "mlp": "acvp.models.baselines",
    "copy-last-frame": "acvp.models.baselines",
    "mean-frame": "acvp.models.baselines",
    "pixel": "acvp.pixel.predictor",
}
"""The module of each kind that comes with acvp."""

_CLASSES: dict[str, type[Any]] = {}


def register(kind: str, predictor: type[Any]) -> None:
    """Make a class of predictors known by the name of its kind."""
    known = _CLASSES.setdefault(kind, predictor)
    if (known.__module__, known.__qualname__) != (predictor.__module__, predictor.__qualname__):
        raise ConfigError(f"kind {kind!r} is {known.__module__}.{known.__qualname__} already; choose another name")
    _CLASSES[kind] = predictor


def kinds() -> list[str]:
    """Return the names of all kinds of predictors."""
    return sorted({*BUILT_IN, *_CLASSES})


def predictor_class(kind: Any) -> type[Any]:
    """Return the class of a kind of predictors."""
    if kind in BUILT_IN:
        import_module(BUILT_IN[kind])
    if kind not in _CLASSES:
        raise ConfigError(f"kind is {kind!r}; it must be one of {kinds()}")
    return _CLASSES[kind]


def config_class(kind: Any) -> type[Any]:
    """Return the class of the configurations of a kind of predictors."""
    found: type[Any] = predictor_class(kind).config_class
    return found


def kind_of(config: Any) -> str:
    """Return the name of the kind of predictors that a configuration is of."""
    kind: str | None = getattr(config, "kind", None)
    if kind is None or not isinstance(config, config_class(kind)):
        raise ConfigError(f"{type(config).__name__} is no predictor's configuration; one of {kinds()} is")
    return kind


def build(config: Any, generator: torch.Generator | None = None) -> Any:
    """Return a newly initialized predictor; without a generator, one seeded with 0 draws its weights."""
    return predictor_class(kind_of(config))(config, generator or torch.Generator().manual_seed(0))


def config_to_dict(config: Any) -> dict[str, Any]:
    """Return a configuration as a dictionary that JSON can hold."""
    return {"kind": kind_of(config)} | {name: _listed(value) for name, value in asdict(config).items()}


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
    return [_listed(each) for each in value] if isinstance(value, tuple) else value


def _tupled(value: Any) -> Any:
    return tuple(_tupled(each) for each in value) if isinstance(value, list) else value
