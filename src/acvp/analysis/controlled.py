"""Controlled and uncontrolled (§4.3, figure 8): what the factors that vary with the action predict, and what the rest.

Shapes: F factors, S scenes, C channels, h height, w width of the view.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import partial
from typing import Any

from torch import Tensor

from acvp.analysis.factors import action_layers, all_factors, with_only
from acvp.analysis.halves import REGIONS, Mask, explain, high_variance, untrained_share, variance_curve
from acvp.analysis.pictures import grid
from acvp.analysis.scenes import Scenes, object_regions, predict_next, read_scenes
from acvp.analysis.study import Part, Study
from acvp.errors import UserError
from acvp.evaluation.horizon import Progress
from acvp.evaluation.results import numbers
from acvp.evaluation.subjects import MEAN_FRAME
from acvp.models import Predictor
from acvp.seeding import generator

PREDICTION, ACTION, NON_ACTION = "prediction", "Action", "Non-Action"
RANDOM, OTHERS = "as many at random", "all but those"
"""A control: as many factors as Action has, but drawn at random, and the rest."""
ACTION_HELD, NON_ACTION_HELD = "Action's at mean", "Non-Action's at mean"
"""All factors, but some at their mean over actions: what is lost if only the action is hidden from them."""
FORMULA = (
    "1 − Σ (x̂ − x')² / Σ (x − x')² over the pixels in which the true next frame x' differs from the last frame x, near "
    "the controlled object and elsewhere"
)


def controlled(study: Study, progress: Progress) -> Part:
    """Predict with the factors of high variance alone and with the others alone."""
    factors = all_factors(study.subject.predictor)
    high = high_variance(factors, study.config.variance_share)
    scenes, regions = study.scenes, _regions(study)
    shown = read_scenes(study.store, study.examples, study.subject.view, study.subject.predictor.context)
    predictions: dict[str, Tensor] = {}
    pictures: dict[str, Tensor] = {}
    variants = _variants(study, high)
    for done, (name, make) in enumerate(variants.items()):
        progress(done, len(variants))
        subject = replace(study.subject, predictor=make(study.subject.predictor))
        if regions is not None:
            predictions[name] = predict_next(subject, scenes)
        if name in (PREDICTION, ACTION, NON_ACTION):
            pictures[name] = predict_next(subject, shown)
    body = {
        "factors": len(factors),
        "share_of_factors": float(high.mean()),
        "share_of_factors_untrained": untrained_share(study.subject.predictor, study.config.variance_share),
        "share_of_variance": float(factors[high].var(1).sum() / factors.var(1).sum()),
        "variance_curve": numbers(variance_curve(factors)),
    }
    if regions is not None:
        body |= _explained(study, predictions, regions)
    return Part(body, {"controlled-examples.png": _halves(study, shown, pictures)})


def _variants(study: Study, high: Mask) -> dict[str, Callable[[Predictor], Predictor]]:
    """Return by name how to make the predictors with only some of the factors (F,)."""
    random = generator("random factors", study.config.seed).permutation(high)
    kept = {ACTION: high, NON_ACTION: ~high, RANDOM: random, OTHERS: ~random}
    variants = {name: partial(with_only, kept=mask) for name, mask in kept.items()}
    if any(layer.gates for layer in action_layers(study.subject.predictor)):
        variants |= {ACTION_HELD: partial(with_only, kept=~high, hold=True)}
        variants |= {NON_ACTION_HELD: partial(with_only, kept=high, hold=True)}
    return {PREDICTION: lambda predictor: predictor} | variants


def _regions(study: Study) -> Mask | None:
    """Return the controlled object's surroundings (S, h, w), None where its place is not known."""
    try:
        positions = study.positions
    except UserError as error:
        study.left_out["explained change"] = str(error)
        return None
    return object_regions(positions, study.subject.predictor.config.frame, study.store.info.frame_shape)


def _explained(study: Study, predictions: dict[str, Tensor], regions: Mask) -> dict[str, Any]:
    scenes = study.scenes
    mean = study.subject.predictor.normaliser.mean.cpu().movedim(-1, 0)  # (C, h, w)
    everything = predictions | {MEAN_FRAME: mean.expand(len(scenes.places), -1, -1, -1)}
    found = explain(everything, scenes, regions, episodes=len(study.store), seed=study.config.seed)
    return {
        "formula": FORMULA,
        "states": len(scenes.places),
        "changed_pixels": dict(zip(REGIONS, found.changed, strict=True)),
        "explained": {
            name: {part: numbers(values) for part, values in curve._asdict().items()}
            for name, curve in found.by_name.items()
        },
    }


def _halves(study: Study, shown: Scenes, pictures: dict[str, Tensor]) -> bytes:
    """Return figure 8: a row for each scene."""
    frames = [each.round().byte().permute(0, 2, 3, 1).numpy() for each in pictures.values()]
    rows = []
    for scene, place in enumerate(shown.places):
        name = f"{study.title(place)}, {study.actions[shown.actions[scene, -1]]}".replace(", ", "\n")
        rows.append((name, [shown.now[scene], shown.after[scene], *(each[scene] for each in frames)]))
    return grid(["last frame", "true next frame", *pictures], rows)
