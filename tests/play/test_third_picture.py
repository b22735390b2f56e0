"""The third picture in a browser: difference, wipe, or the dream of another predictor; and the temperature."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pytest
from playwright.sync_api import Browser

from acvp.play.model_pool import ModelPool
from acvp.play.session import Session
from tests.play.browsing import View, a_browser
from tests.play.serving import serve, wait_until
from tests.play.sessions import atari_pool, make_session
from tests.play.test_export import small


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    with a_browser() as found:
        yield found


def test_wipe_and_second_dream(browser: Browser) -> None:
    with serve(make_session) as port:
        view = View(browser, f"http://127.0.0.1:{port}/")
        wait_until(lambda: view.number("#wrong p") > 0)
        view.pause()
        third = view.page.locator("#third")
        third.select_option("wipe")
        view.page.locator("#wipe").fill("0.25")
        wait_until(lambda: np.array_equal(view.picture("difference")[:, :6], view.picture("real")[:, :6]))
        assert np.array_equal(view.picture("difference")[:, 7:], view.picture("dream")[:, 7:])
        assert (view.picture("difference")[:, 6] == 255).all(), "a line between them"
        assert third.locator("option[value=uncertainty]").is_disabled(), "it has no probabilities"
        third.select_option(label="Dream: gray")
        wait_until(lambda: view.picture("difference").shape == (84, 84, 3))
        view.until("#difference span", "wrong pixels")
        third.select_option("difference")
        wait_until(lambda: view.picture("difference").shape == (24, 24, 3))
        assert view.complaints == []
        view.context.close()


def test_the_temperature_slider_reaches_the_dream(browser: Browser) -> None:
    with serve(lambda: Session(atari_pool())) as port:
        view = View(browser, f"http://127.0.0.1:{port}/")
        wait_until(lambda: view.number("#steps p") >= 1)
        before = view.picture("dream").mean()
        view.page.locator("#temperature").fill("1")
        wait_until(lambda: view.picture("dream").mean() < before / 2)
        assert view.text("#heat span") == "1.0"
        view.context.close()


def test_uncertainty_and_the_future_that_was_left(browser: Browser) -> None:
    with serve(lambda: Session(ModelPool({"tiny": lambda: small("pixel")}))) as port:
        view = View(browser, f"http://127.0.0.1:{port}/")
        wait_until(lambda: view.number("#steps p") >= 20)
        view.pause()
        third = view.page.locator("#third")
        third.select_option("uncertainty")
        view.until("#difference span", "from the next step on")
        before = view.number("#history span")
        view.press("e", 2)
        view.until("#history span", f"step {before + 2}")
        view.until("#difference span", "expects")
        third.select_option("difference")
        last = view.number("#history span") + 4
        view.press("e", 4)
        view.until("#history span", f"step {last}")
        view.page.locator("#past").fill(str(last - 4))
        view.until("#history span", f"step {last - 4} of {last}")
        view.page.evaluate("document.activeElement.blur()")  # as a pointer does: the keys are the game's again
        view.page.keyboard.down("ArrowUp")
        view.press("e")
        view.page.keyboard.up("ArrowUp")
        view.until("#difference span", f"step {last - 3}")
        assert third.input_value() == "left"
        assert not np.array_equal(view.picture("difference"), view.picture("dream"))
        view.press("e", 3)
        view.until("#history span", f"step {last}")
        ended = view.picture("difference")
        third.select_option("difference")
        third.select_option("left")  # by hand: it stays
        view.press("e")
        view.until("#difference span", f"its last, step {last}")
        assert np.array_equal(view.picture("difference"), ended)
        view.page.locator("#past").fill(str(last - 1))  # a branch of the branch
        third.select_option("difference")
        view.page.evaluate("document.activeElement.blur()")
        view.page.keyboard.down("ArrowDown")
        view.press("e")
        view.page.keyboard.up("ArrowDown")
        wait_until(lambda: third.input_value() == "left")
        view.press("e", 2)
        wait_until(lambda: third.input_value() == "difference")
        assert view.complaints == []
        view.context.close()
