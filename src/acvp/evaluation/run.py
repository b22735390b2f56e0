"""`acvp evaluate` from a store and subjects to an Evaluation: choose windows, find the object, look ahead, sum up.

From tallies to what is published: curves with bands, numbers of steps, and the JSON that holds them all.

`acvp evaluate` from paths to files: evaluation.json, plots/, videos/, strips/.
"""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from acvp.bootstrap import LEVEL, RESAMPLES, Bootstrap, Curve, Tally
from acvp.console import Progress, Stage
from acvp.data.objects import ObjectFinder, Positions, find_positions
from acvp.data.store import EpisodeStore
from acvp.data.windows import Window, WindowStart, choose_starts
from acvp.errors import UserError
from acvp.evaluation.config import Device, EvaluateConfig
from acvp.evaluation.definitions import METRICS, TOTALS, formula, frame_scale
from acvp.evaluation.figures import curve_figure
from acvp.evaluation.horizon import Outlook, Tallies, look_ahead
from acvp.evaluation.media import Studio
from acvp.evaluation.metrics import FrameMetrics
from acvp.evaluation.outcomes import measure_outcomes, predicts_outcomes
from acvp.evaluation.windows import HeldOutPart, held_out_part, refuse_unknown_split, training_of
from acvp.figures import write_figure
from acvp.loaded import COPY_LAST, Load, LoadedModel, as_model, baselines, check_alike, identity
from acvp.pixel import PixelPredictor
from acvp.runs import PLOTS_NAME, ResultCache, default_out, numbers, unfinished_results, write_results

FEW_EPISODES = 10
"""Below this many episodes a percentile bootstrap's bands are too narrow, and the result says so."""

Curves = dict[str, dict[str, Curve]]


@dataclass(frozen=True, kw_only=True)
class Evaluation:
    """Horizon curves of all subjects, and what is needed to read them."""

    curves: Curves
    """By subject, by metric."""
    totals: Curves
    """By subject: numbers of steps, as curves of one step."""
    baselines: tuple[str, ...]
    facts: dict[str, Any]
    """Game, view, windows, how they were chosen, and the like."""
    left_out: dict[str, str]
    """Metrics that could not be measured, and why."""

    @property
    def metrics(self) -> list[str]:
        """Names of the metrics that at least one subject has."""
        return [name for name in METRICS if any(name in curves for curves in self.curves.values())]

    def formula(self, metric: str) -> str:
        """Return how a metric was computed here."""
        return formula(metric, scale=self.facts["scale"], palette=self.facts["palette"])

    def to_dict(self) -> dict[str, Any]:
        """Return everything as JSON can hold it."""
        return {
            **self.facts,
            "left_out": self.left_out,
            "metrics": {name: _described(name, self.formula(name)) for name in self.metrics},
            "baselines": list(self.baselines),
            "curves": _plain(self.curves),
            "steps": _plain(self.totals),
        }


def summarize(
    tallies: Tallies, *, seed: int, baselines: tuple[str, ...], facts: dict[str, Any], left_out: dict[str, str]
) -> Evaluation:
    """Return means and 95 % bands over episodes of everything that was tallied."""
    used = _episodes_used(tallies)
    bootstrap = Bootstrap(len(used), seed=seed)
    picked = {name: {metric: tally.of(used) for metric, tally in each.items()} for name, each in tallies.items()}
    curves = {name: _curves(each, picked[COPY_LAST]["error"], bootstrap) for name, each in picked.items()}
    totals = {
        name: {TOTALS[metric]: bootstrap.total(tally) for metric, tally in each.items() if metric in TOTALS}
        for name, each in picked.items()
    }
    bands = {
        "bands": f"95 %: percentiles {LEVEL[0]} and {LEVEL[1]} of {RESAMPLES} bootstrap resamples of the episodes",
        "episodes": len(used),
    }
    facts = facts | bands | few_episodes(len(used))
    return Evaluation(curves=curves, totals=totals, baselines=baselines, facts=facts, left_out=left_out)


def few_episodes(count: int) -> dict[str, str]:
    """Return a note where there are too few episodes to trust the bands."""
    if count >= FEW_EPISODES:
        return {}
    return {"note": f"{count} test episodes are few: 95 % bands over fewer than {FEW_EPISODES} are too narrow"}


def _curves(tallies: dict[str, Tally], copy_last: Tally, bootstrap: Bootstrap) -> dict[str, Curve]:
    curves = {name: bootstrap.curve(tally) for name, tally in tallies.items() if name in METRICS}
    ratio = bootstrap.ratio(tallies["error"], copy_last)
    curves["gain"] = Curve(1 - ratio.mean, 1 - ratio.high, 1 - ratio.low)
    if "shuffled" in tallies:
        curves["sensitivity"] = bootstrap.ratio(tallies["shuffled"], tallies["unshuffled"])
    return curves


def _episodes_used(tallies: Tallies) -> NDArray[np.int64]:
    """Return the episodes that have windows: only they are resampled."""
    counts = tallies[COPY_LAST]["error"].counts
    return np.flatnonzero(counts.any(1))


def _described(name: str, how: str) -> dict[str, str]:
    metric = METRICS[name]
    return {"title": metric.title, "unit": metric.unit, "formula": how, "better": metric.better}


def _plain(curves: Curves) -> dict[str, Any]:
    return {
        subject: {
            metric: {part: numbers(getattr(curve, part)) for part in Curve._fields} for metric, curve in each.items()
        }
        for subject, each in curves.items()
    }


OBJECT_METRICS = "object_distance, object_kept, object_found"


def evaluate(
    subjects: Sequence[LoadedModel],
    part: HeldOutPart,
    config: EvaluateConfig,
    progress: Progress = lambda done, total: None,
    results: ResultCache | None = None,
) -> Evaluation:
    """Return the horizon curves of subjects and baselines on windows of the test part; parts are kept in `results`."""
    check_alike(subjects, part.store)
    everyone = [*subjects, *baselines(subjects[0])]
    context = max(subject.predictor.context for subject in everyone)
    window = Window(context, config.horizon)
    places = choose_starts(part.store, window, config.windows, seed=config.seed, option="horizon")
    positions, left_out = _positions(part, places, window, progress)
    outlook = Outlook(
        store=part.store,
        places=places,
        context=context,
        horizon=config.horizon,
        batch_size=config.batch_size,
        seed=config.seed,
        shuffled_windows=config.shuffled_windows,
        positions=positions,
    )
    tallies = look_ahead(everyone, outlook, frame_metrics(subjects[0], part, positions), progress, results)
    names = tuple(subject.name for subject in everyone if subject.baseline)
    facts = _facts(subjects[0], part, outlook, config) | {"leading_metric": leading_metric(subjects)}
    return summarize(tallies, seed=config.seed, baselines=names, facts=facts, left_out=left_out)


def frame_metrics(subject: LoadedModel, part: HeldOutPart, positions: Positions | None) -> FrameMetrics:
    """Return the metrics for a subject's view; colors are held to the palette where the view keeps them."""
    view, shape = subject.view, part.store.info.frame_shape
    finder = None
    if positions is not None:
        finder = ObjectFinder(shape[:2], subject.predictor.normalizer.mean.cpu().numpy())
    palette = part.store.palette if _keeps_colors(subject) else None
    return FrameMetrics(view.shape(shape), gray=view.gray, palette=palette, finder=finder)


def leading_metric(subjects: Sequence[LoadedModel]) -> str:
    """Return the metric to show first: wrong pixels where a run names colors, else the paper's squared error."""
    return "wrong_pixels" if any(isinstance(subject.predictor, PixelPredictor) for subject in subjects) else "error"


def _keeps_colors(subject: LoadedModel) -> bool:
    return not subject.view.gray and subject.view.size is None


def _positions(
    part: HeldOutPart, places: Sequence[WindowStart], window: Window, progress: Progress
) -> tuple[Positions | None, dict[str, str]]:
    """Return where the controlled object is, or why that is not known."""
    try:
        return find_positions(part.store, places, window.length, progress), {}
    except UserError as error:
        return None, {OBJECT_METRICS: str(error)}


def _facts(subject: LoadedModel, part: HeldOutPart, outlook: Outlook, config: EvaluateConfig) -> dict[str, Any]:
    store, places = part.store, outlook.places
    episodes = len({place.episode for place in places})
    return {
        "game": store.info.env_id,
        "view": subject.view.name,
        "frame": list(subject.predictor.config.frame),
        "scale": frame_scale(subject.view.gray),
        "palette": _keeps_colors(subject) and store.palette is not None,
        "data": str(store.path),
        "store_digest": store.digest,
        "test_part": part.how,
        "windows": len(places),
        "windows_asked_for": config.windows,
        "windows_chosen": f"dealt in turns to the {episodes} test episodes that are long enough, then drawn uniformly "
        f"without replacement from each, seed {config.seed}",
        "context": outlook.context,
        "horizon": outlook.horizon,
        "shuffled_windows": len(outlook.shuffled()),
        "shuffled_actions": "those of another of these windows, in a random ring",
        "fed_back": "predictions as the network gives them, not clamped; metrics see them clamped to 0..255",
        "seed": config.seed,
    }


EVALUATION_NAME, PARTS_NAME = "evaluation.json", "evaluation.jsonl"


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
        earlier = results.earlier_seconds
        write_results(out / EVALUATION_NAME, body, seed=config.seed, started=started, earlier_seconds=earlier)
    return body


def _outcomes(
    subjects: Sequence[LoadedModel], part: HeldOutPart, config: EvaluateConfig, results: ResultCache, stage: Stage
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
) -> tuple[list[LoadedModel], HeldOutPart]:
    """Return the predictors of runs, and the episodes of a store that none of them was trained on."""
    store = EpisodeStore(data)
    subjects = [as_model(path, load(path), device) for path in runs]
    trained = [training_of(path) for path in runs]
    for subject, each in zip(subjects, trained, strict=True):
        refuse_unknown_split(subject, each, store)
    return subjects, held_out_part(store, trained, None if trained_on is None else EpisodeStore(trained_on))


def write_plots(body: Mapping[str, Any], folder: Path, progress: Progress) -> None:
    """Write a PNG and an SVG of every metric."""
    for done, metric in enumerate(body["metrics"]):
        progress(done, len(body["metrics"]))
        write_figure(curve_figure(body, metric), folder, metric)
