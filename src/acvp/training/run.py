"""One training run from a store to a predictor: setup → fit → predictor, or a clean stop."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import Any

import torch
from lightning_fabric import Fabric
from rich.console import Console

from acvp.artifacts import CONFIG_NAME, write_folder
from acvp.checkpoint import CheckpointError, forget_after, newest_good
from acvp.console import err
from acvp.data.store import EpisodeStore
from acvp.errors import UserError
from acvp.exits import StoppedError, stop_signals
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
from acvp.runs import RunFolder, clock, default_path, differences, provenance
from acvp.training.config import TrainConfig, TrainingConfig, prolonged, total_minutes
from acvp.training.data import TrainingData
from acvp.training.devices import make_fabric
from acvp.training.estimate import check_disk, rehearse
from acvp.training.log import Display, TrainingLog
from acvp.training.presets import config_from_dict
from acvp.training.state import Restored, from_checkpoint
from acvp.training.trainer import DivergenceError, Trainer
from acvp.training.validation import Conclusions, HeldOutReport, compare_with_copying

EXIT_DONE, EXIT_DIVERGED = 0, 1
SHORTEST = 1.0
"""Seconds of training below which the share of the cores' time says nothing."""
BUSY_BELOW = 0.8
"""Share of the cores' time below which a run is reminded that minutes are those of the wall clock."""


@dataclass(frozen=True)
class Result:
    """How a run ended."""

    exit_code: int
    run: RunFolder


def train(config: TrainConfig, store: EpisodeStore, training: TrainingConfig, console: Console | None = None) -> Result:
    """Train until the last phase is over; stops by signal and by divergence come back as exit codes."""
    keep_freed_memory()
    with without_denormals():  # before there are threads
        return _train(config, store, training, console)


def _train(config: TrainConfig, store: EpisodeStore, training: TrainingConfig, console: Console | None) -> Result:
    run = RunFolder(config.run or default_path(store.info.env_id, kind_of(training.predictor), training.seed))
    if config.minutes is not None and run.begun:
        training = _with_more_minutes(training, run)
    data = TrainingData(store, training)
    fabric = make_fabric(config)
    console = console or err
    display = Display(console, len(training.phases), speaks=fabric.is_global_zero)
    with stop_signals() as stop, _writing(run, fabric), display:
        restored = _begin(config, run, fabric, data, display)
        predictor = _predictor(training, data, restored)
        if config.compile:
            compile_networks(predictor)
        log = _log(run, restored) if fabric.is_global_zero else None
        trainer = Trainer(
            fabric, predictor, training, data, options=config, run=run, display=display, log=log, stop=stop,
            position=restored.position if restored else None, moments=restored.moments if restored else None,
        )  # fmt: skip
        try:
            return Result(_fit(trainer), run)
        finally:
            if log:
                log.close()


def _log(run: RunFolder, restored: Restored | None) -> TrainingLog:
    return TrainingLog(run, restored.position.step, restored.unlogged) if restored else TrainingLog(run)


def _fit(trainer: Trainer) -> int:
    """Train and return the exit code."""
    display = trainer.display
    try:
        if trainer.position.phase < len(trainer.config.phases):
            _announce(trainer)
        busy, began = time.process_time(), time.perf_counter()
        trainer.fit()
        share = _share_of_cores(trainer, time.process_time() - busy, time.perf_counter() - began)
        _finish(trainer, share)
    except DivergenceError as error:
        if trainer.log:
            trainer.log.flush()
        display.say(f"acvp: {error}")
        return EXIT_DIVERGED
    except StoppedError as stopped:
        display.say(f"acvp: stopped by {stopped} at step {trainer.position.step:,} and saved; the same command goes on")
        return stopped.exit_code
    return EXIT_DONE


def _finish(trainer: Trainer, share: str | None) -> None:
    """Write the predictor, and report what it has learned and how to train it further."""
    display, run, verdict = trainer.display, trainer.run, ""
    if trainer.fabric.is_global_zero and not (run.predictor / CONFIG_NAME).exists():
        conclusions = conclude(trainer)
        for line in conclusions.lines():
            display.say(line)
        verdict = "" if conclusions.learned else "no better than copying the last frame so far; "
        write_predictor(trainer, conclusions)
    if share:
        display.say(share)
    display.say(f"finished at step {trainer.position.step:,}: {run.predictor}")
    minutes = 2 * total_minutes(trainer.config.phases) or max(0.01, float(f"{sum(trainer.position.seconds) / 60:.2g}"))
    display.say(f"{verdict}to train further: {trainer.options.command(run.path, minutes)}")


def conclude(trainer: Trainer) -> Conclusions:
    """Compare the finished predictor with copying the last frame."""
    trainer.display.say("comparing with copying the last frame on held-out windows")
    trainer.predictor.eval()
    conclusions = compare_with_copying(trainer.predictor, trainer.data, trainer.refuse_to_go_on)
    trainer.predictor.train()
    return conclusions


def _share_of_cores(trainer: Trainer, busy: float, seconds: float) -> str | None:
    """Return a line on how much of the cores' time training has had; None where the cores do not do the work."""
    threads = torch.get_num_threads()
    if trainer.fabric.device.type != "cpu" or seconds < SHORTEST:
        return None
    share = min(1.0, busy / (seconds * threads))
    cores = "1 core" if threads == 1 else f"{threads} cores"
    line = f"processor: used {100 * share:.0f} % of the time of {cores} in {clock(seconds)} of wall-clock time"
    return (
        line if share > BUSY_BELOW else f"{line}; minutes count by the wall clock: a busy machine trains less in them"
    )


def _announce(trainer: Trainer) -> None:
    """Print what is left out, how long it will take and what it needs, before the first update."""
    display, data = trainer.display, trainer.data
    count = sum(weight.numel() for weight in trainer.predictor.parameters())
    display.say(f"run: {trainer.run.path}")
    display.say(
        f"{kind_of(trainer.config.predictor)}, {count:,} parameters, view {data.view.name}, on {trainer.fabric.device}"
    )
    display.say(f"data: {len(data.train)} episodes to train on, {len(data.test)} held out, {data.store.info.env_id}")
    for number, phase in enumerate(trainer.config.phases, 1):
        left_out = data.windows(phase).left_out
        if left_out:
            frames = phase.context + phase.predict
            display.say(f"phase {number}: {left_out} episodes are shorter than its {frames} frames and left out")
    _look_up(trainer)
    display.say(check_disk(trainer))
    for line in _rehearsed(trainer):
        display.say(line)


def _look_up(trainer: Trainer) -> None:
    """Look up in the store what training needs to know of it, which takes a while for a large one."""
    data, position = trainer.data, trainer.position
    if not position.step:
        trainer.predictor.calibrate(data.as_split(), trainer.display.say, trainer.refuse_to_go_on)
    if any(phase.rare_share for phase in trainer.config.phases[position.phase :]):
        trainer.display.say(f"looking for what is rare in {data.train.frames:,} frames")
        data.look_for_rare(trainer.refuse_to_go_on)


def _rehearsed(trainer: Trainer) -> list[str]:
    """Return the rehearsal's lines; where networks cannot be compiled, this is when it shows."""
    try:
        return rehearse(trainer)
    except torch._dynamo.exc.TorchDynamoException as error:
        reason = " ".join(str(error).split())[:200]
        raise UserError(f"--compile: the networks cannot be compiled here ({reason}); leave it out") from error


@contextmanager
def _writing(run: RunFolder, fabric: Fabric) -> Iterator[None]:
    """Hold the run folder in the one process that writes."""
    if not fabric.is_global_zero:
        yield
        return
    with run.writing():
        yield


def _begin(
    config: TrainConfig, run: RunFolder, fabric: Fabric, data: TrainingData, display: Display
) -> Restored | None:
    """Start a run folder, or find where to go on; every process comes to the same result."""
    wanted = {
        "training": data.config.to_dict(),
        "store": data.store.digest,
        "data": data.store.info.env_id,
        "held_out": data.held_out_episodes,
    }
    if run.begun and config.resume == "never" and fabric.is_global_zero:
        raise UserError(f"{run.path} has begun already; choose another --run, or go on with --resume auto")
    if fabric.is_global_zero:
        if run.begun:
            if _refuse_changes(run, wanted):
                _prolong(run, wanted)
        else:
            run.write_config(wanted)
        run.note_start()
    fabric.barrier()
    checkpoint = newest_good(run.checkpoints, display.say)
    if checkpoint is None:
        if fabric.is_global_zero:
            run.forget_metrics_after(-1)
        return None
    restored = from_checkpoint(checkpoint)
    fabric.barrier()
    if fabric.is_global_zero:
        forget_after(run.checkpoints, checkpoint.step)
        run.forget_metrics_after(checkpoint.step)
    display.say(f"going on from step {checkpoint.step:,}")
    return restored


def _with_more_minutes(training: TrainingConfig, run: RunFolder) -> TrainingConfig:
    """Return the config with the run's own phases, and after them those of the additional minutes.

    A config of another kind is returned as it is, to be refused with what differs.
    """
    before = run.read_config().get("training")
    if before is None:
        return training
    phases = config_from_dict(before).phases
    longer = prolonged(phases, training.phases)
    return training if longer is None else replace(training, phases=longer)


def _prolong(run: RunFolder, wanted: dict[str, Any]) -> None:
    """Turn a run into one of more phases; one that was finished no longer is, and its newest checkpoint is loaded."""
    (run.predictor / CONFIG_NAME).unlink(missing_ok=True)
    run.write_config(wanted)


def _refuse_changes(run: RunFolder, wanted: dict[str, Any]) -> bool:
    """Raise where the run was started with another store or training, naming what differs; return if it is longer."""
    there = run.read_config()
    training = config_from_dict(there["training"]).to_dict() if there.get("training") else None  # none: an agent's run
    phases = wanted["training"]["phases"]
    if training and len(training["phases"]) > len(phases):
        minutes = sum(phase["minutes"] or 0.0 for phase in training["phases"])
        raise UserError(f"{run.path} was given more time since: use --minutes {minutes:g} or more, or another --run")
    same = phases[: len(training["phases"])] if training and len(training["phases"]) < len(phases) else phases
    changed = differences(training, wanted["training"] | {"phases": same})
    for name, what in (
        ("predictor.frame", "frames of another size"),
        ("predictor.actions", "another number of actions"),
    ):
        for text in changed:
            if text.startswith(name):
                raise UserError(f"{run.path} was trained on {what} ({text}); choose another --data or --run")
    if there.get("store") != wanted["store"]:
        raise UserError(f"{run.path} was trained on another store, or it has changed; choose another --data or --run")
    if changed:
        raise UserError(f"{run.path} was started with another config: {'; '.join(changed)}; choose another --run")
    if there.get("held_out") != wanted["held_out"]:
        raise UserError(f"{run.path} held out other episodes than this version would; choose another --run")
    return len(same) < len(phases)


def _predictor(training: TrainingConfig, data: TrainingData, restored: Restored | None) -> Predictor:
    """Return the predictor to train: new with the training part's mean image, or as the checkpoint has it."""
    predictor = build_predictor(training.predictor, torch.Generator().manual_seed(training.seed))
    info = data.store.info
    predictor.about = About(env_id=info.env_id, view=training.view, action_meanings=info.action_meanings)
    if restored is None:
        predictor.normalizer.set_mean(data.mean())
        return predictor
    try:
        predictor.load_state_dict(restored.weights)
    except RuntimeError as error:
        raise CheckpointError(f"the checkpoint's weights are not this network's ({str(error)[:200]})") from error
    return predictor


def write_predictor(trainer: Trainer, conclusions: Conclusions) -> None:
    """Write the finished predictor with its card."""
    info, training, data = trainer.data.store.info, trainer.config, trainer.data
    report, seconds = trainer.report or trainer.measure(), sum(trainer.position.seconds)
    threads = torch.get_num_threads()
    trainer.predictor.about = About(
        env_id=info.env_id,
        view=training.view,
        action_meanings=info.action_meanings,
        data=f"{data.train.frames:,} frames of {info.env_id} in {len(data.train)} episodes, policy {info.policy}, "
        f"ε = {info.epsilon:g}, store digest {data.store.digest[:16]}",
        compute=f"{trainer.position.step:,} updates in {clock(seconds)} on {provenance()['machine']} "
        f"({trainer.fabric.device.type} × {trainer.fabric.world_size}, {threads} thread{'s' * (threads > 1)}), preset "
        f"{training.name}, seed {training.seed}",
        error=f"{_told(report, training.predictor.pixel_scale)}, mean of {training.windows} held-out windows; "
        f"{conclusions.sentence}",
    )
    write_folder(trainer.run.predictor, predictor_files(trainer.predictor))


def _told(report: HeldOutReport, scale: float) -> str:
    """Return the last held-out evaluation as a card has it."""
    if report.wrong:
        parts = [
            f"{w:,.1f} at {h} steps (copy-last-frame {report.copy_wrong[h]:,.1f})" for h, w in report.wrong.items()
        ]
        return f"wrong pixels {', '.join(parts)}"
    parts = [f"{e:.3f} at {h} steps (copy-last-frame {report.copy_last[h]:.3f})" for h, e in report.error.items()]
    return f"{', '.join(parts)}: squared error of (pixel − mean)/{scale:g} summed over a frame"
