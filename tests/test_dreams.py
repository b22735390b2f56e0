"""A predictor is packaged only if it is no worse than the packaged ones (benchmarks.dreams)."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from benchmarks import dreams

Judged = tuple[float, float, int | None]
"""Share of the windows in which keys work, wrong pixels, and the step at which the object is lost."""


def results(predictors: dict[str, Judged], copy_error: float = 5.0) -> dict[str, Any]:
    """Results of some predictors: keys and wrong pixels at every step, and the step at which the object is lost."""
    curves: dict[str, Any] = {
        name: {"wrong_pixels": {"mean": [wrong] * 10}} for name, (_, wrong, _) in predictors.items()
    }
    curves["copy-last-frame"] = {"error": {"mean": [copy_error] * 10}}
    return {
        "keys": {"works": {name: {"mean": [keys, keys]} for name, (keys, _, _) in predictors.items()}},
        "curves": curves,
        "lost": {name: lost for name, (_, _, lost) in predictors.items()},
    }


def refused(now: dict[str, Any], before: dict[str, Any] | None) -> str:
    """Return why a predictor `new` of `game` is not packaged, beside what `game-objects` was before."""
    with pytest.raises(SystemExit) as end:
        dreams.package("game", Path("new"), {"agent": now}, {"agent": before})
    return str(end.value)


def test_a_predictor_must_be_better_than_the_packaged_one_and_than_that_of_objects_before() -> None:
    now = results({"new": (0.6, 20, 30), "game": (0.5, 30, None)})
    assert "lost, than game" in refused(now, None)
    better = results({"new": (0.6, 20, None), "game": (0.5, 30, 10)})
    before = results({"game-objects": (0.7, 25, 40)})
    assert refused(better, before).endswith("worse in: agent: keys, than before")


def test_results_of_other_windows_are_not_compared() -> None:
    better = results({"new": (0.6, 20, None), "game": (0.5, 30, 10)})
    assert "other windows" in refused(better, results({"game-objects": (0.1, 90, 1)}, copy_error=6.0))


def test_a_better_predictor_is_packaged(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    written = []
    monkeypatch.setattr(dreams, "PACKAGED", tmp_path)
    monkeypatch.setattr("acvp.load", lambda path: path)
    monkeypatch.setattr(dreams, "on_card", lambda driver, body, name: f"{driver} {name}")
    monkeypatch.setattr(dreams, "write_predictor", lambda *arguments: written.append(arguments))
    now = results({"new": (0.6, 20, None), "game": (0.5, 30, 10)})
    dreams.package("game", Path("new"), {"agent": now}, {"agent": results({"game-objects": (0.6, 20, 40)})})
    assert written == [(Path("new"), "agent new", tmp_path / "game-objects")]
