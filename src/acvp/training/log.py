"""What a run writes down while it trains: metrics.jsonl and the same for TensorBoard."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import isfinite

from torch.utils.tensorboard import SummaryWriter

from acvp.runs import RunFolder
from acvp.training.heldout import HeldOutReport

LOG_EVERY = 25
"""Updates that a line of training metrics is the mean of."""


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


class TrainingLog:
    """The log of one process that writes; makes no difference to training."""

    def __init__(self, run: RunFolder, last_step: int = -1, unlogged: Sequence[StepReport] = ()) -> None:
        """Continue after the step of a checkpoint, with the updates before it that no line had yet."""
        self.run = run
        self._reports: list[StepReport] = list(unlogged)
        self._board = SummaryWriter(str(run.tensorboard), purge_step=last_step + 1)

    def step(self, report: StepReport) -> None:
        """Take in an update; every 25th writes a line with the means."""
        self._reports.append(report)
        if report.step % LOG_EVERY == 0:
            self.flush()

    def flush(self) -> None:
        """Write what has come in since the last line."""
        if not self._reports:
            return
        last, count = self._reports[-1], len(self._reports)
        seconds = sum(each.seconds for each in self._reports)
        values = {
            "loss": sum(each.loss for each in self._reports) / count,
            "lr": last.lr,
            "gradient_norm": sum(each.gradient for each in self._reports) / count,
            "samples_per_second": sum(each.samples for each in self._reports) / max(seconds, 1e-9),
        }
        self._write("train", last.step, last.phase, values)
        self._reports = []

    def held_out(self, step: int, phase: int, seconds: float, report: HeldOutReport) -> None:
        """Write a held-out evaluation; `seconds` is the wall-clock time of all training so far."""
        self.flush()
        where = {"step": step, "phase": phase, "seconds": round(seconds, 1)}
        self.run.add_metrics({"kind": "held-out"} | where | report.to_dict())
        curves = {"error": report.error, "copy_last": report.copy_last, "mse": report.mse}
        curves |= {"wrong": report.wrong, "copy_wrong": report.copy_wrong}
        for name, values in curves.items():
            for horizon, value in values.items():
                self._board.add_scalar(f"held-out/{name}-{horizon}", value, step)
        self._board.add_image("held-out/truth-above-prediction", report.strip, step, dataformats="HWC")
        self._board.flush()

    def unlogged(self) -> list[StepReport]:
        """Return what a checkpoint must hold of the log; what was logged before it is on the disk by then."""
        self._board.flush()
        return list(self._reports)

    def close(self) -> None:
        """Close the files; updates that no line has yet are left to the run that resumes."""
        self._board.close()

    def _write(self, kind: str, step: int, phase: int, values: dict[str, float]) -> None:
        self.run.add_metrics({"kind": kind, "step": step, "phase": phase} | values)
        for name, value in values.items():
            if isfinite(value):
                self._board.add_scalar(f"{kind}/{name}", value, step)
