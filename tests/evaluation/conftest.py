"""Stores that the evaluation tests share."""

from __future__ import annotations

from pathlib import Path

import pytest

from acvp.data.collect import CollectConfig, collect
from acvp.data.store import EpisodeStore
from acvp.evaluation.windows import HeldOutPart
from tests.data.answers import answer_store


@pytest.fixture(scope="session")
def toy(tmp_path_factory: pytest.TempPathFactory) -> EpisodeStore:
    """About twelve episodes of ToyGame."""
    folder = tmp_path_factory.mktemp("toy")
    collect(CollectConfig(env_id="toy", out=folder / "store", frames=1200, seed=1))
    return EpisodeStore(folder / "store")


@pytest.fixture(scope="session")
def toy_part(toy: EpisodeStore) -> HeldOutPart:
    return HeldOutPart(store=toy, how="all")


@pytest.fixture
def answers(tmp_path: Path) -> HeldOutPart:
    """Episodes whose frames say which they are."""
    return HeldOutPart(store=answer_store(tmp_path / "answers", [30, 25, 20, 40]), how="all")
