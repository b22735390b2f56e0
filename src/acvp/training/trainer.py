"""The training loop: phases of updates, held-out evaluations, checkpoints.

Shapes: B windows, L frames of a window, K predicted steps.
"""

from __future__ import annotations

import os
import time
from collections.abc import Mapping, Sequence
from contextlib import closing
from math import inf, isfinite
from types import MappingProxyType
from typing import Any

import torch
from lightning_fabric import Fabric
from torch import Tensor, nn
from torch.optim import Optimizer

from acvp.checkpoint import restore_optimizer
from acvp.errors import UserError
from acvp.exits import StoppedError, StopRequest
from acvp.harness import Display, DivergenceError, MetricsLog, Saver
from acvp.models import Predictor, TrainingBatch, pick_device
from acvp.models.devices import has_bfloat16
from acvp.models.predictor import Metrics
from acvp.runs import RunFolder, clock
from acvp.training.config import Phase, TrainConfig, TrainingConfig
from acvp.training.data import TrainingData, to_device
from acvp.training.optimizers import make_optimizer, set_learning_rate
from acvp.training.state import StepReport, TrainerState, to_files
from acvp.training.validation import HeldOut, HeldOutReport

LOG_EVERY = 25
"""Updates that a line of training metrics is the mean of."""
SMOOTHING = 0.98
"""Share of the old mean that each update leaves in the shown loss and speed."""


def gradient_norm(network: nn.Module) -> Tensor:
    """Return the norm of all gradients together; it is not finite where any of them is not."""
    gradients = [weight.grad for weight in network.parameters() if weight.grad is not None]
    return _norm(gradients)


def check_finite(step: int, network: nn.Module, numbers: Mapping[str, float] = MappingProxyType({})) -> None:
    """Raise DivergenceError unless the weights and the numbers of an update are finite."""
    weights = float(_norm([weight.detach() for weight in network.parameters()]))
    for name, value in {**numbers, "norm of the weights": weights}.items():
        if not isfinite(value):
            raise DivergenceError(f"step {step}: the {name} is {value}; stopped before the update")


def _norm(tensors: list[Tensor]) -> Tensor:
    norm: Tensor = torch.linalg.vector_norm(torch.stack(torch._foreach_norm(tensors)))
    return norm


class Objective(nn.Module):
    """A predictor's loss as a module: what runs in other processes and in lower precision is its forward pass."""

    def __init__(self, predictor: Predictor) -> None:
        super().__init__()
        self.predictor = predictor

    def forward(self, batch: TrainingBatch) -> tuple[Tensor, Metrics]:
        """Return the loss of a batch and its parts."""
        return self.predictor.loss(batch)


class TrainingLog:
    """The metrics of the process that writes them: a line for every 25 updates, and one for each evaluation."""

    def __init__(self, run: RunFolder, last_step: int = -1, unlogged: Sequence[StepReport] = ()) -> None:
        """Continue after the step of a checkpoint, with the updates before it that no line had yet."""
        self._metrics = MetricsLog(run, last_step)
        self._reports: list[StepReport] = list(unlogged)

    def step(self, report: StepReport) -> None:
        """Count an update; every 25th writes a line with the means."""
        self._reports.append(report)
        if report.step % LOG_EVERY == 0:
            self.flush()

    def flush(self) -> None:
        """Write a line about the updates since the last line."""
        if not self._reports:
            return
        last, count = self._reports[-1], len(self._reports)
        seconds = sum(report.seconds for report in self._reports)
        values = {
            "loss": sum(report.loss for report in self._reports) / count,
            "lr": last.lr,
            "gradient_norm": sum(report.gradient for report in self._reports) / count,
            "samples_per_second": sum(report.samples for report in self._reports) / max(seconds, 1e-9),
        }
        parts = {name: _mean([report.loss_parts.get(name) for report in self._reports]) for name in last.loss_parts}
        line = {"kind": "train", "step": last.step, "phase": last.phase} | values
        if parts:
            line["loss_parts"] = {name: value if isfinite(value) else None for name, value in parts.items()}
        scalars = {f"train/{name}": value for name, value in values.items()}
        self._metrics.write(line, scalars | {f"loss/{name}": value for name, value in parts.items()})
        self._reports = []

    def held_out(self, step: int, phase: int, seconds: float, report: HeldOutReport) -> None:
        """Write a held-out evaluation; `seconds` is the time of all training so far."""
        self.flush()
        line = {"kind": "held-out", "step": step, "phase": phase, "seconds": round(seconds, 1)} | report.to_dict()
        curves = report.curves().items()
        scalars = {f"held-out/{name}-{h}": value for name, curve in curves for h, value in curve.items()}
        self._metrics.write(line, scalars)
        self._metrics.board.add_image("held-out/truth-above-prediction", report.strip, step, dataformats="HWC")
        self._metrics.flush()

    def unlogged(self) -> list[StepReport]:
        """Return the updates that a checkpoint must hold; all lines before them are on the disk after this."""
        self._metrics.flush()
        return list(self._reports)

    def close(self) -> None:
        """Close the files; updates without a line are left to the run that resumes."""
        self._metrics.close()


def _mean(values: Sequence[float | None]) -> float:
    known = [value for value in values if value is not None]
    return sum(known) / len(known)


class Speed:
    """Smoothed loss and samples per second, for the display."""

    def __init__(self) -> None:
        self._loss = self._speed = 0.0

    def add(self, report: StepReport) -> None:
        """Count an update."""
        old = SMOOTHING if self._speed else 0.0
        self._loss = old * self._loss + (1 - old) * report.loss
        self._speed = old * self._speed + (1 - old) * report.samples / max(report.seconds, 1e-9)

    def text(self, step: int, seconds_left: float | None) -> str:
        """Return step, loss, speed and time left."""
        left = "" if seconds_left is None else f"  {clock(seconds_left)} left"
        return f"step {step:,}  loss {self._loss:.4g}  {self._speed:,.1f} samples/s{left}"


class Trainer:
    """Trains one predictor through the phases of its config: `fit` until the end, or until stopped."""

    def __init__(
        self,
        fabric: Fabric,
        predictor: Predictor,
        training: TrainingConfig,
        data: TrainingData,
        *,
        options: TrainConfig,
        run: RunFolder,
        display: Display,
        log: TrainingLog | None,
        stop: StopRequest,
        state: TrainerState | None = None,
        optimizer_state: dict[str, Tensor] | None = None,
    ) -> None:
        """Take everything that training needs; `state` and `optimizer_state` are those of the checkpoint to resume."""
        self.fabric, self.config, self.data, self.options, self.run = fabric, training, data, options, run
        self.display, self.log, self.stop = display, log, stop
        self.state = state or TrainerState()
        self._optimizer_state = optimizer_state
        self.network: Any = fabric.setup_module(Objective(predictor))
        self.predictor = predictor
        self.held_out = HeldOut(*data.held_out())
        self.step_seconds: dict[int, float] = {}
        self.report: HeldOutReport | None = None
        self._speed, self._saver = Speed(), Saver(run, minutes=options.save_minutes, keep=options.keep)
        self._now = time.process_time if training.clock == "core" else time.monotonic
        self._ticked = self._now()
        self._score = inf
        self._stopping = 0
        _require_even(training, fabric.world_size, options.accumulate)
        if training.clock == "core" and fabric.device.type != "cpu":
            raise UserError(f"--clock core counts processor time; on {fabric.device.type} use --clock wall")

    def fit(self) -> None:
        """Train through all phases that are left."""
        self._ticked = self._now()
        self._saver.restart_clock()
        while self.state.phase < len(self.config.phases):
            self._fit_phase(self.config.phases[self.state.phase])

    def check_stop(self, *done: int) -> None:
        """Raise StoppedError if a signal asks to stop, during long work outside of the updates."""
        if self.stop.number and self.fabric.world_size == 1:
            raise StoppedError(self.stop.number)

    def _fit_phase(self, phase: Phase) -> None:
        optimizer = self._optimizer()
        fabric, first = self.fabric, self.state.step
        share = {"rank": fabric.global_rank, "world_size": fabric.world_size, "threads": self.options.threads}
        with closing(self.data.batches(phase, first, **share)) as batches:
            over = False
            while not over:
                report = self.update(phase, optimizer, to_device(next(batches), self.predictor))
                over, improved = self._report(phase, report)
                if over:
                    self.state.next_phase()
                self._save_if_due(None if over else optimizer, now=over or improved or self._stopping > 0)
                if self._stopping:
                    raise StoppedError(self._stopping)

    def update(self, phase: Phase, optimizer: Optimizer, batch: TrainingBatch) -> StepReport:
        """Do one update and return its report; raise before it if a number is not finite."""
        state = self.state
        rate = phase.learning_rate(state.phase_step, state.seconds[-1])
        set_learning_rate(optimizer, rate)
        loss, parts, seconds = self._all_reduce(*self.gradients(phase, batch))
        norm = float(gradient_norm(self.predictor))
        numbers = {"loss": loss, "gradient": norm, "learning rate": rate}
        check_finite(state.step, self.predictor, numbers)
        optimizer.step()
        optimizer.zero_grad(set_to_none=True)
        self._score = inf
        state.step += 1
        state.phase_step += 1
        state.seconds[-1] += seconds
        return StepReport(
            step=state.step, phase=state.phase, loss=loss, lr=rate, gradient=norm, samples=phase.batch_size,
            seconds=seconds, loss_parts=parts,
        )  # fmt: skip

    def gradients(self, phase: Phase, batch: TrainingBatch) -> tuple[Tensor, Metrics]:
        """Compute the gradient of the whole batch, over all processes; return this process's share of loss and parts.

        Each accumulation step's loss is weighted as in one big batch before the backward pass: the gate clip depends on
        its scale.
        """
        world, rows = self.fabric.world_size, len(batch.frames)
        batch = batch._replace(
            predict=phase.predict, teacher_forcing=phase.teacher_forcing, reward_weight=phase.reward_weight
        )
        size = rows // self.options.accumulate
        total = torch.zeros((), device=batch.frames.device)
        parts: Metrics = {}
        for first in range(0, rows, size):
            part = batch.rows(first, first + size)
            with self.fabric.no_backward_sync(self.network, enabled=first + size < rows):
                loss, metrics = self.network(part)
                loss = loss * (size / (rows * world))
                self.fabric.backward(loss)
            total += loss.detach()
            for name, value in metrics.items():
                parts[name] = parts.get(name, torch.zeros_like(total)) + value.detach() * (size / (rows * world))
        if world > 1:  # DDP averages the processes' gradients; this is their sum
            torch._foreach_mul_([w.grad for w in self.predictor.parameters() if w.grad is not None], float(world))
        return total, parts

    def _all_reduce(self, loss: Tensor, parts: Metrics) -> tuple[float, dict[str, float], float]:
        """Return loss and parts over all processes, and the seconds since the last update; all learn of a stop."""
        now, names = self._now(), sorted(parts)
        numbers = [float(loss), float(self.stop.number), (now - self._ticked) / self.fabric.world_size]
        own = torch.tensor(numbers + [float(parts[name]) for name in names])
        self._ticked = now
        sums: Any = self.fabric.all_reduce(own.to(self.fabric.device), reduce_op="sum")
        total, stop, seconds, *values = sums.tolist()
        self._stopping = 0 if not stop else self.stop.number or 15
        return total, dict(zip(names, values, strict=True)), seconds

    def _optimizer(self) -> Optimizer:
        """Return the phase's optimizer: new, or with the state of the checkpoint."""
        optimizer = make_optimizer(self.config.optimizer, self.predictor)
        if self._optimizer_state:
            restore_optimizer(optimizer, self._optimizer_state)
        self._optimizer_state = None
        return optimizer

    def _report(self, phase: Phase, report: StepReport) -> tuple[bool, bool]:
        """Report an update, evaluate if due; return whether the phase is over, and whether the score is the best."""
        state, improved = self.state, False
        over = phase.progress(state.phase_step, state.seconds[-1]) >= 1.0
        if self.log:
            self.log.step(report)
        self._show(phase, report)
        if over or state.phase_step % self.config.evaluate_every == 0:
            improved = self.evaluate()
            over = over or (phase.patience is not None and state.stale >= phase.patience)
        return over, improved

    def _show(self, phase: Phase, report: StepReport) -> None:
        self._speed.add(report)
        name = f"phase {report.phase + 1}/{len(self.config.phases)}"
        progress = phase.progress(self.state.phase_step, self.state.seconds[-1])
        self.display.show(name, progress, lambda: self._speed.text(report.step, self.seconds_left()))

    def evaluate(self) -> bool:
        """Measure the held-out error, report it, and return whether it is the best so far."""
        state, report = self.state, self.measure()
        shared: Any = self.fabric.all_reduce(torch.tensor(report.score, device=self.fabric.device), reduce_op="mean")
        self.display.print(f"step {state.step:,}: held-out {report.text()}")
        if self.log:
            self.log.held_out(state.step, state.phase, sum(state.seconds), report)
        self.report, self._score = report, float(shared)
        return state.add_score(self._score)

    def measure(self) -> HeldOutReport:
        """Return the held-out error of the weights as they are."""
        self.predictor.eval()
        report = self.held_out.measure(self.predictor)
        self.predictor.train()
        return report

    def _save_if_due(self, optimizer: Optimizer | None, *, now: bool) -> None:
        if now or self._saver.due:
            self.save(optimizer)

    def save(self, optimizer: Optimizer | None) -> None:
        """Write a checkpoint unless the weights are not finite; only the first process writes."""
        check_finite(self.state.step, self.predictor)
        if self.fabric.is_global_zero:
            unlogged = self.log.unlogged() if self.log else []
            training, digest = self.config.to_dict(), self.data.store.digest
            files = to_files(self.predictor, optimizer, self.state, training, digest, unlogged)
            self._saver.save(self.state.step, files, score=self._score)
        self._saver.restart_clock()

    def seconds_left(self) -> float | None:
        """Return the seconds, by the clock of the config, that are left for the phases; None if that is unknown."""
        left = 0.0
        for number, phase in enumerate(self.config.phases[self.state.phase :], self.state.phase):
            here = number == self.state.phase
            done, used = (self.state.phase_step, self.state.seconds[-1]) if here else (0, 0.0)
            step_seconds = self.step_seconds.get(number)
            limits = [60 * phase.minutes - used] if phase.minutes else []
            limits += [(phase.steps - done) * step_seconds] if phase.steps and step_seconds else []
            if not limits:
                return None
            left += max(0.0, min(limits))
        return left


def _require_even(training: TrainingConfig, world: int, accumulate: int) -> None:
    for number, phase in enumerate(training.phases, 1):
        if phase.batch_size % (world * accumulate):
            raise UserError(
                f"phase {number} has batches of {phase.batch_size} windows, which {world} process(es) and --accumulate "
                f"{accumulate} cannot share evenly; choose numbers whose product divides it"
            )


def make_fabric(config: TrainConfig) -> Fabric:
    """Return a Fabric of the device and processes asked for, launched."""
    device = _device(config)
    workers, nodes = _torchrun() or (config.devices, 1)
    fabric = Fabric(
        accelerator=device.type,
        devices=workers if device.index is None else [device.index],
        num_nodes=nodes,
        strategy="ddp" if workers * nodes > 1 else "auto",
        precision="bf16-mixed" if in_bfloat16(config, device) else "32-true",
    )
    fabric.launch()
    return fabric


def _torchrun() -> tuple[int, int] | None:
    """Return processes per node and nodes, if torchrun started this process."""
    if "TORCHELASTIC_RUN_ID" not in os.environ:
        return None
    local = int(os.environ["LOCAL_WORLD_SIZE"])
    return local, int(os.environ["WORLD_SIZE"]) // local


def _device(config: TrainConfig) -> torch.device:
    device = pick_device(config.device)
    if device.index is not None and config.devices > 1:
        raise UserError(f"--device {config.device} is one device; use --device cuda with --devices {config.devices}")
    count = {"cuda": torch.cuda.device_count(), "mps": 1}.get(device.type, config.devices)
    if config.devices > count:
        raise UserError(f"--devices {config.devices}: this machine has {count} {device.type} device(s)")
    return device


def in_bfloat16(config: TrainConfig, device: torch.device) -> bool:
    """Return whether --precision means bfloat16 on a device; raise UserError where it is asked for and does not run."""
    if config.precision == "auto":
        return on_gpu_preset(config, device) and has_bfloat16(device)
    if config.precision == "bf16" and not has_bfloat16(device):
        raise UserError(f"--precision bf16: bfloat16 does not run on this {device.type}; use --precision 32")
    return config.precision == "bf16"


def to_compile(config: TrainConfig, device: torch.device) -> bool:
    """Return whether --compile means that the networks are compiled on a device."""
    return on_gpu_preset(config, device) if config.compile == "auto" else config.compile == "on"


def on_gpu_preset(config: TrainConfig, device: torch.device) -> bool:
    """Return whether the preset and the device are for GPUs."""
    return config.preset == "gpu" and device.type == "cuda"
