"""`acvp agent compare`: learning curves of several runs in one figure; runs that differ in seed are one curve."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from acvp.agents.config import AgentCompareConfig
from acvp.agents.evaluate import (
    EVALUATION_STEPS,
    References,
    describe_references,
    evaluation_seed,
    play_references,
    pool_references,
    read_references,
)
from acvp.agents.play import format_mean, mean_and_error
from acvp.console import Stage
from acvp.control.figures import learning_figure
from acvp.durable import exclusive_writer, make_folder
from acvp.envs import make_game
from acvp.errors import UserError
from acvp.figures import write_figure
from acvp.result_cache import ResultCache
from acvp.runs import RunFolder, differences, write_results

RESULT_NAME, PARTS_NAME, FIGURE_NAME = "learning.json", "learning.jsonl", "learning"
STRATEGY = ("dqn.exploration", "predictor", "imagined", "weights", "emulator", "delta", "look_ahead")
"""Settings of a strategy, in which the runs of a figure may differ; all others must be equal."""


def compare_agents(config: AgentCompareConfig, stage: Stage) -> dict[str, Any]:
    """Write learning.json and the figure, and return what the file holds."""
    started = time.monotonic()
    groups: dict[str, list[dict[str, Any]]] = {}
    runs = [read_run(path) for path in config.runs]
    for run in runs:
        refuse_others(runs[0], run, but=STRATEGY)
        first = groups.setdefault(run["strategy"], [])
        refuse_others(first[0] if first else run, run)
        first.append(run)
    body = {
        "what": "score while agents learned: mean over seeds, each a mean over episodes; ± standard error over seeds",
        "game": runs[0]["settings"]["env_id"],
        "strategies": {name: {"runs": group, "curve": curve(name, group)} for name, group in sorted(groups.items())},
    }
    make_folder(config.out)
    with exclusive_writer(config.out):
        cache = ResultCache(config.out / PARTS_NAME)
        if config.references:
            body |= references_of(config, runs, cache, stage)
        write_figure(learning_figure(body), config.out / "plots", FIGURE_NAME)
        earlier = cache.earlier_seconds
        write_results(config.out / RESULT_NAME, body, seed=None, started=started, earlier_seconds=earlier)
    return body


def references_of(
    config: AgentCompareConfig, runs: Sequence[Mapping[str, Any]], cache: ResultCache, stage: Stage
) -> dict[str, Any]:
    """Return the best constant action and random play in the episodes of all runs' last points, or why not."""
    try:
        references = [_references(path, run, cache, stage) for path, run in zip(config.runs, runs, strict=True)]
    except UserError as error:
        return {"note": f"no references: {error}"}
    return {"references": pool_references(references)}


def _references(path: Path, run: Mapping[str, Any], cache: ResultCache, stage: Stage) -> References:
    """Return the references stored in a run folder, or play them."""
    last, settings = run["points"][-1], run["settings"]
    seed = evaluation_seed(run["seed"], len(run["points"]) - 1)
    options: dict[str, Any] = {"episodes": len(last["scores"]), "epsilon": last["epsilon"], "seed": seed}
    if (known := read_references(path, options)) is not None:
        return known
    own_limit = None if settings.get("imagined") else settings.get("max_steps")
    with make_game(settings["env_id"], max_steps=own_limit) as game:
        limit = min(EVALUATION_STEPS, game.limit or EVALUATION_STEPS)
    with make_game(settings["env_id"], max_steps=limit) as game:
        identity, label = {"game": game.env_id, "settings": game.settings} | options, f"references of {run['run']}"
        return cache.part(identity, lambda: play_references([game], **options, progress=stage(label)))


def refuse_others(first: Mapping[str, Any], other: Mapping[str, Any], but: tuple[str, ...] = ()) -> None:
    """Refuse two runs that differ in settings other than `but`."""
    named = differences(first["settings"], other["settings"])
    if named := [difference for difference in named if not difference.startswith(but)]:
        raise UserError(
            f"{first['run']} and {other['run']} differ in more than strategy and seed ({'; '.join(named)}): compare "
            "runs of one game and length, and for one strategy runs of the same settings"
        )


def read_run(path: Path) -> dict[str, Any]:
    """Return strategy, seed, all other settings and the learning curve of an agent's run."""
    run = RunFolder(path)
    settings = run.read_config()
    if not {"env_id", "seed"} <= settings.keys() or "exploration" not in settings.get("dqn", {}):
        raise UserError(f"{path}: not the run of an agent; name folders that acvp agent train has written")
    try:
        points = [
            {name: line[name] for name in ("step", "epsilon", "mean", "scores")}
            for line in run.metrics()
            if line["kind"] == "evaluation"
        ]
    except (KeyError, TypeError) as error:
        raise UserError(f"{path}: its metrics are not as acvp agent train writes them ({error})") from error
    if not points:
        raise UserError(f"{path}: has no point of a learning curve yet; resume it")
    return {
        "run": path.name,
        "strategy": strategy_of(settings),
        "seed": settings.pop("seed"),
        "settings": settings,
        "points": points,
    }


def strategy_of(settings: Mapping[str, Any]) -> str:
    """Return the label of an agent's exploration strategy, or `imagined`."""
    if settings.get("imagined"):
        return "imagined"
    name: str = settings["dqn"]["exploration"]
    threshold, ahead = settings.get("delta"), settings.get("look_ahead")
    name += "" if threshold is None else f", δ {threshold}"
    return name if ahead is None else f"{name}, {ahead} ahead"


def curve(strategy: str, runs: Sequence[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """Return mean and standard error over runs, point by point."""
    steps = [[point["step"] for point in run["points"]] for run in runs]
    if any(points != steps[0] for points in steps):
        names = ", ".join(run["run"] for run in runs)
        raise UserError(
            f"{strategy}: the points of {names} have different agent steps; compare finished runs that were given the "
            "same --steps (by minutes, as the preset cpu without it, each has its own)"
        )
    seeds = [run["seed"] for run in runs]
    twice = sorted({seed for seed in seeds if seeds.count(seed) > 1})
    if twice:
        raise UserError(f"{strategy}: seed {', '.join(map(str, twice))} comes twice; each run needs its own")
    return [
        {"step": step} | mean_and_error([run["points"][i]["mean"] for run in runs]) for i, step in enumerate(steps[0])
    ]


def comparison_lines(body: Mapping[str, Any]) -> list[str]:
    """Return the last score of each strategy and the references, a line each."""
    lines = []
    for name, strategy in body["strategies"].items():
        last = strategy["curve"][-1]
        seeds = ", ".join(str(run["seed"]) for run in strategy["runs"])
        score = format_mean(last["mean"], last["standard_error"])
        lines.append(f"{name}: {score} after {last['step']:,} agent steps (seed {seeds})")
    if "references" in body:
        lines.append(f"in the same episodes: {describe_references(body['references'])}")
    return [*lines, *([f"note: {body['note']}"] if "note" in body else [])]
