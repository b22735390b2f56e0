"""One step of an imagined world, and the live metrics beside it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import numpy as np
import pytest
import torch

from acvp.data.frames import GRAY_84, RGB
from acvp.envs import Step
from acvp.loaded import LoadedModel
from acvp.models.pixels import WRONG_BY, WrongPixels
from acvp.play.model_pool import ModelPool
from acvp.play.session import Session
from acvp.play.worlds import FrameComparison, ImaginedState, ImaginedWorld, LiveWorld
from tests.evaluation.predictors import as_model
from tests.play.sessions import NOOP, StandStill, network, play_on


@pytest.mark.parametrize(("reward_class", "sign"), [(0, -1), (1, 0), (2, 1)])
def test_the_likeliest_sign_is_the_imagined_reward(reward_class: int, sign: int) -> None:
    predictor = network()
    for name in ("heads.reward", "heads.termination"):
        torch.nn.init.zeros_(predictor.get_parameter(f"{name}.weight"))
        torch.nn.init.zeros_(predictor.get_parameter(f"{name}.bias"))
    predictor.get_parameter("heads.reward.bias").data[reward_class] = 3.0
    predictor.get_parameter("heads.termination.bias").data[0] = 1.5
    world = ImaginedWorld(as_model("net", predictor))
    frames = [np.zeros((24, 24, 3), np.uint8)] * predictor.context
    state = world.step(world.resync(frames, [NOOP] * (predictor.context - 1)), NOOP)
    assert state.reward == sign
    assert state.termination == pytest.approx(1 / (1 + np.exp(-1.5)))
    assert world.step(state, NOOP).steps == 2


@pytest.mark.parametrize("reward", [-1, 0, 1])
def test_a_session_shows_the_sign_of_the_predicted_reward(reward: int) -> None:
    predictor = network()
    head = predictor.get_submodule("heads.reward")
    assert isinstance(head, torch.nn.Linear)
    torch.nn.init.zeros_(head.weight)
    head.bias.data = torch.nn.functional.one_hot(torch.tensor(reward + 1), 3).float()
    session = Session(ModelPool({"net": lambda: predictor}))
    play_on(session, NOOP, NOOP)
    assert session.state.imagined.reward == reward


def test_live_metrics_by_hand() -> None:
    """Off by up to 8 is right, by 9 is wrong, too dark as well as too bright."""
    real = np.full((24, 24, 3), 100, np.uint8)
    imagined = real.copy()
    for column, value in enumerate((92, 91, 108, 109, 0, 255)):
        imagined[3, column, 1] = value
    metrics = FrameComparison(as_model("net", network()), (24, 24)).compare(imagined, real, None)
    assert (metrics.wrong_pixels, metrics.pixels, metrics.object_found) == (4, 24 * 24, None)
    assert metrics.squared_error == pytest.approx((2 * 8**2 + 2 * 9**2 + 100**2 + 155**2) / (24 * 24 * 3))


def test_a_pixel_is_wrong_if_any_channel_is() -> None:
    real = np.full((24, 24, 3), 100, np.uint8)
    imagined = real.copy()
    imagined[0, 0, 0] += WRONG_BY  # not more than that
    imagined[1, 1, 1] += WRONG_BY + 1
    imagined[2, 2] -= WRONG_BY + 1
    model = LoadedModel(name="still", predictor=StandStill(), view=RGB)
    metrics = FrameComparison(model, (24, 24)).compare(imagined, real, None)
    assert (metrics.wrong_pixels, metrics.pixels, metrics.object_found) == (2, 24 * 24, None)
    squares = WRONG_BY**2 + 4 * (WRONG_BY + 1) ** 2
    assert metrics.squared_error == pytest.approx(squares / (24 * 24 * 3))


def test_with_a_palette_a_pixel_is_wrong_if_its_nearest_color_is() -> None:
    palette = np.array([[0, 0, 0], [100, 100, 100], [104, 100, 100]], np.uint8)
    real = np.full((24, 24, 3), 100, np.uint8)
    imagined = real.copy()
    imagined[0, 0] = (101, 100, 100)
    imagined[1, 1] = (104, 100, 100)  # off by 4, but another color of the palette
    imagined[2, 2] = (70, 70, 70)  # off by 30, but nearest to the true color
    model = LoadedModel(name="still", predictor=StandStill(), view=RGB)
    metrics = FrameComparison(model, (24, 24), palette).compare(imagined, real, None)
    frames = (torch.from_numpy(frame).movedim(-1, 0)[None].float() for frame in (imagined, real))
    assert metrics.wrong_pixels == int(WrongPixels(palette).count(*frames)) == 1


def test_a_gray_view_has_no_palette() -> None:
    palette = np.array([[0, 0, 0], [100, 100, 100], [104, 100, 100]], np.uint8)
    real = np.full((84, 84, 1), 100, np.uint8)
    imagined = real.copy()
    imagined[1, 1], imagined[2, 2] = 104, 109
    model = LoadedModel(name="gray", predictor=network(GRAY_84), view=GRAY_84)
    assert FrameComparison(model, (24, 24), palette).compare(imagined, real, None).wrong_pixels == 1


class RewardAtEveryStep(LiveWorld):
    """The real game with a reward of 2 at every step."""

    def step(self, action: int) -> Step:
        return super().step(action)._replace(reward=2.0)


def test_rewards_before_the_first_prediction_do_not_count(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("acvp.play.session.LiveWorld", RewardAtEveryStep)
    monkeypatch.setattr(ImaginedWorld, "resync", _with_reward(ImaginedWorld.resync))
    monkeypatch.setattr(ImaginedWorld, "step", _with_reward(ImaginedWorld.step))
    session = Session(ModelPool({"slow": lambda: StandStill(context=4)}))
    counts = []
    for _ in range(5):
        session.step()
        state = session.state
        counts.append((state.imagined.steps, state.real_reward, state.imagined_reward, state.score))
    assert counts == [(0, 0, 0, 2.0), (0, 0, 0, 4.0), (0, 0, 0, 6.0), (1, 1, 1, 8.0), (2, 2, 2, 10.0)]


def _with_reward(method: Callable[..., ImaginedState]) -> Callable[..., ImaginedState]:
    """Return the method with a predicted reward of 1 at every step, also while the predictor needs real frames."""
    return lambda *arguments: replace(method(*arguments), reward=1)
