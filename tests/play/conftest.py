"""A recording of ToyGame that the play tests share."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from acvp.data.collect import CollectConfig, collect
from acvp.data.store import EpisodeStore
from acvp.play.session import Session
from tests.play.sessions import make_session


@pytest.fixture(scope="session")
def toy(tmp_path_factory: pytest.TempPathFactory) -> EpisodeStore:
    """Some episodes of ToyGame."""
    folder = tmp_path_factory.mktemp("toy")
    collect(CollectConfig(env_id="toy", out=folder / "store", frames=600, seed=2))
    return EpisodeStore(folder / "store")


@pytest.fixture(scope="session")
def toy_session_maker(toy: EpisodeStore) -> Callable[[], Session]:
    """What makes a session with a recording."""
    return lambda: make_session(store=toy)
