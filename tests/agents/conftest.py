"""Fixtures of short runs of `acvp agent train`."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from acvp.agents import presets
from acvp.agents import run as session
from tests.agents.short_runs import SHORT, run, stop_at


@pytest.fixture
def short(monkeypatch: pytest.MonkeyPatch) -> Callable[..., None]:
    """Make the preset smoke a moment long, with changes; looks at runs every 2 decisions."""
    monkeypatch.setattr(session, "EVALUATION_STEPS", 30)

    def use(**changes: Any) -> None:
        monkeypatch.setitem(presets.PRESETS, "smoke", lambda: replace(SHORT, **changes))

    use()
    return use


@pytest.fixture(scope="module")
def done(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    """A short run that never stopped, and the same one stopped at decision 100."""
    folder = tmp_path_factory.mktemp("runs")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(session, "EVALUATION_STEPS", 30)
        patch.setitem(presets.PRESETS, "smoke", lambda: SHORT)
        run(folder / "whole")
        stop_at(100, patch)
        run(folder / "stopped")
    return folder / "whole", folder / "stopped"
