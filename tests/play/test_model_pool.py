"""The model pool: predictors by name, loaded on first use, with a baseline at the end."""

from __future__ import annotations

import pytest

from acvp.errors import UserError
from acvp.play.model_pool import ModelPool
from acvp.play.session import Session
from tests.play.sessions import (
    StandStill,
    model_pool,
)


def test_a_model_is_loaded_on_first_use() -> None:
    loaded = []

    def load() -> StandStill:
        loaded.append(1)
        return StandStill()

    models = ModelPool({"one": load, "two": load})
    Session(models)
    Session(models)
    assert len(loaded) == 1, "shared by all sessions"


def test_an_empty_model_pool() -> None:
    with pytest.raises(UserError, match="--predictors"):
        ModelPool({})


def test_the_model_pool_ends_with_the_baseline() -> None:
    assert model_pool().names == ("still", "net", "gray", "copy-last-frame")
