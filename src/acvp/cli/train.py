"""`acvp train`: trains a predictor on a dataset."""

from __future__ import annotations

from dataclasses import fields, replace
from pathlib import Path
from typing import Any, cast

from acvp.cli.main import Verb, describe_knobs, run_config, turn, value_of
from acvp.console import err, out
from acvp.data.merge import join
from acvp.data.store import EpisodeStore
from acvp.errors import UserError
from acvp.exits import EXIT_OK
from acvp.training.config import TrainConfig, TrainingConfig, within_minutes

FROM_DATASET = (
    "actions", "action_range", "frame", "palette", "motions", "older_motions", "palette_cycle", "quantized", "moves",
    "moving_colors", "controlled_colors",
)  # fmt: skip
"""Fields of a predictor's config that are found in the dataset."""
FROM_OPTIONS = {
    "name": "--preset", "view": "--view", "seed": "--seed", "test_fraction": "--test-fraction", "shares": "--shares",
    "init": "--init",
}  # fmt: skip
FIXED = {
    **{f"predictor.{name}": "the dataset" for name in FROM_DATASET},
    **{name: f"{option}" for name, option in FROM_OPTIONS.items()},
}
"""Fields of the training config that no knob can set → where they come from."""


def run(config: TrainConfig) -> int:
    """Train until the last phase is over."""
    from acvp.training.run import train

    store = join(config.data)
    training = make_training(config, store)
    if config.help_all:
        out.print(f"fields of the training config ({config.model}, preset {config.preset}), as options:")
        for line in describe_knobs(training, tuple(FIXED)):
            out.print(line)
        return EXIT_OK
    return train(config, store, training, err).exit_code


def make_training(config: TrainConfig, store: EpisodeStore) -> TrainingConfig:
    """Return the training config: a preset's or that of a file, with the knobs of the command line."""
    from acvp.training.presets import config_from_dict, make_config

    training = make_config(config, store)
    if config.config is not None:
        stored = config_from_dict(training_of(config.config))
        ours, theirs = cast(Any, training.predictor), cast(Any, stored.predictor)
        sizes = {size.name: getattr(theirs, size.name) for size in fields(theirs) if size.name not in FROM_DATASET}
        phases = stored.phases if config.minutes is None else within_minutes(stored.phases, config.minutes)
        training = replace(stored, predictor=replace(ours, **sizes), phases=phases, view=training.view)
        training = replace(training, seed=config.seed, test_fraction=config.test_fraction, shares=config.shares)
    return turn(training, config.knobs, FIXED, VERBS["train"].known)


def training_of(path: Path) -> dict[str, Any]:
    """Return the training config that a run folder, or its config.json, holds."""
    training = run_config(path).get("training")
    if not isinstance(training, dict):
        raise UserError(f"--config {path}: not the run of a predictor; name a folder that acvp train has written")
    return training


def options_of_file(arguments: list[str]) -> list[str]:
    """Return the options of the run that --config names, or of the predictor that --init names."""
    path, initial = value_of("--config", arguments), value_of("--init", arguments)
    if path is None:
        return [] if initial is None else options_of_predictor(initial)
    training = training_of(Path(path))
    values = {"--model": training.get("predictor", {}).get("kind"), "--preset": training.get("name")}
    values |= {f"--{name.replace('_', '-')}": training.get(name) for name in ("view", "seed", "test_fraction")}
    return [word for option, value in values.items() if value is not None for word in (option, str(value))]


def options_of_predictor(name: str) -> list[str]:
    """Return the kind and the view of a predictor as options."""
    from acvp.loaded import load, view_of
    from acvp.models import kind_of

    predictor = load(name)
    return ["--model", kind_of(predictor.config), "--view", view_of(predictor, name).name]


VERBS = {
    "train": Verb(
        options=TrainConfig,
        run=run,
        example="acvp train --data stores/freeway --model pixel --preset cpu --phases.0.lr 1e-3 --run runs/freeway",
        first=options_of_file,
    )
}
