"""Which factors vary, and how much of the change predictions explain, where the answer is known."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from acvp.analysis.factors import explain, high_variance, untrained_share, variance_curve
from acvp.analysis.samples import Samples, emulate, object_regions, read_samples
from acvp.data.frames import RGB
from acvp.data.store import EpisodeStore
from acvp.data.windows import WindowStart
from acvp.errors import UserError
from acvp.models import build_predictor
from acvp.models.pixels import as_pixels
from tests.networks import network

CONTEXT = 2
PLACES = [WindowStart(episode, start) for episode in range(4) for start in (0, 7, 20)]


@pytest.fixture(scope="module")
def samples(toy: EpisodeStore) -> Samples:
    return read_samples(toy, PLACES, RGB, CONTEXT)


@pytest.fixture(scope="module")
def regions(toy: EpisodeStore, samples: Samples) -> np.ndarray[tuple[int, int, int], np.dtype[np.bool_]]:
    positions = emulate(toy, PLACES, RGB, CONTEXT, lambda done, total: None).positions
    return object_regions(positions, toy.info.frame_shape, toy.info.frame_shape)


def test_the_fewest_factors_that_hold_a_share() -> None:
    factors = np.array([[1.0, 1.0], [0.0, 4.0], [5.0, 7.0], [-1.0, 0.0]])  # variances 0, 4, 1, ¼
    assert high_variance(factors, 0.7).tolist() == [False, True, False, False]
    assert high_variance(factors, 0.8).tolist() == [False, True, True, False]
    assert variance_curve(factors, 5) == pytest.approx(np.array([0, 4, 5, 5.25, 5.25]) / 5.25)


@given(st.floats(0.01, 0.99), st.integers(0, 99))
def test_one_factor_fewer_would_not_do(share: float, seed: int) -> None:
    factors = np.random.default_rng(seed).normal(size=(30, 4))
    variances = factors.var(1)
    high = high_variance(factors, share)
    held = variances[high].sum() / variances.sum()
    assert held >= share - 1e-12
    assert held - variances[high].min() / variances.sum() < share
    assert high.all() or variances[high].min() >= variances[~high].max()


@pytest.mark.parametrize(("actions", "share"), [(3, 0.376), (18, 0.615)])
def test_share_of_factors_in_an_untrained_network(actions: int, share: float) -> None:
    """The reference that docs/analysis.md gives: before training, with the paper's start and 2,048 factors."""
    config = network("feedforward", (24, 24, 3), width=4, actions=actions, hidden=8)
    predictor = build_predictor(config)
    (factors,) = predictor.action_factors()
    with torch.no_grad():
        factors.weight.mul_(torch.arange(2048.0)[:, None])  # as if training had changed it
    assert untrained_share(predictor, 0.7) == pytest.approx(share, abs=0.01)


def test_factors_that_never_vary() -> None:
    with pytest.raises(UserError, match="no factor varies"):
        high_variance(np.ones((3, 4)), 0.7)


def test_a_sample_is_the_episode_as_stored(toy: EpisodeStore, samples: Samples) -> None:
    episode = toy[1]
    frames = episode.frames(7, 10)
    assert np.array_equal(samples.given[4], frames[:2])
    assert np.array_equal(samples.after[4], frames[2])
    assert np.array_equal(samples.actions[4], episode.actions[7:9])


def test_the_players_pixels_are_in_its_region(
    samples: Samples, regions: np.ndarray[tuple[int, int, int], np.dtype[np.bool_]]
) -> None:
    for frames in (samples.now, samples.after):
        player = (frames == 240).all(-1)  # white
        assert player.any()
        assert regions[player].all()
    assert regions.sum() <= len(PLACES) * 2 * 4  # two cells of four pixels at most


def test_an_object_that_is_not_drawn_has_no_region() -> None:
    positions = np.array([[[3.0, 4.0], [3.0, 4.0]], [[3.0, 4.0], [np.nan, np.nan]]])
    regions = object_regions(positions, (10, 10, 1), (20, 20, 3))
    assert np.argwhere(regions[0]).tolist() == [[1, 1], [1, 2], [2, 1], [2, 2]]  # at half the size
    assert not regions[1].any()


def test_explained_change(
    toy: EpisodeStore, samples: Samples, regions: np.ndarray[tuple[int, int, int], np.dtype[np.bool_]]
) -> None:
    before, after = as_pixels(samples.now), as_pixels(samples.after)
    near = torch.from_numpy(regions)[:, None]
    predictions = {
        "truth": after,
        "last frame": before,
        "object only": torch.where(near, after, before),
        "half way": (before + after) / 2,
    }
    found = explain(predictions, samples, regions, episodes=len(toy), seed=0)
    values = {name: curve.mean.tolist() for name, curve in found.by_name.items()}
    assert values == {
        "truth": [1, 1],
        "last frame": [0, 0],
        "object only": [1, 0],
        "half way": [pytest.approx(0.75)] * 2,
    }
    assert found.changed[0] > 0
    assert sum(found.changed) == samples.changed().sum()


def test_bands_of_the_explained_change_are_around_it(
    toy: EpisodeStore, samples: Samples, regions: np.ndarray[tuple[int, int, int], np.dtype[np.bool_]]
) -> None:
    """A prediction that is right in every other scene: what it explains differs between episodes."""
    before, after = as_pixels(samples.now), as_pixels(samples.after)
    right = torch.arange(len(after)) % 2 == 0
    mixed = torch.where(right[:, None, None, None], after, before)
    curve = explain({"mixed": mixed}, samples, regions, episodes=len(toy), seed=0).by_name["mixed"]
    assert (curve.low < curve.mean).all()
    assert (curve.mean < curve.high).all()
    assert (curve.low >= 0).all()
    assert (curve.high <= 1).all()
