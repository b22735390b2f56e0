"""python -m benchmarks.own_data: are short episodes, continuous actions and LeRobot datasets trained on and evaluated?

A MiniGrid game of nine-frame episodes, a game with continuous actions, and a LeRobot dataset (written by acvp data
export, for none can be downloaded here): each by ordinary commands, in a few minutes of a core. Writes
results/scale/own-data.json. Options: names of cases, to measure these alone.
"""

from __future__ import annotations

import json
import shlex
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import gymnasium

from acvp.data.store import EpisodeStore
from acvp.runs import RunFolder
from benchmarks.provenance import RESULTS, part_origin, write_results

ROOT = Path(__file__).parent.parent
NINE_FRAMES = "acvp-benchmarks/NineFrames-v0"
SHOWN = ("mse", "wrong_pixels")
"""Metrics of acvp evaluate that are written."""


def nine_frames() -> gymnasium.Env[Any, Any]:
    """Return MiniGrid's empty room as an image, from a random place and direction, for eight agent steps at most."""
    from minigrid.wrappers import ImgObsWrapper, RGBImgObsWrapper

    room = gymnasium.make("MiniGrid-Empty-Random-5x5-v0", max_steps=8)
    env: gymnasium.Env[Any, Any] = ImgObsWrapper(RGBImgObsWrapper(room, tile_size=6))  # type: ignore[no-untyped-call]
    return env


if NINE_FRAMES not in gymnasium.registry:
    gymnasium.register(NINE_FRAMES, entry_point="benchmarks.own_data:nine_frames")


@dataclass(frozen=True, kw_only=True)
class Case:
    """A dataset and how it is used; `{}` stands for a temporary folder."""

    data: tuple[str, ...]
    """Commands that make the dataset {}/data."""
    train: str
    """Options of its training."""
    horizon: int
    """Predicted steps."""

    def commands(self) -> list[str]:
        """Return all commands."""
        evaluate = f"evaluate --predictors {{}}/run --data {{}}/data --horizon {self.horizon} --windows 200"
        return [
            *self.data,
            "data verify {}/data",
            f"train --data {{}}/data {self.train} --device cpu --run {{}}/run",
            f"{evaluate} --shuffled-windows 0 --videos 0 --device cpu --out {{}}/evaluation",
        ]


DRIFT = "--preset smoke --phases.0.steps 300 --phases.1.steps 30"
CASES = {
    "nine-frame episodes of MiniGrid": Case(
        data=(f"collect --env-id benchmarks.own_data:{NINE_FRAMES} --policy random --frames 4000 --out {{}}/data",),
        train="--model pixel --preset smoke --phases.0.steps 400",
        horizon=5,
    ),
    "continuous actions": Case(
        data=("collect --env-id acvp/Drift-v0 --frames 2000 --out {}/data",),
        train=DRIFT,
        horizon=10,
    ),
    "LeRobot dataset": Case(
        data=(
            "collect --env-id acvp/Drift-v0 --frames 2000 --seed 2 --out {}/recorded",
            "data export {}/recorded --format lerobot --out {}/lerobot",
            "data import {}/lerobot --format lerobot --out {}/data",
        ),
        train=DRIFT,
        horizon=10,
    ),
}


def measured(case: Case) -> dict[str, Any]:
    """Run the commands of a case, and return what the dataset is and how the predictor predicts it."""
    with tempfile.TemporaryDirectory() as name:
        for command in case.commands():
            print("acvp", command, flush=True)
            words = [word.replace("{}", name) for word in shlex.split(command)]
            subprocess.run([sys.executable, "-m", "acvp", *words], check=True, cwd=ROOT)
        folder = Path(name)
        store, lines = EpisodeStore(folder / "data"), RunFolder(folder / "run").metrics()
        lengths = [entry.frames for entry in store.entries]
        evaluation = json.loads((folder / "evaluation" / "evaluation.json").read_text())
    return {
        "commands": [f"acvp {command.replace('{}/', '')}" for command in case.commands()],
        "game": evaluation["game"],
        "frame": evaluation["frame"],
        "actions": list(store.info.action_meanings),
        "range of actions": store.info.action_range,
        "episodes": len(lengths),
        "frames": sum(lengths),
        "frames of an episode": {"shortest": min(lengths), "longest": max(lengths)},
        "updates": max(line["step"] for line in lines),
        "windows evaluated": evaluation["windows"],
        "held-out episodes": evaluation["test_part"],
        "by step": {
            metric: {model: curves[metric]["mean"] for model, curves in evaluation["curves"].items()}
            for metric in SHOWN
            if all(metric in curves for curves in evaluation["curves"].values())
        },
    }


def main(names: list[str]) -> None:
    """Measure the cases and write what there is so far after each."""
    started = time.monotonic()
    file = RESULTS / "scale" / "own-data.json"
    before = json.loads(file.read_text()) if names and file.exists() else {}
    body = {name: value for name, value in before.items() if name in CASES}
    for name in names or CASES:
        body[name] = measured(CASES[name]) | part_origin()
        write_results("scale/own-data", body, command="python -m benchmarks.own_data", seed=1, started=started)
    print(file)


if __name__ == "__main__":
    main(sys.argv[1:])
