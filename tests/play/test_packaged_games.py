"""Each packaged game, as it opens: the dream moves, and obeys a key, within five seconds of play."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pytest
from playwright.sync_api import Browser

from acvp.loaded import best_packaged, packaged
from acvp.play.app import Loops, session_maker
from acvp.play.config import PlayConfig
from acvp.play.model_pool import make_model_pool
from acvp.play.session import Session
from tests.play.browsing import View
from tests.play.screens import CARDS, check_layout, widths_and_schemes
from tests.play.serving import serve, wait_until

pytestmark = pytest.mark.slow
FIRST_SECONDS = 75
"""Agent steps of five seconds at the speed of Atari; a clock would measure the machine."""
LOOK_AHEAD = 15


@pytest.mark.parametrize("name", sorted(packaged()))
def test_the_dream_moves_and_obeys_within_five_seconds(name: str) -> None:
    session = Session(make_model_pool((name,)), first=name, fast_forward=True)
    moved = obeyed = False
    session.step()
    while session.state.agent_steps < FIRST_SECONDS and not (moved and obeyed):
        if not obeyed:
            futures = session.every_action(LOOK_AHEAD).imagined
            obeyed = any(not np.array_equal(future, futures[0]) for future in futures[1:])
        before = session.state.imagined.frame
        assert session.state.imagined.steps > 0, "it dreams"
        for _ in range(LOOK_AHEAD):
            session.step()
        moved = moved or not np.array_equal(session.state.imagined.frame, before)
    session.close()
    assert (moved, obeyed) == (True, True)


@pytest.fixture(scope="module")
def address() -> Iterator[str]:
    """What `acvp play` serves without options."""
    models = make_model_pool(())
    loops = Loops(models)
    with serve(session_maker(PlayConfig(), models), sessions=8, loops=loops, choose=True) as port:
        yield f"http://127.0.0.1:{port}/"
    loops.close()


def test_the_start_page_has_a_card_for_each_game_and_the_other_predictors_below(browser: Browser, address: str) -> None:
    view = View(browser, address)
    wait_until(lambda: view.page.locator(".cards .loop img").count() == len(packaged()))
    games = [text.split("\n")[0] for text in view.page.locator("#cards button").all_inner_texts()]
    assert games == ["Freeway", "Ms Pacman", "Q*bert", "Seaquest", "Space Invaders"]
    others = [text.split("predictor ")[1] for text in view.page.locator("#more button").all_inner_texts()]
    assert others == [name for name in packaged() if name not in best_packaged()]
    for _ in widths_and_schemes(view):
        check_layout(view, CARDS)
    assert view.complaints == []
    view.context.close()


@pytest.mark.parametrize("name", sorted(packaged()))
def test_a_card_opens_a_game_that_moves_and_takes_a_key(browser: Browser, address: str, name: str) -> None:
    view = View(browser, address)
    view.page.get_by_text(f"predictor {name}", exact=True).click()
    wait_until(lambda: view.number("#steps p") >= 1)
    first, begun = view.picture("dream"), view.number("#history span")
    assert view.number("#steps p") > 0, "it dreams"
    wait_until(lambda: not np.array_equal(view.picture("dream"), first))
    assert view.number("#history span") - begun <= FIRST_SECONDS
    key, action = ("ArrowLeft", "left") if name == "space_invaders" else ("ArrowUp", "up")  # which all others have
    view.page.keyboard.down(key)
    view.until("#dream figcaption span", action)
    view.page.keyboard.up(key)
    assert view.complaints == []
    view.context.close()
