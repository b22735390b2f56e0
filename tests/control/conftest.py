"""What the tests of control share."""

from __future__ import annotations

import pytest

from acvp.data.store import EpisodeStore
from tests.control.trail import trail_store


@pytest.fixture(scope="session")
def trail(tmp_path_factory: pytest.TempPathFactory) -> EpisodeStore:
    """About ten plays of the trail."""
    return trail_store(tmp_path_factory.mktemp("trail") / "store")
