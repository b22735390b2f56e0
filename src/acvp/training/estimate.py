"""Before training starts: a few timed steps tell how long it will take and how much memory and disk it needs."""

from __future__ import annotations

import shutil
import time

import torch

from acvp.durable import SPARE_BYTES, DiskError
from acvp.runs import clock, peak_memory_bytes
from acvp.training.data import to_device
from acvp.training.trainer import Trainer

TIMED_STEPS = 2
"""After one that is not timed, in which libraries choose their kernels."""
COPIES = {"graves-rmsprop": 3, "adam": 2, "adamw": 2, "muon": 2}
"""Tensors of a parameter's size that each optimizer keeps, at most."""


def rehearse(trainer: Trainer) -> list[str]:
    """Time forward and backward passes of every phase that is left, without an update; return lines to print."""
    lines = []
    phases, first = trainer.config.phases, trainer.position.phase
    for number in range(first, len(phases)):
        phase, fabric = phases[number], trainer.fabric
        windows = trainer.data.windows(phase)
        drawn = windows.draw(
            phase.batch_size // fabric.world_size, seed=trainer.config.seed, step=0,
            rank=fabric.global_rank, world_size=fabric.world_size,
        )  # fmt: skip
        batch = to_device(windows.batch(drawn), trainer.predictor.normalizer)
        float(trainer.gradients(phase, batch))
        began = time.monotonic()
        for _ in range(TIMED_STEPS):
            float(trainer.gradients(phase, batch))
        seconds = trainer.step_seconds[number] = (time.monotonic() - began) / TIMED_STEPS
        trainer.predictor.zero_grad(set_to_none=True)
        ends = [f"{phase.steps:,} steps"] if phase.steps else []
        ends += [f"{phase.minutes:.3g} minutes"] if phase.minutes else []
        ends += [f"{phase.patience} evaluations without improvement"] if phase.patience else []
        lines.append(
            f"phase {number + 1}/{len(phases)}: {phase.predict} steps ahead, batches of {phase.batch_size}, "
            f"{seconds:.3g} s a step, until {' or '.join(ends)}"
        )
    left = trainer.seconds_left()
    lines.append(f"time: {'not foreseeable' if left is None else f'about {clock(left)}'}; {_memory(trainer)}")
    return lines


def check_disk(trainer: Trainer) -> str:
    """Refuse to start where the checkpoints will not fit; return what they need as a line to print."""
    one = _weights(trainer) * (1 + COPIES[trainer.config.optimizer.name]) + 2**16
    there = sum(file.stat().st_size for file in trainer.run.checkpoints.rglob("*") if file.is_file())
    needed = one * (trainer.options.keep + 2) + _weights(trainer)  # the kept, the best, the next, the predictor
    free = shutil.disk_usage(trainer.run.checkpoints).free
    if free + there < needed + SPARE_BYTES:
        raise DiskError(
            f"{trainer.run.path}: checkpoints of {one:,} bytes, {trainer.options.keep + 2} at a time, need {needed:,} "
            f"bytes and {SPARE_BYTES:,} kept spare, {free + there:,} are free; free some space or choose another --run"
        )
    return f"disk: {one / 1e6:,.0f} MB a checkpoint, at most {needed / 1e6:,.0f} MB; {free / 1e9:,.1f} GB free"


def _weights(trainer: Trainer) -> int:
    return sum(weight.numel() * weight.element_size() for weight in trainer.predictor.parameters())


def _memory(trainer: Trainer) -> str:
    """Return the memory that the process has taken, plus what the optimizer is going to take."""
    moments = _weights(trainer) * COPIES[trainer.config.optimizer.name]
    device = trainer.fabric.device
    if device.type == "cuda":
        taken, where = torch.cuda.max_memory_allocated(device), "on each GPU"
    else:
        taken, where = peak_memory_bytes() or 0, "in each process"
    return f"memory: about {(taken + moments) / 1e9:.1f} GB {where}"
