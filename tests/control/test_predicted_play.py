"""Predicted play: what the agent sees, when predictions are grounded, and that a perfect predictor changes nothing."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pytest
import torch
from numpy.typing import NDArray
from torch import Tensor

from acvp.agents.observations import FrameHistory, agent_view
from acvp.agents.play import HeldAction
from acvp.control.predicted_play import Plays, PredictedSight, TrueSight, play, refuse_other_actions
from acvp.data.views import GRAY_84
from acvp.envs import Game, make_game
from acvp.errors import UserError
from acvp.models import About, CopyLastFrameConfig, Predictor, State, require_fit
from acvp.models.predictor import Predictions
from tests.control.trail import TRAIL, HashAgent, TrailOracle


def games(count: int, env_id: str = TRAIL, max_steps: int | None = None) -> list[Game]:
    return [make_game(env_id, max_steps=max_steps) for _ in range(count)]


@dataclass(frozen=True, kw_only=True)
class Depth(State):
    depth: Tensor  # (B,)


class DepthCounter(Predictor):
    """Shows how many predictions ago real frames were taken in, as gray 84×84 frames of that brightness."""

    def __init__(self, context: int) -> None:
        super().__init__(CopyLastFrameConfig(actions=5, frame=(84, 84, 1)))
        self.context = context
        self.about = About(env_id="acvp/Toy-v0", view="gray84", action_meanings=("A",) * 5)
        self.given: list[NDArray[np.uint8]] = []

    def observe(self, frames: Tensor, actions: Tensor | None = None) -> Depth:
        self.given.append(self.normalizer.to_uint8(frames).numpy())
        return Depth(depth=torch.zeros(len(frames)))

    def predict(self, state: State, action: Tensor) -> tuple[Tensor, Depth]:
        assert isinstance(state, Depth)
        depth = state.depth + 1
        return (depth / 255).view(-1, 1, 1, 1).expand(-1, 1, 84, 84), Depth(depth=depth)

    def predict_all(self, state: State) -> Tensor:
        raise NotImplementedError

    def predict_teacher_forced(self, frames: Tensor, actions: Tensor, predict: int) -> Predictions:
        raise NotImplementedError


@pytest.mark.parametrize("reground_every", [1, 2, 7, 100])
def test_perfect_predictions_give_the_emulator_s_plays(reground_every: int) -> None:
    options = {"epsilon": 0.05, "seed": 3}
    true = play(games(8), HashAgent(), TrueSight(), **options)  # type: ignore[arg-type]
    sight = PredictedSight(TrailOracle(context=3), reground_every)
    predicted = play(games(8), HashAgent(), sight, **options)  # type: ignore[arg-type]
    assert predicted == true
    assert len(set(true.decisions)) > 1  # plays end at different times
    assert len(set(true.scores)) > 1


def test_a_play_does_not_depend_on_the_others() -> None:
    few, many = (play(games(count), HashAgent(), TrueSight(), epsilon=0.5, seed=3) for count in (3, 8))
    assert few.scores == many.scores[:3]
    assert few.decisions == many.decisions[:3]


def test_an_agent_sees_the_frames_of_one_play_at_a_time() -> None:
    """The last row of a frame says when its play ends, and so which play it is of, also after others have ended."""
    agent = HashAgent()
    decisions = play(games(8), agent, TrueSight(), epsilon=0.5, seed=3).decisions
    assert len(set(decisions)) > 4
    for frames in agent.seen:
        assert (frames[:, :, -1] == frames[:, :1, -1]).all()


def test_the_agent_sees_predictions_and_they_are_grounded_every_n_decisions() -> None:
    agent, predictor = HashAgent(about=HashAgent.About("acvp/Toy-v0", ("A",) * 5)), DepthCounter(context=3)
    plays = play(games(2, "toy", max_steps=12), agent, PredictedSight(predictor, 4), epsilon=0.0, seed=0)
    assert plays.decisions == (12, 12)
    shown = [frames[0, -1] for frames in agent.seen]
    assert [len(np.unique(frame)) > 1 for frame in shown[:3]] == [True] * 3  # real, until there are three
    assert [int(frame[0, 0]) for frame in shown[3:]] == [1, 2, 3, 4, 1, 2, 3, 4, 1]
    assert all(frame.min() == frame.max() for frame in shown[3:])  # never a true one again
    assert [int(frame[0, 0]) for frame in agent.seen[-1][0]] == [2, 3, 4, 1]  # oldest first


def test_predictions_are_grounded_in_the_last_real_frames() -> None:
    predictor, actions = DepthCounter(context=3), np.random.default_rng(1).integers(5, size=9)
    sight = PredictedSight(predictor, 2)
    with make_game("toy") as game:
        real = [game.reset(5)]
        sight.begin(real[0][None])
        for action in actions.tolist():
            real.append(game.step(action).frame)
            sight.see(np.array([action]), real[-1][None])
    wanted = GRAY_84.apply(np.stack(real), None)
    firsts = [0, 2, 4, 6]  # predictions 3, 5, 7 and 9 start from frames 0-2, 2-4, 4-6, 6-8
    assert [given.shape for given in predictor.given] == [(1, 3, 84, 84, 1)] * 4
    for given, first in zip(predictor.given, firsts, strict=True):
        assert np.array_equal(given[0], wanted[first : first + 3])


@pytest.mark.parametrize("epsilon", [0.0, 0.3, 1.0])
def test_epsilon_is_the_share_of_random_actions(epsilon: float) -> None:
    class Watching(TrueSight):
        def see(self, actions: NDArray[np.int64], frames: NDArray[np.uint8]) -> NDArray[np.uint8]:
            taken.extend(actions.tolist())
            return super().see(actions, frames)

    taken: list[int] = []
    play(games(40), HeldAction(1, 3), Watching(), epsilon=epsilon, seed=5)
    shares = np.bincount(taken, minlength=3) / len(taken)
    assert shares == pytest.approx([epsilon / 3, 1 - 2 * epsilon / 3, epsilon / 3], abs=0.05 if epsilon else 0)


def test_random_plays_follow_from_their_seed() -> None:
    first, again, other = (play(games(6), HeldAction(0, 3), TrueSight(), epsilon=1.0, seed=s) for s in (1, 1, 2))
    assert first == again
    assert first.decisions != other.decisions


def test_mean_and_standard_error() -> None:
    plays = Plays((1.0, 2.0, 6.0), (5, 5, 5))
    assert plays.mean == 3.0
    assert plays.standard_error == pytest.approx((7.0 / 3) ** 0.5)  # variance (4 + 1 + 9) / 2
    assert Plays((4.0,), (5,)).standard_error is None


def test_an_agent_of_another_action_set() -> None:
    about = HashAgent.About("ALE/Pong-v5", ("NOOP", "FIRE", "RIGHT"))
    with make_game(TRAIL) as game, pytest.raises(UserError, match=r"agent pong plays ALE/Pong-v5 with 3 actions"):
        refuse_other_actions("pong", about, game)


@pytest.mark.parametrize("game", ["toy", "freeway"])
def test_a_predictor_of_another_game(game: str) -> None:
    with make_game(game) as other, pytest.raises(UserError, match="name a predictor of this game"):
        require_fit("trail", TrailOracle(), other)


def test_an_agent_sees_any_frame_in_gray_84() -> None:
    rng = np.random.default_rng(0)
    color = rng.integers(256, size=(2, 3, 210, 160, 3)).astype(np.uint8)
    assert np.array_equal(agent_view(color), GRAY_84.apply(color, None)[..., 0])
    gray = rng.integers(256, size=(5, 84, 84, 1)).astype(np.uint8)
    assert np.array_equal(agent_view(gray), gray[..., 0])
    assert agent_view(gray[:, :40, :30]).shape == (5, 84, 84)


def test_the_first_frame_stands_in_for_those_before_it() -> None:
    history = FrameHistory(2, 4, ())
    history.begin(np.array([[1, 2], [5, 6]], np.uint8))
    history.add(np.array([3, 7], np.uint8))
    assert history.frames.tolist() == [[1, 1, 2, 3], [5, 5, 6, 7]]
    history.begin(np.array([[9]], np.uint8), np.array([1]))
    assert history.frames.tolist() == [[1, 1, 2, 3], [9, 9, 9, 9]]
    history.begin(np.arange(12, dtype=np.uint8).reshape(2, 6))
    history.keep(np.array([1]))
    assert history.frames.tolist() == [[8, 9, 10, 11]]
