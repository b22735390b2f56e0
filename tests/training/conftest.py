"""What the tests of training share."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
import torch

from acvp.data.store import EpisodeStore
from tests.training.small import Trace, toy_store


@pytest.fixture(scope="session")
def store(tmp_path_factory: pytest.TempPathFactory) -> EpisodeStore:
    """Six hundred frames of the small toy game."""
    return toy_store(tmp_path_factory.mktemp("toy") / "store")


@pytest.fixture(autouse=True)
def one_thread() -> Iterator[None]:
    """Small networks are fastest on one thread, and a process with one can be forked."""
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)


@pytest.fixture
def trace(monkeypatch: pytest.MonkeyPatch) -> Trace:
    """A record of every update from here on."""
    trace = Trace()
    trace.watch(monkeypatch)
    return trace
