"""Bad input at the public edge gives an error that names the shapes and the cure."""

from typing import Any

import numpy as np
import pytest
import torch

from acvp.models import ActionError, FrameError, InputTypeError, State, rollout
from tests.models.small_predictors import ACTIONS, EVERY, FRAME, random_window, small_predictor

every = pytest.mark.parametrize("name", EVERY)
ONE = np.zeros((12, *FRAME), np.uint8)
TWO = np.zeros((2, 12, *FRAME), np.uint8)


@every
@pytest.mark.parametrize(
    ("frames", "actions", "error", "message"),
    [
        (ONE.astype(np.float32), [0], InputTypeError, "frames are float32, expected uint8"),
        (ONE.swapaxes(1, 2), [0], FrameError, r"\(12, 12, 18, 2\), expected \(T, 18, 12, 2\)"),
        (ONE[0], [0], FrameError, r"shape \(18, 12, 2\)"),
        (ONE[:0], [0], FrameError, "no real frames, at least 1 is needed"),
        (ONE, [0, ACTIONS], ActionError, r"action 3 is outside 0\.\.2"),
        (ONE, [-1], ActionError, r"action -1 is outside 0\.\.2"),
        (ONE, [0.5], InputTypeError, "action indices are torch.float64"),
        (ONE, [True], InputTypeError, "action indices are torch.bool"),
        (ONE, [], ActionError, r"actions have shape \(0,\)"),
        (ONE, [[0.0, 1.0]], ActionError, r"actions have shape \(1, 2\).* vectors \(K, 3\)"),
        (TWO, [0, 1], ActionError, r"actions have shape \(2,\) beside frames \(2, 12, 18, 12, 2\)"),
        (TWO, [[0], [1], [2]], ActionError, r"actions have shape \(3, 1\) .* \(2, K\)"),
    ],
)
def test_rollout(name: str, frames: Any, actions: list[Any], error: type[Exception], message: str) -> None:
    with pytest.raises(error, match=message):
        rollout(small_predictor(name), frames, np.array(actions))


@pytest.mark.parametrize("name", ["feedforward", "recurrent"])
def test_a_context_that_is_too_short(name: str) -> None:
    predictor = small_predictor(name)
    frames, actions = random_window(predictor, predict=1)
    with pytest.raises(FrameError, match=f"at least {predictor.context} are needed"):
        predictor.observe(frames[:, 2:])
    with pytest.raises(FrameError, match=f"at least {predictor.context + 2} are needed"):
        predictor(frames, actions, predict=2)


@pytest.mark.parametrize("name", ["feedforward", "recurrent"])
def test_a_rollout_repeats_the_first_of_too_few_frames(name: str) -> None:
    predictor = small_predictor(name)
    frames = np.random.default_rng(1).integers(0, 256, (predictor.context - 2, *ONE.shape[1:]), np.uint8)
    padded = np.concatenate((frames[:1], frames[:1], frames))
    future = rollout(predictor, frames, np.array([0, 1]))
    assert np.array_equal(future, rollout(predictor, padded, np.array([0, 1])))
    assert not np.array_equal(future, rollout(predictor, np.concatenate((frames, frames[-1:])), np.array([0, 1])))


@every
def test_observe_refuses_pixels_and_other_shapes(name: str) -> None:
    predictor = small_predictor(name)
    frames, _ = random_window(predictor, predict=1)
    with pytest.raises(InputTypeError, match=r"uint8, expected float .* normalizer\.to_float"):
        predictor.observe(frames.to(torch.uint8))
    with pytest.raises(InputTypeError, match="ndarray"):
        predictor.observe(ONE)  # type: ignore[arg-type]
    with pytest.raises(FrameError, match=r"expected \(B, T, 2, 18, 12\)"):
        predictor.observe(frames[..., :-1])
    with pytest.raises(FrameError, match="batch is empty"):
        predictor.observe(frames[:0])


@every
def test_predict_refuses_actions_that_do_not_fit(name: str) -> None:
    predictor = small_predictor(name)
    frames, actions = random_window(predictor, predict=1)
    state = predictor.observe(frames)
    with pytest.raises(ActionError, match=r"shape \(3,\), expected \(2,\) .* or \(2, 3\)"):
        predictor.predict(state, torch.zeros(3, dtype=torch.long))
    with pytest.raises(ActionError, match=r"action 9 is outside 0\.\.2"):
        predictor.predict(state, torch.tensor([0, 9]))
    with pytest.raises(InputTypeError, match="float32"):
        predictor.predict(state, torch.zeros(2))
    with pytest.raises(InputTypeError, match="list"):
        predictor.predict(state, [0, 1])  # type: ignore[arg-type]
    with pytest.raises(TypeError, match="the state is a State"):
        predictor.predict(State(), actions[:, 0])


@every
def test_forward_refuses_windows_that_do_not_fit(name: str) -> None:
    predictor = small_predictor(name)
    frames, actions = random_window(predictor, predict=2)
    with pytest.raises(ActionError, match="one action between each two frames"):
        predictor(frames, actions[:, 1:], predict=2)
    with pytest.raises(ActionError, match=r"actions have shape \(1, "):
        predictor(frames, actions[:1], predict=2)
    with pytest.raises(FrameError, match="predict is 0"):
        predictor(frames, actions, predict=0)


def test_a_network_with_nan_is_not_shown_as_black_frames() -> None:
    predictor = small_predictor("feedforward")
    with torch.no_grad():
        next(predictor.parameters()).fill_(float("nan"))
    height, width, channels = predictor.config.frame
    frames = np.zeros((predictor.context, height, width, channels), np.uint8)
    with pytest.raises(FrameError, match="step 1 has pixels that are not finite numbers"):
        rollout(predictor, frames, np.zeros(2, np.int64))
