"""Record a pixel game, learn to predict its frames from the actions taken, and put the predictions to work."""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from acvp.data.store import EpisodeStore as EpisodeStore
    from acvp.models.load import load as load
    from acvp.models.rollout import rollout as rollout

__version__ = "0.2.0"
__all__ = ["EpisodeStore", "__version__", "load", "rollout"]

_HOMES = {"EpisodeStore": "acvp.data.store", "load": "acvp.models.load", "rollout": "acvp.models.rollout"}


def __getattr__(name: str) -> Any:
    """Import a public name when it is first asked for, so that recording does not import torch."""
    if name not in _HOMES:
        raise AttributeError(f"module 'acvp' has no attribute {name!r}; it has {', '.join(sorted(_HOMES))}")
    return getattr(import_module(_HOMES[name]), name)
