"""`acvp agent compare`: learning curves of several runs in one figure, runs that differ in their seed as one curve."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from statistics import mean, stdev
from typing import Any

from acvp.agents.config import AgentCompareConfig
from acvp.control.figures import learning_figure, write_figure
from acvp.control.results import write_results
from acvp.errors import UserError
from acvp.runs import RunFolder

RESULT_NAME, FIGURE_NAME = "learning.json", "learning"


def compare_agents(config: AgentCompareConfig) -> dict[str, Any]:
    """Write learning.json and the figure, and return what the file holds."""
    started = time.monotonic()
    groups: dict[str, list[dict[str, Any]]] = {}
    games = set()
    for path in config.runs:
        run = read_run(path)
        groups.setdefault(run["strategy"], []).append(run)
        games.add(run["env_id"])
    if len(games) > 1:
        raise UserError(f"the runs are of different games ({', '.join(sorted(games))}): compare those of one game")
    body = {
        "what": "mean score while agents learned: over seeds, each the mean of some plays; ± standard error over seeds",
        "game": games.pop(),
        "strategies": {name: {"runs": runs, "curve": curve(name, runs)} for name, runs in sorted(groups.items())},
    }
    write_results(config.out / RESULT_NAME, body, seed=0, started=started)
    write_figure(learning_figure(body), config.out / "plots", FIGURE_NAME)
    return body


def read_run(path: Path) -> dict[str, Any]:
    """Return game, strategy, seed and learning curve of an agent's run."""
    run = RunFolder(path)
    settings = run.read_config()
    if "env_id" not in settings or "exploration" not in settings.get("settings", {}):
        raise UserError(f"{path}: not the run of an agent; name folders that acvp agent train has written")
    points = [
        {name: line[name] for name in ("step", "mean", "scores")}
        for line in run.metrics()
        if line["kind"] == "evaluation"
    ]
    if not points:
        raise UserError(f"{path}: has no point of a learning curve yet; let it go on")
    return {
        "run": path.name,
        "env_id": settings["env_id"],
        "strategy": "imagined" if settings.get("imagined") else settings["settings"]["exploration"],
        "seed": settings["seed"],
        "points": points,
    }


def curve(strategy: str, runs: Sequence[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """Return mean and standard error over runs, point by point."""
    steps = [[point["step"] for point in run["points"]] for run in runs]
    if any(each != steps[0] for each in steps):
        names = ", ".join(run["run"] for run in runs)
        raise UserError(
            f"{strategy}: the points of {names} lie at different decisions; compare finished runs of the same "
            "--decisions, without --minutes"
        )
    seeds = [run["seed"] for run in runs]
    if len(set(seeds)) < len(seeds):
        raise UserError(f"{strategy}: seeds {', '.join(map(str, sorted(seeds)))} come twice; each run needs its own")
    found = []
    for i, step in enumerate(steps[0]):
        means = [run["points"][i]["mean"] for run in runs]
        error = stdev(means) / len(means) ** 0.5 if len(means) > 1 else None
        found.append({"step": step, "mean": mean(means), "standard_error": error})
    return found
