"""`acvp evaluate` from paths to files: evaluation.json, plots/, videos/, strips/."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import torch

from acvp.data.store import EpisodeStore
from acvp.data.views import get_view
from acvp.durable import make_folder, write_atomic
from acvp.errors import UserError
from acvp.evaluation.config import Device, EvaluateConfig
from acvp.evaluation.horizon import Progress, identity
from acvp.evaluation.outcomes import measure_outcomes, predicts_outcomes
from acvp.evaluation.places import HeldOutPart, held_out_part
from acvp.evaluation.plots import curve_figure, image
from acvp.evaluation.run import evaluate
from acvp.evaluation.studio import Studio
from acvp.evaluation.subjects import Subject, refuse_unknown_split, training_of
from acvp.models import Predictor
from acvp.result_cache import ResultCache, unfinished_results
from acvp.runs import provenance

EVALUATION_NAME, PARTS_NAME, PLOTS_NAME = "evaluation.json", "evaluation.jsonl", "plots"

Load = Callable[[Path], Predictor]
Stage = Callable[[str], Progress]
"""Begins a stage with a name and returns what to tell its progress."""


def evaluate_runs(config: EvaluateConfig, load: Load, stage: Stage) -> dict[str, Any]:
    """Evaluate the runs of a configuration, write all files, and return what evaluation.json holds."""
    started = time.monotonic()
    subjects, part = open_runs(config.runs, config.data, config.trained_on, config.device, load)
    studio = Studio(subjects, part, config)
    out = config.out or default_out(config.runs)
    with unfinished_results(out / PARTS_NAME) as results:
        evaluation = evaluate(subjects, part, config, stage("looking ahead"), results)
        outcomes = _outcomes(subjects, part, config, results, stage)
        body = evaluation.to_dict() | {"outcomes": outcomes, "films": studio.write(out, stage("filming"))}
        write_plots(body, out / PLOTS_NAME, stage("drawing"))
        started -= results.earlier_seconds
        write_json(out / EVALUATION_NAME, body, seed=config.seed, started=started)
    return body


def _outcomes(
    subjects: Sequence[Subject], part: HeldOutPart, config: EvaluateConfig, results: ResultCache, stage: Stage
) -> dict[str, Any]:
    """Return how well rewards and terminations are predicted, by the subjects that predict them and data that has."""
    options = {"count": config.most_reward_steps, "seed": config.seed, "batch_size": config.batch_size}
    outcomes = {}
    for subject in filter(predicts_outcomes, subjects if options["count"] else ()):
        show = stage("rewards and terminations")
        settings = identity([subject], part.store) | {"what": "rewards and terminations"} | options
        measure = partial(measure_outcomes, subject, part.store, progress=show, **options)
        if found := results.part(settings, measure):
            outcomes[subject.name] = found
    return outcomes


def open_runs(
    runs: Sequence[Path], data: Path, trained_on: Path | None, device: Device, load: Load
) -> tuple[list[Subject], HeldOutPart]:
    """Return the predictors of runs, and the episodes of a store that none of them was trained on."""
    store = EpisodeStore.open(data)
    subjects = [as_subject(path, load(path), device) for path in runs]
    trained = [training_of(path) for path in runs]
    for subject, each in zip(subjects, trained, strict=True):
        refuse_unknown_split(subject, each, store)
    return subjects, held_out_part(store, trained, None if trained_on is None else EpisodeStore.open(trained_on))


def as_subject(path: Path, predictor: Predictor, device: Device) -> Subject:
    """Return a loaded predictor under its folder's name."""
    if predictor.about is None:
        raise UserError(f"{path}: this predictor does not say of what game and view it is; train it with acvp train")
    resolved = path.resolve()
    name = resolved.parent.name if resolved.name == "predictor" else resolved.name
    return Subject(name=name, predictor=predictor.to(pick_device(device)), view=get_view(predictor.about.view))


def pick_device(name: Device) -> torch.device:
    """Return a device by its name; auto takes the fastest there is."""
    there = {"cuda": torch.cuda.is_available(), "mps": torch.backends.mps.is_available(), "cpu": True}
    if name != "auto" and not there[name]:
        raise UserError(f"--device {name}: this machine has none; use --device auto")
    return torch.device(name if name != "auto" else next(each for each in ("cuda", "mps", "cpu") if there[each]))


def default_out(runs: Sequence[Path]) -> Path:
    """Return where results go: into the run, or into a folder of their own if there are several."""
    return runs[0] if len(runs) == 1 else Path("evaluation")


def write_plots(body: Mapping[str, Any], folder: Path, progress: Progress) -> None:
    """Write a PNG and an SVG of every metric."""
    make_folder(folder)
    for done, metric in enumerate(body["metrics"]):
        progress(done, len(body["metrics"]))
        figure = curve_figure(body, metric)
        for kind in ("png", "svg"):
            write_atomic(folder / f"{metric}.{kind}", image(figure, kind))


def write_json(path: Path, body: dict[str, Any], *, seed: int, started: float) -> None:
    """Write results with their provenance; `started` is from time.monotonic."""
    make_folder(path.parent)
    origin = provenance() | {"seed": seed, "seconds": round(time.monotonic() - started, 1)}
    text = json.dumps({"provenance": origin} | body, indent=1, ensure_ascii=False, allow_nan=False)
    write_atomic(path, text.encode() + b"\n")
