"""Where a session starts: a game under way that obeys its keys, the same one for the same seed."""

from __future__ import annotations

import numpy as np
import pytest

from acvp.envs import make_game
from acvp.play.model_pool import make_model_pool
from acvp.play.players import PLAYED, Players, fast_forward, obeys, replay_opening
from acvp.play.session import Session
from tests.play.sessions import NOOP, UP, make_session, play_on, same


@pytest.mark.parametrize("name", ["ms_pacman", "qbert"])
def test_a_game_with_an_opening_screen_starts_after_it(name: str) -> None:
    with make_game(name) as game:
        game.reset(0)
        assert not obeys(game), "an opening screen, in which keys do nothing"
        opening = fast_forward(game, 0, Players().policy(game.env_id))
        assert obeys(game)
    assert len(opening.actions) > PLAYED[0]
    assert len(opening.frames) == len(opening.actions) + 1


def test_the_start_follows_from_the_seed_and_its_actions_lead_there() -> None:
    with make_game("freeway") as game, make_game("freeway") as other:
        policy = Players().policy(game.env_id)
        first, again = fast_forward(game, 3, policy), fast_forward(other, 3, policy)
        assert first.actions == again.actions
        assert np.array_equal(first.frames[-1], again.frames[-1])
        assert np.array_equal(replay_opening(other, 3, first.actions).frames[-1], first.frames[-1])
        assert fast_forward(game, 4, policy).actions != first.actions


def test_a_game_that_ends_during_its_opening_starts_at_its_first_frame() -> None:
    with make_game("acvp/Toy-v0", max_steps=5) as game:
        opening = fast_forward(game, 1, Players().policy(game.env_id))
        first = game.reset(1)
    assert opening.actions == []
    assert np.array_equal(opening.frames[0], first)


def test_after_the_opening_the_first_step_is_a_prediction() -> None:
    session = make_session(fast_forward=True, seed=2)
    assert session.state.agent_steps == 0
    assert session.state.imagined.predictor_state is not None
    assert len(session.state.actions) == len(session.state.frames) - 1
    play_on(session, NOOP)
    assert session.state.imagined.steps == 1
    with make_game("toy") as game:
        opening = fast_forward(game, 2, Players().policy(game.env_id))
        assert same(session.state.real, game.step(NOOP).frame)
        assert session.state.score >= opening.score


def test_every_reset_starts_elsewhere() -> None:
    session, starts = make_session(fast_forward=True), []
    for _ in range(3):
        starts.append(session.state.real)
        session.reset()
    assert not same(starts[0], starts[1])
    assert not same(starts[1], starts[2])


def test_the_score_counts_from_the_first_frame_of_the_game() -> None:
    with make_game("qbert") as game:
        opening = fast_forward(game, 0, Players().policy(game.env_id))
    assert opening.score > 0, "otherwise the test shows nothing"
    session = Session(make_model_pool(["qbert"]), first="copy-last-frame", fast_forward=False)
    assert session.state.score == 0
    session.close()
    ahead = Session(make_model_pool(["qbert"]), fast_forward=True)
    assert ahead.state.score == opening.score
    play_on(ahead, UP)
    assert ahead.state.agent_steps == 1
    ahead.close()
