"""What every predictor promises, whichever network it holds."""

from dataclasses import fields

import numpy as np
import pytest
import torch
from numpy.typing import NDArray
from torch import Tensor

from acvp.models import Predictor, State, imagine, rollout, squared_error_loss, unroll
from tests.models.small_predictors import ACTIONS, EVERY, FRAME, LEARNED, random_window, seeded, small_predictor

every = pytest.mark.parametrize("name", EVERY)
learned = pytest.mark.parametrize("name", LEARNED)


def assert_close(found: Tensor, expected: Tensor) -> None:
    """Compare within what another order of summation may change."""
    torch.testing.assert_close(found, expected, atol=1e-5, rtol=1e-4)


def tensors(state: State) -> list[Tensor]:
    """Return every tensor a state holds."""
    values = (getattr(state, field.name) for field in fields(state))
    return [each for value in values for each in (value if isinstance(value, tuple) else (value,)) if each is not None]


def pixels(predictor: Predictor, rows: int, extra: int = 0) -> NDArray[np.uint8]:
    """Return random uint8 frames (B, context + extra, H, W, C)."""
    return np.random.default_rng(0).integers(0, 256, (rows, predictor.context + extra, *FRAME), dtype=np.uint8)


@every
@torch.no_grad()
def test_rollout_equals_repeated_predict(name: str) -> None:
    predictor = small_predictor(name)
    frames, actions = pixels(predictor, 2), np.array([[0, 2, 1, 1], [2, 2, 0, 1]])
    seen = rollout(predictor, frames, actions)
    assert seen.shape == (2, 4, *FRAME)
    assert seen.dtype == np.uint8
    state = predictor.observe(predictor.normalizer.to_float(torch.from_numpy(frames)))
    for step in range(4):
        frame, state = predictor.predict(state, torch.from_numpy(actions[:, step]))
        assert np.array_equal(predictor.normalizer.to_uint8(frame).numpy(), seen[:, step])


@every
def test_rollout_without_batch_and_with_more_frames_uses_the_last_context(name: str) -> None:
    predictor = small_predictor(name)
    frames, actions = pixels(predictor, 1, extra=2), np.array([1, 0, 2])
    one = rollout(predictor, frames[0], actions)
    assert one.shape == (3, *FRAME)
    assert np.array_equal(one, rollout(predictor, frames[:, 2:], actions[None])[0])


@every
@torch.no_grad()
def test_rows_of_a_batch_are_independent(name: str) -> None:
    predictor = small_predictor(name)
    frames, actions = random_window(predictor, predict=3, rows=3)
    together = predictor(frames, actions, predict=3).frames
    changed = frames.clone()
    changed[1] += 1
    for row in (0, 2):
        alone = predictor(frames[row : row + 1], actions[row : row + 1], predict=3).frames
        assert_close(together[row], alone[0])
        assert torch.equal(predictor(changed, actions, predict=3).frames[row], together[row])


@learned
def test_gradient_from_the_last_step_reaches_the_first(name: str) -> None:
    predictor = small_predictor(name)
    frames, actions = random_window(predictor, predict=3)
    state = predictor.observe(frames[:, :-3])
    first, state = predictor.predict(state, actions[:, -3])
    first.retain_grad()
    last = first
    for step in (-2, -1):
        last, state = predictor.predict(state, actions[:, step])
    last.square().sum().backward()  # type: ignore[no-untyped-call]
    assert first.grad is not None
    assert first.grad.abs().sum() > 0


@learned
def test_action_changes_the_output_but_not_in_naff(name: str) -> None:
    predictor = small_predictor(name)
    frames, actions = random_window(predictor, predict=1)
    state = predictor.observe(frames[:, :-1])
    one, other = (predictor.predict(state, torch.full((2,), action))[0] for action in (0, 1))
    assert torch.equal(one, other) == name.startswith("no-action")
    past, _ = predictor.predict(predictor.observe(frames[:, :-1], actions[:, :-1]), actions[:, -1])
    assert torch.equal(past, predictor.predict(state, actions[:, -1])[0])


@every
@torch.no_grad()
@pytest.mark.parametrize("imagined", [0, 2])
def test_predict_all_equals_separate_predicts(name: str, imagined: int) -> None:
    predictor = small_predictor(name)
    frames, actions = random_window(predictor, predict=2)
    state = predictor.observe(frames[:, :-2])
    for step in range(imagined):
        _, state = predictor.predict(state, actions[:, step])
    together = predictor.predict_all(state)
    assert together.shape == (2, ACTIONS, FRAME[2], *FRAME[:2])
    for action in range(ACTIONS):
        alone, _ = predictor.predict(state, torch.full((2,), action))
        assert_close(together[:, action], alone)


@every
@torch.no_grad()
def test_state_is_never_shared(name: str) -> None:
    predictor = small_predictor(name)
    frames, actions = random_window(predictor, predict=2)
    start = predictor.observe(frames[:, :-2])
    before = [value.clone() for value in tensors(start)]
    first, after = predictor.predict(start, actions[:, -2])
    kept_first, kept_after = first.clone(), [value.clone() for value in tensors(after)]
    frames.fill_(9)  # neither the caller's frames
    first.fill_(9)  # nor a prediction handed out is part of a state
    predictor.predict(after, actions[:, -1])
    predictor.predict_all(after)
    for state, kept in ((start, before), (after, kept_after)):
        assert all(torch.equal(one, other) for one, other in zip(tensors(state), kept, strict=True))
    assert torch.equal(predictor.predict(start, actions[:, -2])[0], kept_first)


@every
@torch.no_grad()
def test_forward_predicts_the_last_frames_of_the_window_in_time_order(name: str) -> None:
    predictor = small_predictor(name)
    frames, actions = random_window(predictor, predict=3)
    fed_back = predictor(frames, actions, predict=3)
    state = predictor.observe(frames[:, : predictor.context])
    by_hand = unroll(predictor, state, actions[:, predictor.context - 1 :])
    torch.testing.assert_close(fed_back.frames, by_hand.frames)
    blind = frames.clone()
    blind[:, -3:] = 7  # without teacher forcing the targets are not read
    torch.testing.assert_close(predictor(blind, actions, predict=3).frames, fed_back.frames)


@every
@torch.no_grad()
def test_with_teacher_forcing_each_step_sees_all_real_frames_before_it(name: str) -> None:
    predictor = small_predictor(name)
    frames, actions = random_window(predictor, predict=3)
    real = predictor(frames, actions, predict=3, teacher_forcing=True).frames
    for step, seen in enumerate(range(frames.shape[1] - 3, frames.shape[1])):
        alone, _ = predictor.predict(predictor.observe(frames[:, :seen]), actions[:, seen - 1])
        assert_close(real[:, step], alone)
    assert_close(real[:, 0], predictor(frames, actions, predict=3).frames[:, 0])


@every
@torch.no_grad()
def test_one_hot_vectors_equal_indices(name: str) -> None:
    predictor = small_predictor(name)
    frames, actions = random_window(predictor, predict=2)
    one_hot = torch.eye(ACTIONS)[actions]
    for vectors in (one_hot, one_hot.long()):
        found = predictor(frames, vectors, predict=2).frames
        assert torch.equal(found, predictor(frames, actions, predict=2).frames)
    real = pixels(predictor, 2)
    assert np.array_equal(rollout(predictor, real, one_hot.numpy()), rollout(predictor, real, actions.numpy()))


@pytest.mark.parametrize("name", ["feedforward", "feedforward-tensor", "recurrent", "mlp"])
@torch.no_grad()
def test_continuous_actions_move_the_prediction_continuously(name: str) -> None:
    predictor = small_predictor(name)
    frames, _ = random_window(predictor, predict=1)
    state = predictor.observe(frames)
    start = torch.randn(2, ACTIONS, generator=seeded(4))
    near, same, far = (predictor.predict(state, start + shift)[0] for shift in (1e-4, 0.0, 1.0))
    assert 0 < (near - same).abs().max() < (far - same).abs().max()


@learned
def test_outcome_logits_come_with_heads_only(name: str) -> None:
    predictor = small_predictor(name)
    frames, actions = random_window(predictor, predict=3)
    steps = list(imagine(predictor, predictor.observe(frames[:, :-3]), actions[:, -3:]))
    together = predictor(frames, actions, predict=3)
    real = predictor(frames, actions, predict=3, teacher_forcing=True)
    if "heads" not in name:
        assert all(state.outcome is None for _, state in steps)
        assert together.reward is together.termination is real.reward is None
        return
    assert together.reward.shape == real.reward.shape == (2, 3, 3)
    assert together.termination.shape == real.termination.shape == (2, 3)
    for step, (_, state) in enumerate(steps):
        assert state.outcome is not None
        assert_close(together.reward[:, step], state.outcome.reward)
        assert_close(together.termination[:, step], state.outcome.termination)


@learned
@pytest.mark.parametrize("teacher_forcing", [False, True])
def test_every_parameter_learns(name: str, teacher_forcing: bool) -> None:
    predictor = small_predictor(name)
    frames, actions = random_window(predictor, predict=2)
    found = predictor(frames, actions, predict=2, teacher_forcing=teacher_forcing)
    loss = squared_error_loss(found.frames, frames[:, -2:])
    if found.reward is not None:
        loss = loss + found.reward[..., 0].sum() + found.termination.sum()
    loss.backward()  # type: ignore[no-untyped-call]
    for key, value in predictor.named_parameters():
        assert value.grad is not None, key
        assert value.grad.isfinite().all(), key


def test_predictions_are_fed_back_unclamped() -> None:
    predictor = small_predictor("copy-last-frame")
    frames = torch.full((1, 1, FRAME[2], *FRAME[:2]), 50.0)  # far above any pixel
    (_, _), (second, _) = imagine(predictor, predictor.observe(frames), torch.zeros(1, 2, dtype=torch.long))
    assert torch.equal(second, frames[:, 0])


def test_copy_and_mean_are_what_they_say() -> None:
    frames = pixels(small_predictor("copy-last-frame"), 1)[0]
    copied = rollout(small_predictor("copy-last-frame"), frames, np.array([0, 1]))
    assert np.array_equal(copied, np.stack([frames[-1]] * 2))
    mean = small_predictor("mean-frame")
    expected = mean.normalizer.mean.round().to(torch.uint8).numpy()
    assert np.array_equal(rollout(mean, frames, np.array([0]))[0], expected)
