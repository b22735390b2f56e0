"""Shared games: a link repeats what a player did, step by step."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from acvp.data.store import EpisodeStore
from acvp.errors import UserError
from acvp.play.history import MAX_STEPS, AutoResync, Moves, parse_moves
from acvp.play.session import Session
from tests.play.sessions import DOWN, LEFT, NOOP, RIGHT, UP, make_session, play_on, same


@given(
    st.lists(st.integers(0, 17), max_size=60),
    st.integers(0, 60),
    st.sets(st.integers(1, 60), max_size=5),
    st.integers(0, 999_999_999),
)
def test_a_link_says_what_was_done(actions: list[int], skip: int, resyncs: set[int], seed: int) -> None:
    skip = min(skip, len(actions))
    steps = len(actions) - skip
    moves = Moves(seed, skip, actions, {count for count in resyncs if count <= steps})
    assert parse_moves(moves.to_text("x", steps), 18) == moves


def test_a_link_ends_where_the_player_is_now() -> None:
    moves = Moves(3, 1, [2, 2, 2, 0, 1], {2, 4})
    assert moves.to_text("ms pacman/2", 3) == "predictor=ms%20pacman%2F2&seed=3&skip=1&moves=2-2x2-r-0"


def test_a_resync_after_the_last_step_is_in_the_link() -> None:
    moves = Moves(3, 1, [2, 2, 0], {1, 2})
    assert moves.to_text("x", 2).endswith("&moves=2-2-r-0-r")
    assert parse_moves(moves.to_text("x", 2), 3) == moves


def test_rewound_steps_are_forgotten_with_their_resyncs() -> None:
    moves = Moves(3, 1, [0, 1, 1, 2, 2], {2, 3, 4})
    moves.step(2, 0)
    assert (moves.actions, moves.resyncs) == ([0, 1, 1, 0], {2})


def record_states(session: Session, steps: int) -> list[tuple[bytes, bytes, int]]:
    states = []
    for _ in range(steps):
        session.step()
        assert session.state.real is not None
        shown = session.state.real.tobytes(), session.state.imagined.frame.tobytes()
        states.append((*shown, session.state.imagined.steps))
    return states


def test_a_shared_game_is_repeated_exactly_with_its_resyncs() -> None:
    session = make_session(seed=4, fast_forward=True, auto_resync=AutoResync.parse("9"))
    session.hold(LEFT)
    states = record_states(session, 6)
    session.hold(UP)
    states += record_states(session, 6)
    session.resync()
    states[-1] = (*states[-1][:1], session.state.imagined.frame.tobytes(), 0)
    session.hold(RIGHT)
    states += record_states(session, 5)
    other = make_session(seed=99, auto_resync=AutoResync.parse("2"))
    link = session.share()
    other.replay(link[:7], last=False)
    other.replay(link[7:], last=True)
    assert other.driver == "replay"
    assert not other.paused
    assert record_states(other, 17) == states
    assert (other.driver, other.paused) == ("human", True), "then it is the visitor's turn"
    assert other.share() == link
    other.hold(NOOP)
    session.hold(NOOP)
    session.set_auto_resync("off")
    other.set_auto_resync("off")
    assert record_states(other, 3) == record_states(session, 3)


def test_what_was_rewound_is_not_in_the_link() -> None:
    session = make_session(seed=4)
    play_on(session, UP, UP)
    straight = make_session(seed=4)
    play_on(straight, UP, UP, LEFT, DOWN)
    play_on(session, RIGHT, RIGHT, RIGHT)
    session.resync()
    for _ in range(3):
        session.rewind()
    play_on(session, LEFT, DOWN)
    assert session.share() == straight.share()


def test_a_visitor_can_take_over() -> None:
    session, other = make_session(seed=4), make_session(seed=5)
    play_on(session, *[UP] * 8)
    other.replay(session.share(), last=True)
    other.step()
    other.change_driver()
    play_on(other, DOWN)
    assert (other.driver, other.state.action, other.state.agent_steps) == ("human", DOWN, 2)


def test_a_reset_ends_a_shared_game() -> None:
    session = make_session(seed=4)
    play_on(session, UP, UP, UP)
    session.replay(session.share(), last=True)
    session.step()
    session.reset()
    assert session.driver == "human"
    play_on(session, DOWN)
    assert session.state.action == DOWN


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "no number for seed"),
        ("seed=1&moves=0", "no number for skip"),
        ("seed=-1&skip=0&moves=0", "no number for seed"),
        ("seed=1&skip=2&moves=0", "skips 2 of 1"),
        ("seed=1&skip=0&moves=5", "actions 0 to 4"),
        ("seed=1&skip=0&moves=0x", "move '0x'"),
        ("seed=1&skip=0&moves=٣", "actions 0 to 4"),
        (f"seed=1&skip=0&moves=0x{MAX_STEPS}-0", "too many"),
    ],
)
def test_other_links_are_refused_and_the_game_continues(text: str, message: str) -> None:
    session = make_session(seed=4)
    before = session.state
    with pytest.raises(UserError, match=message):
        session.replay(text, last=True)
    assert session.state is before
    assert session.driver == "human"


def test_a_link_that_never_ends_is_dropped() -> None:
    session = make_session()
    for _ in range(200):
        session.replay("1" * 600, last=False)
    with pytest.raises(UserError, match="too long"):
        session.replay("1", last=False)
    session.replay("seed=1&skip=0&moves=1x3", last=True)
    assert session.driver == "replay"


def test_recordings_and_baselines_have_no_link(toy: EpisodeStore) -> None:
    session = make_session(store=toy)
    session.switch("copy-last-frame")
    with pytest.raises(UserError, match="copy-last-frame"):
        session.share()
    session.switch("net")
    session.scrub(0, 5)
    with pytest.raises(UserError, match="key Enter"):
        session.share()
    session.reset()
    assert same(session.state.real, session.state.imagined.frame)
    assert session.share().startswith("predictor=net&seed=1&skip=0&moves=")
