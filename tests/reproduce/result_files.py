"""Result files with chosen numbers, for the tests of claims."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from acvp.reproduce.claims import CLAIMS
from acvp.reproduce.conclusions import Row, judge_claim
from acvp.reproduce.evidence import Evidence

GAMES = ("ALE/Freeway-v5", "ALE/Qbert-v5", "ALE/Seaquest-v5", "ALE/SpaceInvaders-v5", "ALE/MsPacman-v5")
NETS = ("feedforward", "recurrent", "no-action", "mlp")


def write(folder: Path, name: str, body: dict[str, Any]) -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    origin = {"provenance": {"command": ["__main__.py", "some", "verb"]}}
    (folder / name).write_text(json.dumps(origin | body))
    return folder


def band(mean: float, low: float | None = None, high: float | None = None) -> dict[str, list[float]]:
    """Return a curve that is the same at two steps."""
    return {
        "mean": [mean] * 2,
        "low": [mean if low is None else low] * 2,
        "high": [mean if high is None else high] * 2,
    }


def evaluation(errors: dict[str, float], game: str = "ALE/Freeway-v5", **more: Any) -> dict[str, Any]:
    """Return what evaluation.json holds of some models: their errors, known within ± 0.5."""
    curves = {name: {"error": band(error, error - 0.5, error + 0.5)} for name, error in errors.items()}
    return {"game": game, "horizon": 2, "curves": curves} | more


def paired(first: str, second: str, low: float, high: float) -> dict[str, Any]:
    """Return the difference of two models at both steps."""
    pair = {"first": first, "second": second, "mean": [0.0] * 2, "low": [low] * 2, "high": [high] * 2}
    return {"steps": [1, 2], "metrics": {"error": [pair]}}


def row(folder: Path, number: int) -> Row:
    return judge_claim(CLAIMS[number - 1], Evidence([folder]))


def control(scores: dict[str, float], game: str, emulator: float = 100.0) -> dict[str, Any]:
    """Return what control.json holds: scores with a standard error of 1, at 10 and at 100 steps."""
    points = {name: [{"horizon": n, **scored(mean)} for n in (10, 100)] for name, mean in scores.items()}
    constant = {"action": "UP", **scored(20.0)}
    return {"game": game, "runs": points, "emulator": scored(emulator), "random": scored(10.0), "constant": constant}


def scored(mean: float) -> dict[str, float]:
    return {"mean": mean, "standard_error": 1.0}


def learning(informed: float, random: float, error: float | None = 1.0) -> dict[str, Any]:
    def curve(mean: float) -> dict[str, Any]:
        return {"runs": [{}], "curve": [{"step": 100, "mean": mean, "standard_error": error}]}

    strategies = {"informed-model": curve(informed), "random": curve(random)}
    return {"game": GAMES[0], "strategies": strategies, "references": {"constant": {"action": "UP", **scored(20.0)}}}


def measure(**models: tuple[float, float, float]) -> dict[str, Any]:
    """Return a measure of single claims in steps 1 to 10: mean, low and high by model."""
    parts = ("mean", "low", "high")
    plain = {name: {part: [value] for part, value in zip(parts, three, strict=True)} for name, three in models.items()}
    return {"models": {name: values | {"count": [9]} for name, values in plain.items()}}


def flat(mean: float, steps: int = 500, spread: float = 0.01) -> dict[str, list[float]]:
    """Return a curve of many equal steps."""
    return {"mean": [mean] * steps, "low": [mean - spread] * steps, "high": [mean + spread] * steps}


def kept(feedforward: float, recurrent: float, wraps: float = 0.9) -> dict[str, Any]:
    """Return an evaluation over 500 steps: share of windows that keep the object, and steps until it is lost.

    The recurrent network predicts the last 8 of 9 wraps with probability ``wraps``.
    """
    shares = {"feedforward": feedforward, "recurrent": recurrent}
    wrapped = {"mean": [0.0, wraps], "low": [None] * 2, "high": [None] * 2, "count": [1, 8]}
    return {
        "game": GAMES[0],
        "claims": {"wrap_kept": {"models": {"recurrent": wrapped}}},
        "horizon": 500,
        "curves": {name: {"error": flat(1.0), "object_kept": flat(share)} for name, share in shares.items()},
        "steps": {name: {"kept_steps": flat(500 * share, 1)} for name, share in shares.items()},
    }


def futures(**accuracies: float) -> dict[str, Any]:
    runs = {name.replace("_", "-"): {"accuracy": flat(value, 1)} for name, value in accuracies.items()}
    return {"game": GAMES[0], "runs": runs, "chance": flat(0.33, 1)}


def analysis(same: float, opposite: float, p: float = 0.001, action: float = 0.9) -> dict[str, Any]:
    pairs = {"same direction": {"mean": same, "p": p}, "opposite": {"mean": opposite, "p": p}}
    explained = {"Action": two(action, 0.1), "Non-Action": two(0.2, 0.9)}
    return {
        "game": GAMES[2],
        "run": "feedforward",
        "similarity": {"tables": {"W^a": {"as_learned": {"pairs": pairs}}}},
        "controlled": {"explained": explained},
    }


def two(first: float, second: float) -> dict[str, list[float]]:
    return {part: [first, second] for part in ("mean", "low", "high")}


def agent(mean: float, training: str = "DQN in 0:45:00 on a core") -> dict[str, Any]:
    references = {"constant": {"action": "UP", **scored(20.0)}}
    return {"env_id": GAMES[0], "training": training, "references": references, **scored(mean)}


def compared(model: float, emulator: float) -> dict[str, Any]:
    body = learning(model, 0.0)
    body["strategies"]["informed-emulator"] = body["strategies"].pop("random")
    body["strategies"]["informed-emulator"]["curve"][0]["mean"] = emulator
    return body


def explored(informed: list[int], cells: list[int], predictor: str = "freeway/gray") -> dict[str, Any]:
    sources = {
        name: {"first_reward": rewards, "median": 1.0, "never": 0, "cells": visited}
        for name, rewards, visited in (("informed-model", informed, cells), ("random", [100, 100], [5, 6]))
    }
    command = ["acvp", "explore", "--predictor", predictor]
    shape = {"game": GAMES[0], "max_steps": 1000, "map_steps": 10, "seeds": 2}
    return shape | {"sources": sources, "provenance": {"command": command}}


def measured(measure_name: str, game: str, **models: tuple[float, float, float]) -> dict[str, Any]:
    return evaluation(dict.fromkeys(NETS, 1.0), game, claims={measure_name: measure(**models)})


def beside_copy(measure_name: str, game: str, copied: float) -> dict[str, Any]:
    """Return a measure of the recurrent network, at least 0.6, and of copying the last frame."""
    models = {"recurrent": (0.8, 0.6, 0.9), "copy-last-frame": (copied,) * 3}
    return measured(measure_name, game, **models)


def sizes(small: float, large: float) -> dict[str, Any]:
    found = {"small_found": measure(feedforward=(small,) * 3), "large_found": measure(feedforward=(large,) * 3)}
    return evaluation(dict.fromkeys(NETS, 1.0), GAMES[3], claims=found)


def at_65(recurrent: float) -> dict[str, Any]:
    errors = {"feedforward": 4.0, "recurrent": recurrent}
    return {"game": GAMES[1], "horizon": 100, "curves": {name: {"error": flat(e, 100)} for name, e in errors.items()}}


def recorded(policy: str) -> dict[str, Any]:
    return evaluation(
        {"feedforward": 1.0}, models={"feedforward": {"data": f"9 frames, policy {policy}, store digest"}}
    )


def timed(low: float) -> dict[str, Any]:
    return {"times_faster": {"low": low, "median": 5.0}, "compute": "9 repetitions"}
