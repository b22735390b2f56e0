"""The state of a training run between two steps, to and from the files of a checkpoint.

Batches, split and weights at the start are pure functions of seed and step, so no generator's state is kept.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field, fields
from math import inf
from typing import Any

from torch import Tensor
from torch.optim import Optimizer

from acvp.artifacts import REQUIRED, WEIGHTS_NAME
from acvp.checkpoint import Checkpoint, CheckpointError, optimizer_tensors, to_bytes, to_tensors
from acvp.compat import current_run
from acvp.models import Predictor, predictor_files
from acvp.training.log import StepReport

STATE_NAME, OPTIMIZER_NAME = "state.json", "optimizer.safetensors"


@dataclass(kw_only=True)
class Position:
    """Where a run is; with the weights and the optimizer's state it decides everything that follows."""

    step: int = 0
    """Updates done since the start."""
    phase: int = 0
    """Number of the phase under way, from 0; as many as there are phases: finished."""
    phase_step: int = 0
    """Updates done in this phase."""
    seconds: list[float] = field(default_factory=list)
    """Wall-clock seconds used in each phase so far, this one last."""
    best: float = inf
    """Lowest held-out score of the run."""
    phase_best: float = inf
    """Lowest held-out score of this phase."""
    stale: int = 0
    """Evaluations in a row that did not lower it."""

    def __post_init__(self) -> None:
        self.seconds = self.seconds or [0.0]

    def judge(self, score: float) -> bool:
        """Take in a held-out score and return whether it is the best of the run."""
        self.stale = 0 if score < self.phase_best else self.stale + 1
        self.phase_best = min(score, self.phase_best)
        improved = score < self.best
        self.best = min(score, self.best)
        return improved

    def next_phase(self) -> None:
        """Go to the start of the next phase."""
        self.phase += 1
        self.phase_step, self.stale, self.phase_best = 0, 0, inf
        self.seconds = [*self.seconds, 0.0]

    def to_dict(self) -> dict[str, Any]:
        """Return the position as JSON can hold it."""
        return {name: None if value == inf else value for name, value in asdict(self).items()}


def to_files(
    predictor: Predictor,
    optimizer: Optimizer | None,
    position: Position,
    training: dict[str, Any],
    digest: str,
    unlogged: Sequence[StepReport] = (),
) -> dict[str, bytes]:
    """Return the files of a checkpoint; without an optimizer, that of the next phase is still to be made."""
    steps = list(map(asdict, unlogged))
    state = {"position": position.to_dict(), "training": training, "store": digest, "unlogged": steps}
    files = {name: data for name, data in predictor_files(predictor).items() if name in REQUIRED}
    moments = {} if optimizer is None else optimizer_tensors(optimizer)
    return files | {OPTIMIZER_NAME: to_bytes(moments), STATE_NAME: json.dumps(state, indent=1).encode()}


@dataclass(frozen=True)
class Restored:
    """What a checkpoint's files say."""

    position: Position
    weights: dict[str, Tensor]
    moments: dict[str, Tensor]
    training: dict[str, Any]
    digest: str
    unlogged: list[StepReport]
    """Updates that metrics.jsonl has no line of yet."""


def from_checkpoint(checkpoint: Checkpoint) -> Restored:
    """Return the state in a checkpoint, or CheckpointError with the item that is missing."""
    try:
        state = current_run(json.loads(checkpoint.files[STATE_NAME]))
        values = dict(state["position"])
        for name in ("best", "phase_best"):
            values[name] = inf if values[name] is None else float(values[name])
        missing = [one.name for one in fields(Position) if one.name not in values]
        if missing:
            raise ValueError(f"no {missing[0]}")
        weights = to_tensors(checkpoint.files[WEIGHTS_NAME], checkpoint.path / WEIGHTS_NAME)
        moments = to_tensors(checkpoint.files[OPTIMIZER_NAME], checkpoint.path / OPTIMIZER_NAME)
        unlogged = [StepReport(**report) for report in state.get("unlogged", [])]  # not in early checkpoints
        return Restored(Position(**values), weights, moments, state["training"], state["store"], unlogged)
    except (KeyError, TypeError, ValueError, RecursionError) as error:
        raise CheckpointError(f"{checkpoint.path}: not a checkpoint of training ({error})") from error
