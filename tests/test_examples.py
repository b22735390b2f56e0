"""The examples run, in small, and are short."""

from __future__ import annotations

import runpy
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import acvp

EXAMPLES = sorted((Path(__file__).parent.parent / "examples").glob("*.py"))
LONGEST = 60
"""Lines of an example."""


def run(name: str, **options: Any) -> Any:
    """Run the main function of an example, and return its result."""
    (file,) = [file for file in EXAMPLES if file.stem == name]
    return runpy.run_path(str(file))["main"](**options)


def own_game(folder: Path) -> None:
    future = run("own_game", folder=folder, frames=600, preset="smoke")
    assert future.shape == (3, 24, 24, 3)
    assert future.any()


def dataset_to_torch(folder: Path) -> None:
    acvp.collect("toy", folder / "data", frames=600)
    few, many = (run("dataset_to_torch", data=folder / "data", steps=steps, batch_size=8) for steps in (1, 60))
    assert many < few


def hub_folder(folder: Path) -> None:
    predictor = run("hub_folder", folder=folder / "shared")
    assert predictor.about.env_id == "ALE/Freeway-v5"
    assert {file.name for file in (folder / "shared").iterdir()} == {"config.json", "model.safetensors", "README.md"}


def imagined_ppo(folder: Path) -> None:
    scores = run("imagined_ppo", folder=folder, frames=60, steps=4, max_steps=10)
    assert scores.steps == [10, 10]


def informed_exploration(folder: Path) -> None:
    dqn = run("informed_exploration", steps=16, max_steps=30)
    assert dqn.num_timesteps == 16
    up = 1  # from the second step on the only action that leads to new frames
    assert (dqn.replay_buffer.actions[1:8] == up).all()


def own_metric(folder: Path) -> None:
    curves = run("own_metric", folder=folder, frames=600, preset="smoke")
    assert curves.keys() == {"run", "copy-last-frame", "mean-frame"}
    assert all(0 <= value < 255 for curve in curves.values() for value in curve)
    assert (folder / "run" / "plots" / "brightness.png").exists()


def own_predictor(folder: Path) -> None:
    future = run("own_predictor", folder=folder, frames=600, preset="smoke")
    assert future.shape == (5, 24, 24, 3)
    assert future.any()


CHECKS: dict[str, Callable[[Path], None]] = {
    "own_game": own_game,
    "dataset_to_torch": dataset_to_torch,
    "hub_folder": hub_folder,
    "imagined_ppo": imagined_ppo,
    "informed_exploration": informed_exploration,
    "own_metric": own_metric,
    "own_predictor": own_predictor,
}
"""Runs each example in a folder, and checks what it returns."""


def test_every_example_is_run() -> None:
    assert [file.stem for file in EXAMPLES] == sorted(CHECKS)


@pytest.mark.parametrize("file", EXAMPLES, ids=lambda file: file.stem)
def test_examples_are_short(file: Path) -> None:
    assert len(file.read_text().splitlines()) <= LONGEST


@pytest.mark.slow
@pytest.mark.usefixtures("built_in_metrics")
@pytest.mark.parametrize("name", CHECKS)
def test_examples_run(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    CHECKS[name](tmp_path)
