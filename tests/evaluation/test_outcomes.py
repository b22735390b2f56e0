"""Rewards and ends one step ahead: which steps are looked at, and the scores by hand."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from acvp.data.collect import CollectConfig, collect
from acvp.data.views import RGB
from acvp.evaluation.outcomes import choose_steps, measure_outcomes, score
from acvp.evaluation.subjects import Subject
from acvp.models import FeedforwardConfig, Predictor, build_predictor
from acvp.presets import network


def test_scores_by_hand() -> None:
    probabilities = np.array([[0.9, 0.1], [0.6, 0.4], [0.25, 0.75], [0.8, 0.2]])
    found = score(probabilities, np.array([0, 1, 1, 0]), np.array([1.0, 1.0, 1.0, 3.0]), ("no", "yes"))
    assert found["recall"] == {"no": 1.0, "yes": 0.5}
    assert found["balanced_accuracy"] == 0.75
    assert found["count"] == {"no": 4, "yes": 2}
    error = (1 * abs(0.9 - 1) + 1 * abs(0.6 - 0) + 1 * abs(0.75 - 1) + 3 * abs(0.8 - 1)) / 6
    assert found["calibration_error"] == pytest.approx(error)


def test_a_class_that_never_occurs_does_not_count() -> None:
    found = score(np.array([[0.9, 0.1]]), np.array([0]), np.ones(1), ("no", "yes"))
    assert found["recall"] == {"no": 1.0}
    assert found["balanced_accuracy"] == 1.0


@pytest.mark.slow
def test_every_event_is_looked_at_and_the_others_stand_for_all(tmp_path: Path) -> None:
    store = collect(CollectConfig(env_id="acvp/Toy-v0", out=tmp_path / "store", frames=3000, seed=1))
    places, weights = choose_steps(store, 4, seed=0)
    steps = sum(len(episode) - 4 for episode in store)
    assert weights.sum() == pytest.approx(steps)
    found = {(place.episode, place.start + 3) for place in places}
    for position, episode in enumerate(store):
        for step in np.flatnonzero(episode.rewards).tolist():
            assert step < 3 or (position, step) in found
    subject = Subject(name="x", predictor=_with_heads(), view=RGB)
    outcomes = measure_outcomes(subject, store, seed=0, batch_size=64, progress=lambda done, total: None)
    assert outcomes is not None
    rewarded = sum(int((episode.rewards[3:] > 0).sum()) for episode in store)
    assert outcomes["reward"]["count"]["positive"] == rewarded > 0
    assert outcomes["end"]["count"]["ends"] == sum(episode.header.terminated for episode in store)


def test_a_predictor_without_heads_has_no_outcomes(tmp_path: Path) -> None:
    store = collect(CollectConfig(env_id="acvp/Toy-v0", out=tmp_path / "store", frames=300, seed=1))
    config = network("feedforward", (24, 24, 3), actions=5, width=4, hidden=8, factors=8)
    subject = Subject(name="x", predictor=build_predictor(config).eval(), view=RGB)
    assert measure_outcomes(subject, store, seed=0, batch_size=64, progress=lambda done, total: None) is None


def _with_heads() -> Predictor:
    config = network("feedforward", (24, 24, 3), actions=5, width=4, hidden=8, factors=8, outcome_heads=True)
    assert isinstance(config, FeedforwardConfig)
    return build_predictor(config).eval()
