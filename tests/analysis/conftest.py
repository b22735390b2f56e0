"""What the tests of analysis share."""

from __future__ import annotations

import pytest
import torch

from acvp.data.collect import CollectConfig, collect
from acvp.data.frames import RGB
from acvp.data.store import EpisodeStore
from acvp.models import About, FeedforwardConfig, Predictor, build_predictor
from acvp.models.encoder_decoder import derived_sizes


@pytest.fixture(scope="session")
def toy(tmp_path_factory: pytest.TempPathFactory) -> EpisodeStore:
    """About eight episodes of ToyGame."""
    return collect(CollectConfig(env_id="toy", out=tmp_path_factory.mktemp("toy") / "store", frames=800, seed=1))


@pytest.fixture
def untrained(toy: EpisodeStore) -> Predictor:
    """A small feedforward network of the toy game with random weights."""
    return small_feedforward(toy)


def small_feedforward(store: EpisodeStore, seed: int = 1) -> Predictor:
    """A small feedforward network of a store's game with random weights."""
    info = store.info
    sizes = derived_sizes(info.frame_shape, 4) | {"hidden": 12}
    config = FeedforwardConfig(actions=store.action_count, factors=20, **sizes)
    predictor = build_predictor(config, torch.Generator().manual_seed(seed)).eval()
    predictor.normalizer.set_mean(torch.full(info.frame_shape, 60.0))
    predictor.about = About(env_id=info.env_id, view=RGB.name, action_meanings=info.action_meanings)
    return predictor
