"""axe-core on every screen of the page: no serious violation in any width, light and dark."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from playwright.sync_api import Browser

from acvp.play.app import Loops
from acvp.play.session import Session
from tests.play.browsing import View
from tests.play.screens import check_accessible, widths_and_schemes
from tests.play.serving import serve, wait_until
from tests.play.sessions import make_session, model_pool


@pytest.fixture(scope="module")
def address() -> Iterator[str]:
    def make(first: str | None = None) -> Session:
        return make_session(first=first)

    loops = Loops(model_pool())
    with serve(make, loops=loops, choose=True) as port:
        yield f"http://127.0.0.1:{port}/"
    loops.close()


@pytest.mark.slow
@pytest.mark.parametrize("touch", [False, True])
def test_no_serious_violation_on_any_screen(browser: Browser, address: str, axe: str, touch: bool) -> None:
    view = View(browser, address, has_touch=touch)
    view.page.evaluate(axe)
    wait_until(lambda: view.page.locator("#cards .loop img").count() == 3)
    check(view)
    view.page.locator("#cards button").first.click()
    wait_until(lambda: view.number("#steps p") >= 1)
    check(view)
    view.press("?")
    wait_until(lambda: view.page.locator("#help").is_visible())
    check(view)
    view.press("Escape")
    view.press("g")
    wait_until(lambda: view.page.locator("#every").is_visible())
    check(view)
    view.context.close()


def check(view: View) -> None:
    """Check what is on the screen in all widths, light and dark."""
    for _ in widths_and_schemes(view):
        check_accessible(view)
