"""make bench-training: how fast each model trains, and its share of waiting for data; writes results/training.json.

A step is everything between two updates: waiting for the batch, its way to floats, forward, backward, checks, update.
"""

from __future__ import annotations

import sys
import tempfile
import time
from collections.abc import Generator
from contextlib import closing
from dataclasses import replace
from pathlib import Path
from typing import Any, get_args

import torch
from lightning_fabric import Fabric
from rich.console import Console

from acvp.data.collect import CollectConfig, collect
from acvp.data.store import EpisodeStore
from acvp.exits import StopRequest
from acvp.harness import Display
from acvp.models import build_predictor, kind_of
from acvp.runs import RunFolder
from acvp.training.config import ModelName, Phase, TrainConfig, TrainingConfig
from acvp.training.data import TrainingData, to_device
from acvp.training.optimizers import make_optimizer
from acvp.training.presets import make_config
from acvp.training.trainer import Trainer, make_fabric
from benchmarks.provenance import write_results

FRAMES, SEED = 10_000, 1
WARM_UP = 2
STEPS = {"cpu": 20, "paper": 3}
"""Timed updates of each phase, by preset."""


def main() -> None:
    """Measure the two real presets and print where the numbers are."""
    started = time.monotonic()
    fabric = make_fabric(TrainConfig(data=(Path(),), device="cpu"))
    rows = []
    with tempfile.TemporaryDirectory() as folder:
        store = collect(CollectConfig(env_id="freeway", out=Path(folder) / "store", frames=FRAMES, seed=SEED))
        for preset in ("cpu", "paper"):
            for model in get_args(ModelName):
                config = TrainConfig(data=(store.path,), preset=preset, model=model, device="cpu", seed=SEED)
                rows += measure(fabric, config, store)
    worst = min(row["share of time in the model"] for row in rows)
    body = {"threads": torch.get_num_threads(), "least share of time in the model": worst, "phases": rows}
    print(write_results("training", body, command="make bench-training", seed=SEED, started=started))


def measure(fabric: Fabric, config: TrainConfig, store: EpisodeStore) -> list[dict[str, Any]]:
    """Return a row per phase of a config, without the longest of a preset with three."""
    training = make_config(config, store)
    data = TrainingData(store, replace(training, windows=1, horizons=(1,)))
    predictor = build_predictor(training.predictor, torch.Generator().manual_seed(SEED))
    predictor.normalizer.set_mean(data.mean())
    quiet = Display(Console(file=sys.stderr), silent=True)
    trainer = Trainer(
        fabric, predictor, training, data, options=config, run=RunFolder(Path()), display=quiet, log=None,
        stop=StopRequest(),
    )  # fmt: skip
    rows = [time_phase(trainer, phase, training) for phase in training.phases[:2]]
    for row in rows:
        print(row, flush=True)
    return rows


def time_phase(trainer: Trainer, phase: Phase, training: TrainingConfig) -> dict[str, Any]:
    """Train through some steps of a phase and return their times."""
    steps, waited = STEPS[training.name], 0.0
    optimizer = make_optimizer(training.optimizer, trainer.predictor)
    stream: Generator[Any] = trainer.data.batches(phase, 0, rank=0, world_size=1, threads=trainer.options.threads)
    with closing(stream) as batches:
        for step in range(WARM_UP + steps):
            if step == WARM_UP:
                began, waited = time.monotonic(), 0.0
            asked = time.monotonic()
            batch = next(batches)
            waited += time.monotonic() - asked
            trainer.update(phase, optimizer, to_device(batch, trainer.predictor))
        seconds = time.monotonic() - began
    return {
        "preset": training.name,
        "model": kind_of(training.predictor),
        "view": training.view,
        "predicted steps": phase.predict,
        "batch": phase.batch_size,
        "updates a second": round(steps / seconds, 3),
        "frames predicted a second": round(steps * phase.batch_size * phase.predict / seconds, 1),
        "share of time in the model": round(1 - waited / seconds, 4),
    }


if __name__ == "__main__":
    main()
