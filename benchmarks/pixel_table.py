"""python -m benchmarks.pixel_table: results/pixel/*/evaluation.json and trials as tables of docs/pixel-predictor.md."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from acvp.compat import RESULT_FIELDS, current_fields
from benchmarks.cards import exact_steps
from benchmarks.pixel import GAMES
from benchmarks.provenance import RESULTS

STEPS = (1, 5, 10, 30, 50, 100)
FEW = (1, 10, 30, 100)
METRICS = ("object_found", "object_kept")


def main() -> None:
    """Print all tables."""
    print_games()
    print_trials()


def print_games() -> None:
    """What the predictors reach."""
    folders = sorted((RESULTS / "pixel").glob("*-core-minutes"), key=by_game_and_minutes)
    evaluations = [(folder, read_evaluation(folder)) for folder in folders]
    print_steps("wrong pixels of 33,600", "wrong_pixels", evaluations)
    print()
    print_steps("squared error, the paper's metric,", "error", evaluations)
    print("\n| | exact at step 1 | exact steps, median | object found at", " / ".join(map(str, FEW)), end=" ")
    print("| always kept until | reward: balanced accuracy, calibration error | termination |")
    print("|---" * 7 + "|")
    for folder, body in evaluations:
        name = run_of(body)
        shares = (" / ".join(percent(body, name, metric, step) for step in FEW) for metric in METRICS)
        cells = (percent(body, name, "exact", 1), str(exact_steps(body, name)), *shares, *outcomes(body, name))
        print(f"| {title_of(folder)} |", " | ".join(cells), "|")


def print_steps(title: str, metric: str, evaluations: list[tuple[Path, dict[str, Any]]]) -> None:
    """One metric of every predictor and of the baselines beside it."""
    print(f"| {title} at step |", " | ".join(map(str, STEPS)), "|")
    print("|---" * (len(STEPS) + 1) + "|")
    for folder, body in evaluations:
        for name in (run_of(body), *body["baselines"]):
            row = f"– {name}" if name in body["baselines"] else title_of(folder)
            print(f"| {row} |", " | ".join(count(at(body, name, metric, step)) for step in STEPS), "|")


def print_trials() -> None:
    """What trials of other configs gave."""
    lines = [line for line in json.loads((RESULTS / "trials.json").read_text()) if line["model"] == "pixel"]
    if not lines:
        return
    steps = " / ".join(lines[0]["wrong"])
    print(f"\n| trial | channels | minutes | updates | wrong pixels of a held-out frame at step {steps} |")
    print("|---" * 5 + "|")
    for line in lines:
        wrong = " / ".join(count(value) for value in line["wrong"].values())
        channels = ", ".join(map(str, line["channels"]))
        print(f"| {line['trial']} | {channels} | {line['minutes']:g} | {line['updates']:,} | {wrong} |")


def read_evaluation(folder: Path) -> dict[str, Any]:
    """What evaluation.json of a folder holds, with today's names."""
    body: dict[str, Any] = current_fields(json.loads((folder / "evaluation.json").read_text()), RESULT_FIELDS)
    return body


def by_game_and_minutes(folder: Path) -> tuple[int, float]:
    """What folders are sorted by."""
    return GAMES.index(game_of(folder)), minutes_of(folder)


def game_of(folder: Path) -> str:
    """The game whose results a folder holds."""
    return next(game for game in GAMES if folder.name.startswith(f"{game}-"))


def title_of(folder: Path) -> str:
    """Game and training."""
    return f"{game_of(folder).replace('_', ' ').title()}, {minutes_of(folder):g} core-minutes"


def minutes_of(folder: Path) -> float:
    """How long it was trained."""
    return float(folder.name.removeprefix(f"{game_of(folder)}-").removesuffix("-core-minutes"))


def run_of(body: dict[str, Any]) -> str:
    """The name of the predictor that was looked ahead with."""
    name: str = next(name for name in body["curves"] if name not in body["baselines"])
    return name


def at(body: dict[str, Any], name: str, metric: str, step: int) -> float | None:
    """The mean of a metric at a step; None where it was not measured."""
    curve = body["curves"][name].get(metric)
    value: float | None = None if curve is None else curve["mean"][step - 1]
    return value


def count(value: float | None) -> str:
    """A number of pixels, with a decimal where that says something."""
    return "–" if value is None else f"{value:,.1f}" if value < 10 else f"{value:,.0f}"


def percent(body: dict[str, Any], name: str, metric: str, step: int) -> str:
    """A share in percent."""
    value = at(body, name, metric, step)
    return "–" if value is None else f"{100 * value:.0f} %"


def outcomes(body: dict[str, Any], name: str) -> tuple[str, str]:
    """How well rewards and terminations are predicted, one step ahead, of how many; – where the data has none."""
    cells = []
    for what in ("reward", "termination"):
        scores = body["outcomes"].get(name, {}).get(what)
        if scores is None:
            cells.append("–")
            continue
        rare = {kind: number for kind, number in scores["count"].items() if kind not in ("zero", "continues")}
        cells.append(
            f"{scores['balanced_accuracy']:.2f}, {scores['calibration_error']:.3f} ({sum(rare.values()):,} of "
            f"{sum(scores['count'].values()):,})"
        )
    reward, end = cells
    return reward, end


if __name__ == "__main__":
    main()
