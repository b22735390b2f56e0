"""What the tests of control share."""

from __future__ import annotations

import pytest

from acvp.data.collect import CollectConfig, collect
from acvp.data.store import EpisodeStore
from tests.control.trail import trail_store


@pytest.fixture(scope="session")
def trail(tmp_path_factory: pytest.TempPathFactory) -> EpisodeStore:
    """About ten plays of the trail."""
    return trail_store(tmp_path_factory.mktemp("trail") / "store")


@pytest.fixture(scope="session")
def toy(tmp_path_factory: pytest.TempPathFactory) -> EpisodeStore:
    """A few plays of ToyGame."""
    return collect(CollectConfig(env_id="toy", out=tmp_path_factory.mktemp("toy") / "store", frames=600, seed=1))
