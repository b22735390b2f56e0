"""Keys inside a prediction: judged by opposite actions held in the game and in the model."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from acvp.data.frames import RGB
from acvp.data.replay import replay
from acvp.data.store import EpisodeStore
from acvp.data.windows import WindowStart
from acvp.errors import UserError
from acvp.evaluation.keys import KeyTest, key_pairs, measure_keys, true_futures
from acvp.evaluation.windows import open_game
from acvp.loaded import baselines
from tests.evaluation.predictors import Oracle, as_model

CONTEXT, STEPS = 10, (1, 5, 9)
OPPOSITE = [0, 2, 1, 4, 3]
SEAQUEST = ("NOOP", "FIRE", "UP", "RIGHT", "LEFT", "DOWN", "UPRIGHT", "DOWNLEFT", "UPFIRE", "DOWNFIRE")


class Mirrored(Oracle):
    """Right for the recorded actions; then takes every held action for its opposite: keys work the wrong way."""

    def recognize(self, frames: NDArray[np.uint8]) -> Any:
        return super().recognize(frames), 0

    def go_on(self, known: Any, action: int) -> tuple[NDArray[np.uint8], Any]:
        state, done = known
        frame, after = super().go_on(state, action if done < max(STEPS) else OPPOSITE[action])
        return frame, (after, done + 1)


def key_test(toy: EpisodeStore, count: int = 8) -> KeyTest:
    """Windows of the first episodes that are long enough."""
    long = [i for i, entry in enumerate(toy.entries) if entry.frames >= CONTEXT + max(STEPS) + 1]
    return KeyTest(
        store=toy, windows=[WindowStart(i, 0) for i in long[:count]], context=CONTEXT, steps=STEPS, batch_size=3
    )


def shares(toy: EpisodeStore, predictor: Any) -> NDArray[np.float64]:
    """How often keys work, by tried step."""
    test = key_test(toy)
    works = measure_keys([as_model("model", predictor)], test)["model"]
    assert (works.counts.sum(0) >= 3).all()
    means: NDArray[np.float64] = works.sums.sum(0) / works.counts.sum(0)
    return means


def test_straight_opposite_directions_without_fire_are_tried() -> None:
    assert key_pairs(("NOOP", "UP", "DOWN")) == [(1, 2)]
    assert key_pairs(SEAQUEST) == [(2, 5), (3, 4)]


def test_a_game_without_directions_is_refused() -> None:
    with pytest.raises(UserError, match="no two are opposite"):
        key_pairs(("NOOP", "FIRE", "UP"))


def test_keys_always_work_in_a_perfect_prediction(toy: EpisodeStore) -> None:
    assert shares(toy, Oracle(toy)).tolist() == [1.0] * len(STEPS)


def test_keys_never_work_where_the_action_is_ignored(toy: EpisodeStore) -> None:
    copy_last = baselines(as_model("any", Oracle(toy, CONTEXT)))[0].predictor
    assert shares(toy, copy_last).tolist() == [0.0] * len(STEPS)


def test_keys_that_work_the_wrong_way_do_not_count(toy: EpisodeStore) -> None:
    assert shares(toy, Mirrored(toy, CONTEXT))[-1] == 0.0


def test_futures_begin_at_the_step_that_is_tried(toy: EpisodeStore) -> None:
    test = key_test(toy, count=2)
    with open_game(toy) as game:
        futures = true_futures(game, test, test.windows, RGB)
        for row, window in enumerate(test.windows):
            episode = toy[window.episode]
            for number, step in enumerate(STEPS):
                frame = window.frame + CONTEXT - 1 + step
                for _ in replay(episode, game, frame + 1):
                    pass
                assert np.array_equal(futures[row, number][1][0], game.step(1).frame)


@pytest.mark.parametrize(("start", "held"), [(0, 300), (-1, 1)])
def test_actions_that_end_the_episode_and_its_last_frame_are_left_out(toy: EpisodeStore, start: int, held: int) -> None:
    episode = max(range(len(toy)), key=lambda i: toy.entries[i].frames)
    window = WindowStart(
        episode, start % (toy.entries[episode].frames - CONTEXT)
    )  # -1: its last frame is the first predicted
    test = KeyTest(store=toy, windows=[window], context=CONTEXT, steps=(1,), held=held)
    assert measure_keys(baselines(as_model("any", Oracle(toy, CONTEXT)))[:1], test)["copy-last-frame"].counts.sum() == 0
