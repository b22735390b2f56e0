"""Counterfactual futures: who plays the game is always right, who ignores the action gets chance."""

from __future__ import annotations

from pathlib import Path
from typing import Any
from unittest.mock import patch

import numpy as np
import pytest

from acvp.bootstrap import Accumulator
from acvp.data.frames import RGB
from acvp.data.replay import replay_game
from acvp.data.store import EpisodeStore
from acvp.data.windows import WindowStart
from acvp.envs import Game
from acvp.errors import UserError
from acvp.evaluation.config import CounterfactualConfig
from acvp.evaluation.counterfactual import (
    Comparison,
    Scores,
    compare_futures,
    match_futures,
    measure_states,
    same_futures,
)
from acvp.evaluation.windows import BranchedState, HeldOutPart, branched_states, every_action, sampled_plans
from acvp.loaded import baselines
from tests.data.answers import answer_frame
from tests.evaluation.predictors import Answers, Oracle, as_model, small_network


def config(part: HeldOutPart, **options: Any) -> CounterfactualConfig:
    return CounterfactualConfig(predictors=(Path("run"),), data=part.store.path, **({"states": 25} | options))


@pytest.mark.slow
@pytest.mark.parametrize("options", [{}, {"steps": 3}, {"steps": 4, "sequences": 5}])
def test_the_oracle_is_always_right_and_baselines_get_chance(toy_part: HeldOutPart, options: dict[str, int]) -> None:
    models = [as_model("oracle", Oracle(toy_part.store))]
    comparison, body = compare_futures(models, toy_part, config(toy_part, **options), lambda done, total: None)
    oracle, chance = body["runs"]["oracle"], body["chance"]["mean"][0]
    assert oracle["accuracy"]["mean"] == [1.0]
    assert oracle["margin"]["mean"][0] == pytest.approx(1.0, abs=1e-6)
    assert oracle["error"]["mean"][0] == pytest.approx(0.0, abs=1e-6)
    for blind in ("copy-last-frame", "mean-frame"):
        assert body["runs"][blind]["accuracy"]["mean"][0] == pytest.approx(chance, abs=1e-9)
        assert body["runs"][blind]["margin"]["mean"][0] < 0.2
    assert 1 / max(comparison.futures) <= chance <= 1 / 2
    assert body["states"] + comparison.same + comparison.ended == 25


def test_the_same_twice(toy_part: HeldOutPart) -> None:
    models = [as_model("net", small_network(toy_part.store))]
    first, second = (compare_futures(models, toy_part, config(toy_part), lambda d, t: None)[1] for _ in range(2))
    assert first == second


def test_true_futures_are_what_the_game_does(toy: EpisodeStore) -> None:
    start = WindowStart(1, 20)
    found = next(branched_states(toy, [start], RGB, 4, lambda number: every_action(5, 2)))
    assert found is not None
    episode = toy[1]
    assert np.array_equal(found.given, episode.frames(20, 24))
    assert found.between.tolist() == episode.actions[20:23].tolist()
    with replay_game(toy) as game:
        for action in range(5):
            game.reset(episode.header.seed)
            for played in episode.actions[:23].tolist():
                game.step(played)
            assert np.array_equal(game.step(action).frame, found.futures[action, 0])
            assert np.array_equal(game.step(action).frame, found.futures[action, 1])


def test_a_game_that_cannot_save_its_state_gives_the_same_futures(toy: EpisodeStore) -> None:
    starts = [WindowStart(0, 3), WindowStart(0, 5), WindowStart(1, 2)]

    def futures() -> list[bytes]:
        states = branched_states(toy, starts, RGB, 4, lambda number: every_action(5, 2))
        return [state.futures.tobytes() for state in states if state is not None]

    saved = futures()

    def unsaving(store: EpisodeStore) -> Game:
        game = replay_game(store)
        game.can_save = False
        return game

    with patch("acvp.evaluation.windows.replay_game", unsaving):
        assert futures() == saved
    assert len(saved) == 3


def test_a_plan_that_ends_the_game_leaves_its_state_out(toy: EpisodeStore) -> None:
    longest = max(range(len(toy)), key=lambda i: toy.entries[i].frames)  # 200 decisions: cut off by the limit
    start = WindowStart(longest, toy.entries[longest].frames - 6)
    assert list(branched_states(toy, [start], RGB, 4, lambda number: every_action(5, 5))) == [None]


def test_equal_futures_are_one() -> None:
    futures = np.array([[1, 2], [3, 4], [1, 2], [5, 6]], np.uint8)
    assert same_futures(futures).tolist() == [0, 1, 0, 2]


def test_chance_is_one_over_the_number_of_futures_for_every_plan(answers: HeldOutPart) -> None:
    """Three plans, two futures: whoever ignores the action is right in half of them, plan by plan as in the mean."""
    futures = np.stack([answer_frame(0, 1), answer_frame(0, 2), answer_frame(0, 1)])[:, None]
    given, between = answer_frame(0, 0)[None], np.empty(0, np.int64)
    branched = BranchedState(
        start=WindowStart(0, 0), given=given, between=between, plans=every_action(3, 1), futures=futures
    )
    models = baselines(as_model("truth", Answers()))
    scores = {
        each.name: Scores(Accumulator(1, 1), Accumulator(1, 1), Accumulator(1, 1), Accumulator(1, 3)) for each in models
    }
    found = Comparison(scores, Accumulator(1, 1), Accumulator(1, 3))
    found.add(measure_states(models, [branched, None], scale=255))
    assert (found.futures, found.ended, found.chance.sums.tolist()) == ([2], 1, [[0.5]])
    assert found.chance_by_plan.sums.tolist() == [[0.5] * 3]
    for name in ("copy-last-frame", "mean-frame"):
        assert found.scores[name].accuracy.sums.tolist() == [[0.5]]
        assert found.scores[name].by_plan.counts.tolist() == [[1.0] * 3]


def test_matches() -> None:
    groups = np.array([0, 1, 0])
    apart = np.array([[1.0, 3.0, 1.0], [2.0, 2.0, 2.0], [9.0, 1.0, 9.0]])  # to the futures of plans 0, 1 and 2
    match = match_futures(apart, groups)
    assert match.hits.tolist() == [1.0, 0.5, 0.0]  # right, a tie of two, wrong
    assert match.margins.tolist() == [0.5, 0.0, -0.8]
    assert match.mean(match.hits) == 0.5  # future 0: (1 + 0) / 2, future 1: 0.5


def test_sampled_plans_are_different_and_follow_from_their_key() -> None:
    first, again, other = (sampled_plans(3, 2, 9, 1, number) for number in (1, 1, 2))
    assert np.array_equal(first, again)
    assert len(np.unique(first, axis=0)) == len(first) <= 9
    assert first.shape[1] == other.shape[1] == 2


def test_a_store_that_cannot_be_replayed_says_what_is_needed(answers: HeldOutPart) -> None:
    models = [as_model("net", small_network(answers.store))]
    with pytest.raises(UserError, match="counterfactuals need a store made by acvp collect, with its game, seeds and"):
        compare_futures(models, answers, config(answers), lambda done, total: None)
