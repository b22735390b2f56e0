"""Cosines of factors, and how rare a mean over pairs is."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from acvp.analysis.factors import RELABELINGS, centered, cosines, pair_means, relabelings

MOVES = ("NOOP", "UP", "DOWN", "LEFT", "RIGHT")
FIRE = (*MOVES, "FIRE", "UPFIRE", "DOWNFIRE", "LEFTFIRE", "RIGHTFIRE")
floats = st.floats(-2, 2, width=32)


def directions(names: tuple[str, ...]) -> np.ndarray[tuple[int, int], np.dtype[np.float64]]:
    """Factors (3, A) that say down, right, and nothing else."""
    down = [("DOWN" in name) - float("UP" in name) for name in names]
    right = [("RIGHT" in name) - float("LEFT" in name) for name in names]
    return np.array([down, right, np.zeros(len(names))])


def test_factors_that_say_the_direction() -> None:
    similarity = cosines(directions(FIRE))
    found = pair_means(similarity, FIRE, seed=0)
    assert found["same direction"].mean == pytest.approx(1)
    assert found["opposite"].mean == pytest.approx(-1)
    assert found["same direction"].pairs == 4
    assert found["opposite"].pairs == 8
    assert found["opposite"].p < 0.01
    assert similarity[0, 1] == 0  # NOOP has no factor at all


def test_few_actions_cannot_be_significant() -> None:
    names = ("NOOP", "UP", "DOWN")
    found = pair_means(cosines(directions(names)), names, seed=0)
    assert found.keys() == {"opposite"}
    assert found["opposite"].p == pytest.approx(1 / 3)  # one pair of three is always the least


def test_p_of_nothing_is_large() -> None:
    """Factors that know no direction: over many of them p is as often below ½ as above."""
    generator = np.random.default_rng(0)
    found = [pair_means(cosines(generator.normal(size=(30, 5))), MOVES, seed=0)["opposite"].p for _ in range(200)]
    assert 0.4 < np.mean([p <= 0.5 for p in found]) < 0.65
    assert np.mean([p <= 0.1 for p in found]) < 0.2


@given(arrays(np.float64, (6, 4), elements=floats), arrays(np.float64, (6, 1), elements=floats))
def test_a_bias_does_not_change_centered_factors(
    factors: np.ndarray[tuple[int, int], np.dtype[np.float64]], bias: np.ndarray[tuple[int, int], np.dtype[np.float64]]
) -> None:
    assert np.allclose(centered(factors + bias), centered(factors), atol=1e-6)


@given(arrays(np.float64, (6, 4), elements=floats))
def test_cosines_are_cosines(factors: np.ndarray[tuple[int, int], np.dtype[np.float64]]) -> None:
    similarity = cosines(factors)
    assert np.allclose(similarity, similarity.T)
    assert (np.abs(similarity) <= 1 + 1e-9).all()
    assert np.allclose(np.diag(similarity), factors.any(0), atol=1e-6)


def test_relabelings_are_all_or_many() -> None:
    assert len(relabelings(3, 0)) == 6
    many = relabelings(10, 0)
    assert many.shape == (RELABELINGS, 10)
    assert np.array_equal(many[0], np.arange(10))
    assert (np.sort(many, 1) == np.arange(10)).all()
    assert np.array_equal(many, relabelings(10, 0))
