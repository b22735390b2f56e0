"""python -m benchmarks.trials STORE MINUTES MODEL NAME…: trials of changes to the cpu preset, on held-out windows.

Each trial trains from the same seed for the same wall-clock minutes; its line is added to results/trials.json. They
choose the preset `cpu`; docs/research/training.md reports what they showed.
"""

from __future__ import annotations

import json
import sys
import tempfile
import time
from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from dataclasses import replace
from pathlib import Path
from typing import Any, Literal
from unittest.mock import patch

import torch

from acvp.data.store import EpisodeStore
from acvp.models import FeedforwardConfig, RecurrentConfig
from acvp.pixel import PixelConfig
from acvp.runs import machine
from acvp.training.config import OptimizerConfig, TrainConfig, TrainingConfig
from acvp.training.presets import make_config
from acvp.training.run import train
from benchmarks.pixel_variants import VARIANTS
from benchmarks.provenance import RESULTS, commit

PIXEL_WINDOWS = 32


def one_step(training: TrainingConfig, **changes: Any) -> TrainingConfig:
    """The first phase alone, changed."""
    return replace(training, phases=(replace(training.phases[0], **changes),))


def two_phases(training: TrainingConfig, share: float, first: dict[str, Any], second: dict[str, Any]) -> TrainingConfig:
    """Both phases, changed; the second gets `share` of the minutes."""
    phases = training.phases[:2]
    total = sum(phase.minutes or 0 for phase in phases)
    return replace(
        training,
        phases=(
            replace(phases[0], minutes=total * (1 - share), **first),
            replace(phases[1], minutes=total * share, **second),
        ),
    )


def started(training: TrainingConfig, start: Literal["paper", "shared"]) -> TrainingConfig:
    """The config with a transformation that starts as in appendix A, or as one map for all actions."""
    assert isinstance(training.predictor, FeedforwardConfig | RecurrentConfig)
    return replace(training, predictor=replace(training.predictor, start=start))


def pixel(
    training: TrainingConfig, *, optimizer: OptimizerConfig | None = None, lr: float | None = None, **network: Any
) -> TrainingConfig:
    """The pixel-exact predictor, its network, learning rate or optimizer changed."""
    assert isinstance(training.predictor, PixelConfig)
    predictor = replace(training.predictor, **network)
    phase = replace(training.phases[0], lr=lr or training.phases[0].lr, context=predictor.context)
    return replace(
        training,
        predictor=predictor,
        phases=(phase,),
        optimizer=optimizer or training.optimizer,
        evaluate_every=10**6,
    )


def then_fed_back(training: TrainingConfig, *, share: float, **changes: Any) -> TrainingConfig:
    """The only phase, and for a share of its minutes a second one in which predictions are fed back."""
    (phase,) = training.phases
    minutes = phase.minutes or 0
    second = replace(phase, teacher_forcing=False, minutes=minutes * share, **changes)
    return replace(training, phases=(replace(phase, minutes=minutes * (1 - share)), second))


PIXEL_TRIALS: dict[str, Callable[[TrainingConfig], TrainingConfig]] = {
    "pixel": pixel,
    "pixel, AdamW 2e-3": lambda r: pixel(r, optimizer=OptimizerConfig(name="adamw", weight_decay=0.01), lr=2e-3),
    "pixel, no motions": lambda r: pixel(r, motions=((0, 0),), older_motions=()),
    "pixel, no older motions": lambda r: pixel(r, older_motions=()),
    "pixel, no palette cycling": lambda r: pixel(r, palette_cycle=()),
    "pixel, lr 1e-3": lambda r: pixel(r, lr=1e-3),
    "pixel, lr 4e-3": lambda r: pixel(r, lr=4e-3),
    "pixel, batch 1": lambda r: replace(pixel(r), phases=(replace(pixel(r).phases[0], batch_size=1),)),
    "pixel, batch 4": lambda r: replace(pixel(r), phases=(replace(pixel(r).phases[0], batch_size=4),)),
    "pixel, 1 target a window": lambda r: replace(
        pixel(r), phases=(replace(pixel(r).phases[0], batch_size=8, predict=1),)
    ),
    "pixel, context 4": lambda r: pixel(r, context=4),
    "pixel, context 32": lambda r: pixel(r, context=32),
    "pixel, cell 5": lambda r: pixel(r, cell=5),
    "pixel, cell 10": lambda r: pixel(r, cell=10),
    "pixel, embedding 32": lambda r: pixel(r, embedding=32),
    "pixel, half the channels": lambda r: pixel(r, channels=(16, 24, 32)),
    "pixel, twice the channels": lambda r: pixel(r, channels=(64, 96, 128)),
    "pixel, channels 48": lambda r: pixel(r, channels=(48, 48, 48)),
    "pixel, two scales": lambda r: pixel(r, channels=(32, 48), blocks=(1, 2)),
    "pixel, every still cell": lambda r: pixel(r, background_subsampling=1),
    "pixel, still cells 1 in 32": lambda r: pixel(r, background_subsampling=32),
    "pixel, any color anywhere": lambda r: pixel(r, palette_mask=False),
    "pixel, outcome by places alone": lambda r: pixel(r, events=0),
    "pixel, input corruption": lambda r: pixel(r, input_corruption=0.5),
    "pixel, zeros beyond the edges": lambda r: pixel(r, circular_padding=False),
    "pixel, uniform windows": lambda r: replace(pixel(r), phases=(replace(pixel(r).phases[0], priority_share=0.0),)),
    "pixel, priority share 0.8": lambda r: replace(pixel(r), phases=(replace(pixel(r).phases[0], priority_share=0.8),)),
    "pixel, outcome weight 1": lambda r: replace(pixel(r), phases=(replace(pixel(r).phases[0], reward_weight=1.0),)),
    "pixel, fed back from the start": lambda r: replace(
        pixel(r), phases=(replace(pixel(r).phases[0], teacher_forcing=False),)
    ),
    "pixel, fed back at the end": lambda r: then_fed_back(pixel(r), share=1 / 8, predict=8, lr=5e-4),
    **dict.fromkeys(VARIANTS, pixel),
}
"""What the preset was chosen by."""
TRIALS: dict[str, Callable[[TrainingConfig], TrainingConfig]] = {
    "cpu": lambda r: r,
    **PIXEL_TRIALS,
    "cpu, start paper": lambda r: started(r, "paper"),
    "cpu, start shared": lambda r: started(r, "shared"),
    "cpu, batch 2": lambda r: replace(r, phases=tuple(replace(phase, batch_size=2) for phase in r.phases)),
    "cpu, batch 2, 15 losses": lambda r: replace(
        r, phases=(replace(r.phases[0], batch_size=2, predict=15, context=11), replace(r.phases[1], batch_size=2))
    ),
    "Adam 3e-4, 1-step": lambda r: one_step(r, lr=3e-4),
    "Adam 1e-3, 1-step": lambda r: one_step(r, lr=1e-3),
    "Adam 1e-4, 1-step": lambda r: one_step(r, lr=1e-4),
    "Adam 3e-4, 1-step, batch 16": lambda r: one_step(r, lr=3e-4, batch_size=16),
    "Adam 3e-4, 1-step, batch 8": lambda r: one_step(r, lr=3e-4, batch_size=8),
    "Adam 1e-3, 1-step, batch 8": lambda r: one_step(r, lr=1e-3, batch_size=8),
    "Adam 3e-4 then 3-step 1e-4": lambda r: two_phases(r, 1 / 3, {"lr": 3e-4}, {"lr": 1e-4}),
    "Adam 1e-3 then 3-step 3e-4": lambda r: two_phases(r, 1 / 3, {"lr": 1e-3}, {"lr": 3e-4}),
    "Adam 3e-4 then 5-step 1e-4": lambda r: two_phases(r, 1 / 3, {"lr": 3e-4}, {"lr": 1e-4, "predict": 5}),
    "Adam 3e-4 then 10-step 1e-4": lambda r: two_phases(r, 1 / 2, {"lr": 3e-4}, {"lr": 1e-4, "predict": 10}),
    "Graves RMSProp 1e-4, 1-step": lambda r: replace(
        one_step(r, lr=1e-4), optimizer=OptimizerConfig(name="graves-rmsprop")
    ),
}


def main() -> None:
    """Run the trials named on the command line."""
    store, minutes, model, *names = sys.argv[1:]
    for name in names:
        line = trial(Path(store), float(minutes), model, name)
        print(json.dumps(line), flush=True)
        add(line)


def trial(path: Path, minutes: float, model: str, name: str) -> dict[str, Any]:
    """One trial's settings and results."""
    store = EpisodeStore(path)
    with tempfile.TemporaryDirectory() as folder:
        config = TrainConfig(data=(path,), model=model, preset="cpu", run=Path(folder) / "run", minutes=minutes)
        training = TRIALS[name](make_config(config, store))
        if model == "pixel":
            training = replace(training, windows=PIXEL_WINDOWS)
        training = replace(
            training,
            phases=tuple(replace(p, minutes=minutes * (p.minutes or 0) / _total(training)) for p in training.phases),
        )
        started = time.monotonic()
        with building(name):
            result = train(config, store, training)
        lines = [json.loads(text) for text in (result.run.path / "metrics.jsonl").read_text().splitlines()]
    last = [line for line in lines if "error" in line][-1]
    return {
        "model": model,
        "trial": name,
        "minutes": minutes,
        **({"channels": training.predictor.channels} if isinstance(training.predictor, PixelConfig) else {}),
        "threads": torch.get_num_threads(),
        "updates": last["step"],
        "error": last["error"],
        "copy_last": last["copy_last"],
        **({"wrong": last["wrong"], "copy_wrong": last["copy_wrong"]} if "wrong" in last else {}),
        "store": f"{store.info.env_id}, {store.frames} frames, {store.info.policy}, ε = {store.info.epsilon}",
        "seed": training.seed,
        "seconds": round(time.monotonic() - started),
        "commit": commit(),
        "machine": machine(),
    }


def building(name: str) -> AbstractContextManager[Any]:
    """Let training build the predictor of a trial that is not part of acvp; any other as ever."""
    if name not in VARIANTS:
        return nullcontext()
    return patch("acvp.training.run.build_predictor", VARIANTS[name])


def _total(training: TrainingConfig) -> float:
    return sum(phase.minutes or 0 for phase in training.phases)


def add(line: dict[str, Any]) -> None:
    """Keep a trial's line beside the others."""
    file = RESULTS / "trials.json"
    lines = json.loads(file.read_text()) if file.exists() else []
    file.write_text(json.dumps([*lines, line], indent=1) + "\n")


if __name__ == "__main__":
    main()
