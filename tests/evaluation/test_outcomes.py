"""Rewards and ends one step ahead: which steps are looked at, and the scores by hand."""

from __future__ import annotations

import json
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from acvp.data.collect import CollectConfig, collect
from acvp.data.frames import RGB
from acvp.data.recording import EpisodeRecorder, open_writer
from acvp.data.store import EpisodeStore
from acvp.data.windows import Window, Windows, WindowStart
from acvp.evaluation.outcomes import area_under_curve, measure_outcomes, predicts_outcomes, score
from acvp.loaded import LoadedModel
from acvp.models import FeedforwardConfig, Outcome, Predictor, build_predictor
from acvp.models.calibration import Steps, calibrate, choose_steps, fit_calibration
from acvp.models.layers import Calibration
from tests.data.answers import INFO, answer_frame
from tests.networks import network


def test_scores_by_hand() -> None:
    probabilities = np.array([[0.9, 0.1], [0.6, 0.4], [0.25, 0.75], [0.8, 0.2]])
    found = score(probabilities, np.array([0, 1, 1, 0]), np.array([1.0, 1.0, 1.0, 3.0]), ("no", "yes"))
    assert found["recall"] == {"no": 1.0, "yes": 0.5}
    assert found["balanced_accuracy"] == 0.75
    assert found["count"] == {"no": 4, "yes": 2}
    error = (1 * abs(0.9 - 1) + 1 * abs(0.6 - 0) + 1 * abs(0.75 - 1) + 3 * abs(0.8 - 1)) / 6
    assert found["calibration_error"] == pytest.approx(error)


def test_the_area_under_the_curve_counts_pairs_by_their_weights() -> None:
    """Positives at 0.9 and 0.5, of weights 1 and 3; negatives at 0.5 (a tie, half a pair) and 0.6, weights 2 and 6."""
    scores, positive = np.array([0.9, 0.5, 0.5, 0.6]), np.array([True, True, False, False])
    weights = np.array([1.0, 3.0, 2.0, 6.0])
    assert area_under_curve(scores, positive, weights) == pytest.approx((1 * 8 + 3 * 2 / 2) / (4 * 8))
    found = score(np.stack((1 - scores, scores), 1), positive.astype(int), weights, ("no", "yes"))
    assert found["area_under_curve"]["yes"] == pytest.approx(11 / 32)


def test_within_a_bin_steps_count_by_their_weights() -> None:
    """Two steps in the bin from 0.6 to 0.7, the wrong one of three times the weight, and one of weight 6 elsewhere."""
    probabilities = np.array([[0.62, 0.38], [0.66, 0.34], [0.05, 0.95]])
    found = score(probabilities, np.array([0, 1, 1]), np.array([1.0, 3.0, 6.0]), ("no", "yes"))
    low, high = found["calibration"]
    assert low == pytest.approx({"probability": 0.65, "right": 0.25, "share": 0.4})
    assert high == pytest.approx({"probability": 0.95, "right": 1.0, "share": 0.6})
    assert found["calibration_error"] == pytest.approx(0.4 * 0.4 + 0.6 * 0.05)


def test_certain_predictions_are_in_the_last_bin() -> None:
    sure = np.array([[1.0, 0.0], [0.0, 1.0], [1.0, 0.0], [0.45, 0.55]])
    result = score(sure, np.array([0, 1, 1, 1]), np.ones(4), ("no", "yes"))
    assert [each["share"] for each in result["calibration"]] == [0.25, 0.75]
    assert result["calibration_error"] == pytest.approx(0.25 * 0.45 + 0.75 / 3)


def test_a_class_that_never_occurs_does_not_count() -> None:
    found = score(np.array([[0.9, 0.1]]), np.array([0]), np.ones(1), ("no", "yes"))
    assert found["recall"] == {"no": 1.0}
    assert found["balanced_accuracy"] == 1.0


@pytest.mark.slow
def test_every_event_is_looked_at_and_the_others_stand_for_all(tmp_path: Path) -> None:
    store = collect(CollectConfig(env_id="acvp/Toy-v0", out=tmp_path / "store", frames=3000, seed=1))
    chosen = choose_steps(store, 4, count=2000, seed=0)
    starts, weights = chosen.starts, chosen.weights
    steps = sum(len(episode) - 4 for episode in store)
    assert weights.sum() == pytest.approx(steps)
    found = {(start.episode, start.frame + 3) for start in starts}
    for position, episode in enumerate(store):
        for step in np.flatnonzero(episode.rewards).tolist():
            assert step < 3 or (position, step) in found
    model = LoadedModel(name="x", predictor=_with_heads(), view=RGB)
    found_outcomes = measure(model, store, 2000)
    assert {"reward", "termination"} <= found_outcomes.keys()
    rewarded = sum(int((episode.rewards[3:] > 0).sum()) for episode in store)
    assert found_outcomes["reward"]["count"]["positive"] == rewarded > 0
    assert found_outcomes["termination"]["count"]["terminates"] == sum(episode.header.terminated for episode in store)


def test_the_first_step_that_can_be_predicted_is_looked_at(tmp_path: Path) -> None:
    """Rewards in steps 2 and 3 and the end: of context 4 the first is too early, the other two count as themselves."""
    recorder = EpisodeRecorder()
    recorder.start(answer_frame(0, 0))
    for t in range(50):
        recorder.step(0, float(t in (2, 3)), answer_frame(0, t + 1))
    with open_writer(tmp_path / "store", INFO) as writer:
        writer.add(recorder.finish(number=0, seed=0, terminated=True, truncated=False))
    chosen = choose_steps(EpisodeStore(tmp_path / "store"), 4, count=7, seed=0)
    assert chosen.starts[:2] == [(0, 46), (0, 0)]  # the four frames before the end and before the reward of step 3
    assert chosen.weights.tolist() == [1.0] * 2 + [45 / 5] * 5
    assert chosen.rewards.tolist() == [1, 2, *[1] * 5]
    assert chosen.terminations.tolist() == [1, *[0] * 6]


def test_lost_lives_are_looked_at_where_they_are_predicted(tmp_path: Path) -> None:
    """Lives from 3 to 2 with action 20 and to 1 with action 30; to −1, which is no number of lives, with action 40."""
    recorder = EpisodeRecorder()
    recorder.start(answer_frame(0, 0), None, 3)
    for t in range(50):
        recorder.step(0, 0.0, answer_frame(0, t + 1), None, 3 - (t >= 20) - (t >= 30) if t < 40 else -1)
    with open_writer(tmp_path / "store", INFO) as writer:
        writer.add(recorder.finish(number=0, seed=0, terminated=False, truncated=True))
    store = EpisodeStore(tmp_path / "store")
    assert np.flatnonzero(store[0].lost_lives).tolist() == [20, 30]
    chosen = choose_steps(store, 4, count=6, seed=0, lives=True)
    assert chosen.starts[-2:] == [(0, 17), (0, 27)]
    assert chosen.weights.tolist() == [45 / 4] * 4 + [1.0] * 2
    assert chosen.lost_lives.tolist() == [0] * 4 + [1] * 2
    windows = Windows(store, Window(2, 2))
    batch = windows.batch(np.arange(len(windows)))
    assert np.argwhere(batch.lost_lives).tolist() == [[18, 2], [19, 1], [20, 0], [28, 2], [29, 1], [30, 0]]
    weights = windows.event_weights(lost_lives=True)
    assert {k: weight for k, weight in enumerate(weights.tolist()) if weight} == dict.fromkeys((18, 19, 28, 29), 0.25)
    assert not windows.event_weights().any()


def test_thresholds_decide_what_is_right(tmp_path: Path) -> None:
    """Whatever the heads give, a threshold near 0 decides for every event, and one near 1 for none."""
    store = collect(CollectConfig(env_id="acvp/Toy-v0", out=tmp_path / "store", frames=600, seed=1))
    model = LoadedModel(name="x", predictor=_with_heads(), view=RGB)
    free = measure(model, store, 60)
    assert "calibrated" not in free
    for threshold in (1e-6, 1 - 1e-6):
        model.predictor.calibration = Calibration(termination_threshold=threshold)
        found = measure(model, store, 60)
        ends = {"continues": 0.0, "terminates": 1.0} if threshold < 0.5 else {"continues": 1.0, "terminates": 0.0}
        assert found["termination"]["recall"] == ends
        assert found["termination"]["area_under_curve"] == free["termination"]["area_under_curve"]
        assert found["reward"] == free["reward"]
        assert found["calibrated"]["termination_threshold"] == threshold


@pytest.mark.parametrize("count", [1, 2, 3, 20, 100])
def test_no_more_steps_are_looked_at_than_asked_for(tmp_path: Path, count: int) -> None:
    store = collect(CollectConfig(env_id="acvp/Toy-v0", out=tmp_path / "store", frames=3000, seed=1))
    chosen = choose_steps(store, 4, count=count, seed=0)
    starts, weights = chosen.starts, chosen.weights
    assert len(set(starts)) == len(starts) == count
    steps = sum(len(episode) - 4 for episode in store)
    if count < len(store):
        assert weights.sum() < steps  # no more episodes are read than that
        return
    assert weights.sum() == pytest.approx(steps)
    kinds = [_kind(store, start) for start in starts]
    terminations = sum(episode.header.terminated for episode in store)
    assert kinds.count("termination") == min(count // 3, terminations) > 0
    every = [
        _kind(store, WindowStart(k, start)) for k, episode in enumerate(store) for start in range(len(episode) - 4)
    ]
    for kind in ("reward", "neither"):
        assert kinds.count(kind) >= min(count // 3, every.count(kind)) > 0


def _kind(store: EpisodeStore, start: WindowStart) -> str:
    episode, step = store[start.episode], start.frame + 3
    if episode.header.terminated and step == len(episode) - 2:
        return "termination"
    return "reward" if episode.rewards[step] else "neither"


def test_what_the_data_lacks_is_left_out(tmp_path: Path) -> None:
    """Rewards without terminations, then neither."""
    store = collect(CollectConfig(env_id="acvp/Toy-v0", out=tmp_path / "store", frames=600, seed=1))
    for number, known in enumerate(({"steps", "reward"}, set[str]())):
        with open_writer(tmp_path / str(number), store.info) as writer:
            for episode in store:
                header = replace(episode.header, terminated=False, truncated=True)
                rewards = episode.rewards * (number == 0)
                writer.add(replace(episode, header=header, rewards=rewards))
        changed = EpisodeStore(tmp_path / str(number))
        model = LoadedModel(name="x", predictor=_with_heads(), view=RGB)
        assert measure(model, changed, 100).keys() == known
        assert (calibrate(model.predictor, RGB, changed, count=100) != Calibration()) == bool(known)


def test_a_predictor_without_heads_predicts_no_outcomes() -> None:
    config = network("feedforward", (24, 24, 3), actions=5, width=4, hidden=8, factors=8)
    model = LoadedModel(name="x", predictor=build_predictor(config).eval(), view=RGB)
    assert not predicts_outcomes(model)
    assert predicts_outcomes(LoadedModel(name="x", predictor=_with_heads(), view=RGB))


def measure(model: LoadedModel, store: EpisodeStore, count: int) -> dict[str, Any]:
    return measure_outcomes(model, store, count=count, seed=0, batch_size=64, progress=lambda done, total: None)


def _with_heads() -> Predictor:
    config = network("feedforward", (24, 24, 3), actions=5, width=4, hidden=8, factors=8, predict_rewards=True)
    assert isinstance(config, FeedforwardConfig)
    return build_predictor(config).eval()


def _steps(signs: Any, ends: Any, weights: Any) -> Steps:
    """Steps without lost lives."""
    return Steps([], weights, signs, ends, np.zeros(len(signs), np.int64))


def test_a_calibration_finds_the_frequencies_again() -> None:
    """Logits that are twice too sure, and rewards made ten times too likely by how windows were drawn."""
    rng = np.random.default_rng(0)
    true = np.array([[0.05, 0.9, 0.05], [0.01, 0.69, 0.3], [0.3, 0.6, 0.1]])[rng.integers(3, size=20_000)]
    signs = (rng.random((len(true), 1)) > true.cumsum(1)[:, :2]).sum(1)
    ends = (rng.random(len(true)) < 0.02).astype(np.int64)
    logits = 2 * np.log(true) + np.array([0.0, 0.0, np.log(10)])
    outcome = Outcome(reward=torch.from_numpy(logits), termination=torch.full((len(true),), 1.0))
    fitted = fit_calibration(outcome, _steps(signs, ends, np.ones(len(true))))
    found = fitted.apply(outcome)
    assert float(found.reward.softmax(1)[:, 2].mean()) == pytest.approx((signs == 2).mean(), abs=0.002)
    assert np.abs(found.reward.softmax(1).numpy() - true).max() < 0.03
    assert float(found.termination.sigmoid().mean()) == pytest.approx(ends.mean(), abs=0.002)
    assert Calibration.from_dict(json.loads(json.dumps(asdict(fitted)))) == fitted


def test_a_calibration_counts_each_step_by_its_weight() -> None:
    """Of 200 steps sampled, 100 with a reward stand for 100 steps and 100 without one for 9,900."""
    signs = np.repeat([2, 1], 100)
    outcome = Outcome(reward=torch.zeros(200, 3), termination=torch.zeros(200))
    fitted = fit_calibration(outcome, _steps(signs, np.zeros(200, np.int64), np.repeat([1.0, 99.0], 100)))
    assert float(fitted.apply(outcome).reward.softmax(1)[0, 2]) < 0.05
    assert fitted.termination_bias == 0.0  # none occurred: left as it is
    assert fitted.reward_bias[0] == 0.0
