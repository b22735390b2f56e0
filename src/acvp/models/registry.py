"""From a configuration to a predictor, and from a configuration to JSON and back.

A configuration's dictionary holds its ``kind`` and every field; with it and a state dict a predictor is complete.
"""

from collections.abc import Callable, Mapping
from dataclasses import asdict, fields
from typing import Any

import torch

from acvp.models.baselines import (
    CopyLastFrame,
    CopyLastFrameConfig,
    MeanFrame,
    MeanFrameConfig,
    MlpConfig,
    MlpPredictor,
)
from acvp.models.checks import ConfigError
from acvp.models.feedforward import FeedforwardConfig, FeedforwardPredictor, NoActionConfig, NoActionPredictor
from acvp.models.predictor import Predictor
from acvp.models.recurrent import RecurrentConfig, RecurrentPredictor
from acvp.pixel.config import PixelConfig
from acvp.pixel.predictor import PixelPredictor

AnyConfig = (
    FeedforwardConfig
    | NoActionConfig
    | RecurrentConfig
    | MlpConfig
    | PixelConfig
    | CopyLastFrameConfig
    | MeanFrameConfig
)

_PREDICTORS: dict[type[Any], Callable[..., Predictor]] = {
    FeedforwardConfig: FeedforwardPredictor,
    NoActionConfig: NoActionPredictor,
    RecurrentConfig: RecurrentPredictor,
    MlpConfig: MlpPredictor,
    PixelConfig: PixelPredictor,
    CopyLastFrameConfig: CopyLastFrame,
    MeanFrameConfig: MeanFrame,
}

CONFIGS: dict[str, type[Any]] = {config.kind: config for config in _PREDICTORS}
"""Configuration class of each kind of predictor, by its name in JSON and on the command line."""


def build_predictor(config: AnyConfig, generator: torch.Generator | None = None) -> Predictor:
    """Return a newly initialised predictor; without a generator, one seeded with 0 draws its weights."""
    if type(config) not in _PREDICTORS:
        raise ConfigError(f"{type(config).__name__} is no predictor's configuration; one of {sorted(CONFIGS)} is")
    return _PREDICTORS[type(config)](config, generator or torch.Generator().manual_seed(0))


def config_to_dict(config: AnyConfig) -> dict[str, Any]:
    """Return a configuration as a dictionary that JSON can hold."""
    return {"kind": config.kind} | {name: _listed(value) for name, value in asdict(config).items()}


def config_from_dict(values: Mapping[str, Any]) -> AnyConfig:
    """Return the configuration that ``config_to_dict`` made a dictionary of."""
    kind = values.get("kind")
    if kind not in CONFIGS:
        raise ConfigError(f"kind is {kind!r}; it must be one of {sorted(CONFIGS)}")
    known = {field.name for field in fields(CONFIGS[kind])}
    unknown = sorted(set(values) - known - {"kind"})
    if unknown or "actions" not in values:
        raise ConfigError(f"a {kind} configuration has fields {sorted(known)}; unknown {unknown}, 'actions' required")
    config: AnyConfig = CONFIGS[kind](**{name: _tupled(values[name]) for name in values if name != "kind"})
    return config


def _listed(value: Any) -> Any:
    return [_listed(each) for each in value] if isinstance(value, tuple) else value


def _tupled(value: Any) -> Any:
    return tuple(_tupled(each) for each in value) if isinstance(value, list) else value
