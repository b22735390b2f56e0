"""Calibrated outcomes, thresholds that are stored with a predictor, and the head for lost lives."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from acvp.loaded import load
from acvp.models import MlpConfig, Outcome, Predictor, build_predictor, fingerprint, imagine, predictor_files
from acvp.models.artifact import calibrated_files, predictor_from_files
from acvp.models.calibration import Steps, balanced_accuracy, fit_calibration, with_thresholds
from acvp.models.layers import Calibration
from acvp.models.predictor import joint_loss
from acvp.models.rollout import rollout_with_rewards
from acvp.pixel import ObjectPredictor, PixelPredictor
from tests.models.small_predictors import EVERY, MLP, seeded, small_predictor, training_batch
from tests.pixel import small_objects, small_pixel

FIXTURES = Path(__file__).parent.parent / "fixtures" / "v010"
STORED = Calibration(
    reward_scale=0.5, reward_bias=(0.0, 0.1, -1.0), termination_bias=-2.0, lost_life_scale=2.0,
    reward_thresholds=(0.25, 0.125), termination_threshold=0.75, lost_life_threshold=0.0625,
)  # fmt: skip


def outcome_of(rewards: Any, terminations: Any, lost_lives: Any = None) -> Outcome:
    """Outcomes with these probabilities."""
    lost = None if lost_lives is None else torch.logit(torch.tensor(lost_lives))
    return Outcome(torch.tensor(rewards).log(), torch.logit(torch.tensor(terminations)), lost)


def test_without_thresholds_the_likeliest_is_decided_for() -> None:
    outcome = outcome_of([[0.4, 0.3, 0.3], [0.3, 0.4, 0.3], [0.1, 0.3, 0.6]], [0.49, 0.5, 0.51], [0.51, 0.5, 0.49])
    free = Calibration()
    assert free.reward_signs(outcome).tolist() == [-1, 0, 1]
    assert free.terminated(outcome).tolist() == [False, False, True]
    lost = free.lost_lives(outcome)
    assert lost is not None
    assert lost.tolist() == [True, False, False]
    assert free.lost_lives(outcome._replace(lost_life=None)) is None


def test_a_reward_is_decided_for_above_its_threshold_and_the_farthest_above_wins() -> None:
    """Thresholds 0.25 and 0.125: of 0.3 and 0.2 the positive one is 1.6 times above, the negative one 1.2 times."""
    outcome = outcome_of([[0.26, 0.7, 0.04], [0.24, 0.7, 0.06], [0.1, 0.77, 0.13], [0.3, 0.5, 0.2]], [0.7, 0.8, 0, 0])
    assert STORED.reward_signs(outcome).tolist() == [-1, 0, 1, 1]
    assert STORED.terminated(outcome).tolist() == [False, True, False, False]


def test_thresholds_are_probabilities() -> None:
    with pytest.raises(ValueError, match="between 0 and 1"):
        Calibration(termination_threshold=1.0)


def steps(rewards: Any, terminations: Any, lost_lives: Any) -> Steps:
    """Steps that stand for one each."""
    truth = [np.array(values, np.int64) for values in (rewards, terminations, lost_lives)]
    return Steps([], np.ones(len(rewards)), *truth)


def test_thresholds_divide_events_from_others_where_they_are_best_divided() -> None:
    """No event is likelier than not, but all of them are likelier than what is none."""
    outcome = outcome_of(
        [[0.02, 0.97, 0.01], [0.3, 0.69, 0.01], [0.02, 0.78, 0.2], [0.02, 0.94, 0.04]],
        [0.01, 0.02, 0.3, 0.02],
        [0.4, 0.1, 0.2, 0.3],
    )
    truth = steps([1, 0, 2, 1], [0, 0, 1, 0], [1, 0, 0, 1])
    found = with_thresholds(Calibration(), outcome, truth)
    assert found.reward_signs(outcome).tolist() == [0, -1, 1, 0]
    assert found.terminated(outcome).tolist() == [False, False, True, False]
    lost = found.lost_lives(outcome)
    assert lost is not None
    assert lost.tolist() == [True, False, False, True]
    middle = torch.logit(torch.tensor([0.2, 0.3], dtype=torch.float64)).mean().sigmoid()
    assert found.lost_life_threshold == pytest.approx(float(middle))
    assert found.reward_thresholds is not None
    assert 0.02 < found.reward_thresholds[0] < 0.3
    assert 0.04 < found.reward_thresholds[1] < 0.2


def test_thresholds_weigh_steps() -> None:
    """The event at 0.2 stands for nine: losing two others at 0.3 costs less than losing it."""
    outcome = outcome_of([[0.1, 0.8, 0.1]] * 5, [0.2, 0.5, 0.3, 0.3, 0.1])
    truth = replace(steps([1] * 5, [1, 1, 0, 0, 0], [0] * 5), weights=np.array([9.0, 1.0, 1.0, 1.0, 1.0]))
    assert 0.1 < with_thresholds(Calibration(), outcome, truth).termination_threshold < 0.2
    flat = replace(truth, weights=np.array([1.0, 9.0, 1.0, 1.0, 1.0]))
    assert 0.3 < with_thresholds(Calibration(), outcome, flat).termination_threshold < 0.5


def test_scaling_weighs_steps() -> None:
    """Half of the steps are events, but each of the others stands for nine."""
    outcome = Outcome(torch.zeros(200, 3), torch.zeros(200))
    truth = steps([1] * 200, [1] * 100 + [0] * 100, [0] * 200)
    found = fit_calibration(outcome, replace(truth, weights=np.repeat([1.0, 9.0], 100)))
    assert float(found.apply(outcome).termination[0].sigmoid()) == pytest.approx(0.1, abs=0.01)


def test_of_thresholds_that_divide_alike_the_middle_one_is_chosen() -> None:
    outcome = outcome_of([[0.1, 0.8, 0.1]] * 4, [0.1, 0.3, 0.5, 0.9])
    truth = replace(steps([1] * 4, [0, 0, 0, 1], [0] * 4), weights=np.array([1.0, 0.0, 0.0, 1.0]))
    assert 0.3 < with_thresholds(Calibration(), outcome, truth).termination_threshold < 0.5


def test_what_does_not_occur_keeps_its_threshold() -> None:
    outcome = outcome_of([[0.1, 0.8, 0.1], [0.2, 0.7, 0.1]], [0.1, 0.2], [0.1, 0.2])
    assert with_thresholds(Calibration(), outcome, steps([1, 1], [0, 0], [0, 0])) == Calibration()
    found = fit_calibration(outcome, steps([1, 1], [0, 0], [0, 0]))
    assert found == Calibration()


def test_balanced_accuracy_is_the_mean_recall() -> None:
    chosen, truth = np.array([0, 1, 1, 2]), np.array([0, 0, 1, 1])
    assert balanced_accuracy(chosen, truth, np.array([3.0, 1.0, 1.0, 1.0])) == pytest.approx((0.75 + 0.5) / 2)


def test_lost_lives_are_calibrated_as_terminations_are() -> None:
    """One in ten at a logit of 3, none at a logit of −3."""
    logits, truth = torch.tensor([3.0, -3.0]).repeat_interleave(500), np.zeros(1000, np.int64)
    truth[:50] = 1
    found = fit_calibration(
        Outcome(torch.zeros(1000, 3), torch.zeros(1000), logits), steps([1] * 1000, [0] * 1000, truth)
    )
    lost = found.apply(Outcome(torch.zeros(1000, 3), torch.zeros(1000), logits)).lost_life
    assert lost is not None
    assert float(lost[0].sigmoid()) == pytest.approx(0.1, abs=0.01)
    assert (found.termination_scale, found.termination_bias) == (1.0, 0.0)


def small(kind: str, *, lives: bool) -> Predictor:
    """A small predictor of a kind with heads, newly initialized."""
    if kind in EVERY:
        return build_predictor(replace(EVERY[kind], predict_lives=lives), seeded(1))  # type: ignore[call-arg]
    made = {"pixel": (PixelPredictor, small_pixel.CONFIG), "objects": (ObjectPredictor, small_objects.CONFIG)}
    cls, config = made[kind]
    return cls(replace(config, predict_lives=lives), seeded(1))  # type: ignore[arg-type]


@pytest.mark.parametrize(
    "kind", ["feedforward-heads", "recurrent-tensor-heads", "no-action-heads", "mlp-heads", "pixel", "objects"]
)
def test_a_head_for_lost_lives_leaves_all_other_initial_weights_as_they_are(kind: str) -> None:
    without, with_lives = (dict(small(kind, lives=lives).named_parameters()) for lives in (False, True))
    assert with_lives.keys() > without.keys()
    assert all(torch.equal(weight, with_lives[name]) for name, weight in without.items())
    assert all("lost_life" in name for name in with_lives.keys() - without.keys())


@pytest.mark.parametrize("kind", ["pixel", "objects"])
@pytest.mark.parametrize("teacher_forcing", [True, False])
def test_pixel_exact_predictors_learn_lost_lives(kind: str, teacher_forcing: bool) -> None:
    if kind == "pixel":
        predictor: Predictor = small_pixel.make(replace(small_pixel.CONFIG, predict_lives=True))
        frames, actions = small_pixel.window(predictor, 2)  # type: ignore[arg-type]
    else:
        predictor = small_objects.make(replace(small_objects.CONFIG, predict_lives=True))
        classes = np.stack([small_objects.squares((8, 3 * t)) for t in range(6)])[None].repeat(2, 0)
        frames, actions = small_objects.normalized(predictor, classes), torch.zeros(2, 5, dtype=torch.long)
    lost = torch.zeros(actions.shape).bool()
    lost[0, -1] = True
    batch = training_batch(frames, actions, predict=2, teacher_forcing=teacher_forcing)
    plain, parts = predictor.loss(batch)
    assert "lost_life_loss" not in parts
    loss, parts = predictor.loss(batch._replace(lost_lives=lost))
    assert float((loss - plain).detach()) == pytest.approx(float(parts["lost_life_loss"]), rel=1e-2)
    other = predictor.loss(batch._replace(lost_lives=~lost))[1]["lost_life_loss"]
    assert float(other) != pytest.approx(float(parts["lost_life_loss"]))


def test_the_loss_of_lost_lives_is_that_of_the_last_steps() -> None:
    lost = torch.tensor([[True, False, True]])
    batch = training_batch(torch.zeros(1, 4, 1, 2, 2), torch.zeros(1, 3), lost_lives=lost, reward_weight=10.0)
    reward, flat, logits = torch.zeros(1, 2, 3), torch.zeros(1, 2), torch.tensor([[-1.0, 2.0]])
    plain, _ = joint_loss(torch.tensor(1.0), reward, flat, batch)
    loss, parts = joint_loss(torch.tensor(1.0), reward, flat, batch, logits)
    expected = -(1 - logits[0, 0].sigmoid()).log() / 2 - logits[0, 1].sigmoid().log() / 2
    assert float(parts["lost_life_loss"]) == pytest.approx(float(expected))
    assert float(loss - plain) == pytest.approx(10 * float(expected), rel=1e-5)
    assert batch.rows(0, 1).lost_lives is not None


def test_lost_lives_follow_predictions_fed_back() -> None:
    config = MlpConfig(**MLP, predict_rewards=True, predict_lives=True)
    predictor = build_predictor(config, seeded(1))
    torch.nn.init.normal_(predictor.heads.lost_life.weight, generator=seeded(2))  # type: ignore[union-attr, arg-type]
    frames, actions = torch.randn(2, 4, 2, 18, 12, generator=seeded(3)), torch.tensor([[0, 1, 2], [2, 1, 0]])
    found = predictor(frames, actions, predict=3).lost_life
    by_hand = [state.outcome for _, state in imagine(predictor, predictor.observe(frames[:, :1]), actions)]
    assert torch.equal(found, torch.stack([outcome.lost_life for outcome in by_hand], 1))  # type: ignore[union-attr, misc]
    forced = predictor(frames, actions, predict=3, teacher_forcing=True).lost_life
    assert forced.shape == (2, 3)
    torch.testing.assert_close(forced[:, 0], found[:, 0])


def test_a_calibration_is_stored_with_the_weights() -> None:
    predictor = small_predictor("mlp-heads")
    plain, before = predictor_files(predictor), fingerprint(predictor)
    assert b"calibration" not in plain["config.json"]
    predictor.calibration = STORED
    assert fingerprint(predictor) != before
    loaded = predictor_from_files(predictor_files(predictor))
    assert loaded.calibration == STORED
    later = calibrated_files(plain, STORED)
    assert predictor_from_files(later).calibration == STORED
    assert later["model.safetensors"] == plain["model.safetensors"]
    again = predictor_from_files(calibrated_files(later, Calibration()))
    assert fingerprint(again) == before


@pytest.mark.parametrize("path", ["run", "freeway", "qbert-objects"])
def test_predictors_without_thresholds_or_head_for_lives_load(path: str) -> None:
    """Of 0.1.0, and of later versions that did not have them."""
    predictor = load(str(FIXTURES / path) if path == "run" else path)
    config: Any = predictor.config
    assert not config.predict_lives
    assert predictor.calibration.lost_life_threshold == 0.5


def test_a_rollout_decides_rewards_by_the_stored_thresholds() -> None:
    predictor = small_predictor("mlp-heads").eval()
    frames, actions = np.zeros((1, 18, 12, 2), np.uint8), np.array([0, 1])
    plain = rollout_with_rewards(predictor, frames, actions)
    predictor.calibration = Calibration(reward_thresholds=(0.001, 0.999), termination_bias=-2.0)
    found = rollout_with_rewards(predictor, frames, actions)
    assert found.rewards.tolist() == [-1, -1] != plain.rewards.tolist()
    odds = np.log(plain.terminations / (1 - plain.terminations)) - 2
    np.testing.assert_allclose(found.terminations, 1 / (1 + np.exp(-odds)), rtol=1e-5)
