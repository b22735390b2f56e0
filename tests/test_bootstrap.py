"""Sums by episode, and bands that cover what they should."""

from __future__ import annotations

import numpy as np
import pytest

from acvp.bootstrap import Accumulator, Bootstrap


def filled(values: list[list[float]]) -> Accumulator:
    """A tally of one step: values of each episode."""
    accumulator = Accumulator(len(values), 1)
    for episode, each in enumerate(values):
        accumulator.add(0, np.full(len(each), episode), np.array(each))
    return accumulator


def test_means_are_over_windows_and_nan_is_left_out() -> None:
    accumulator = filled([[1.0, 2.0, np.nan], [6.0]])
    assert Bootstrap(2, seed=1).curve(accumulator).mean == pytest.approx([3.0])


def test_ratio_and_total() -> None:
    above, below = filled([[2.0], [4.0]]), filled([[1.0], [2.0]])
    ratio = Bootstrap(2, seed=1).ratio(above, below)
    assert [float(part[0]) for part in ratio] == [2.0, 2.0, 2.0]  # resampled together
    steps = Accumulator(1, 3)
    for step, share in enumerate((1.0, 0.5, 0.0)):
        steps.add(step, np.array([0]), np.array([share]))
    assert Bootstrap(1, seed=1).total(steps).mean.tolist() == [1.5]


def test_merged_parts_add_up_where_they_share_an_episode() -> None:
    whole = filled([[1.0], [2.0], [4.0]])
    whole.merge(np.array([2, 0]), filled([[6.0, 5.0], [3.0]]))
    assert whole.sums.ravel().tolist() == [4.0, 2.0, 15.0]
    assert whole.counts.ravel().tolist() == [2.0, 1.0, 3.0]


def test_an_episode_is_resampled_with_all_its_windows() -> None:
    """Nine windows of 1 in one episode, one of 10 in the other: a quarter of the resamples has the second one twice."""
    curve = Bootstrap(2, seed=1).curve(filled([[1.0] * 9, [10.0]]))
    assert [float(part[0]) for part in curve] == pytest.approx([1.9, 1.0, 10.0])


def test_one_episode_has_no_band() -> None:
    curve = Bootstrap(1, seed=1).curve(filled([[1.0, 2.0]]))
    assert np.isnan(curve.low).all()
    assert np.isnan(curve.high).all()


@pytest.mark.slow
def test_bands_cover_the_truth_about_95_times_in_100() -> None:
    """Windows of an episode share its level: a band over windows instead of episodes would cover far too seldom."""
    rng, covered, trials = np.random.default_rng(0), 0, 300
    for trial in range(trials):
        levels = rng.normal(5.0, 1.0, size=40)
        curve = Bootstrap(40, seed=trial).curve(filled([list(rng.normal(level, 0.3, size=10)) for level in levels]))
        covered += bool(curve.low[0] <= 5.0 <= curve.high[0])
    assert 0.90 <= covered / trials <= 0.98


def test_same_seed_same_bands() -> None:
    accumulator = filled([[1.0], [2.0], [5.0]])
    first, second, other = (Bootstrap(3, seed=seed).curve(accumulator) for seed in (1, 1, 2))
    assert first.low.tolist() == second.low.tolist()
    assert Bootstrap(3, seed=1).weights.tolist() != Bootstrap(3, seed=2).weights.tolist()
    assert other.mean.tolist() == first.mean.tolist()
