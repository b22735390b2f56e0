"""Each packaged game, as it opens: the dream moves, and obeys a key, within five seconds of play."""

from __future__ import annotations

import numpy as np
import pytest

from acvp.loaded import packaged
from acvp.play.model_pool import make_model_pool
from acvp.play.session import Session

FIRST_SECONDS = 75
"""Agent steps of five seconds at the speed of Atari; a clock would measure the machine."""
LOOK_AHEAD = 15


@pytest.mark.slow
@pytest.mark.parametrize("name", sorted(packaged()))
def test_the_dream_moves_and_obeys_within_five_seconds(name: str) -> None:
    session = Session(make_model_pool((name,)), first=name, fast_forward=True)
    moved = obeyed = False
    while session.state.agent_steps < FIRST_SECONDS and not (moved and obeyed):
        if not obeyed:
            futures = session.every_action(LOOK_AHEAD).imagined
            obeyed = any(not np.array_equal(future, futures[0]) for future in futures[1:])
        before = session.state.imagined.frame
        for _ in range(LOOK_AHEAD):
            session.step()
        assert session.state.imagined.steps > 0, "it dreams"
        moved = moved or not np.array_equal(session.state.imagined.frame, before)
    session.close()
    assert (moved, obeyed) == (True, True)
