"""Training of the pixel-exact predictor over several steps: each prediction is input to the next."""

from __future__ import annotations

from dataclasses import replace

import torch

from tests.models.small_pixel import CONFIG, make, window


def test_the_second_step_is_trained_on_the_prediction_of_the_first() -> None:
    predictor = make(replace(CONFIG, still=1))
    frames, actions = window(predictor, 2)
    with torch.no_grad():
        predicted, after = predictor.predict(predictor.observe(frames[:, :3]), actions[:, 2])
        _, last = predictor.predict(after, actions[:, 3])
    assert not torch.equal(predicted, frames[:, 3])
    fed_back = torch.cat((frames[:, :3], predicted[:, None], frames[:, 4:]), 1)
    predictor.train()
    first = predictor(frames[:, :4], actions[:, :3], predict=1).frame_loss
    second = predictor(fed_back, actions, predict=1).frame_loss
    from_real = predictor(frames, actions, predict=1).frame_loss
    assert not torch.isclose(second, from_real)
    both = predictor(frames, actions, predict=2, teacher_forcing=False)
    torch.testing.assert_close(both.frame_loss, (first + second) / 2)
    torch.testing.assert_close(
        predictor(frames, actions, predict=2, teacher_forcing=True).frame_loss, (first + from_real) / 2
    )
    assert last.outcome is not None
    torch.testing.assert_close(both.reward[:, 1], last.outcome.reward)
    torch.testing.assert_close(both.end[:, 1], last.outcome.end)
