"""python -m benchmarks.dreams: do predictions hold while somebody plays?

Records every game with two drivers, its packaged agent and sticky-random actions, and lets predictors look ahead from
windows of these episodes: error curves, whether the controlled object is kept, and how often keys still work. Writes
results/dreams/<game>-<driver>.json. Several predictors of a game are judged on the same windows. With --package, a
predictor that is better than the packaged ones with every driver becomes <game>-objects of the package. The results of
an earlier <game>-objects are read from the files that the new ones replace, so name the run's folder <game>-objects.
"""

from __future__ import annotations

import json
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import tyro

import acvp
from benchmarks.cards import median_lost, on_card
from benchmarks.pixel import PACKAGED, write_predictor
from benchmarks.provenance import RESULTS, write_results

EPSILON = {"agent": 0.05}
"""Share of random actions of a driver; others have 0.3."""
FIRST_STEPS = (1, 10)
"""Steps at which wrong pixels decide; later, a dream whose objects vanish has fewer than one that misplaces them."""
METRICS = ("wrong_pixels", "error", "object_found", "object_kept", "object_exact", "object_distance")
"""Curves of evaluation.json that are kept."""


@dataclass(frozen=True, kw_only=True)
class DreamsConfig:
    """Judge predictors while an agent plays."""

    games: tuple[str, ...] = ("freeway", "space_invaders", "seaquest", "qbert", "ms_pacman")
    """Names of packaged predictors."""
    predictor: Path | None = None
    """Another predictor or run of the one game to judge beside the packaged one; results get its name."""
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
    package: bool = False
    """Whether to package --predictor, if it is better."""


def main(config: DreamsConfig) -> None:
    """Measure every game with every driver, and print a line for each predictor."""
    for game in config.games:
        judged, earlier = {}, {driver: committed(f"{game}-objects", driver) for driver in config.drivers}
        for driver in config.drivers:
            judged[driver] = judge(game, driver, config)
            for line in lines(game, driver, judged[driver]):
                print(line, flush=True)
        if config.package and config.predictor is not None:
            package(game, config.predictor, judged, earlier)


def judge(game: str, driver: str, config: DreamsConfig) -> dict[str, Any]:
    """Record a game, evaluate its predictors on it, and write the results."""
    started = time.monotonic()
    folder = config.home / f"{game}-{driver}"
    policy = f"agent:{game}" if driver == "agent" else driver
    epsilon = EPSILON.get(driver, 0.3)
    acvp.collect(game, folder / "data", frames=config.frames, policy=policy, epsilon=epsilon, seed=config.seed)
    name = game if config.predictor is None else config.predictor.name
    body = acvp.evaluate(
        [game] if config.predictor is None else [config.predictor, game],
        folder / "data",
        folder / f"evaluation-{name}",
        horizon=max(config.steps),
        windows=config.windows,
        seed=config.seed,
        key_steps=config.steps,
        shuffled_windows=0,
        videos=0,
    )
    kept = {
        "what": f"predictors of {game} on episodes of {policy}, ε = {epsilon}",
        "windows": config.windows,
        "models": body["models"],
        "keys": body["keys"],
        "curves": {
            model: {metric: curve[metric] for metric in METRICS if metric in curve}
            for model, curve in body["curves"].items()
        },
        "lost": {model: median_lost(curve) for model, curve in body["curves"].items()},
        "rewards": body["outcomes"],
    }
    also = "" if config.predictor is None else f" --predictor {config.predictor.name}"
    command = f"python -m benchmarks.dreams --games {game} --drivers {driver} --windows {config.windows}{also}"
    write_results(f"dreams/{name}-{driver}", kept, command=command, seed=config.seed, started=started)
    return kept


def committed(name: str, driver: str) -> dict[str, Any] | None:
    """Return the results of a packaged predictor with a driver, as they are before this command writes others."""
    file = RESULTS / "dreams" / f"{name}-{driver}.json"
    results: dict[str, Any] | None = json.loads(file.read_text()) if file.exists() else None
    return results


def package(
    game: str, path: Path, judged: dict[str, dict[str, Any]], earlier: dict[str, dict[str, Any] | None]
) -> None:
    """Write a predictor into the package with what was measured on its card, unless it is worse than the packaged.

    ``earlier`` are the results of the packaged <game>-objects by driver; None where it was not judged.
    """
    folder, worse = PACKAGED / f"{game}-objects", []
    for driver, body in judged.items():
        before = earlier[driver]
        worse += [f"{driver}: {what}, than {game}" for what in is_worse(body, path.name, body, game)]
        if before is not None:
            require_same_windows(body, before)
            worse += [f"{driver}: {what}, than before" for what in is_worse(body, path.name, before, folder.name)]
    if worse:
        raise SystemExit(f"{path} is not packaged; worse in: {'; '.join(worse)}")
    text = "; ".join(on_card(driver, body, path.name) for driver, body in judged.items())
    folder.mkdir(parents=True, exist_ok=True)
    write_predictor(acvp.load(path), text, folder)
    print(f"packaged as {folder.name}")


def require_same_windows(body: dict[str, Any], before: dict[str, Any]) -> None:
    """Refuse to compare results of other windows: copying the last frame has the same errors in the same windows."""
    errors = [results["curves"]["copy-last-frame"]["error"]["mean"] for results in (body, before)]
    if errors[0] != errors[1]:
        raise SystemExit("the packaged predictor was judged on other windows: judge it on these first")


def is_worse(body: dict[str, Any], own: str, other: dict[str, Any], packaged: str) -> list[str]:
    """Return in what a predictor is worse: keys at any step, wrong pixels at steps 1 and 10, the step of the loss."""
    both = ((body, own), (other, packaged))
    keys = zip(*(results["keys"]["works"][name]["mean"] for results, name in both), strict=True)
    wrong = [results["curves"][name]["wrong_pixels"]["mean"] for results, name in both]
    lost = [results["lost"][name] or 10**9 for results, name in both]
    checks = {
        "keys": any(mine < theirs for mine, theirs in keys),
        "wrong pixels": any(wrong[0][step - 1] > wrong[1][step - 1] for step in FIRST_STEPS),
        "steps until the object is lost": lost[0] < lost[1],
    }
    return [what for what, bad in checks.items() if bad]


def lines(game: str, driver: str, body: dict[str, Any]) -> list[str]:
    """Return the results of a game, a line for each predictor and baseline."""
    steps = " / ".join(str(step) for step in body["keys"]["steps"])
    shown = []
    for model, works in body["keys"]["works"].items():
        shares = " / ".join("–" if share is None else f"{share:.2f}" for share in works["mean"])
        wrong = body["curves"][model]["wrong_pixels"]["mean"]
        pixels = " / ".join(f"{wrong[step - 1]:,.0f}" for step in body["keys"]["steps"])
        lost = body["lost"][model]
        shown.append(f"{game}, {driver}, {model}: at {steps}: keys {shares}, wrong {pixels}, object lost {lost}")
    return shown


if __name__ == "__main__":
    main(tyro.cli(DreamsConfig, description=__doc__))
