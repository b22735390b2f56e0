"""`acvp evaluate` from a store and subjects to an Evaluation: choose windows, find the object, look ahead, sum up."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from acvp.data.windows import Window
from acvp.errors import UserError
from acvp.evaluation.config import EvaluateConfig
from acvp.evaluation.definitions import frame_scale
from acvp.evaluation.horizon import Outlook, Progress, look_ahead
from acvp.evaluation.metrics import FrameMetrics
from acvp.evaluation.objects import ObjectFinder, Positions, find_positions
from acvp.evaluation.places import HeldOutPart, Place, choose_places
from acvp.evaluation.results import Evaluation, summarise
from acvp.evaluation.subjects import Subject, baselines, check_alike
from acvp.models import PixelPredictor
from acvp.result_cache import ResultCache

OBJECT_METRICS = "object_distance, object_kept, object_found"


def evaluate(
    subjects: Sequence[Subject],
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
    places = choose_places(part.store, window, config.windows, seed=config.seed, option="horizon")
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
    return summarise(tallies, seed=config.seed, baselines=names, facts=facts, left_out=left_out)


def frame_metrics(subject: Subject, part: HeldOutPart, positions: Positions | None) -> FrameMetrics:
    """Return the metrics for a subject's view; colours are held to the palette where the view keeps them."""
    view, shape = subject.view, part.store.info.frame_shape
    finder = None
    if positions is not None:
        finder = ObjectFinder(shape[:2], subject.predictor.normaliser.mean.cpu().numpy())
    palette = part.store.palette if _keeps_colours(subject) else None
    return FrameMetrics(view.shape(shape), gray=view.gray, palette=palette, finder=finder)


def leading_metric(subjects: Sequence[Subject]) -> str:
    """Return the metric to show first: wrong pixels where a run names colors, else the paper's squared error."""
    return "wrong_pixels" if any(isinstance(subject.predictor, PixelPredictor) for subject in subjects) else "error"


def _keeps_colours(subject: Subject) -> bool:
    return not subject.view.gray and subject.view.size is None


def _positions(
    part: HeldOutPart, places: Sequence[Place], window: Window, progress: Progress
) -> tuple[Positions | None, dict[str, str]]:
    """Return where the controlled object is, or why that is not known."""
    try:
        return find_positions(part.store, places, window.length, progress), {}
    except UserError as error:
        return None, {OBJECT_METRICS: str(error)}


def _facts(subject: Subject, part: HeldOutPart, outlook: Outlook, config: EvaluateConfig) -> dict[str, Any]:
    store, places = part.store, outlook.places
    episodes = len({place.episode for place in places})
    return {
        "game": store.info.env_id,
        "view": subject.view.name,
        "frame": list(subject.predictor.config.frame),
        "scale": frame_scale(subject.view.gray),
        "palette": _keeps_colours(subject) and store.palette is not None,
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
