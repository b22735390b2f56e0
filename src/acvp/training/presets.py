"""Complete recipes: the paper's, the authors', one for half an hour on two cores, one for seconds.

A preset is the same for all kinds of predictors; what a kind needs otherwise is in its ``sizes`` and
``training_defaults``.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

from acvp.data.split import split
from acvp.data.store import EpisodeStore
from acvp.data.views import get_view
from acvp.errors import UserError
from acvp.models import DatasetSplit, PredictorConfig, find_class
from acvp.models.sizes import GRAY_84
from acvp.training.config import TrainConfig
from acvp.training.optimizers import OptimizerConfig
from acvp.training.recipe import Phase, Recipe, paper_curriculum, within_minutes


def make_recipe(config: TrainConfig, store: EpisodeStore) -> Recipe:
    """Return the recipe that a command line asks for, on a dataset."""
    kind = find_class(config.model)
    defaults = dict(kind.training_defaults(config.preset, store.info.frame_shape))
    view = defaults.pop("view", "rgb") if config.view == "auto" else config.view
    defaults.pop("view", None)
    if not len(store):
        raise UserError(f"{store.path}: the dataset has no episodes; record some with acvp collect")
    train, test = split(store, test_fraction=config.test_fraction, seed=config.seed)
    data = DatasetSplit(train=train, held_out=test, view=get_view(view), seed=config.seed)
    fields = kind.sizes(config.preset, data.frame) | kind.prepare(data)
    if config.predict_rewards:
        fields |= {"predict_rewards": True}
    recipe = PRESETS[config.preset](kind.config_class(**fields))
    recipe = replace(recipe, view=view, seed=config.seed, test_fraction=config.test_fraction)
    recipe = with_defaults(recipe, defaults)
    return recipe if config.minutes is None else replace(recipe, phases=within_minutes(recipe.phases, config.minutes))


def with_defaults(recipe: Recipe, defaults: dict[str, Any]) -> Recipe:
    """Return a recipe changed as ``Predictor.training_defaults`` says."""
    changes = dict(defaults)
    if "optimizer" in changes:
        changes["optimizer"] = OptimizerConfig(**changes["optimizer"])
    if "phases" in changes:
        pairs = zip(recipe.phases, changes["phases"], strict=False)
        changes["phases"] = tuple(replace(phase, **change) for phase, change in pairs)
    return replace(recipe, **changes)


def paper(predictor: PredictorConfig) -> Recipe:
    """Return the paper's training: Graves' RMSProp, three phases, 3.5 M updates (§4, appendix A); gray: one phase."""
    phases = paper_curriculum(context=predictor.context)
    return Recipe(
        name="paper",
        predictor=predictor,
        view="rgb",
        optimizer=OptimizerConfig(kind="graves-rmsprop"),
        phases=phases[:1] if tuple(predictor.frame) == GRAY_84 else phases,  # appendix B: 1-step prediction alone
        evaluate_every=5_000,
    )


def authors(predictor: PredictorConfig) -> Recipe:
    """Return the training of the authors' code: Adam at a fixed rate, twice that for biases."""
    recipe = paper(predictor)
    phases = tuple(replace(phase, decay=1.0) for phase in recipe.phases)
    return replace(recipe, name="authors", optimizer=OptimizerConfig(kind="adam", bias_rate=2.0), phases=phases)


def cpu(predictor: PredictorConfig) -> Recipe:
    """Return half an hour on two cores: Adam, 1-step prediction, then 3 steps ahead, each by wall-clock."""
    first, second, _ = paper_curriculum(context=predictor.context, decay=1.0)
    phases = (
        replace(first, lr=1e-3, steps=None, minutes=20.0, warmup=100, anneal=True),
        replace(second, lr=3e-4, steps=None, minutes=10.0, warmup=50, anneal=True),
    )
    return _with_adam("cpu", predictor, phases, evaluate_every=250)


def smoke(predictor: PredictorConfig) -> Recipe:
    """Return seconds of training of a small network: to see that everything works."""
    first, second, _ = paper_curriculum(context=predictor.context, decay=1.0)
    phases = (
        replace(first, lr=1e-3, batch_size=16, steps=100, warmup=10),
        replace(second, lr=3e-4, batch_size=4, steps=20),
    )
    return _with_adam("smoke", predictor, phases, evaluate_every=50, windows=8, horizons=(1, 10))


def _with_adam(name: str, predictor: PredictorConfig, phases: tuple[Phase, ...], **options: Any) -> Recipe:
    optimizer = OptimizerConfig(kind="adam")
    return Recipe(name=name, predictor=predictor, view="rgb", optimizer=optimizer, phases=phases, **options)


PRESETS: dict[str, Callable[[PredictorConfig], Recipe]] = {
    "paper": paper,
    "authors": authors,
    "cpu": cpu,
    "smoke": smoke,
}
