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
from acvp.models import Predictions, Predictor
from acvp.training.data import DeviceBatch, objective
from tests.training.small import run, small_recipe

REWARDS = torch.tensor([[4.0, 0.0, -2.0, 1.0], [-1.0, -1.0, 3.0, 0.0]])
ENDS = torch.tensor([[True, False, False, False], [False, False, False, True]])
FRAMES = torch.arange(10.0).view(2, 5, 1, 1, 1).expand(2, 5, 1, 2, 2)


def batch(frames: Tensor = FRAMES) -> DeviceBatch:
    """Two windows of five frames in which no two steps are alike."""
    return DeviceBatch(frames, torch.zeros(2, 4), REWARDS, ENDS)


def test_rewards_and_ends_of_the_last_steps_are_learned_with_their_signs() -> None:
    """Logits that differ by class, step and row: negative, zero, positive in this order, of the last two steps."""
    reward = torch.tensor([[[3.0, 1.0, -1.0], [0.5, -2.0, 2.0]], [[-1.0, 0.0, 4.0], [2.0, 1.5, 0.0]]])
    end = torch.tensor([[-3.0, 0.5], [1.0, 2.0]])
    loss = objective(Predictions(torch.empty(2, 0), reward, end, torch.tensor(7.0)), batch())
    of_class = [[0, 2], [2, 1]]  # −2 and 1; 3 and 0
    rewards = [-reward[b, k].log_softmax(0)[of_class[b][k]] for b in range(2) for k in range(2)]
    chances = end.sigmoid()
    ends = [-(1 - chances[0, 0]).log(), -(1 - chances[0, 1]).log(), -(1 - chances[1, 0]).log(), -chances[1, 1].log()]
    assert float(loss) == pytest.approx(7.0 + float(sum(rewards)) / 4 + float(sum(ends)) / 4)


def test_the_last_frames_of_a_window_are_the_targets() -> None:
    target = FRAMES[:, -2:]
    exact = objective(Predictions(target.clone()), batch())
    assert float(exact) == 0.0
    shifted = objective(Predictions(target + 2.0), batch())
    assert float(shifted) == pytest.approx(0.5 * 4 * 2.0**2)


def test_the_heads_learn_the_sign_of_the_next_reward() -> None:
    """Gradient descent on the logits: the likeliest class becomes that of the true sign, the end's logit its side."""
    reward, end = torch.zeros(2, 3, 3, requires_grad=True), torch.zeros(2, 3, requires_grad=True)
    predictions = Predictions(torch.empty(2, 0), reward, end, torch.zeros(()))
    of_reward, of_end = torch.autograd.grad(objective(predictions, batch()), (reward, end))
    assert torch.equal((-of_reward).argmax(2) - 1, REWARDS[:, -3:].sign().long())
    assert torch.equal(-of_end > 0, ENDS[:, -3:])


def test_each_phase_decides_whether_predictions_are_fed_back(
    store: EpisodeStore, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    forward, seen = Predictor.forward, []

    def watched(predictor: Predictor, *given: Any, predict: int, feed_back: bool) -> Predictions:
        seen.append((predict, feed_back))
        return forward(predictor, *given, predict=predict, feed_back=feed_back)

    monkeypatch.setattr(Predictor, "forward", watched)
    recipe = small_recipe(evaluate_every=10)
    first, second = (replace(phase, steps=1) for phase in recipe.phases)
    phases = (first, second, replace(second, teacher_forcing=True))
    assert run(store, replace(recipe, phases=phases), tmp_path / "run").exit_code == 0
    assert seen[-3:] == [(1, True), (3, True), (3, False)]


def test_cross_entropy_is_averaged_over_windows_and_steps() -> None:
    reward, end = torch.zeros(2, 2, 3), torch.zeros(2, 2)
    alone = objective(Predictions(torch.empty(2, 0), reward, end, torch.zeros(())), batch())
    expected = functional.cross_entropy(torch.zeros(1, 3), torch.tensor([0])) + torch.tensor(2.0).log()
    torch.testing.assert_close(alone, expected)
