"""What all tests share: properties are about what comes out, never about how long it takes."""

from __future__ import annotations

from collections.abc import Iterator
from math import inf

import pytest
from hypothesis import HealthCheck, settings

settings.register_profile("acvp", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("acvp")


@pytest.fixture(autouse=True)
def no_lines_of_progress(monkeypatch: pytest.MonkeyPatch) -> None:
    """A busy machine may take longer than the half minute after which a command reports its progress."""
    monkeypatch.setattr("acvp.console.LINE_SECONDS", inf)


@pytest.fixture
def statistics_not_cached(monkeypatch: pytest.MonkeyPatch) -> None:
    """Compute statistics of a dataset each time, also of one that several tests share."""
    monkeypatch.setattr("acvp.data.statistics._read", lambda *_: None)


@pytest.fixture
def built_in_metrics() -> Iterator[None]:
    """Forget the metrics that a test registers."""
    from acvp.evaluation.metrics import METRICS

    before = METRICS.copy()
    yield
    METRICS.clear()
    METRICS.update(before)
