"""Training of the pixel-exact predictor over several steps: each prediction is input to the next."""

from __future__ import annotations

from dataclasses import replace

import torch

from acvp.models.layers import head_losses
from tests.models.small_predictors import training_batch
from tests.pixel.small_pixel import CONFIG, frame_loss, make, window


def test_the_second_step_is_trained_on_the_prediction_of_the_first() -> None:
    predictor = make(replace(CONFIG, background_subsampling=1))
    frames, actions = window(predictor, 2)
    with torch.no_grad():
        predicted, after = predictor.predict(predictor.observe(frames[:, :3]), actions[:, 2])
        _, last = predictor.predict(after, actions[:, 3])
    assert after.outcome is not None
    assert last.outcome is not None
    assert not torch.equal(predicted, frames[:, 3])
    fed_back = torch.cat((frames[:, :3], predicted[:, None], frames[:, 4:]), 1)
    predictor.train()
    first = frame_loss(predictor, frames[:, :4], actions[:, :3])
    second = frame_loss(predictor, fed_back, actions)
    from_real = frame_loss(predictor, frames, actions)
    assert not torch.isclose(second, from_real)
    batch = training_batch(frames, actions, predict=2)
    _, parts = predictor.loss(batch)
    torch.testing.assert_close(parts["frame_loss"], (first + second) / 2)
    real = frame_loss(predictor, frames, actions, predict=2, teacher_forcing=True)
    torch.testing.assert_close(real, (first + from_real) / 2)
    reward = torch.stack((after.outcome.reward, last.outcome.reward), 1)
    termination = torch.stack((after.outcome.termination, last.outcome.termination), 1)
    of_reward, of_termination = head_losses(reward, termination, batch.rewards[:, -2:], batch.terminations[:, -2:])
    torch.testing.assert_close(parts["reward_loss"], of_reward)
    torch.testing.assert_close(parts["termination_loss"], of_termination)
