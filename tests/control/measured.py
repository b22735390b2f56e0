"""Measurements of control and exploration on Trail, with an oracle in place of a predictor."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any
from unittest.mock import patch

import numpy as np
from PIL import Image

from acvp.console import Progress
from acvp.control import explore as exploring
from acvp.control import run as controlling
from acvp.control.config import ControlConfig, ExploreConfig
from acvp.models import Predictor
from tests.control.trail import HashAgent, TrailOracle


class Stages:
    """What a progress bar was told."""

    def __init__(self) -> None:
        self.names: list[str] = []
        self.last = (0, 0)

    def __call__(self, name: str) -> Progress:
        self.names.append(name)

        def show(done: int, total: int) -> None:
            self.last = (done, total)

        return show


def load_oracle(path: Path) -> Predictor:
    return TrailOracle(context=2)


def load_agent(name: str) -> HashAgent:
    return HashAgent()


def control_runs(
    config: ControlConfig, stages: Stages, load: Callable[[Path], Predictor], read_agent: Callable[[str], Any]
) -> dict[str, Any]:
    with patch.object(controlling, "load", load), patch.object(controlling, "load_agent", read_agent):
        return controlling.control_runs(config, stages)


def explore_game(config: ExploreConfig, stages: Stages, load: Callable[[Path], Predictor]) -> dict[str, Any]:
    with patch.object(exploring, "load", load):
        return exploring.explore_game(config, stages)


def read(file: Path) -> dict[str, Any]:
    body: dict[str, Any] = json.loads(file.read_text())
    told = body.pop("provenance")
    assert told.keys() >= {"command", "commit", "machine", "seconds", "seed", "versions", "peak_memory_mb"}
    return body


def check_pictures(folder: Path, *names: str) -> None:
    assert {path.name for path in folder.iterdir()} == {f"{name}.{kind}" for name in names for kind in ("png", "svg")}
    for name in names:
        assert len(np.unique(np.asarray(Image.open(folder / f"{name}.png").convert("L")))) > 10
        assert b"<svg" in (folder / f"{name}.svg").read_bytes()
