"""python -m benchmarks.dreams: do predictions hold while somebody plays?

Records every game with two drivers, its packaged agent and sticky-random actions, and lets the packaged predictor look
ahead from windows of these episodes. Beside the curves of `acvp evaluate` it measures how often keys still work after
some predicted steps. Writes results/dreams/<game>-<driver>.json.
"""

from __future__ import annotations

import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import tyro

import acvp
from acvp.bootstrap import Bootstrap
from acvp.console import stages
from acvp.data.windows import Window, choose_starts
from acvp.evaluation.keys import HELD, KeyTest, measure_keys
from acvp.loaded import as_model, baselines
from acvp.runs import numbers
from benchmarks.provenance import write_results

EPSILON = 0.05
"""Share of random actions of the agent that drives."""
METRICS = ("wrong_pixels", "error", "object_found", "object_kept", "object_distance")
"""Curves of evaluation.json that are kept."""


@dataclass(frozen=True, kw_only=True)
class DreamsConfig:
    """Judge the packaged predictors while an agent plays."""

    games: tuple[str, ...] = ("freeway", "space_invaders", "seaquest", "qbert", "ms_pacman")
    """Names of packaged predictors."""
    drivers: tuple[str, ...] = ("agent", "sticky-random")
    """What chooses the actions: agent (the packaged one) or a policy of acvp collect."""
    frames: int = 20_000
    """Frames recorded per driver."""
    windows: int = 100
    """Windows judged."""
    steps: tuple[int, ...] = (1, 10, 30, 100)
    """Predicted steps after which keys are tried; the last one is the horizon."""
    seed: int = 7_001
    """Seed of recordings and windows; training used others."""
    home: Path = Path("dreams")
    """Folder of recordings and evaluations."""


def main(config: DreamsConfig) -> None:
    """Measure every game with every driver, and print a line each."""
    for game in config.games:
        for driver in config.drivers:
            print(line(game, driver, judge(game, driver, config)), flush=True)


def judge(game: str, driver: str, config: DreamsConfig) -> dict[str, Any]:
    """Record a game, evaluate its packaged predictor on it, and write the results."""
    started = time.monotonic()
    folder = config.home / f"{game}-{driver}"
    policy = f"agent:{game}" if driver == "agent" else driver
    epsilon = EPSILON if driver == "agent" else 0.3
    acvp.collect(game, folder / "data", frames=config.frames, policy=policy, epsilon=epsilon, seed=config.seed)
    options: dict[str, Any] = {"horizon": max(config.steps), "windows": config.windows, "seed": config.seed}
    curves = acvp.evaluate(game, folder / "data", folder / "evaluation", shuffled_windows=0, videos=0, **options)
    body = {
        "what": f"the packaged predictor of {game} on episodes of {policy}, ε = {epsilon}",
        "windows": config.windows,
        "keys": keys(game, folder / "data", config),
        "curves": {
            model: {name: curve[name] for name in METRICS if name in curve} for model, curve in curves["curves"].items()
        },
        "rewards": curves.get("outcomes"),
    }
    command = f"python -m benchmarks.dreams --games {game} --drivers {driver} --windows {config.windows}"
    write_results(f"dreams/{game}-{driver}", body, command=command, seed=config.seed, started=started)
    return body


def keys(game: str, data: Path, config: DreamsConfig) -> dict[str, Any]:
    """Return how often keys work after each number of predicted steps, with bands over episodes."""
    store, model = acvp.EpisodeStore(data), as_model(Path(game), acvp.load(game), "cpu")
    context = model.predictor.context
    window = Window(context, max(config.steps))
    starts = choose_starts(store, window, config.windows, seed=config.seed, option="steps")
    test = KeyTest(store=store, windows=starts, context=context, steps=config.steps)
    with stages() as stage:
        works = measure_keys([model, *baselines(model)], test, stage("keys"))
    bootstrap = Bootstrap(len(store), seed=config.seed)
    curves = {name: bootstrap.curve(accumulator) for name, accumulator in works.items()}
    judged = works[model.name].counts.sum(0).astype(int).tolist()
    shares = {
        name: {part: numbers(np.asarray(getattr(curve, part))) for part in ("mean", "low", "high")}
        for name, curve in curves.items()
    }
    return {"steps": list(config.steps), "held": HELD, "windows_judged": judged, "works": shares}


def line(game: str, driver: str, body: dict[str, Any]) -> str:
    """Return the results of a game in a line."""
    works = body["keys"]["works"][game]["mean"]
    shown = " / ".join("–" if share is None else f"{share:.2f}" for share in works)
    steps = " / ".join(str(step) for step in body["keys"]["steps"])
    return f"{game}, {driver}: keys work at {steps}: {shown}"


if __name__ == "__main__":
    main(tyro.cli(DreamsConfig, description=__doc__))
