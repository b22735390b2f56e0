"""Record a pixel game, learn to predict its frames from the actions taken, and use the predictions.

These names are the public interface; everything else may change between versions:

- `collect`, `train`, `evaluate`: the commands of these names as functions
- `EpisodeStore`: a recorded dataset
- `Predictor`, `load`, `rollout`: a predictor, how to load one, and its predicted frames for some actions
- `make_game`: a game by its id
- `ImaginedEnv`: a predictor as a Gymnasium env
- `InformedExploration`: exploration by predicted frames for DQN agents
- `check_predictor`: checks that your own predictor keeps the interface
- `UserError`: the base of all errors that a user can fix

They are imported when first used: `import acvp` alone imports neither NumPy nor torch.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from acvp.api import collect as collect
    from acvp.api import evaluate as evaluate
    from acvp.api import train as train
    from acvp.control.imagined_env import ImaginedEnv as ImaginedEnv
    from acvp.control.informed import InformedExploration as InformedExploration
    from acvp.data.store import EpisodeStore as EpisodeStore
    from acvp.envs import make_game as make_game
    from acvp.errors import UserError as UserError
    from acvp.loaded import load as load
    from acvp.models import Predictor as Predictor
    from acvp.models.rollout import rollout as rollout
    from acvp.testing import check_predictor as check_predictor

__version__ = "0.2.0"

_HOMES = {
    "EpisodeStore": "acvp.data.store",
    "ImaginedEnv": "acvp.control.imagined_env",
    "InformedExploration": "acvp.control.informed",
    "Predictor": "acvp.models",
    "UserError": "acvp.errors",
    "check_predictor": "acvp.testing",
    "collect": "acvp.api",
    "evaluate": "acvp.api",
    "load": "acvp.loaded",
    "make_game": "acvp.envs",
    "rollout": "acvp.models.rollout",
    "train": "acvp.api",
}
"""The module of every public name."""

__all__ = [
    "EpisodeStore",
    "ImaginedEnv",
    "InformedExploration",
    "Predictor",
    "UserError",
    "__version__",
    "check_predictor",
    "collect",
    "evaluate",
    "load",
    "make_game",
    "rollout",
    "train",
]


def __getattr__(name: str) -> Any:
    """Import a public name when it is first used."""
    if name not in _HOMES:
        raise AttributeError(f"module 'acvp' has no attribute {name!r}; it has {', '.join(sorted(_HOMES))}")
    return getattr(import_module(_HOMES[name]), name)


def __dir__() -> list[str]:
    """Return the public names, for completion."""
    return sorted(__all__)
