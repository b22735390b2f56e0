"""The exported folder in a real browser, from a server of files that the browser cannot leave."""

from __future__ import annotations

import functools
import threading
from collections.abc import Iterator
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import numpy as np
import pytest
from playwright.sync_api import Browser

from acvp.cli.main import main
from acvp.errors import UserError
from acvp.models import predictor_files
from acvp.play.static_page import runtime_files
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
    folder = tmp_path_factory.mktemp("export")
    (folder / "tiny").mkdir()
    for name, data in predictor_files(small("pixel")).items():
        (folder / "tiny" / name).write_bytes(data)
    assert main(["export", "--predictor", str(folder / "tiny"), "--web", str(folder / "web"), "--starts", "2"]) == 0
    yield from host(folder / "web")


def host(folder: Path) -> Iterator[str]:
    """Serve a folder's files."""
    with ThreadingHTTPServer(("127.0.0.1", 0), functools.partial(Quiet, directory=str(folder))) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield f"http://127.0.0.1:{server.server_address[1]}/"
        server.shutdown()


def test_the_static_page_plays_without_a_server(browser: Browser, address: str) -> None:
    view = View(browser, address)
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
    view = View(browser, address)
    view.press("Enter")
    view.press("e")
    view.press(".")
    wait_until(lambda: view.number("#steps p") >= 3)
    view.page.locator("[data-do=rewind]").click()
    steps = view.number("#steps p")
    wait_until(lambda: view.number("#steps p") > steps + 3)
    assert view.complaints == []
    view.context.close()
