"""What a run writes down while an agent learns: metrics.jsonl and the same for TensorBoard."""

from __future__ import annotations

from math import isfinite
from typing import Any

from stable_baselines3.common.logger import KVWriter
from torch.utils.tensorboard import SummaryWriter

from acvp.agents.play import Scores
from acvp.runs import RunFolder


class AgentLog(KVWriter):
    """Takes what Stable-Baselines3 records, under its names; `step` counts decisions of all games."""

    def __init__(self, run: RunFolder, last_step: int = -1) -> None:
        """Continue after the step of a checkpoint."""
        self._run = run
        self._board = SummaryWriter(str(run.tensorboard), purge_step=last_step + 1)

    def write(self, key_values: dict[str, Any], key_excluded: dict[str, tuple[str, ...]], step: int = 0) -> None:
        """Write a line of training."""
        values = {name: float(value) for name, value in key_values.items() if isinstance(value, int | float)}
        self._run.add_metrics({"kind": "train", "step": step} | values)
        for name, value in values.items():
            if isfinite(value):
                self._board.add_scalar(name, value, step)

    def evaluation(self, step: int, updates: int, seconds: float, scores: Scores, *, epsilon: float) -> None:
        """Write a point of the learning curve; `seconds` is the wall-clock time of the run so far."""
        self._run.add_metrics(
            {
                "kind": "evaluation",
                "step": step,
                "updates": updates,
                "seconds": round(seconds, 1),
                "epsilon": epsilon,
                "mean": scores.mean,
                "standard_error": scores.standard_error,
                "scores": [play.score for play in scores.plays],
            }
        )
        self._board.add_scalar("evaluation/score", scores.mean, step)
        self._board.flush()

    def flush(self) -> None:
        """Put what was logged on the disk, before a checkpoint that comes after it."""
        self._board.flush()

    def close(self) -> None:
        """Write the rest."""
        self._board.close()
