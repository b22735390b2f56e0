"""Runs of `acvp agent train` that take a moment, and what they came to."""

from __future__ import annotations

import io
import json
import os
import signal
from pathlib import Path
from typing import Any

import pytest
from rich.console import Console

from acvp.agents.config import AgentTrainConfig
from acvp.agents.presets import DqnConfig
from acvp.agents.run import train_agent
from acvp.agents.trainer import REPLAY_NAME, STATE_NAME, TENSORS_NAME, AgentTrainer
from acvp.checkpoint import newest_good
from acvp.harness import Result
from tests.agents.small import SMALL_TOY, TINY

SHORT = DqnConfig(
    name="smoke", network=TINY, optimizer="adam", lr=1e-2, batch_size=4, return_steps=2, replay=60, learning_starts=16,
    games=2, steps_per_update=2, target_every=10, epsilon_share=0.5, exploration="sticky-random", episodic_life=True,
    steps=160, evaluations=2, evaluate_episodes=1,
)  # fmt: skip
"""A run of a moment, in which the replay overflows and plays end."""


def run(folder: Path, text: io.StringIO | None = None, **options: Any) -> Result:
    """Train in this process; what is printed goes to `text`."""
    usual: dict[str, Any] = {"env_id": SMALL_TOY, "preset": "smoke", "run": folder, "max_steps": 37, "save_minutes": 99}
    config = AgentTrainConfig(**(usual | options))
    return train_agent(config, Console(file=text or io.StringIO(), soft_wrap=True, highlight=False))


def stop_at(decision: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Send this process SIGTERM when a run comes to a decision; 0: never."""
    real = AgentTrainer._before_round

    def before_round(trainer: AgentTrainer) -> bool:
        if trainer.dqn.num_timesteps == decision:
            os.kill(os.getpid(), signal.SIGTERM)
        return real(trainer)

    monkeypatch.setattr(AgentTrainer, "_before_round", before_round)


def outcome(folder: Path) -> dict[str, Any]:
    """Everything that a run came to, apart from times."""
    checkpoint = newest_good(folder / "checkpoints", print)
    assert checkpoint is not None
    state = json.loads(checkpoint.files[STATE_NAME])
    del state["trainer"]["seconds"]
    curve = json.loads((folder / "agent" / "learning-curve.json").read_text())
    return {
        "state": state,
        "tensors": checkpoint.files[TENSORS_NAME],
        "replay": checkpoint.files.get(REPLAY_NAME),
        "agent": (folder / "agent" / "model.safetensors").read_bytes(),
        "curve": [(point["step"], point["updates"], point["scores"]) for point in curve["points"]],
        "references": curve["references"],
    }
