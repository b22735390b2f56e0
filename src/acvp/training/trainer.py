"""The training loop: phases of updates, held-out evaluations, checkpoints.

Shapes: B windows, L frames of a window, K predicted steps.

What stops a run in time: numbers that are no numbers.
"""

from __future__ import annotations

import time
from collections.abc import Mapping
from contextlib import closing
from math import inf, isfinite
from types import MappingProxyType
from typing import Any

import torch
from lightning_fabric import Fabric
from torch import Tensor, nn
from torch.optim import Optimizer

from acvp.checkpoint import prune, restore_optimizer, save_checkpoint
from acvp.errors import UserError
from acvp.exits import StoppedError, StopRequest
from acvp.models import Predictor, TrainingBatch
from acvp.runs import RunFolder
from acvp.training.config import Phase, TrainConfig, TrainingConfig
from acvp.training.data import TrainingData, to_device
from acvp.training.log import Display, StepReport, TrainingLog
from acvp.training.optimizers import make_optimizer, set_learning_rate
from acvp.training.state import Position, to_files
from acvp.training.validation import HeldOut, HeldOutReport


class DivergenceError(Exception):
    """Loss, gradient, weights or learning rate stopped being numbers; nothing was updated with them."""


def gradient_norm(network: nn.Module) -> Tensor:
    """Return the norm of all gradients together; it is not finite where any of them is not."""
    gradients = [weight.grad for weight in network.parameters() if weight.grad is not None]
    return _norm(gradients)


def refuse_divergence(step: int, network: nn.Module, numbers: Mapping[str, float] = MappingProxyType({})) -> None:
    """Raise unless the weights and everything that the update of a step is made of are finite."""
    weights = float(_norm([weight.detach() for weight in network.parameters()]))
    for name, value in {**numbers, "norm of the weights": weights}.items():
        if not isfinite(value):
            raise DivergenceError(
                f"step {step}: the {name} is {value}; stopped before the update, the last checkpoint is untouched; "
                "try a lower learning rate"
            )


def _norm(tensors: list[Tensor]) -> Tensor:
    norm: Tensor = torch.linalg.vector_norm(torch.stack(torch._foreach_norm(tensors)))
    return norm


class Objective(nn.Module):
    """A predictor's loss as a module: what runs in other processes and in lower precision is its forward pass."""

    def __init__(self, predictor: Predictor) -> None:
        super().__init__()
        self.predictor = predictor

    def forward(self, batch: TrainingBatch) -> tuple[Tensor, dict[str, Tensor]]:
        """Return the loss of a batch and its parts."""
        return self.predictor.loss(batch)


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
        position: Position | None = None,
        moments: dict[str, Tensor] | None = None,
    ) -> None:
        """Take everything that training needs; `position` and `moments` are those of a checkpoint to go on from."""
        self.fabric, self.config, self.data, self.options, self.run = fabric, training, data, options, run
        self.display, self.log, self.stop = display, log, stop
        self.position = position or Position()
        self._moments = moments
        self.network: Any = fabric.setup_module(Objective(predictor))
        self.predictor = predictor
        self.held_out = HeldOut(*data.held_out())
        self.step_seconds: dict[int, float] = {}
        self.report: HeldOutReport | None = None
        self._saved = self._ticked = time.monotonic()
        self._score = inf
        self._stopping = 0
        _refuse_uneven(training, fabric.world_size, options.accumulate)

    def fit(self) -> None:
        """Train through all phases that are left."""
        self._ticked = self._saved = time.monotonic()
        while self.position.phase < len(self.config.phases):
            self._fit_phase(self.config.phases[self.position.phase])

    def refuse_to_go_on(self, *done: int) -> None:
        """Raise where a signal asks to stop, in the middle of something long before the first update."""
        if self.stop.number and self.fabric.world_size == 1:
            raise StoppedError(self.stop.number)

    def _fit_phase(self, phase: Phase) -> None:
        optimizer = self._optimizer()
        fabric, first = self.fabric, self.position.step
        share = {"rank": fabric.global_rank, "world_size": fabric.world_size, "threads": self.options.threads}
        with closing(self.data.batches(phase, first, **share)) as batches:
            over = False
            while not over:
                report = self.update(phase, optimizer, to_device(next(batches), self.predictor.normalizer))
                over, improved = self._judge(phase, report)
                if over:
                    self.position.next_phase()
                self._save_if_due(None if over else optimizer, now=over or improved or self._stopping > 0)
                if self._stopping:
                    raise StoppedError(self._stopping)

    def update(self, phase: Phase, optimizer: Optimizer, batch: TrainingBatch) -> StepReport:
        """Do one update and return what it was; raise before it where a number is none."""
        position = self.position
        rate = phase.learning_rate(position.phase_step, position.seconds[-1])
        set_learning_rate(optimizer, rate)
        loss, seconds = self._agree(self.gradients(phase, batch))
        norm = float(gradient_norm(self.predictor))
        numbers = {"loss": loss, "gradient": norm, "learning rate": rate}
        refuse_divergence(position.step, self.predictor, numbers)
        optimizer.step()
        optimizer.zero_grad(set_to_none=True)
        self._score = inf
        position.step += 1
        position.phase_step += 1
        position.seconds[-1] += seconds
        return StepReport(
            step=position.step, phase=position.phase, loss=loss, lr=rate, gradient=norm, samples=phase.batch_size,
            seconds=seconds,
        )  # fmt: skip

    def gradients(self, phase: Phase, batch: TrainingBatch) -> Tensor:
        """Leave the gradient of the whole batch, over all processes, and return this process's share of the loss.

        Every part's loss is weighted as in one big batch before it goes backward, for the gate clip sees its scale.
        """
        world, rows = self.fabric.world_size, len(batch.frames)
        batch = batch._replace(
            predict=phase.predict, teacher_forcing=phase.teacher_forcing, reward_weight=phase.reward_weight
        )
        size = rows // self.options.accumulate
        total = torch.zeros((), device=batch.frames.device)
        for first in range(0, rows, size):
            part = batch.rows(first, first + size)
            with self.fabric.no_backward_sync(self.network, enabled=first + size < rows):
                loss, _ = self.network(part)
                loss = loss * (size / (rows * world))
                self.fabric.backward(loss)
            total += loss.detach()
        if world > 1:  # the processes' gradients were averaged: what is wanted is their sum
            torch._foreach_mul_([w.grad for w in self.predictor.parameters() if w.grad is not None], float(world))
        return total

    def _agree(self, loss: Tensor) -> tuple[float, float]:
        """Return the loss over all processes and the seconds since the last update; note a stop."""
        now = time.monotonic()
        mine = torch.tensor([float(loss), float(self.stop.number), (now - self._ticked) / self.fabric.world_size])
        self._ticked = now
        ours: Any = self.fabric.all_reduce(mine.to(self.fabric.device), reduce_op="sum")
        total, stop, seconds = ours.tolist()
        self._stopping = 0 if not stop else self.stop.number or 15
        return total, seconds

    def _optimizer(self) -> Optimizer:
        """Return the phase's optimizer: new, or as the checkpoint left it."""
        optimizer = make_optimizer(self.config.optimizer, self.predictor)
        if self._moments:
            restore_optimizer(optimizer, self._moments)
        self._moments = None
        return optimizer

    def _judge(self, phase: Phase, report: StepReport) -> tuple[bool, bool]:
        """Report an update, evaluate where it is time to; return whether the phase is over, and a best score."""
        position, improved = self.position, False
        over = phase.progress(position.phase_step, position.seconds[-1]) >= 1.0
        if self.log:
            self.log.step(report)
        self.display.step(report, phase.progress(position.phase_step, position.seconds[-1]), self.seconds_left)
        if over or position.phase_step % self.config.evaluate_every == 0:
            improved = self.evaluate()
            over = over or (phase.patience is not None and position.stale >= phase.patience)
        return over, improved

    def evaluate(self) -> bool:
        """Measure the held-out error, report it, and return whether it is the best so far."""
        position, report = self.position, self.measure()
        shared: Any = self.fabric.all_reduce(torch.tensor(report.score, device=self.fabric.device), reduce_op="mean")
        self.display.held_out(position.step, report)
        if self.log:
            self.log.held_out(position.step, position.phase, sum(position.seconds), report)
        self.report, self._score = report, float(shared)
        return position.judge(self._score)

    def measure(self) -> HeldOutReport:
        """Return the held-out error of the weights as they are."""
        self.predictor.eval()
        report = self.held_out.measure(self.predictor)
        self.predictor.train()
        return report

    def _save_if_due(self, optimizer: Optimizer | None, *, now: bool) -> None:
        if now or time.monotonic() - self._saved >= 60 * self.options.save_minutes:
            self.save(optimizer)
            self._saved = time.monotonic()

    def save(self, optimizer: Optimizer | None) -> None:
        """Write a checkpoint and prune older ones, unless the weights are corrupted; only the first process writes."""
        refuse_divergence(self.position.step, self.predictor)
        if self.fabric.is_global_zero:
            unlogged = self.log.unlogged() if self.log else []
            training, digest = self.config.to_dict(), self.data.store.digest
            files = to_files(self.predictor, optimizer, self.position, training, digest, unlogged)
            save_checkpoint(self.run.checkpoints, self.position.step, files, score=self._score)
            prune(self.run.checkpoints, self.options.keep)

    def seconds_left(self) -> float | None:
        """Return the wall-clock seconds that the phases have left; None where that cannot be foreseen."""
        left = 0.0
        for number, phase in enumerate(self.config.phases[self.position.phase :], self.position.phase):
            here = number == self.position.phase
            done, used = (self.position.phase_step, self.position.seconds[-1]) if here else (0, 0.0)
            each = self.step_seconds.get(number)
            ends = [60 * phase.minutes - used] if phase.minutes else []
            ends += [(phase.steps - done) * each] if phase.steps and each else []
            if not ends:
                return None
            left += max(0.0, min(ends))
        return left


def _refuse_uneven(training: TrainingConfig, world: int, accumulate: int) -> None:
    for number, phase in enumerate(training.phases, 1):
        if phase.batch_size % (world * accumulate):
            raise UserError(
                f"phase {number} has batches of {phase.batch_size} windows, which {world} process(es) and --accumulate "
                f"{accumulate} cannot share evenly; choose numbers whose product divides it"
            )
