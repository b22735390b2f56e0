"""`acvp evaluate`: from runs and a dataset to evaluation.json, plots/, videos/ and strips/.

Windows are chosen, the controlled object is located, every model looks ahead, and the accumulated values become curves
with 95 % bands.
"""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from acvp.bootstrap import LEVEL, RESAMPLES, Accumulator, Bootstrap, Curve
from acvp.console import Device, Progress, Stage
from acvp.data.merge import join
from acvp.data.replay import Positions, find_positions
from acvp.data.store import EpisodeStore
from acvp.data.windows import Window, WindowStart, choose_starts
from acvp.errors import UserError
from acvp.evaluation.claims import summarize_claims
from acvp.evaluation.config import EvaluateConfig
from acvp.evaluation.figures import curve_figure
from acvp.evaluation.horizon import Accumulators, EvaluationWindows, look_ahead, paired_differences
from acvp.evaluation.keys import measured_keys
from acvp.evaluation.media import MediaWriter
from acvp.evaluation.metrics import METRICS, TOTALS, FrameMetrics, formula, frame_scale, registered
from acvp.evaluation.outcomes import measure_outcomes, predicts_outcomes
from acvp.evaluation.windows import HeldOutPart, held_out_part, refuse_unknown_split, training_of
from acvp.figures import write_figure
from acvp.loaded import COPY_LAST, LoadedModel, as_model, baselines, check_alike, identity, load
from acvp.models.pixels import ObjectFinder
from acvp.result_cache import OtherShardError, ResultCache, unfinished_results
from acvp.runs import PLOTS_NAME, default_out, numbers, write_results

FEW_EPISODES = 10
"""Below this many episodes a percentile bootstrap's bands are too narrow, and the result says so."""

Curves = dict[str, dict[str, Curve]]


@dataclass(frozen=True, kw_only=True)
class Evaluation:
    """Horizon curves of all models, and what is needed to read them."""

    curves: Curves
    """By model, by metric."""
    totals: Curves
    """By model: numbers of steps, as curves of one step."""
    baselines: tuple[str, ...]
    facts: dict[str, Any]
    """Game, view, windows, how they were chosen, and the like."""
    left_out: dict[str, str]
    """Metrics that could not be measured, and why."""
    claims: dict[str, Any]
    """Measures for single claims of the paper, by model and range of steps."""
    paired: dict[str, Any]
    """Differences between every two models on the same windows."""

    @property
    def metrics(self) -> list[str]:
        """Names of the metrics that at least one model has."""
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
            "claims": self.claims,
            "paired": self.paired,
        }


def summarize(
    accumulators: Accumulators,
    *,
    seed: int,
    baselines: tuple[str, ...],
    facts: dict[str, Any],
    left_out: dict[str, str],
) -> Evaluation:
    """Return means and 95 % bands over episodes of everything that was accumulated."""
    used = _episodes_used(accumulators)
    bootstrap = Bootstrap(len(used), seed=seed)
    picked = {
        name: {metric: accumulator.of(used) for metric, accumulator in metrics.items()}
        for name, metrics in accumulators.items()
    }
    curves = {name: _curves(metrics, picked[COPY_LAST]["error"], bootstrap) for name, metrics in picked.items()}
    totals = {
        name: {total: bootstrap.total(metrics[metric]) for metric, total in TOTALS.items() if metric in metrics}
        for name, metrics in picked.items()
    }
    bands = {
        "bands": f"95 %: percentiles {LEVEL[0]} and {LEVEL[1]} of {RESAMPLES} bootstrap resamples of the episodes"
        if len(used) > 1
        else "none: a single episode cannot be resampled",
        "episodes": len(used),
    }
    facts = facts | bands | few_episodes(len(used))
    return Evaluation(
        curves=curves,
        totals=totals,
        baselines=baselines,
        facts=facts,
        left_out=left_out,
        claims=summarize_claims(picked, bootstrap),
        paired=paired_differences(picked, bootstrap),
    )


def few_episodes(count: int) -> dict[str, str]:
    """Return a note where there are too few episodes to trust the bands."""
    if count >= FEW_EPISODES:
        return {}
    if count == 1:
        return {"note": "a single test episode: there are no 95 % bands, which resample whole episodes"}
    return {"note": f"{count} test episodes are few: 95 % bands over fewer than {FEW_EPISODES} are too narrow"}


def _curves(accumulators: dict[str, Accumulator], copy_last: Accumulator, bootstrap: Bootstrap) -> dict[str, Curve]:
    curves = {name: bootstrap.curve(accumulator) for name, accumulator in accumulators.items() if name in METRICS}
    ratio = bootstrap.ratio(accumulators["error"], copy_last)
    curves["gain"] = Curve(1 - ratio.mean, 1 - ratio.high, 1 - ratio.low)
    if "shuffled" in accumulators:
        curves["sensitivity"] = bootstrap.ratio(accumulators["shuffled"], accumulators["unshuffled"])
    return curves


def _episodes_used(accumulators: Accumulators) -> NDArray[np.int64]:
    """Return the episodes that have windows: only they are resampled."""
    counts = accumulators[COPY_LAST]["error"].counts
    return np.flatnonzero(counts.any(1))


def _described(name: str, how: str) -> dict[str, str]:
    metric = METRICS[name]
    return {"title": metric.title, "unit": metric.unit, "formula": how, "better": metric.better}


def _plain(curves: Curves) -> dict[str, Any]:
    return {
        model: {
            metric: {part: numbers(getattr(curve, part)) for part in Curve._fields} for metric, curve in metrics.items()
        }
        for model, metrics in curves.items()
    }


OBJECT_METRICS = "object_distance, object_kept, object_found"


def evaluate(
    models: Sequence[LoadedModel],
    part: HeldOutPart,
    config: EvaluateConfig,
    progress: Progress = lambda done, total: None,
    results: ResultCache | None = None,
) -> Evaluation:
    """Return the horizon curves of models and baselines on test windows; finished batches are cached in `results`.

    OtherShardError after the windows of a shard, which make no curves.
    """
    check_alike(models, part.store)
    everyone = [*models, *baselines(models[0])]
    context = max(model.predictor.context for model in everyone)
    window = Window(context, config.horizon)
    starts = choose_starts(part.store, window, config.windows, seed=config.seed, option="horizon")
    positions, left_out = _positions(part, starts, window, progress)
    windows = EvaluationWindows(
        store=part.store,
        starts=starts,
        context=context,
        horizon=config.horizon,
        batch_size=config.batch_size,
        seed=config.seed,
        shuffled_windows=config.shuffled_windows,
        positions=positions,
    )
    accumulators = look_ahead(everyone, windows, frame_metrics(models[0], part, positions), progress, results)
    if config.shard is not None:
        raise OtherShardError
    names = tuple(model.name for model in everyone if model.baseline)
    facts = _facts(models[0], part, windows, config) | {"leading_metric": leading_metric(models)}
    facts |= {"models": {model.name: described(model) for model in models}}
    return summarize(accumulators, seed=config.seed, baselines=names, facts=facts, left_out=left_out)


def frame_metrics(model: LoadedModel, part: HeldOutPart, positions: Positions | None) -> FrameMetrics:
    """Return the metrics for a model's view; wrong pixels go by the palette where the view keeps colors."""
    view, shape = model.view, part.store.info.frame_shape
    finder = None
    if positions is not None:
        finder = ObjectFinder(shape[:2], model.predictor.normalizer.mean.cpu().numpy())
    palette = part.store.palette if _keeps_colors(model) else None
    return FrameMetrics(view.shape(shape), gray=view.gray, palette=palette, finder=finder, own=registered())


def leading_metric(models: Sequence[LoadedModel]) -> str:
    """Return the metric to show first: wrong pixels where a run names colors, else the paper's squared error."""
    return "wrong_pixels" if any(model.predictor.names_colors for model in models) else "error"


def described(model: LoadedModel) -> dict[str, Any]:
    """Return kind, size, data and compute of a model, as its card has them."""
    predictor, about = model.predictor, model.predictor.about
    parameters = sum(weight.numel() for weight in predictor.parameters())
    facts = {"kind": predictor.config.kind, "parameters": parameters}
    return facts | ({"data": about.data, "compute": about.compute} if about else {})


def _keeps_colors(model: LoadedModel) -> bool:
    return not model.view.gray and model.view.size is None


def _positions(
    part: HeldOutPart, starts: Sequence[WindowStart], window: Window, progress: Progress
) -> tuple[Positions | None, dict[str, str]]:
    """Return where the controlled object is, or why that is not known."""
    try:
        return find_positions(part.store, starts, window.length, progress), {}
    except UserError as error:
        return None, {OBJECT_METRICS: str(error)}


def _facts(model: LoadedModel, part: HeldOutPart, windows: EvaluationWindows, config: EvaluateConfig) -> dict[str, Any]:
    store, starts = part.store, windows.starts
    episodes = len({start.episode for start in starts})
    return {
        "game": store.info.env_id,
        "view": model.view.name,
        "frame": list(model.predictor.config.frame),
        "scale": frame_scale(model.view.gray),
        "palette": _keeps_colors(model) and store.palette is not None,
        "data": str(store.path),
        "store_digest": store.digest,
        "test_part": part.how,
        "windows": len(starts),
        "windows_asked_for": config.windows,
        "windows_chosen": f"dealt in turns to the {episodes} test episodes that are long enough, then drawn uniformly "
        f"without replacement from each, seed {config.seed}",
        "context": windows.context,
        "horizon": windows.horizon,
        "shuffled_windows": len(windows.shuffled()),
        "shuffled_actions": "those of another of these windows, in a random ring",
        "fed_back": "predictions as the network gives them, not clamped; metrics see them clamped to 0..255",
        "seed": config.seed,
    }


EVALUATION_NAME, PARTS_NAME = "evaluation.json", "evaluation.jsonl"


def evaluate_runs(config: EvaluateConfig, stage: Stage) -> dict[str, Any]:
    """Evaluate the runs of a configuration, write all files, and return what evaluation.json holds.

    Of a shard, only finished parts are written.
    """
    started = time.monotonic()
    models, part = open_runs(config.predictors, config.data, config.trained_on, config.device)
    media = MediaWriter(models, part, config)
    out = config.out or default_out(config.predictors)
    with unfinished_results(out / PARTS_NAME, config.shard) as results:
        keys = measured_keys(models, part.store, config, results, stage("testing keys")) if config.key_steps else {}
        outcomes = _outcomes(models, part, config, results, stage)
        try:
            evaluation = evaluate(models, part, config, stage("looking ahead"), results)
        except OtherShardError:
            return results.shard_body()
        clips = media.write(out, stage("making videos"))
        body = evaluation.to_dict() | {"outcomes": outcomes, "keys": keys, "clips": clips}
        write_plots(body, out / PLOTS_NAME, stage("drawing"))
        earlier = results.earlier_seconds
        write_results(out / EVALUATION_NAME, body, seed=config.seed, started=started, earlier_seconds=earlier)
    return body


def _outcomes(
    models: Sequence[LoadedModel], part: HeldOutPart, config: EvaluateConfig, results: ResultCache, stage: Stage
) -> dict[str, Any]:
    """Return how well rewards and terminations are predicted, by the models that have heads for them."""
    options = {"count": config.most_reward_steps, "seed": config.seed, "batch_size": config.batch_size}
    outcomes = {}
    for model in filter(predicts_outcomes, models if options["count"] else ()):
        show = stage("rewards and terminations")
        settings = identity([model], part.store) | {"what": "rewards and terminations"} | options
        measure = partial(measure_outcomes, model, part.store, progress=show, **options)
        with suppress(OtherShardError):
            if scores := results.part(settings, measure):
                outcomes[model.name] = scores
    return outcomes


def open_runs(
    runs: Sequence[Path], data: Sequence[Path], trained_on: Path | None, device: Device
) -> tuple[list[LoadedModel], HeldOutPart]:
    """Return the models of runs, and the episodes of one or several datasets that none of them was trained on."""
    store = join(data)
    models = [as_model(path, load(path), device) for path in runs]
    trained = [training_of(path) for path in runs]
    for model, training in zip(models, trained, strict=True):
        refuse_unknown_split(model, training, store)
    return models, held_out_part(store, trained, None if trained_on is None else EpisodeStore(trained_on))


def write_plots(body: Mapping[str, Any], folder: Path, progress: Progress) -> None:
    """Write a PNG and an SVG of every metric."""
    for done, metric in enumerate(body["metrics"]):
        progress(done, len(body["metrics"]))
        write_figure(curve_figure(body, metric), folder, metric)
