"""Configs of the paper's networks for frames of any shape, small enough for tests."""

from __future__ import annotations

from typing import Any

from acvp.models import config_class
from acvp.models.encoder_decoder import derived_sizes, network_sizes

FrameShape = tuple[int, int, int]


def network(model: str, frame: FrameShape, *, width: int | None = None, **options: Any) -> Any:
    """The config of a model; `width` sets the channels of its first convolution."""
    if model == "mlp":
        return config_class(model)(**({"frame": frame} | options))
    sizes = network_sizes("paper", frame) if width is None else derived_sizes(frame, width)
    return config_class(model)(**({"frame": frame} | sizes | options))
