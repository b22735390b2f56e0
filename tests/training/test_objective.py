"""What is minimized: the last steps of a window are the targets, and rewards keep their sign."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch
from torch import Tensor
from torch.nn import functional

from acvp.data.store import EpisodeStore
from acvp.models import CopyLastFrame, CopyLastFrameConfig, Predictions, Predictor
from acvp.models.predictor import TrainingBatch, joint_loss
from tests.training.small import run, small_config

REWARDS = torch.tensor([[4.0, 0.0, -2.0, 1.0], [-1.0, -1.0, 3.0, 0.0]])
ENDS = torch.tensor([[True, False, False, False], [False, False, False, True]])
FRAMES = torch.arange(10.0).view(2, 5, 1, 1, 1).expand(2, 5, 1, 2, 2)


def batch(frames: Tensor = FRAMES) -> TrainingBatch:
    """Two windows of five frames in which no two steps are alike."""
    return TrainingBatch(frames, torch.zeros(2, 4), REWARDS, ENDS)


def test_rewards_and_ends_of_the_last_steps_are_learned_with_their_signs() -> None:
    """Logits that differ by class, step and row: negative, zero, positive in this order, of the last two steps."""
    reward = torch.tensor([[[3.0, 1.0, -1.0], [0.5, -2.0, 2.0]], [[-1.0, 0.0, 4.0], [2.0, 1.5, 0.0]]])
    end = torch.tensor([[-3.0, 0.5], [1.0, 2.0]])
    loss, parts = joint_loss(torch.tensor(7.0), reward, end, batch())
    of_class = [[0, 2], [2, 1]]  # −2 and 1; 3 and 0
    rewards = [-reward[b, k].log_softmax(0)[of_class[b][k]] for b in range(2) for k in range(2)]
    chances = end.sigmoid()
    ends = [-(1 - chances[0, 0]).log(), -(1 - chances[0, 1]).log(), -(1 - chances[1, 0]).log(), -chances[1, 1].log()]
    assert float(loss) == pytest.approx(7.0 + float(sum(rewards)) / 4 + float(sum(ends)) / 4)
    assert float(parts["frame_loss"]) == 7.0
    assert float(parts["reward_loss"]) == pytest.approx(float(sum(rewards)) / 4)
    assert float(parts["termination_loss"]) == pytest.approx(float(sum(ends)) / 4)


def test_the_last_frames_of_a_window_are_the_targets() -> None:
    config = CopyLastFrameConfig(actions=1, frame=(2, 2, 1))
    given = batch()._replace(actions=torch.zeros(2, 4, dtype=torch.long), predict=2)
    loss, parts = CopyLastFrame(config).loss(given)
    assert float(loss) == pytest.approx(0.5 * 4 * (1.0**2 + 2.0**2) / 2)  # frames rise by one: 1 and 2 behind
    assert parts == {}
    assert float(CopyLastFrame(config).loss(given._replace(predict=3))[0]) == pytest.approx(0.5 * 4 * (1 + 4 + 9) / 3)


def test_the_heads_learn_the_sign_of_the_next_reward() -> None:
    """Gradient descent on the logits: the likeliest class becomes that of the true sign, the end's logit its side."""
    reward, end = torch.zeros(2, 3, 3, requires_grad=True), torch.zeros(2, 3, requires_grad=True)
    loss, _ = joint_loss(torch.zeros(()), reward, end, batch())
    of_reward, of_end = torch.autograd.grad(loss, (reward, end))
    assert torch.equal((-of_reward).argmax(2) - 1, REWARDS[:, -3:].sign().long())
    assert torch.equal(-of_end > 0, ENDS[:, -3:])


def test_each_phase_decides_whether_predictions_are_fed_back(
    store: EpisodeStore, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    forward, seen = Predictor.forward, []

    def watched(predictor: Predictor, *given: Any, predict: int, teacher_forcing: bool) -> Predictions:
        seen.append((predict, teacher_forcing))
        return forward(predictor, *given, predict=predict, teacher_forcing=teacher_forcing)

    monkeypatch.setattr(Predictor, "forward", watched)
    training = small_config(evaluate_every=10)
    first, second = (replace(phase, steps=1) for phase in training.phases)
    phases = (first, second, replace(second, teacher_forcing=True))
    assert run(store, replace(training, phases=phases), tmp_path / "run").exit_code == 0
    assert seen[-3:] == [(1, False), (3, False), (3, True)]


def test_cross_entropy_is_averaged_over_windows_and_steps() -> None:
    reward, end = torch.zeros(2, 2, 3), torch.zeros(2, 2)
    alone, _ = joint_loss(torch.zeros(()), reward, end, batch())
    expected = functional.cross_entropy(torch.zeros(1, 3), torch.tensor([0])) + torch.tensor(2.0).log()
    torch.testing.assert_close(alone, expected)
