"""What the page's meters count: rewards of the dream, and wrong pixels."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import numpy as np
import pytest
import torch

from acvp.data.views import RGB
from acvp.envs import Step
from acvp.loaded import LoadedModel
from acvp.models.pixels import WRONG_BY
from acvp.play.context import Cast
from acvp.play.imagined import Dream, Dreamer
from acvp.play.rewind import Meters
from acvp.play.session import Session
from acvp.play.worlds import LiveWorld
from tests.play.dreamers import NOOP, StandStill, network, play_on


@pytest.mark.parametrize("reward", [-1, 0, 1])
def test_a_predicted_reward_has_its_sign(reward: int) -> None:
    predictor = network()
    head = predictor.get_submodule("heads.reward")
    assert isinstance(head, torch.nn.Linear)
    torch.nn.init.zeros_(head.weight)
    head.bias.data = torch.nn.functional.one_hot(torch.tensor(reward + 1), 3).float()
    one = Session(Cast({"net": lambda: predictor}))
    play_on(one, NOOP, NOOP)
    assert one.moment.dream.reward == reward


def test_a_pixel_is_wrong_if_any_channel_is() -> None:
    truth = np.full((24, 24, 3), 100, np.uint8)
    dream = truth.copy()
    dream[0, 0, 0] += WRONG_BY  # not more than that
    dream[1, 1, 1] += WRONG_BY + 1
    dream[2, 2] -= WRONG_BY + 1
    reading = Meters(LoadedModel(name="still", predictor=StandStill(), view=RGB), (24, 24)).read(dream, truth, None)
    assert (reading.wrong, reading.pixels, reading.found) == (2, 24 * 24, None)
    squares = WRONG_BY**2 + 4 * (WRONG_BY + 1) ** 2
    assert reading.error == pytest.approx(squares / (24 * 24 * 3))


class EveryStepPays(LiveWorld):
    """The real game with a reward of 2 at every step."""

    def step(self, action: int) -> Step:
        return super().step(action)._replace(reward=2.0)


def test_rewards_before_the_dream_begins_do_not_count_for_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("acvp.play.session.LiveWorld", EveryStepPays)
    monkeypatch.setattr(Dreamer, "ground", _foretelling(Dreamer.ground))
    monkeypatch.setattr(Dreamer, "step", _foretelling(Dreamer.step))
    one = Session(Cast({"slow": lambda: StandStill(context=4)}))
    counts = []
    for _ in range(5):
        one.step()
        counts.append((one.moment.dream.steps, one.moment.earned, one.moment.dreamed, one.moment.score))
    assert counts == [(0, 0, 0, 2.0), (0, 0, 0, 4.0), (0, 0, 0, 6.0), (1, 1, 1, 8.0), (2, 2, 2, 10.0)]


def _foretelling(dream: Callable[..., Dream]) -> Callable[..., Dream]:
    """Return a way to dream that predicts a reward at every step, also while it only watches."""
    return lambda *arguments: replace(dream(*arguments), reward=1)
