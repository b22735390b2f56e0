"""Runs of `acvp agent learn` that take a moment."""

from __future__ import annotations

import io
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from rich.console import Console

from acvp.agents import presets as agent_presets
from acvp.agents import run as session
from acvp.control import loop, rounds
from acvp.control.config import LearnConfig
from acvp.models.calibration import calibrate
from acvp.training import presets
from tests.agents.short_runs import SHORT
from tests.agents.small import SMALL_TOY

BUDGET, ROUNDS = 400, 2


def shorten(patch: pytest.MonkeyPatch) -> None:
    """Make rounds a moment long: four updates of the predictor, forty imagined steps of the agent."""

    def smoke(predictor: Any) -> Any:
        made = presets.smoke(predictor)
        phase = replace(made.phases[0], steps=4, batch_size=2)
        return replace(made, phases=(phase,), evaluate_every=4, windows=2, horizons=(1,))

    patch.setitem(presets.PRESETS, "smoke", smoke)
    patch.setitem(agent_presets.PRESETS, "smoke", lambda: SHORT)
    patch.setattr(session, "EVALUATION_STEPS", 15)
    patch.setattr(loop, "EVALUATION_STEPS", 15)
    patch.setattr(rounds, "calibrate", partial(calibrate, count=40))


def config(folder: Path, **options: Any) -> LearnConfig:
    """Two rounds in the small toy game."""
    usual: dict[str, Any] = {
        "env_id": SMALL_TOY, "budget": BUDGET, "rounds": ROUNDS, "model": "feedforward", "preset": "smoke",
        "minutes": None, "agent_preset": "smoke", "agent_steps": 40, "horizon": 5, "evaluate_episodes": 1,
        "policy": ("sticky-random",), "references": False, "device": "cpu",
    }  # fmt: skip
    return LearnConfig(run=folder, **(usual | options))


def learn(folder: Path, **options: Any) -> int:
    """Run all rounds in this process, or those that are left."""
    return loop.learn(config(folder, **options), Console(file=io.StringIO()))
