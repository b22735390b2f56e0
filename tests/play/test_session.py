"""Everything a player can do, without the web."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from acvp.data.policies import Player
from acvp.envs import make_game
from acvp.errors import UserError
from acvp.models import About, MlpConfig, Predictor, build_predictor
from acvp.play.model_pool import ModelPool
from acvp.play.players import Players
from acvp.play.session import MAX_LOOKAHEAD, Session
from acvp.play.worlds import MIN_HISTORY, LiveWorld
from tests.play.sessions import (
    DOWN,
    LEFT,
    NOOP,
    RIGHT,
    UP,
    StandStill,
    imagining_session,
    make_session,
    network,
    play_on,
    player,
    same,
)


def test_real_frames_are_shown_until_the_predictor_has_its_context() -> None:
    session = Session(ModelPool({"slow": lambda: StandStill(context=4)}))
    states = []
    for _ in range(4):
        assert same(session.state.real, session.state.imagined.frame), "the real frame is shown"
        states.append(session.state.imagined.predictor_state)
        session.step()
    assert [state is None for state in states] == [True, True, True, False]
    assert session.state.imagined.steps == 1


@pytest.mark.parametrize(("action", "move"), [(UP, (-1, 0)), (DOWN, (1, 0)), (LEFT, (0, -1)), (RIGHT, (0, 1))])
def test_the_same_keys_move_both_worlds(action: int, move: tuple[int, int]) -> None:
    session = imagining_session(seed=4)
    before = player(session.state.imagined.frame)
    play_on(session, action)
    assert session.state.real is not None
    assert (
        player(session.state.real) == player(session.state.imagined.frame) == (before[0] + move[0], before[1] + move[1])
    )
    assert session.state.action == action


def test_the_kept_actions_are_those_between_the_kept_frames() -> None:
    session = imagining_session(seed=4)
    for count in range(2 * MIN_HISTORY):
        play_on(session, RIGHT if count % 2 else LEFT)
        assert len(session.state.actions) == len(session.state.frames) - 1
    assert len(session.state.frames) == max(session.context_frames, MIN_HISTORY)


def test_the_real_game_is_the_game() -> None:
    session, game = make_session(seed=7), make_game("toy")
    frames = [game.reset(7)]
    actions = [UP, RIGHT, RIGHT, DOWN, NOOP] * 3
    for action in actions:
        play_on(session, action)
        frames.append(game.step(action).frame)
        assert same(session.state.real, frames[-1])


def test_a_tap_between_two_steps_counts_once() -> None:
    session = imagining_session(seed=4)
    session.hold(UP)
    session.hold(NOOP)
    session.step()
    assert session.state.action == UP
    session.step()
    assert session.state.action == NOOP


def test_resync_brings_the_error_to_zero() -> None:
    session = imagining_session(seed=4)
    play_on(session, UP, UP, NOOP, NOOP)
    assert session.state.metrics is not None
    assert session.state.metrics.wrong_pixels > 0, "the ball stands still in the dream"
    assert session.state.imagined.steps == 4
    session.resync()
    assert (session.state.metrics.wrong_pixels, session.state.metrics.squared_error, session.state.imagined.steps) == (
        0,
        0.0,
        0,
    )
    assert same(session.state.real, session.state.imagined.frame)


def test_live_metrics_count_wrong_pixels_and_find_the_object() -> None:
    session = imagining_session(seed=4)
    assert session.state.metrics is not None
    assert session.state.metrics.object_found is True
    play_on(session, NOOP)
    real, imagined = session.state.real, session.state.imagined.frame
    assert real is not None
    wrong = (np.abs(real.astype(int) - imagined) > 8).any(-1)
    assert (session.state.metrics.wrong_pixels, session.state.metrics.pixels) == (wrong.sum(), 24 * 24)
    session.switch("net")
    play_on(session, NOOP)
    assert session.state.metrics.object_found is False, "noise shows no player"


def test_rewards_are_summed_since_the_last_resync() -> None:
    session = make_session(seed=4)
    session.switch("net")
    rewards, imagined = [], []
    for action in [RIGHT] * 12 + [DOWN] * 12 + [LEFT] * 12 + [UP] * 12:
        before = session.state.score
        play_on(session, action)
        rewards.append(session.state.score - before)
        imagined.append(session.state.imagined.reward)
    assert any(rewards), "the episode should have a reward in it"
    assert session.state.real_reward == sum(np.sign(rewards))
    assert session.state.imagined_reward == sum(reward for reward in imagined if reward is not None)
    session.resync()
    assert (session.state.real_reward, session.state.imagined_reward) == (0, 0)


def test_rewinding_restores_both_worlds() -> None:
    session = imagining_session(seed=4)
    past = []
    for action in (UP, LEFT, DOWN, RIGHT, UP):
        past.append(session.state)
        play_on(session, action)
    for state in reversed(past):
        session.rewind()
        assert session.state is state
    assert session.paused
    again = []
    for action in (UP, LEFT, DOWN, RIGHT, UP):
        again.append(session.state)
        play_on(session, action)
    for first, second in zip(past, again, strict=True):
        assert same(first.real, second.real)
        assert same(first.imagined.frame, second.imagined.frame)


def test_another_action_after_going_back_shows_both_futures() -> None:
    session = imagining_session()
    first, frames = session.history[0], {}
    session.hold(1)
    while session.state.agent_steps < 12:
        frames[session.state.agent_steps] = session.state.imagined.frame
        session.step()
    session.go(8)
    assert (session.state.agent_steps, session.paused, session.history) == (8, True, (first, 12))
    assert np.array_equal(session.state.imagined.frame, frames[8])
    session.go(10)
    assert np.array_equal(session.state.imagined.frame, frames[10])
    session.go(8)
    assert session.left_future == {}
    session.hold(2)
    session.step()
    assert sorted(session.left_future) == [9, 10, 11, 12]
    assert np.array_equal(session.left_future[9], frames[9])
    assert not np.array_equal(session.state.imagined.frame, frames[9]), "another action, another future"
    assert session.history == (first, 9)
    session.reset()
    assert session.left_future == {}


def test_rewinding_ends_with_what_is_kept() -> None:
    session = make_session()
    with pytest.raises(UserError, match="nothing earlier"):
        session.rewind()


def test_a_game_that_cannot_save_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    session = imagining_session()
    assert isinstance(session.worlds.real, LiveWorld)
    monkeypatch.setattr(session.worlds.real.game, "can_save", False)
    session.reset()
    play_on(session, UP, UP)
    with pytest.raises(UserError, match="cannot save its state"):
        session.rewind()
    assert session.every_action().real is None


@pytest.mark.parametrize("steps", [1, 3])
def test_all_actions_show_both_worlds_and_change_nothing(steps: int) -> None:
    session = imagining_session(seed=4)
    before = session.state
    grid = session.every_action(steps)
    assert grid.imagined.shape == (5, 24, 24, 3)
    assert grid.real is not None
    assert session.state is before
    for action in range(5):
        other = imagining_session(seed=4)
        play_on(other, *[action] * steps)
        assert same(other.state.imagined.frame, grid.imagined[action])
        assert same(other.state.real, grid.real[action])
    play_on(session, RIGHT)
    assert same(session.state.real, session_after(RIGHT).state.real), "the real game has not moved"


def session_after(action: int) -> Session:
    session = imagining_session(seed=4)
    play_on(session, action)
    return session


def test_all_actions_need_real_frames_and_a_number_of_steps() -> None:
    with pytest.raises(UserError, match="real frames first"):
        make_session().every_action()
    with pytest.raises(UserError, match=f"1 to {MAX_LOOKAHEAD}"):
        imagining_session().every_action(0)


def test_switching_keeps_the_real_game_and_resyncs_the_new_model() -> None:
    session = imagining_session(seed=4)
    play_on(session, UP, UP, UP)
    frames = session.state.frames
    for name, shape in (
        ("net", (24, 24, 3)),
        ("gray", (84, 84, 1)),
        ("copy-last-frame", (84, 84, 1)),
        ("still", (24, 24, 3)),
    ):
        session.switch(name)
        assert session.model_name == name
        assert session.state.frames is frames
        assert session.state.imagined.frame.shape == shape
        assert session.state.imagined.predictor_state is not None, "enough real frames are kept for every predictor"
        assert same(session.state.real, session.state.imagined.frame)
        play_on(session, NOOP)
        frames = session.state.frames
    assert session.state.agent_steps == 8


def freeway() -> Predictor:
    """A small network for Freeway, gray 84×84, with random weights."""
    config = MlpConfig(actions=3, frame=(84, 84, 1), hidden=(6, 8, 10, 7))
    predictor = build_predictor(config, torch.Generator().manual_seed(1)).eval()
    predictor.about = About(env_id="ALE/Freeway-v5", view="gray84", action_meanings=("NOOP", "UP", "DOWN"))
    return predictor


def test_switching_to_another_game_starts_that_game() -> None:
    session = Session(ModelPool({"still": StandStill, "freeway": freeway}))
    play_on(session, RIGHT)
    session.hold(RIGHT)
    session.switch("freeway")
    assert session.context.env_id == "ALE/Freeway-v5"
    assert session.state.agent_steps == 0
    session.step()
    assert session.state.action == 0, "a key held for the other game means nothing here"
    play_on(session, UP, UP, UP)
    frames = session.state.frames
    session.rewind()
    session.rewind()
    play_on(session, UP, UP)
    assert all(map(np.array_equal, frames, session.state.frames)), "Atari is rewound bit for bit"
    assert session.state.metrics is not None
    assert session.every_action().imagined.shape == (3, 84, 84, 1)
    session.switch("still")
    assert session.context.env_id == "acvp/Toy-v0"
    play_on(session, RIGHT)


def test_copy_last_frame_stands_still() -> None:
    session = imagining_session()
    session.switch("copy-last-frame")
    frame = session.state.imagined.frame
    play_on(session, UP, RIGHT, UP)
    assert same(session.state.imagined.frame, frame)


def test_a_name_that_is_not_there() -> None:
    session = imagining_session()
    with pytest.raises(UserError, match="still, net, gray, copy-last-frame"):
        session.switch("nobody")
    assert session.model_name == "still"


def test_a_finished_game_waits_for_a_human_and_not_for_an_agent() -> None:
    session = imagining_session()
    session.set_fps(60)
    while not session.state.over:
        play_on(session, UP)
    over = session.state
    session.step()
    assert session.state is over
    session.change_driver()
    session.step()
    assert (session.state.agent_steps, session.state.over) == (0, False)
    numbers = []
    for _ in range(3):
        session.step()
        numbers.append(session.state.agent_steps)
    assert numbers == [1, 2, 3]


def test_an_agent_of_another_game_is_refused_and_the_human_continues() -> None:
    def policy(meanings: tuple[str, ...], rng: np.random.Generator) -> Player:
        raise UserError("this agent plays another game")

    session = make_session(players=Players("mine", policy))
    with pytest.raises(UserError, match="another game"):
        session.change_driver()
    assert session.driver == "human"
    play_on(session, UP)
    assert session.state.action == UP


def test_every_reset_is_another_game_and_the_same_one_again_by_seed() -> None:
    session, other = make_session(seed=5), make_session(seed=5)
    session.reset()
    other.reset()
    assert same(session.state.real, other.state.real)
    assert not same(session.state.real, make_session(seed=5).state.real)


def test_a_game_of_a_module_is_not_imported_for_a_predictor() -> None:
    with pytest.raises(UserError, match="--import some_module"):
        Session(ModelPool({"x": lambda: network(env_id="some_module:Toy-v0")}))


def test_a_predictor_of_another_version_of_the_game() -> None:
    predictor = network()
    predictor.actions = 4
    with pytest.raises(UserError, match="another version"):
        Session(ModelPool({"x": lambda: predictor}))


def test_a_predictor_that_does_not_name_its_game() -> None:
    predictor = network()
    predictor.about = None
    with pytest.raises(UserError, match="acvp train"):
        Session(ModelPool({"x": lambda: predictor}))


def test_predictions_that_are_not_numbers_are_still_shown() -> None:
    predictor = network()
    for weight in predictor.parameters():
        weight.data.fill_(float("nan"))
    session = Session(ModelPool({"x": lambda: predictor}))
    play_on(session, UP, UP)
    assert session.state.imagined.frame.dtype == np.uint8


@pytest.mark.parametrize("action", [-1, 5, 10**9])
def test_actions_that_are_not_there(action: int) -> None:
    with pytest.raises(UserError, match="0 to 4"):
        make_session().hold(action)


@pytest.mark.parametrize("fps", [0.0, -1.0, 61.0, 1e300])
def test_speeds_that_are_not_possible(fps: float) -> None:
    with pytest.raises(UserError, match="1 to 60"):
        make_session().set_fps(fps)


def test_what_is_kept_for_rewinding_stays_within_its_memory() -> None:
    session = imagining_session(rewind_bytes=100_000)
    session.change_driver()
    sizes = []
    for _ in range(300):
        session.step()
        sizes.append(session._rewind_buffer.nbytes)
    assert max(sizes) <= 100_000
    assert len(session._rewind_buffer) >= 1
