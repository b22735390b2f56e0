"""Complete training configs: the paper's, the authors', one for a GPU, for half an hour on two cores, for seconds.

A preset is the same for all kinds of predictors; what a kind needs otherwise is in its ``sizes`` and
``training_defaults``.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from math import sqrt
from typing import Any

from acvp.compat import current_training
from acvp.data.frames import get_view
from acvp.data.merge import split
from acvp.data.store import EpisodeStore
from acvp.errors import UserError
from acvp.loaded import load, require_fit, view_of
from acvp.models import DatasetSplit, Predictor, PredictorConfig, find_class, fingerprint, kind_of
from acvp.models import config_from_dict as predictor_config_from_dict
from acvp.models.encoder_decoder import GPU_BATCH, GRAY_84
from acvp.training.config import OptimizerConfig, Phase, TrainConfig, TrainingConfig, within_minutes

PAPER_DECAY = 0.9
"""Factor on the learning rate (appendix A)."""


def make_config(config: TrainConfig, store: EpisodeStore) -> TrainingConfig:
    """Return the config that a command line asks for, on a dataset."""
    kind = find_class(config.model)
    defaults = dict(kind.training_defaults(config.preset, store.info.frame_shape))
    view = defaults.pop("view", "rgb") if config.view == "auto" else config.view
    defaults.pop("view", None)
    if store.info.action_range and not kind.continuous_actions:
        raise UserError(
            f"--model {config.model} needs numbered actions, and those of {store.path} are continuous: use --model "
            "feedforward, recurrent or mlp"
        )
    if not len(store):
        raise UserError(f"{store.path}: the dataset has no episodes; record some with acvp collect")
    train, test = split(store, test_fraction=config.test_fraction, seed=config.seed)
    data = DatasetSplit(train=train, held_out=test, view=get_view(view), seed=config.seed)
    if config.init is None:
        fields = kind.sizes(config.preset, data.frame) | kind.prepare(data)
        if config.predict_rewards:
            fields |= {"predict_rewards": True}
        if fields.get("predict_rewards") and hasattr(kind.config_class, "predict_lives"):
            fields |= {"predict_lives": has_lives(train)}
        training = PRESETS[config.preset](kind.config_class(**fields))
    else:
        initial = initial_predictor(config.init, config.model, view, store)
        training = replace(PRESETS[config.preset](initial.config), init=fingerprint(initial))
    training = replace(training, view=view, seed=config.seed, test_fraction=config.test_fraction, shares=config.shares)
    training = with_defaults(training, defaults)
    return (
        training
        if config.minutes is None
        else replace(training, phases=within_minutes(training.phases, config.minutes))
    )


def has_lives(store: EpisodeStore) -> bool:
    """Return whether a dataset is of a game with lives, by its first episode."""
    return len(store) > 0 and bool((store[0].lives > 0).any())


def initial_predictor(name: str, model: str, view: str, store: EpisodeStore) -> Predictor:
    """Return the predictor that --init names; raises UserError if it is of another kind, game or view."""
    initial = load(name)
    kind = kind_of(initial.config)
    if find_class(model) is not type(initial):
        raise UserError(f"--init {name} is of kind {kind}: use --model {kind}")
    seen = view_of(initial, f"--init {name}").name
    if seen != view:
        raise UserError(f"--init {name} sees frames as {seen}: use --view {seen}")
    require_fit(f"--init {name}", initial, store.info, source=str(store.path), cure="choose another --data or --init")
    return initial


def with_defaults(training: TrainingConfig, defaults: dict[str, Any]) -> TrainingConfig:
    """Return a config changed as ``Predictor.training_defaults`` says."""
    changes = dict(defaults)
    if "optimizer" in changes:
        changes["optimizer"] = OptimizerConfig(**changes["optimizer"])
    if "phases" in changes:
        pairs = zip(training.phases, changes["phases"], strict=False)
        changes["phases"] = tuple(replace(phase, **change) for phase, change in pairs)
    return replace(training, **changes)


def paper(predictor: PredictorConfig) -> TrainingConfig:
    """Return the paper's training: Graves' RMSProp, three phases, 3.5 M updates (§4, appendix A); gray: one phase."""
    phases = paper_curriculum(context=predictor.context)
    return TrainingConfig(
        name="paper",
        predictor=predictor,
        view="rgb",
        optimizer=OptimizerConfig(name="graves-rmsprop"),
        phases=phases[:1] if tuple(predictor.frame) == GRAY_84 else phases,  # appendix B: 1-step prediction alone
        evaluate_every=5_000,
    )


def authors(predictor: PredictorConfig) -> TrainingConfig:
    """Return the training of the authors' code: Adam at a fixed rate, twice that for biases."""
    training = paper(predictor)
    phases = tuple(replace(phase, decay=1.0) for phase in training.phases)
    return replace(training, name="authors", optimizer=OptimizerConfig(name="adam", bias_rate=2.0), phases=phases)


def gpu(predictor: PredictorConfig) -> TrainingConfig:
    """Return the authors' training in larger batches: as many windows in fewer updates, at a higher learning rate.

    The rate grows with the root of the batch, as is usual for Adam.
    """
    training = authors(predictor)
    phases = tuple(
        replace(
            phase,
            batch_size=GPU_BATCH * phase.batch_size,
            lr=sqrt(GPU_BATCH) * phase.lr,
            steps=phase.steps and phase.steps // GPU_BATCH,
            warmup=1000,
        )
        for phase in training.phases
    )
    return replace(training, name="gpu", phases=phases, evaluate_every=training.evaluate_every // GPU_BATCH)


def cpu(predictor: PredictorConfig) -> TrainingConfig:
    """Return half an hour on two cores: Adam, 1-step prediction, then 3 steps ahead, each by wall-clock."""
    first, second, _ = paper_curriculum(context=predictor.context, decay=1.0)
    phases = (
        replace(first, lr=1e-3, steps=None, minutes=20.0, warmup=100, anneal=True),
        replace(second, lr=3e-4, steps=None, minutes=10.0, warmup=50, anneal=True),
    )
    return _with_adam("cpu", predictor, phases, evaluate_every=250)


def smoke(predictor: PredictorConfig) -> TrainingConfig:
    """Return seconds of training of a small network: to see that everything works."""
    first, second, _ = paper_curriculum(context=predictor.context, decay=1.0)
    phases = (
        replace(first, lr=1e-3, batch_size=16, steps=100, warmup=10),
        replace(second, lr=3e-4, batch_size=4, steps=20),
    )
    return _with_adam("smoke", predictor, phases, evaluate_every=50, windows=8, horizons=(1, 10))


def _with_adam(name: str, predictor: PredictorConfig, phases: tuple[Phase, ...], **options: Any) -> TrainingConfig:
    optimizer = OptimizerConfig(name="adam")
    return TrainingConfig(name=name, predictor=predictor, view="rgb", optimizer=optimizer, phases=phases, **options)


PRESETS: dict[str, Callable[[PredictorConfig], TrainingConfig]] = {
    "paper": paper,
    "authors": authors,
    "gpu": gpu,
    "cpu": cpu,
    "smoke": smoke,
}


def paper_curriculum(*, context: int, decay: float = PAPER_DECAY) -> tuple[Phase, ...]:
    """Return the paper's three phases of 1.5 M, 1 M and 1 M updates (§4, appendix A)."""
    first = Phase(predict=1, context=context, batch_size=32, lr=1e-4, steps=1_500_000, decay=decay)
    second = Phase(predict=3, context=context, batch_size=8, lr=1e-5, steps=1_000_000, decay=decay)
    return first, second, replace(second, predict=5)


def config_from_dict(values: dict[str, Any]) -> TrainingConfig:
    """Return the config that a run's config.json holds; fields that an earlier version did not have get defaults."""
    values = current_training(values)
    try:
        return TrainingConfig(
            **values
            | {
                "predictor": predictor_config_from_dict(values["predictor"]),
                "optimizer": OptimizerConfig(**values["optimizer"]),
                "phases": tuple(Phase(**phase) for phase in values["phases"]),
                "horizons": tuple(values.get("horizons", (1, 10, 30))),
                "shares": tuple(values.get("shares", ())),
            }
        )
    except (KeyError, TypeError) as error:
        raise UserError(f"config.json holds no training config of acvp ({error}); choose another --run") from error
