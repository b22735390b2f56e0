"""The examples run, in small, and are short."""

from __future__ import annotations

import runpy
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import acvp
from benchmarks import notebook

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


def imagined_rllib(folder: Path) -> None:
    pytest.importorskip("ray", reason="RLlib pins an older Gymnasium: the example says what to install")
    scores = run("imagined_rllib", folder=folder, frames=60, iterations=2, batch=16, max_steps=10)
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


def planning(folder: Path) -> None:
    assert run("planning", steps=3, samples=3) == 0.0  # the street takes at least 43 steps


CHECKS: dict[str, Callable[[Path], None]] = {
    "own_game": own_game,
    "dataset_to_torch": dataset_to_torch,
    "hub_folder": hub_folder,
    "imagined_ppo": imagined_ppo,
    "imagined_rllib": imagined_rllib,
    "informed_exploration": informed_exploration,
    "own_metric": own_metric,
    "own_predictor": own_predictor,
    "planning": planning,
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


SHORTER = {"10_000": "600", "minutes=2": "preset='smoke'", "frames=400": "frames=200", "windows=40": "windows=2"}
"""What the notebook has instead in the test, so that it takes seconds."""


@pytest.mark.slow
@pytest.mark.usefixtures("built_in_metrics")
def test_the_notebook_runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    names: dict[str, Any] = {}
    kinds = []
    for cell in notebook.read()["cells"]:
        if cell["cell_type"] == "code":
            text = notebook.source(cell)
            for long, short in SHORTER.items():
                text = text.replace(long, short)
            kinds.append(type(notebook.run_cell(text, names)[1]).__name__)
    assert kinds == ["EpisodeStore", "Image", "str", "Image", "ndarray", "NoneType", "Image"]
    assert names["future"].shape == names["truth"].shape == (40, 24, 24, 3)
    assert len(names["frames"]) == 10


def test_the_notebook_shows_the_outputs_of_its_cells_and_is_small() -> None:
    cells = [cell for cell in notebook.read()["cells"] if cell["cell_type"] == "code"]
    assert [cell["execution_count"] for cell in cells] == list(range(1, len(cells) + 1))
    assert all(cell["outputs"] for cell in cells)
    assert notebook.TOUR.stat().st_size < 100_000
    for short in SHORTER:
        assert any(short in notebook.source(cell) for cell in cells)


def test_a_cell_gives_what_it_prints_and_its_last_value() -> None:
    names: dict[str, Any] = {}
    assert notebook.run_cell("a = 2\nprint(a)\na + 1", names) == ("2\n", 3)
    assert notebook.run_cell("b = a", names) == ("", None)
    assert names["b"] == 2
