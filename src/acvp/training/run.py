"""One training run from a dataset to a predictor: begin or resume → estimate → fit → predictor, or a clean stop."""

from __future__ import annotations

import shutil
import time
from contextlib import nullcontext
from dataclasses import replace
from pathlib import Path
from typing import Any

import torch
from lightning_fabric import Fabric
from rich.console import Console
from torch import Tensor

from acvp.artifacts import CONFIG_NAME, write_folder
from acvp.checkpoint import CheckpointError, newest_good
from acvp.console import counted, err
from acvp.data.merge import openings
from acvp.data.store import EpisodeStore
from acvp.durable import SPARE_BYTES, DiskError
from acvp.errors import UserError
from acvp.exits import stop_signals
from acvp.harness import Display, DivergenceError, Result, drop_later, exit_code, require_same, share_of_cores, start
from acvp.loaded import load
from acvp.models import (
    About,
    Predictor,
    build_predictor,
    compile_networks,
    keep_freed_memory,
    kind_of,
    predictor_files,
    without_denormals,
)
from acvp.models.calibration import calibrate
from acvp.models.layers import Calibration
from acvp.runs import RunFolder, clock, default_path, differences, machine, peak_memory_bytes
from acvp.training.config import Phase, TrainConfig, TrainingConfig, prolonged, total_minutes
from acvp.training.data import TrainingData, to_device
from acvp.training.presets import config_from_dict
from acvp.training.state import Restored, from_checkpoint
from acvp.training.trainer import Trainer, TrainingLog, in_bfloat16, make_fabric, to_compile
from acvp.training.validation import Conclusions, compare_with_copying

TIMED_STEPS = 2
"""Of the estimate, after one that is not timed, in which libraries choose their kernels."""
OPTIMIZER_COPIES = {"graves-rmsprop": 3, "adam": 2, "adamw": 2, "muon": 2}
"""Tensors of a parameter's size that each optimizer keeps, at most."""


def train(
    config: TrainConfig,
    store: EpisodeStore,
    training: TrainingConfig,
    console: Console | None = None,
    *,
    advise: bool = True,
) -> Result:
    """Train until the last phase is over; stops by signal and by divergence come back as exit codes.

    `advise`: print the command that trains the run further.
    """
    keep_freed_memory()
    with without_denormals():  # before there are threads
        return _train(config, store, training, console, advise)


def _train(
    config: TrainConfig, store: EpisodeStore, training: TrainingConfig, console: Console | None, advise: bool
) -> Result:
    run = RunFolder(config.run or default_path(store.info.env_id, kind_of(training.predictor), training.seed))
    if config.minutes is not None and run.begun:
        training = _with_more_minutes(training, run)
    data = TrainingData(store, training)
    fabric = make_fabric(config)
    first = fabric.is_global_zero  # the one process that writes and prints
    display = Display(console or err, silent=not first)
    with stop_signals() as stop, run.writing() if first else nullcontext(), display:
        restored = _begin(config, run, fabric, data, display)
        predictor = _predictor(config, training, data, restored)
        if to_compile(config, fabric.device):
            compile_networks(predictor)
        log = _log(run, restored) if first else None
        trainer = Trainer(
            fabric, predictor, training, data, options=config, run=run, display=display, log=log, stop=stop,
            state=restored.state if restored else None, optimizer_state=restored.optimizer if restored else None,
        )  # fmt: skip
        try:
            code = exit_code(lambda: _fit(trainer, advise), display, lambda: f"step {trainer.state.step:,}")
        finally:
            if log:
                log.close()
        return Result(code, run)


def _log(run: RunFolder, restored: Restored | None) -> TrainingLog:
    return TrainingLog(run, restored.state.step, restored.unlogged) if restored else TrainingLog(run)


def _fit(trainer: Trainer, advise: bool) -> None:
    if trainer.state.phase < len(trainer.config.phases):
        _announce(trainer)
    busy, began = time.process_time(), time.perf_counter()
    try:
        trainer.fit()
    except DivergenceError:
        if trainer.log:
            trainer.log.flush()
        raise
    busy, seconds = time.process_time() - busy, time.perf_counter() - began
    _finish(trainer, share_of_cores(trainer.fabric.device, trainer.config.clock, busy, seconds), advise)


def _finish(trainer: Trainer, share: str | None, advise: bool) -> None:
    """Write the predictor, and report what it has learned and, if wanted, how to train it further."""
    display, run, remark = trainer.display, trainer.run, ""
    if trainer.fabric.is_global_zero and not (run.predictor / CONFIG_NAME).exists():
        conclusions = conclude(trainer)
        for line in conclusions.lines():
            display.print(line)
        remark = "" if conclusions.learned else "no better than copying the last frame so far; "
        trainer.predictor.calibration = calibrated(trainer)
        write_predictor(trainer, conclusions)
    if share:
        display.print(share)
    display.print(f"finished at step {trainer.state.step:,}: {run.predictor}")
    if advise:
        minutes = 2 * total_minutes(trainer.config.phases) or max(0.01, float(f"{sum(trainer.state.seconds) / 60:.2g}"))
        display.print(f"{remark}to train further: {trainer.options.command(run.path, minutes)}")


def conclude(trainer: Trainer) -> Conclusions:
    """Compare the finished predictor with copying the last frame."""
    trainer.display.print("comparing with copying the last frame on held-out windows")
    trainer.predictor.eval()
    conclusions = compare_with_copying(trainer.predictor, trainer.data, trainer.check_stop)
    trainer.predictor.train()
    return conclusions


def calibrated(trainer: Trainer) -> Calibration:
    """Return the calibration of the finished predictor on held-out episodes; one that changes nothing without heads."""
    data, training = trainer.data, trainer.config
    if not (training.calibration_steps and getattr(training.predictor, "predict_rewards", False)):
        return Calibration()
    trainer.predictor.eval()
    options: dict[str, Any] = {"count": training.calibration_steps, "seed": training.seed}
    calibration = calibrate(trainer.predictor, data.view, data.test, progress=trainer.check_stop, **options)
    trainer.predictor.train()
    trainer.display.print(f"outcomes are decided, by held-out episodes, for {calibration.text()}")
    return calibration


def _announce(trainer: Trainer) -> None:
    """Print what will be trained, how long it will take and what it needs, before the first update."""
    display, data = trainer.display, trainer.data
    count = sum(weight.numel() for weight in trainer.predictor.parameters())
    display.print(f"run: {trainer.run.path}")
    device = trainer.fabric.device
    speed = ", in bfloat16" * in_bfloat16(trainer.options, device) + ", compiled" * to_compile(trainer.options, device)
    display.print(
        f"{kind_of(trainer.config.predictor)}, {count:,} parameters, view {data.view.name}, on {device}{speed}"
    )
    display.print(
        f"data: {counted(len(data.train), 'episode')} to train on, {len(data.test)} held out, {data.store.info.env_id}"
    )
    for number, phase in enumerate(trainer.config.phases, 1):
        left_out = data.windows(phase).left_out
        if left_out:
            episodes = counted(left_out, "episode")
            display.print(f"phase {number}: {episodes} left out, with under {phase.predict + 1} frames")
    _prepare(trainer)
    display.print(check_disk(trainer))
    for line in _estimated(trainer):
        display.print(line)


def _prepare(trainer: Trainer) -> None:
    """Scan the dataset for what the predictor and sampling need, which takes a while if it is large."""
    data, state = trainer.data, trainer.state
    if not state.step:
        trainer.predictor.calibrate(data.as_split(), trainer.display.print, trainer.check_stop)
    if any(phase.priority_share for phase in trainer.config.phases[state.phase :]):
        trainer.display.print(f"computing sampling priorities of {data.train.frames:,} frames")
        data.compute_priorities(trainer.check_stop)


def _estimated(trainer: Trainer) -> list[str]:
    """Return the lines of the estimate; its first step shows if networks cannot be compiled."""
    try:
        return estimate(trainer)
    except torch._dynamo.exc.TorchDynamoException as error:
        reason = " ".join(str(error).split())[:200]
        raise UserError(f"the networks cannot be compiled here ({reason}); use --compile off") from error


def estimate(trainer: Trainer) -> list[str]:
    """Time forward and backward passes of every phase that is left, without an update; return lines to print."""
    lines = []
    phases, first = trainer.config.phases, trainer.state.phase
    for number in range(first, len(phases)):
        phase = phases[number]
        seconds = trainer.step_seconds[number] = _step_seconds(trainer, phase)
        limits = [counted(phase.steps, "step")] if phase.steps else []
        limits += [f"{phase.minutes:.3g} minutes"] if phase.minutes else []
        limits += [f"{phase.patience} evaluations without improvement"] if phase.patience else []
        lines.append(
            f"phase {number + 1}/{len(phases)}: {counted(phase.predict, 'step')} ahead, batches of {phase.batch_size}, "
            f"{seconds:.3g} s a step, until {' or '.join(limits)}"
        )
    left = trainer.seconds_left()
    lines.append(f"time: {'unknown' if left is None else f'about {clock(left)}'}; {_memory(trainer)}")
    return lines


def _step_seconds(trainer: Trainer, phase: Phase) -> float:
    """Return the seconds of a forward and backward pass."""
    fabric, windows = trainer.fabric, trainer.data.windows(phase)
    drawn = windows.draw(
        phase.batch_size // fabric.world_size, seed=trainer.config.seed, step=0,
        rank=fabric.global_rank, world_size=fabric.world_size,
    )  # fmt: skip
    batch = to_device(windows.batch(drawn), trainer.predictor)
    float(trainer.gradients(phase, batch)[0])
    began = time.monotonic()
    for _ in range(TIMED_STEPS):
        float(trainer.gradients(phase, batch)[0])
    seconds = (time.monotonic() - began) / TIMED_STEPS
    trainer.predictor.zero_grad(set_to_none=True)
    return seconds


def check_disk(trainer: Trainer) -> str:
    """Refuse to start if the checkpoints will not fit; return what they need as a line to print."""
    size = _weights(trainer) * (1 + OPTIMIZER_COPIES[trainer.config.optimizer.name]) + 2**16
    used = sum(file.stat().st_size for file in trainer.run.checkpoints.rglob("*") if file.is_file())
    needed = size * (trainer.options.keep + 2) + _weights(trainer)  # the newest, the best, the next, the predictor
    free = shutil.disk_usage(trainer.run.checkpoints).free
    if free + used < needed + SPARE_BYTES:
        raise DiskError(
            f"{trainer.run.path}: checkpoints of {size:,} bytes, {trainer.options.keep + 2} at a time, need {needed:,} "
            f"bytes and {SPARE_BYTES:,} kept spare, {free + used:,} are free; free some space or choose another --run"
        )
    return f"disk: {size / 1e6:,.0f} MB a checkpoint, at most {needed / 1e6:,.0f} MB; {free / 1e9:,.1f} GB free"


def _weights(trainer: Trainer) -> int:
    return sum(weight.numel() * weight.element_size() for weight in trainer.predictor.parameters())


def _memory(trainer: Trainer) -> str:
    """Return the memory that the process has taken, plus that of the optimizer state."""
    optimizer = _weights(trainer) * OPTIMIZER_COPIES[trainer.config.optimizer.name]
    device = trainer.fabric.device
    if device.type == "cuda":
        taken, where = torch.cuda.max_memory_allocated(device), "on each GPU"
    else:
        taken, where = peak_memory_bytes() or 0, "in each process"
    return f"memory: about {(taken + optimizer) / 1e9:.1f} GB {where}"


def _begin(
    config: TrainConfig, run: RunFolder, fabric: Fabric, data: TrainingData, display: Display
) -> Restored | None:
    """Start a run, or return what its newest checkpoint holds; the result is the same in every process."""
    body: dict[str, Any] = {
        "training": data.config.to_dict(),
        "store": data.store.digest,
        "data": data.store.info.env_id,
        "held_out": data.held_out_episodes,
        "openings": sorted(set(openings(data.train))),
    }
    if config.init is not None:
        body["openings"] = _with_earlier(config.init, data, body["openings"])
    if data.store.origins:
        body["stores"] = [[origin.digest, origin.episodes] for origin in data.store.origins]
    if fabric.is_global_zero:
        start(run, body, resume=config.resume, check=lambda before: _check_config(run, before, body))
    fabric.barrier()
    checkpoint = newest_good(run.checkpoints, display.print)
    restored = from_checkpoint(checkpoint) if checkpoint else None
    fabric.barrier()
    if fabric.is_global_zero:
        drop_later(run, checkpoint.step if checkpoint else -1)
    if checkpoint:
        display.print(f"resuming from step {checkpoint.step:,}")
    return restored


def _with_earlier(init: str, data: TrainingData, trained: list[str]) -> list[str]:
    """Return the openings of the episodes trained on, with those that the run of --init was trained on.

    Raises UserError if one of those is held out here: what it has learned would be judged on what it has seen.
    """
    run = RunFolder(Path(init))
    earlier = set(run.read_config().get("openings", ())) if run.checkpoints.is_dir() else set[str]()
    seen = sum(opening in earlier for opening in openings(data.test))
    if seen:
        raise UserError(
            f"--init {init} was trained on {counted(seen, 'episode')} that would be held out; use its --seed and "
            "--test-fraction, or record a dataset with another seed"
        )
    return sorted(earlier.union(trained))


def _with_more_minutes(training: TrainingConfig, run: RunFolder) -> TrainingConfig:
    """Return the config with the run's own phases, followed by phases for the minutes that are added to it.

    A config of another kind is returned as it is, to be refused with what differs.
    """
    before = run.read_config().get("training")
    if before is None:
        return training
    longer = prolonged(config_from_dict(before).phases, training.phases)
    return training if longer is None else replace(training, phases=longer)


def _check_config(run: RunFolder, before: dict[str, Any], now: dict[str, Any]) -> None:
    """Refuse to resume a run with another dataset or config, naming what differs; more phases are added to it."""
    training = config_from_dict(before["training"]).to_dict() if before.get("training") else None  # none: an agent's
    phases = now["training"]["phases"]
    if training and len(training["phases"]) > len(phases):
        minutes = sum(phase["minutes"] or 0.0 for phase in training["phases"])
        raise UserError(f"{run.path} has been given more time: use --minutes {minutes:g} or more, or another --run")
    same = phases[: len(training["phases"])] if training else phases
    planned = now["training"] | {"phases": same}
    for name, what in (
        ("predictor.frame", "frames of another size"),
        ("predictor.actions", "another number of actions"),
    ):
        for text in differences(training, planned):
            if text.startswith(name):
                raise UserError(f"{run.path} was trained on {what} ({text}); choose another --data or --run")
    if before.get("store") != now["store"]:
        raise UserError(f"{run.path} was trained on another dataset, or it has changed; choose another --data or --run")
    require_same(run, training, planned)
    if before.get("held_out") != now["held_out"]:
        raise UserError(f"{run.path} held out other episodes than this version would; choose another --run")
    if len(same) < len(phases):  # a finished run is no longer finished, and its newest checkpoint is resumed
        (run.predictor / CONFIG_NAME).unlink(missing_ok=True)
        run.write_config(now)


def _predictor(
    config: TrainConfig, training: TrainingConfig, data: TrainingData, restored: Restored | None
) -> Predictor:
    """Return the predictor to train: that of the checkpoint or of --init, or a new one with the data's mean image."""
    predictor = build_predictor(training.predictor, torch.Generator().manual_seed(training.seed))
    info = data.store.info
    predictor.about = About(env_id=info.env_id, view=training.view, action_meanings=info.action_meanings)
    if restored is None and config.init is None:
        predictor.normalizer.set_mean(data.mean())
        return predictor
    try:
        if restored:
            predictor.load_state_dict(restored.weights)
        else:
            take_weights(predictor, load(str(config.init)).state_dict())
    except RuntimeError as error:
        reason = str(error)[:200]
        if restored is None:
            raise UserError(f"--init {config.init}: its weights do not fit the changed network ({reason})") from error
        raise CheckpointError(f"the checkpoint's weights are not this network's ({reason})") from error
    return predictor


def take_weights(predictor: Predictor, weights: dict[str, Tensor]) -> None:
    """Take the weights of a smaller network: what it does not have keeps its initial weights."""
    _, unexpected = predictor.load_state_dict(weights, strict=False)
    if unexpected:
        raise RuntimeError(f"Unexpected keys: {', '.join(unexpected)}")


def write_predictor(trainer: Trainer, conclusions: Conclusions) -> None:
    """Write the finished predictor with its card."""
    info, training, data = trainer.data.store.info, trainer.config, trainer.data
    report, seconds = trainer.report or trainer.measure(), sum(trainer.state.seconds)
    threads, core = torch.get_num_threads(), training.clock == "core"
    trainer.predictor.about = About(
        env_id=info.env_id,
        view=training.view,
        action_meanings=info.action_meanings,
        data=f"{data.train.frames:,} frames of {info.env_id} in {counted(len(data.train), 'episode')}, policy "
        f"{info.played_by}, store digest {', '.join(digest[:16] for digest in data.store.digests)}",
        compute=f"{trainer.state.step:,} updates in {clock(seconds)}{' of core time' * core} on {machine()} "
        f"({trainer.fabric.device.type} × {trainer.fabric.world_size}, {threads} thread{'s' * (threads > 1)}), preset "
        f"{training.name}, seed {training.seed}"
        + (f", started from {Path(trainer.options.init).name}" if trainer.options.init else ""),
        error=f"{report.sentence(training.predictor.pixel_scale)}, mean of {training.windows} held-out windows; "
        f"{conclusions.sentence}",
    )
    write_folder(trainer.run.predictor, predictor_files(trainer.predictor))
