"""`acvp train`: trains a predictor on a dataset."""

from __future__ import annotations

from acvp.cli.verb import Verb
from acvp.console import err
from acvp.data.store import EpisodeStore
from acvp.training.config import TrainConfig


def run(config: TrainConfig) -> int:
    """Train until the config's phases are over."""
    from acvp.training.presets import make_config
    from acvp.training.run import train

    store = EpisodeStore(config.data)
    return train(config, store, make_config(config, store), err).exit_code


VERBS = {
    "train": Verb(
        options=TrainConfig,
        run=run,
        example="acvp train --data data/freeway --model pixel --preset cpu --run runs/freeway",
    )
}
