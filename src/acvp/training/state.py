"""The state of a training run between two updates, to and from the files of a checkpoint.

state.json               counters and scores, config, digest of the data, updates that are not logged yet
model.safetensors …      the predictor, loadable by itself
optimizer.safetensors    optimizer state

Batches, split and initial weights are pure functions of seed and step, so no generator's state is saved.
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

STATE_NAME, OPTIMIZER_NAME = "state.json", "optimizer.safetensors"


@dataclass(frozen=True, kw_only=True)
class StepReport:
    """One update."""

    step: int
    """Updates done, this one included."""
    phase: int
    """From 0."""
    loss: float
    lr: float
    gradient: float
    """Norm of all gradients."""
    samples: int
    """Windows in the batch."""
    seconds: float
    """Wall-clock seconds since the update before."""
    loss_parts: dict[str, float] = field(default_factory=dict)
    """What the predictor's loss returns beside the loss, by name."""


@dataclass(kw_only=True)
class TrainerState:
    """Counters and scores of a run; with weights and optimizer state they decide everything that follows."""

    step: int = 0
    """Updates done since the start."""
    phase: int = 0
    """Number of the current phase, from 0; the number of phases once all are over."""
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

    def add_score(self, score: float) -> bool:
        """Count a held-out score and return whether it is the best of the run."""
        self.stale = 0 if score < self.phase_best else self.stale + 1
        self.phase_best = min(score, self.phase_best)
        improved = score < self.best
        self.best = min(score, self.best)
        return improved

    def next_phase(self) -> None:
        """Start the next phase."""
        self.phase += 1
        self.phase_step, self.stale, self.phase_best = 0, 0, inf
        self.seconds = [*self.seconds, 0.0]

    def to_dict(self) -> dict[str, Any]:
        """Return the state as JSON can hold it."""
        return {name: None if value == inf else value for name, value in asdict(self).items()}


def to_files(
    predictor: Predictor,
    optimizer: Optimizer | None,
    state: TrainerState,
    training: dict[str, Any],
    digest: str,
    unlogged: Sequence[StepReport] = (),
) -> dict[str, bytes]:
    """Return the files of a checkpoint; `optimizer` is None between two phases."""
    steps = list(map(asdict, unlogged))
    body = {"trainer": state.to_dict(), "training": training, "store": digest, "unlogged": steps}
    files = {name: data for name, data in predictor_files(predictor).items() if name in REQUIRED}
    tensors = {} if optimizer is None else optimizer_tensors(optimizer)
    return files | {OPTIMIZER_NAME: to_bytes(tensors), STATE_NAME: json.dumps(body, indent=1).encode()}


@dataclass(frozen=True)
class Restored:
    """What a checkpoint holds."""

    state: TrainerState
    weights: dict[str, Tensor]
    optimizer: dict[str, Tensor]
    """As by `optimizer_tensors`; empty between two phases."""
    training: dict[str, Any]
    digest: str
    unlogged: list[StepReport]
    """Updates that metrics.jsonl has no line of yet."""


def from_checkpoint(checkpoint: Checkpoint) -> Restored:
    """Return what a checkpoint holds, or CheckpointError with the item that is missing."""
    try:
        body = current_run(json.loads(checkpoint.files[STATE_NAME]))
        values = dict(body["trainer"])
        for name in ("best", "phase_best"):
            values[name] = inf if values[name] is None else float(values[name])
        missing = [item.name for item in fields(TrainerState) if item.name not in values]
        if missing:
            raise ValueError(f"no {missing[0]}")
        weights = to_tensors(checkpoint.files[WEIGHTS_NAME], checkpoint.path / WEIGHTS_NAME)
        optimizer = to_tensors(checkpoint.files[OPTIMIZER_NAME], checkpoint.path / OPTIMIZER_NAME)
        unlogged = [StepReport(**report) for report in body.get("unlogged", [])]  # not in early checkpoints
        return Restored(TrainerState(**values), weights, optimizer, body["training"], body["store"], unlogged)
    except (KeyError, TypeError, ValueError, RecursionError) as error:
        raise CheckpointError(f"{checkpoint.path}: not a checkpoint of training ({error})") from error
