"""The dream is resynced by itself: after some steps, or when its object is lost."""

from __future__ import annotations

import numpy as np
import pytest

from acvp.errors import UserError
from acvp.play.history import LATEST, LOST_STEPS, AutoResync
from acvp.play.model_pool import ModelPool
from acvp.play.protocol import facts
from acvp.play.session import Session
from tests.play.sessions import NOOP, RIGHT, StandStill, imagining_session, play_on


class Blind(StandStill):
    """Predicts black frames, in which no object is found."""

    def go_on(self, known: np.ndarray, action: int) -> tuple[np.ndarray, np.ndarray]:
        return np.zeros_like(known), np.zeros_like(known)


def steps_of(session: Session, count: int) -> list[int]:
    """Return the steps since the last resync after each of some steps."""
    steps = []
    for _ in range(count):
        play_on(session, NOOP)
        steps.append(session.state.imagined.steps)
    return steps


def test_after_a_number_of_steps() -> None:
    session = imagining_session(auto_resync=AutoResync.parse("3"))
    assert steps_of(session, 7) == [1, 2, 0, 1, 2, 0, 1]


def test_when_the_controlled_object_is_lost_for_a_second() -> None:
    session = Session(ModelPool({"blind": Blind}), auto_resync=AutoResync.parse("lost"))
    play_on(session, NOOP)
    assert session.state.imagined.steps == 0
    assert steps_of(session, LOST_STEPS + 1) == [*range(1, LOST_STEPS), 0, 1]


def test_an_object_that_is_found_keeps_the_dream() -> None:
    session = imagining_session(seed=4, auto_resync=AutoResync.parse("lost"))
    assert steps_of(session, 2 * LOST_STEPS)[-1] == 2 * LOST_STEPS
    assert AutoResync.parse("lost").due(LATEST, 0), "but not for ever"


def test_off_and_the_switch_of_the_page() -> None:
    session = imagining_session()
    assert steps_of(session, 3) == [1, 2, 3]
    session.set_auto_resync("2")
    assert facts(session)["auto_resync"] == "2"
    play_on(session, RIGHT)
    assert session.state.imagined.steps == 0
    session.set_auto_resync("off")
    assert steps_of(session, 4)[-1] == 4


@pytest.mark.parametrize("mode", ["", "on", "0", "-1", "10001", "1e3", "٣", "9" * 50])
def test_other_modes_are_refused(mode: str) -> None:
    with pytest.raises(UserError, match="off, lost or 1 to"):
        AutoResync.parse(mode)


@pytest.mark.parametrize("mode", ["off", "lost", "150"])
def test_a_mode_is_shown_as_it_was_given(mode: str) -> None:
    assert str(AutoResync.parse(mode)) == mode
