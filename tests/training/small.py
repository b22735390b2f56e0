"""Small games, networks and recipes that train in a second, and a record of what a training did."""

from __future__ import annotations

import hashlib
import io
import os
import signal
import sys
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import gymnasium
import pytest
from rich.console import Console
from torch.optim import Optimizer

from acvp.data.collect import CollectConfig, collect
from acvp.data.store import EpisodeStore
from acvp.harness import Result
from acvp.models.predictor import TrainingBatch
from acvp.training.config import OptimizerConfig, Phase, TrainConfig, TrainingConfig
from acvp.training.run import train
from acvp.training.state import StepReport
from acvp.training.trainer import Trainer
from tests.networks import network

SMALL_TOY = "acvp-tests/SmallToy-v0"
FRAME = (16, 16, 3)
if SMALL_TOY not in gymnasium.registry:
    gymnasium.register(SMALL_TOY, entry_point="acvp.envs.toy:ToyGame", kwargs={"size": FRAME[0]}, max_episode_steps=200)


def toy_store(path: Path, frames: int = 600, seed: int = 1) -> EpisodeStore:
    """A store of the toy game with 8×8 cells."""
    return collect(CollectConfig(env_id=SMALL_TOY, out=path, frames=frames, seed=seed))


def sizes(model: str, width: int = 4, hidden: int = 8) -> dict[str, Any]:
    """Options for a small network of a kind."""
    if model == "mlp":
        return {"hidden": (hidden,) * 4}
    return {"width": width, "hidden": hidden} | ({} if model == "no-action" else {"factors": hidden})


def small_config(model: str = "feedforward", **changes: Any) -> TrainingConfig:
    """A config of two phases, five and four updates, evaluated after every third."""
    predictor = network(model, FRAME, actions=5, **sizes(model))
    first = Phase(predict=1, context=predictor.context, batch_size=4, lr=1e-3, steps=5, warmup=2, decay=0.5)
    training = TrainingConfig(
        name="small",
        predictor=predictor,
        view="rgb",
        optimizer=OptimizerConfig(name="adam", bias_rate=2.0),
        phases=(first, replace(first, predict=3, batch_size=2, steps=4)),
        evaluate_every=3,
        windows=4,
        horizons=(1, 5),
    )
    return replace(training, **changes)


def run(
    store: EpisodeStore, training: TrainingConfig, folder: Path, text: io.StringIO | None = None, **options: Any
) -> Result:
    """Train in this process, saving after every step unless told otherwise; what is printed goes to `text`."""
    usual: dict[str, Any] = {"data": (store.path,), "run": folder, "save_minutes": 0.0, "device": "cpu"}
    config = TrainConfig(**(usual | options))
    return train(config, store, training, Console(file=text or io.StringIO(), soft_wrap=True, highlight=False))


Update = tuple[int, float, float, str, float]
"""Step, loss, learning rate, hash of the batch, best score so far: floats to the last bit."""


@dataclass
class Trace:
    """What each update of the trainings since `watch` was."""

    updates: list[Update] = field(default_factory=list)
    stop_after: int = 0
    """A step after which the training is asked to stop."""
    seconds: float = 1.0
    """What every update takes, by a clock that does not depend on the machine."""

    def watch(self, patch: pytest.MonkeyPatch) -> None:
        """Listen to every trainer, and give it the clock."""
        real_update, real_reduce = Trainer.update, Trainer._all_reduce

        def update(trainer: Trainer, phase: Phase, optimizer: Optimizer, batch: TrainingBatch) -> StepReport:
            if trainer.state.step + 1 == self.stop_after:
                trainer.stop(signal.SIGTERM, None)
            report = real_update(trainer, phase, optimizer, batch)
            content = b"".join(each.numpy(force=True).tobytes() for each in batch[:4])
            digest = hashlib.sha256(content).hexdigest()
            self.updates.append((report.step, report.loss, report.lr, digest, trainer.state.best))
            return report

        def all_reduce(trainer: Trainer, *losses: Any) -> tuple[float, dict[str, float], float]:
            return *real_reduce(trainer, *losses)[:2], self.seconds

        patch.setattr(Trainer, "update", update)
        patch.setattr(Trainer, "_all_reduce", all_reduce)


def in_a_child(work: Callable[[], object]) -> int:
    """Do something in a copy of this process and return how it ended: minus the signal that killed it, or the code."""
    sys.stdout.flush()
    child = os.fork()
    if not child:
        code = 99
        try:
            work()
            code = 0
        finally:
            os._exit(code)
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
