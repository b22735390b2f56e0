"""From sums by episode to curves with bands: the right way round, of the right episodes, by the right seed."""

from __future__ import annotations

import numpy as np
import pytest

from acvp.bootstrap import Accumulator
from acvp.evaluation.run import FEW_EPISODES, Evaluation, few_episodes, summarize

ERRORS, COPIED = [1.0, 2.0, 6.0, 3.0], [4.0, 4.0, 8.0, 12.0]
"""Of the episodes that have windows: 1, 2, 4 and 5 of six."""
USED = [1, 2, 4, 5]


def accumulator(values: list[float], weight: int = 1) -> Accumulator:
    """One step; each value is that of `weight` windows of an episode."""
    made = Accumulator(6, 1)
    for episode, value in zip(USED, values, strict=True):
        made.add(0, np.full(weight, episode), np.full(weight, value))
    return made


def summary(seed: int = 0) -> Evaluation:
    exact = accumulator([1.0, 0.0, 0.0, 1.0])
    accumulators = {
        "run": {
            "error": accumulator(ERRORS),
            "exact": exact,
            "shuffled": accumulator([9.0] * 4),
            "unshuffled": accumulator([6.0] * 4),
        },
        "copy-last-frame": {"error": accumulator(COPIED)},
    }
    facts = {"scale": 255, "palette": True}
    return summarize(accumulators, seed=seed, baselines=("copy-last-frame",), facts=facts, left_out={})


def test_gain_and_sensitivity_by_hand() -> None:
    found = summary()
    curves = found.curves["run"]
    assert curves["error"].mean == pytest.approx([3.0])
    assert curves["gain"].mean == pytest.approx([1 - 12 / 28])
    assert curves["sensitivity"].mean == pytest.approx([1.5])
    assert found.totals["run"]["exact_steps"].mean == pytest.approx([0.5])
    assert found.facts["episodes"] == 4


def test_bands_are_around_the_mean_and_within_what_was_measured() -> None:
    curves = summary().curves["run"]
    for name in ("error", "gain"):
        mean, low, high = (float(part[0]) for part in curves[name])
        assert low < mean < high, name
    assert curves["error"].low[0] >= 1.0
    assert curves["error"].high[0] <= 6.0
    assert curves["gain"].low[0] >= 1 - 6 / 8
    assert curves["gain"].high[0] <= 1 - 1 / 4


def test_bands_follow_from_the_seed() -> None:
    bands = [tuple(float(part[0]) for part in summary(seed).curves["run"]["error"]) for seed in range(6)]
    assert bands[0] == tuple(float(part[0]) for part in summary(0).curves["run"]["error"])
    assert len(set(bands)) > 1


def test_few_episodes_are_pointed_out() -> None:
    assert "4 test episodes are few" in summary().to_dict().get("note", "")
    assert few_episodes(FEW_EPISODES) == {}
