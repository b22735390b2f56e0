"""The page on screens of every size: nothing overlaps, nothing is cut off, nothing needs sideways scrolling."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from typing import Any

import pytest
from playwright.sync_api import Browser

from acvp.play.session import Session
from tests.play.browsing import View
from tests.play.screens import BOXES, check_layout
from tests.play.serving import serve, wait_until
from tests.play.sessions import atari_pool

PHONES = [(320, 568), (390, 664), (390, 844), (568, 320), (844, 390), (820, 1180)]
DESKS = [(820, 600), (1024, 768), (1280, 720)]
PARTS = "header > *, figcaption, figure canvas, #metrics > div, #tools > *, #touch button, #scrub > *"
SHOWN = "#real canvas, #dream canvas, #touch button, #tools > *"
TEXTS = "#metrics :is(h2, p, small), #tools > *, #predictor"


@pytest.fixture(scope="module")
def address() -> Iterator[str]:
    """A game of 18 actions in Atari's size, which has every touch key."""
    with serve(lambda: Session(atari_pool()), sessions=8) as port:
        yield f"http://127.0.0.1:{port}/"


@pytest.fixture(scope="module", params=["touch", "mouse"])
def screens(request: pytest.FixtureRequest, browser: Browser, address: str) -> Iterator[tuple[View, list[Any]]]:
    """A page on a phone or a desk, and the sizes of its screen."""
    touch = request.param == "touch"
    view = View(browser, address, has_touch=touch, is_mobile=touch)
    wait_until(lambda: view.number("#steps p") >= 1)
    yield view, PHONES if touch else DESKS
    view.context.close()


def test_nothing_overlaps_or_is_cut_off(screens: tuple[View, list[Any]]) -> None:
    view, sizes = screens
    for width, height in sizes:
        view.page.set_viewport_size({"width": width, "height": height})
        for scheme in ("light", "dark"):
            view.page.emulate_media(color_scheme=scheme)
            check_layout(view, PARTS, TEXTS)
    assert view.complaints == []


def fits(view: View, height: int) -> bool:
    """Return whether what is played with is above the end of the screen."""
    return all(box["y"] + box["height"] <= height for box in view.page.evaluate(BOXES, SHOWN))


def test_a_phone_shows_pictures_and_keys_without_scrolling(screens: tuple[View, list[Any]]) -> None:
    view, sizes = screens
    for width, height in sizes:
        view.page.set_viewport_size({"width": width, "height": height})
        assert len(view.page.evaluate(BOXES, SHOWN)) >= 11
        wait_until(partial(fits, view, height))


def test_all_actions_open_at_the_first_one(screens: tuple[View, list[Any]]) -> None:
    view, sizes = screens
    width, height = sizes[0]
    view.page.set_viewport_size({"width": width, "height": height})
    view.press("g")
    wait_until(lambda: view.page.locator("#grid section").count() == 18)
    assert view.page.locator("#every").evaluate("dialog => dialog.scrollHeight > dialog.clientHeight + 50")
    assert view.page.locator("#every").evaluate("dialog => dialog.scrollTop") == 0
    first = view.page.locator("#grid section").first.bounding_box()
    assert first is not None
    assert 0 <= first["y"] <= height
    view.press("Escape")
    view.until("[data-do=pause]", "Pause")


def test_live_regions_stay_quiet_while_the_game_runs(screens: tuple[View, list[Any]]) -> None:
    view, _ = screens
    view.page.evaluate(
        """() => {
          globalThis.changes = 0;
          const observer = new MutationObserver((records) => (globalThis.changes += records.length));
          for (const region of document.querySelectorAll("output, [role=status], [role=alert], [aria-live]"))
            observer.observe(region, { childList: true, characterData: true, subtree: true });
        }"""
    )
    before = view.number("#steps p")
    wait_until(lambda: view.number("#steps p") > before + 30)
    assert view.page.evaluate("globalThis.changes") == 0


def test_scrubbing_without_recordings_does_not_pause(screens: tuple[View, list[Any]]) -> None:
    view, _ = screens
    view.press("[")
    view.until("#toast", "--data")
    before = view.number("#steps p")
    wait_until(lambda: view.number("#steps p") > before + 3)
    assert view.text("[data-do=pause]").endswith("Pause")
