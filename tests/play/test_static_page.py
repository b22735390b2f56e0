"""The exported folder in a real browser, from a server of files that the browser cannot leave."""

from __future__ import annotations

import functools
import json
import shutil
import threading
from collections.abc import Iterator
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import numpy as np
import pytest
from playwright.sync_api import Browser

from acvp.cli.main import main
from acvp.errors import UserError
from acvp.loaded import better_packaged
from acvp.models import predictor_files
from acvp.play.model_pool import make_model_pool
from acvp.play.static_page import listed, runtime_files
from tests.play.browsing import View, a_browser
from tests.play.serving import wait_until
from tests.play.test_export import small

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    with a_browser() as found:
        yield found


class Quiet(SimpleHTTPRequestHandler):
    """A static host that says nothing."""

    def log_message(self, format: str, *arguments: object) -> None:
        """Say nothing."""


@pytest.fixture(scope="module")
def address(browser: Browser, tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """An exported predictor on a static host."""
    try:
        runtime_files()
    except UserError as error:
        pytest.skip(f"the static page is not tested: {error}")
    yield from host(exported(tmp_path_factory.mktemp("export"), "tiny"))


@pytest.fixture(scope="module")
def gallery(address: str, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Two exported predictors."""
    return exported(tmp_path_factory.mktemp("gallery"), "tiny", "other")


@pytest.fixture
def hosted(gallery: Path) -> Iterator[str]:
    """The gallery on a static host."""
    yield from host(gallery)


def exported(folder: Path, *names: str) -> Path:
    """Return the folder of a page with some predictors."""
    for name in names:
        (folder / name).mkdir()
        for file, data in predictor_files(small("pixel")).items():
            (folder / name / file).write_bytes(data)
    predictors = [str(folder / name) for name in names]
    assert main(["export", "--predictors", *predictors, "--web", str(folder / "web"), "--starts", "2"]) == 0
    return folder / "web"


def host(folder: Path) -> Iterator[str]:
    """Serve a folder's files."""
    with ThreadingHTTPServer(("127.0.0.1", 0), functools.partial(Quiet, directory=str(folder))) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield f"http://127.0.0.1:{server.server_address[1]}/"
        server.shutdown()


def loaded(browser: Browser, address: str) -> View:
    """A page that has reloaded itself once, to have threads."""
    view = View(browser, address)
    view.page.wait_for_function("crossOriginIsolated")
    return view


def test_the_static_page_plays_without_a_server(browser: Browser, address: str) -> None:
    view = loaded(browser, address)
    wait_until(lambda: view.number("#steps p") >= 0)
    view.context.set_offline(True)  # everything is there by now
    assert not view.page.locator("#real").is_visible()
    view.press("+", 9)
    view.page.keyboard.down("ArrowUp")
    view.until("#dream figcaption span", "up")
    wait_until(lambda: view.number("#steps p") >= 100)
    view.page.keyboard.up("ArrowUp")
    view.pause()
    steps, before = view.number("#steps p"), view.picture("dream")
    view.press("e", 3)
    wait_until(lambda: view.number("#steps p") == steps + 3)
    view.press("Backspace", 3)
    wait_until(lambda: view.number("#steps p") == steps)
    assert np.array_equal(view.picture("dream"), before)
    view.press("g")
    wait_until(lambda: view.page.locator("#grid section").count() == 5)
    assert view.page.locator("#grid canvas").count() == 5
    view.press("Escape")
    view.press("r")
    wait_until(lambda: view.number("#steps p") == 0)
    start = view.picture("dream")
    view.press("Enter")
    wait_until(lambda: not np.array_equal(view.picture("dream"), start))
    assert view.complaints == []
    view.context.close()


def test_keys_while_it_loads_and_a_rewind_by_hand(browser: Browser, address: str) -> None:
    view = loaded(browser, address)
    view.press("Enter")
    view.press("e")
    view.press(".")
    wait_until(lambda: view.number("#steps p") >= 3)
    view.page.locator("[data-do=rewind]").click()
    steps = view.number("#steps p")
    wait_until(lambda: view.number("#steps p") > steps + 3)
    assert view.complaints == []
    view.context.close()


def test_a_gallery_says_for_which_games_there_are_better_predictors(
    browser: Browser, gallery: Path, tmp_path: Path
) -> None:
    folder = shutil.copytree(gallery, tmp_path / "better")
    known = json.loads((folder / "games.json").read_text())
    assert [game["better"] for game in known["games"]] == [None, None]
    for better, text in ((None, ""), ("tiny-objects", "The best predictors of Toy do not run in a browser alone yet")):
        known["games"][0]["better"] = better
        (folder / "games.json").write_text(json.dumps(known))
        for address in host(folder):
            view = loaded(browser, address)
            wait_until(functools.partial(view.page.locator("#cards button >> nth=1").is_visible))
            assert view.text("#better").startswith(text)
            assert view.page.locator("#better").is_visible() == bool(text)
            view.context.close()


def test_a_packaged_predictor_is_listed_with_a_better_one(tmp_path: Path) -> None:
    packaged_ones = make_model_pool(("qbert", "freeway"))
    assert listed(packaged_ones, "qbert") == {"name": "qbert", "game": "ALE/Qbert-v5", "better": "qbert-objects"}
    assert listed(packaged_ones, "freeway")["better"] == better_packaged("freeway")
    assert listed(make_model_pool((str(tmp_path / "qbert"),)), "qbert")["better"] is None, "one of the user's"


def test_a_gallery_starts_with_all_games_and_switches_between_them(browser: Browser, hosted: str) -> None:
    view = loaded(browser, hosted)
    wait_until(lambda: view.page.locator("#cards .loop :is(img, canvas)").count() == 2)
    named = ["Toy\npredictor tiny", "Toy\npredictor other"]
    assert view.page.locator("#cards button").all_inner_texts() == named
    assert view.page.evaluate("crossOriginIsolated"), "it has threads, from a host that sends no headers"
    view.page.locator("#cards button", has_text="other").click()
    wait_until(lambda: view.number("#steps p") >= 2)
    assert not view.page.locator("#loading").is_visible()
    assert view.page.locator("#predictor").input_value() == "other"
    view.page.locator("#predictor").select_option("tiny")
    wait_until(lambda: view.page.locator("#predictor").input_value() == "tiny")
    wait_until(lambda: view.number("#steps p") >= 2)
    view.page.locator("[data-do=games]").click()
    wait_until(lambda: view.page.locator("#cards").is_visible())
    assert view.complaints == []
    view.context.close()


def test_a_link_repeats_a_game_of_the_static_page(browser: Browser, address: str) -> None:
    view = loaded(browser, address)
    wait_until(lambda: view.number("#steps p") >= 1)
    view.pause()
    view.press("Enter")
    for action, key in enumerate(("ArrowUp", "ArrowDown", "ArrowLeft")):
        view.page.keyboard.down(key)
        view.press("e", 2 + action)
        view.page.keyboard.up(key)
    wait_until(lambda: view.number("#steps p") == 9)
    wanted = view.picture("dream")
    view.press("l")
    wait_until(lambda: "moves=" in view.page.url)
    visitor = loaded(browser, view.page.url)
    visitor.until("#toast", "your turn")
    assert visitor.number("#steps p") == 9
    assert np.array_equal(visitor.picture("dream"), wanted)
    damaged = loaded(browser, view.page.url.split("&moves=")[0] + "&moves=99x3")
    damaged.until("#toast", "This link is damaged")
    for opened in (view, visitor, damaged):
        assert opened.complaints == []
        opened.context.close()


def test_opened_as_a_file_the_page_says_what_to_do(browser: Browser, gallery: Path) -> None:
    page = browser.new_page()
    page.goto((gallery / "index.html").as_uri())
    assert "python3 -m http.server" in page.locator("#filed").inner_text()
    assert not page.locator("#worlds").is_visible()
    page.close()


def test_while_it_loads_a_bar_says_how_far(browser: Browser, address: str) -> None:
    context = browser.new_context()
    page = context.new_page()
    seen: list[float] = []
    page.expose_function("seen", lambda share: seen.append(share))
    page.add_init_script(
        """addEventListener("DOMContentLoaded", () => new MutationObserver(() => {
          if (!document.querySelector("#loading").hidden) seen(document.querySelector("#loading progress").value);
        }).observe(document.querySelector("#loading"), { attributes: true, subtree: true, childList: true }))"""
    )
    page.goto(address)
    wait_until(lambda: page.locator("#steps p").inner_text() not in ("", "0"))
    assert seen, "it was shown"
    assert seen == sorted(seen)
    assert seen[0] < 1
    assert seen[-1] == 1
    context.close()
