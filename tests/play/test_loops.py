"""The start page: loops made on demand, one game chosen, hints until the first key, links that repeat a game."""

from __future__ import annotations

import io
import urllib.error
import urllib.request
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
from PIL import Image
from playwright.sync_api import Browser

from acvp.errors import UserError
from acvp.figures import encode_gif
from acvp.play.app import LOOP_STEPS, Loops, packaged_loop, weights_digest
from acvp.play.model_pool import ModelPool, make_model_pool
from acvp.play.session import Session
from tests.play.browsing import View
from tests.play.screens import CARDS, check_layout, widths_and_schemes
from tests.play.serving import Client, serve, wait_until
from tests.play.sessions import UP, StandStill, make_session, model_pool, play_on

Served = tuple[int, Loops]


@pytest.fixture(scope="module")
def served() -> Iterator[Served]:
    """A server whose page lets a visitor choose."""
    loops = Loops(model_pool())

    def make(first: str | None = None) -> Session:
        return make_session(first=first, seed=4)

    with serve(make, sessions=20, loops=loops, choose=True) as port:
        yield port, loops
    loops.close()


def made(loops: Loops, name: str) -> bytes:
    wait_until(lambda: loops.get(name) is not None)
    loop = loops.get(name)
    assert loop is not None
    return loop


def test_a_loop_shows_real_and_dream_and_moves(served: Served) -> None:
    image = Image.open(io.BytesIO(made(served[1], "still")))
    assert image.n_frames == LOOP_STEPS  # type: ignore[attr-defined]
    assert image.size == (24 + 4 + 24, 24)
    frames = []
    for number in (0, 10, LOOP_STEPS - 1):
        image.seek(number)
        frames.append(np.array(image.convert("RGB")))
    assert not np.array_equal(frames[0], frames[1])
    assert not np.array_equal(frames[-1][:, :24], frames[-1][:, 28:]), "the ball stands still in this dream"


def test_a_loop_is_made_once_for_all_pages() -> None:
    opened = []

    def load() -> StandStill:
        opened.append(True)
        return StandStill()

    loops = Loops(ModelPool({"x": load}))
    first = made(loops, "x")
    assert loops.get("x") is first
    assert opened == [True]
    loops.close()


@pytest.mark.parametrize("name", ["nobody", "copy-last-frame", "", "../x"])
def test_there_are_no_other_loops(served: Served, name: str) -> None:
    with pytest.raises(UserError, match="no predictor is called"):
        served[1].get(name)


def status(port: int, path: str) -> tuple[int, bytes]:
    try:
        with urllib.request.urlopen(f"http://127.0.0.1:{port}/{path}") as answer:
            return answer.status, answer.read()
    except urllib.error.HTTPError as error:
        return error.code, b""


LISTED = b'[{"name":"still","game":null},{"name":"net","game":null},{"name":"gray","game":null}]'


def test_the_server_answers_at_once_while_a_loop_is_made(served: Served) -> None:
    port, loops = served
    assert status(port, "loops") == (200, LISTED)
    assert status(port, "loops/net")[0] in (200, 202)
    made(loops, "net")
    assert status(port, "loops/net") == (200, loops.get("net"))
    assert status(port, "loops/nobody")[0] == 404
    assert status(port, "loops/..%2Fserver.py")[0] == 404


def test_a_loop_that_cannot_be_made_is_missing(served: Served) -> None:
    def fail() -> StandStill:
        raise UserError("this file is damaged")

    loops = Loops(ModelPool({"x": fail}))
    with pytest.raises(UserError, match="damaged"):
        made(loops, "x")
    with serve(make_session, loops=loops) as port:
        assert status(port, "loops/x")[0] == 404
    loops.close()


def test_a_socket_may_name_its_predictor(served: Served) -> None:
    with Client(served[0], "?predictor=gray") as page:
        assert page.text("welcome")["predictor"] == "gray"
    with Client(served[0], "?predictor=nobody") as page:
        assert "no predictor is called 'nobody'" in page.text("note")


@pytest.fixture
def start(browser: Browser, served: Served) -> Iterator[View]:
    """The start page."""
    view = View(browser, f"http://127.0.0.1:{served[0]}/")
    wait_until(lambda: view.page.locator("#cards .loop img").count() == 3)
    yield view
    assert view.complaints == []
    view.context.close()


def test_the_start_page_shows_all_games_and_plays_the_chosen_one(start: View) -> None:
    assert start.page.locator("#cards button").all_inner_texts() == ["still", "net", "gray"]
    assert not start.page.locator("#tools").is_visible()
    for _ in widths_and_schemes(start):
        check_layout(start, CARDS)
    start.page.locator("#cards button", has_text="gray").click()
    wait_until(lambda: start.number("#steps p") >= 1)
    assert start.page.locator("#predictor").input_value() == "gray"
    assert not start.page.locator("#start").is_visible()
    start.page.locator("[data-do=games]").click()
    wait_until(lambda: start.page.locator("#start").is_visible())
    start.page.locator("#cards button", has_text="still").click()
    wait_until(lambda: start.page.locator("#predictor").input_value() == "still")


def test_nothing_moves_for_those_who_prefer_that(browser: Browser, served: Served) -> None:
    view = View(browser, f"http://127.0.0.1:{served[0]}/", reduced_motion="reduce")
    wait_until(lambda: view.page.locator("#cards .loop canvas").count() == 3)
    assert view.page.locator("#cards img").count() == 0
    view.context.close()


def test_hints_name_the_keys_until_the_first_one(start: View) -> None:
    start.page.locator("#cards button", has_text="still").click()
    wait_until(lambda: start.number("#steps p") >= 1)
    start.until("#hint", "move")
    assert "fire" not in start.text("#hint"), "this game has no fire"
    start.press("r")
    assert start.page.locator("#hint").is_visible(), "no key of the game"
    assert not start.page.locator("#history").is_visible(), "hints stand in its place"
    start.press("ArrowUp")
    wait_until(lambda: not start.page.locator("#hint").is_visible())
    assert start.page.locator("#history").is_visible()


@pytest.mark.parametrize("key", ["m", "Backspace", ".", "e"])
def test_hints_end_when_the_agent_plays_or_the_game_stands_still(start: View, key: str) -> None:
    start.page.locator("#cards button", has_text="still").click()
    wait_until(lambda: start.number("#steps p") >= 1)
    start.press(key)
    wait_until(lambda: not start.page.locator("#hint").is_visible())


def test_the_switch_of_automatic_resync(start: View) -> None:
    start.page.locator("#cards button", has_text="still").click()
    wait_until(lambda: start.number("#steps p") >= 1)
    start.page.locator("#auto").select_option("75")
    wait_until(lambda: start.number("#history span") > 80)
    assert start.number("#steps p") <= 75


def test_a_link_repeats_the_game_in_another_browser(start: View, browser: Browser, served: Served) -> None:
    start.page.locator("#cards button", has_text="still").click()
    wait_until(lambda: start.number("#steps p") >= 1)
    start.page.keyboard.down("ArrowUp")
    wait_until(lambda: start.number("#steps p") >= 10)
    start.page.keyboard.up("ArrowUp")
    start.pause()
    start.press("l")
    wait_until(lambda: "moves=" in start.page.evaluate("location.href"))
    other = View(browser, start.page.evaluate("location.href"))
    other.until("#toast", "your turn")
    assert other.number("#steps p") == start.number("#steps p")
    for world in ("real", "dream"):
        assert np.array_equal(other.picture(world), start.picture(world))
    assert other.complaints == []
    other.context.close()


def test_a_long_link_arrives_in_parts(browser: Browser, served: Served) -> None:
    session = make_session(seed=4)
    play_on(session, *[UP, 0, 3] * 50)
    link = session.share() + "-r" * 300  # resyncs at its end, to make it long
    view = View(browser, f"http://127.0.0.1:{served[0]}/#{link}")
    view.until("#real figcaption span", "a shared game")
    for _ in range(9):
        view.press("+")
    view.until("#toast", "your turn")
    assert session.state.real is not None
    assert np.array_equal(view.picture("real"), session.state.real)
    view.context.close()


def test_a_broken_link_is_explained(browser: Browser, served: Served) -> None:
    view = View(browser, f"http://127.0.0.1:{served[0]}/#predictor=still&seed=1&skip=0&moves=9x3")
    view.until("#toast", "actions 0 to 4")
    wait_until(lambda: view.number("#steps p") >= 1)
    view.context.close()


def test_a_packaged_loop_is_shown_if_it_is_of_these_weights(tmp_path: Path) -> None:
    (tmp_path / "model.safetensors").write_bytes(b"weights")
    assert packaged_loop(tmp_path) is None
    frames = [np.full((4, 4, 3), level, np.uint8) for level in (0, 90)]
    loop = encode_gif(frames, weights_digest(tmp_path))
    (tmp_path / "loop.gif").write_bytes(loop)
    assert packaged_loop(tmp_path) == loop
    assert Image.open(io.BytesIO(loop)).n_frames == 2  # type: ignore[attr-defined]
    loops = Loops(ModelPool({"x": StandStill}, folders={"x": tmp_path}))
    assert made(loops, "x") == loop
    loops.close()
    (tmp_path / "model.safetensors").write_bytes(b"others")
    assert packaged_loop(tmp_path) is None


def test_a_predictor_of_ones_own_has_no_packaged_loop(tmp_path: Path) -> None:
    own = make_model_pool((str(tmp_path / "freeway"),))
    assert "freeway" not in own.folders
    assert "freeway" in make_model_pool(("freeway",)).folders
