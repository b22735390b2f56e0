"""Predicted observations: what the agent sees, when they are resynced, and that a perfect predictor changes nothing."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import pytest
import torch
from numpy.typing import NDArray
from torch import Tensor

from acvp.agents.agent import AgentAbout, AgentError, FrameStack, Pixels, Rows, agent_view, check_actions
from acvp.agents.play import (
    CONTROL_STREAMS,
    Actions,
    ConstantAction,
    ObservationSource,
    Player,
    RealObservations,
    Scores,
    play_episodes,
)
from acvp.control.run import PredictedObservations
from acvp.data.frames import GRAY_84
from acvp.envs import Game, make_game
from acvp.errors import UserError
from acvp.loaded import require_fit
from acvp.models import About, CopyLastFrameConfig, Predictor, State
from acvp.models.predictor import Predictions
from tests.control.trail import MEANINGS, TRAIL, HashAgent, TrailOracle


def games(count: int, env_id: str = TRAIL, max_steps: int | None = None) -> list[Game]:
    return [make_game(env_id, max_steps=max_steps) for _ in range(count)]


def play(
    games: list[Game],
    player: Player,
    source: ObservationSource,
    *,
    epsilon: float,
    seed: int,
    episodes: int | None = None,
) -> Scores:
    """Play as `acvp control` does: an episode in each game, unless more are asked for."""
    options = {"epsilon": epsilon, "seed": seed, "streams": CONTROL_STREAMS}
    return play_episodes(player, games, source, episodes=episodes or len(games), **options)  # type: ignore[arg-type]


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
        self.between: list[list[int]] = []

    def observe(self, frames: Tensor, actions: Tensor | None = None) -> Depth:
        assert actions is not None
        self.given.append(self.normalizer.to_uint8(frames).numpy())
        self.between.append(actions[0].tolist())
        return Depth(depth=torch.zeros(len(frames)))

    def predict(self, state: State, action: Tensor) -> tuple[Tensor, Depth]:
        assert isinstance(state, Depth)
        depth = state.depth + 1
        return (depth / 255).view(-1, 1, 1, 1).expand(-1, 1, 84, 84), Depth(depth=depth)

    def predict_all(self, state: State) -> Tensor:
        raise NotImplementedError

    def predict_teacher_forced(self, frames: Tensor, actions: Tensor, predict: int) -> Predictions:
        raise NotImplementedError


@pytest.mark.parametrize("horizon", [1, 2, 7, 100])
def test_perfect_predictions_give_the_emulators_episodes(horizon: int) -> None:
    true = play(games(8), HashAgent(), RealObservations(), epsilon=0.05, seed=3)
    predicted = play(
        games(8), HashAgent(), PredictedObservations(TrailOracle(context=3), horizon), epsilon=0.05, seed=3
    )
    assert predicted == true
    assert len(set(true.steps)) > 1  # episodes end at different times
    assert len(set(true.scores)) > 1


@pytest.mark.parametrize("horizon", [1, 5])
def test_perfect_predictions_when_episodes_begin_while_others_run(horizon: int) -> None:
    """Three games play eight episodes: each slot has its own real frames and its own time to resync."""
    true = play(games(8), HashAgent(), RealObservations(), epsilon=0.05, seed=3)
    source = PredictedObservations(TrailOracle(context=3), horizon)
    assert play(games(3), HashAgent(), source, epsilon=0.05, seed=3, episodes=8) == true


def test_an_episode_does_not_depend_on_the_others() -> None:
    few, many = (play(games(count), HashAgent(), RealObservations(), epsilon=0.5, seed=3) for count in (3, 8))
    assert few.scores == many.scores[:3]
    assert few.steps == many.steps[:3]


def test_an_agent_sees_the_frames_of_one_episode_at_a_time() -> None:
    """The last row of a frame says when its episode ends, and so which one it is of, also after others have ended."""
    agent = HashAgent()
    steps = play(games(8), agent, RealObservations(), epsilon=0.5, seed=3).steps
    assert len(set(steps)) > 4
    for frames in agent.seen:
        assert (frames[:, :, -1] == frames[:, :1, -1]).all()


def test_the_agent_sees_predictions_that_are_resynced_every_n_steps() -> None:
    agent, predictor = (
        HashAgent(about=AgentAbout(env_id="acvp/Toy-v0", action_meanings=("A",) * 5)),
        DepthCounter(context=3),
    )
    played = play(games(2, "toy", max_steps=12), agent, PredictedObservations(predictor, 4), epsilon=0.0, seed=0)
    assert played.steps == [12, 12]
    shown = [frames[0, -1] for frames in agent.seen]
    assert [len(np.unique(frame)) > 1 for frame in shown[:3]] == [True] * 3  # real, until there are three
    assert [int(frame[0, 0]) for frame in shown[3:]] == [1, 2, 3, 4, 1, 2, 3, 4, 1]
    assert all(frame.min() == frame.max() for frame in shown[3:])  # never a true one again
    assert [int(frame[0, 0]) for frame in agent.seen[-1][0]] == [2, 3, 4, 1]  # oldest first


def test_predictions_resync_with_the_last_real_frames_and_actions() -> None:
    predictor, actions = DepthCounter(context=3), np.random.default_rng(1).integers(5, size=9)
    source, slot = PredictedObservations(predictor, 2), np.zeros(1, np.int64)
    with make_game("toy") as game:
        real = [game.reset(5)]
        source.begin(slot, [game], real)
        for action in actions.tolist():
            real.append(game.step(action).frame)
            source.step(slot, [game], np.array([action]), real[-1:])
    wanted = GRAY_84.apply(np.stack(real), None)
    firsts = [0, 2, 4, 6]  # predictions 3, 5, 7 and 9 start from frames 0-2, 2-4, 4-6, 6-8
    assert [given.shape for given in predictor.given] == [(1, 3, 84, 84, 1)] * 4
    for given, first in zip(predictor.given, firsts, strict=True):
        assert np.array_equal(given[0], wanted[first : first + 3])
    assert predictor.between == [actions[first : first + 2].tolist() for first in firsts]


@pytest.mark.parametrize("epsilon", [0.0, 0.3, 1.0])
def test_epsilon_is_the_share_of_random_actions(epsilon: float) -> None:
    class Watching(RealObservations):
        def step(self, slots: Rows, games: Sequence[Game], actions: Actions, frames: Sequence[Pixels]) -> Pixels:
            taken.extend(actions.tolist())
            return super().step(slots, games, actions, frames)

    taken: list[int] = []
    play(games(40), ConstantAction(1, 3), Watching(), epsilon=epsilon, seed=5)
    shares = np.bincount(taken, minlength=3) / len(taken)
    assert shares == pytest.approx([epsilon / 3, 1 - 2 * epsilon / 3, epsilon / 3], abs=0.05 if epsilon else 0)


def test_random_episodes_follow_from_their_seed() -> None:
    first, again, other = (
        play(games(6), ConstantAction(0, 3), RealObservations(), epsilon=1.0, seed=s) for s in (1, 1, 2)
    )
    assert first == again
    assert first.steps != other.steps


def test_an_agent_of_another_action_set() -> None:
    about = AgentAbout(env_id="ALE/Pong-v5", action_meanings=("NOOP", "FIRE", "RIGHT"))
    with pytest.raises(AgentError, match=r"the agent of ALE/Pong-v5 has the actions NOOP FIRE RIGHT, .* has STAY ON"):
        check_actions(about, MEANINGS, TRAIL)


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
    history = FrameStack(2, 4, ())
    history.begin(np.array([[1, 2], [5, 6]], np.uint8))
    history.add(np.array([3, 7], np.uint8))
    assert history.frames.tolist() == [[1, 1, 2, 3], [5, 5, 6, 7]]
    history.begin(np.array([[9]], np.uint8), np.array([1]))
    assert history.frames.tolist() == [[1, 1, 2, 3], [9, 9, 9, 9]]
    history.begin(np.arange(12, dtype=np.uint8).reshape(2, 6))
    assert history.frames.tolist() == [[2, 3, 4, 5], [8, 9, 10, 11]]
    history.add(np.array([7], np.uint8), np.array([1]))
    assert history.frames.tolist() == [[2, 3, 4, 5], [9, 10, 11, 7]]
