"""axe-core on every screen of the page: no serious violation, light and dark."""

from __future__ import annotations

import hashlib
import io
import os
import shutil
import subprocess
import tarfile
from collections.abc import Iterator
from pathlib import Path

import pytest
from playwright.sync_api import Browser

from acvp.play.app import Loops
from acvp.play.session import Session
from tests.play.browsing import View, a_browser
from tests.play.serving import serve, wait_until
from tests.play.sessions import make_session, model_pool

ARCHIVE = "axe-core-4.10.3.tgz"
SHA256 = "0f2b4d7dcdf7d1219df8d1959ad68e565f51d14c3f0d88bb71cd59abeb956292"
SERIOUS = {"serious", "critical"}
RUN = """() => axe.run(document, { resultTypes: ["violations"] }).then(({ violations }) => violations.flatMap(
  ({ id, impact, nodes }) => nodes.map(({ target }) => [impact, `${id}: ${target.join(" ")}`])))"""


@pytest.fixture(scope="module")
def axe() -> str:
    """The source of axe-core, from the user's cache or from npm."""
    cached = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "acvp" / ARCHIVE
    if not (cached.is_file() and hashlib.sha256(cached.read_bytes()).hexdigest() == SHA256):
        npm = shutil.which("npm")
        if npm is None:
            pytest.skip("no npm found: the page is not tested with axe-core (install Node.js with npm)")
        cached.parent.mkdir(parents=True, exist_ok=True)
        name = ARCHIVE.removesuffix(".tgz").replace("core-", "core@")
        command = [npm, "pack", name, "--pack-destination", str(cached.parent)]
        if subprocess.run(command, cwd=cached.parent, capture_output=True, check=False).returncode:
            pytest.skip(f"npm could not fetch {name}: the page is not tested with axe-core")
    data = cached.read_bytes()
    assert hashlib.sha256(data).hexdigest() == SHA256
    with tarfile.open(fileobj=io.BytesIO(data)) as archive:
        source = archive.extractfile("package/axe.min.js")
        assert source is not None
        return source.read().decode()


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    with a_browser() as found:
        yield found


@pytest.fixture(scope="module")
def address() -> Iterator[str]:
    def make(first: str | None = None) -> Session:
        return make_session(first=first)

    loops = Loops(model_pool())
    with serve(make, loops=loops, choose=True) as port:
        yield f"http://127.0.0.1:{port}/"
    loops.close()


def violations(view: View) -> list[str]:
    """Return the serious violations of what is on the screen, light and dark."""
    found = []
    for scheme in ("light", "dark"):
        view.page.emulate_media(color_scheme=scheme)
        view.page.wait_for_timeout(300)  # for the end of transitions
        found += [f"{scheme} {text}" for impact, text in view.page.evaluate(RUN) if impact in SERIOUS]
    return found


@pytest.mark.slow
@pytest.mark.parametrize("width", [390, 1280])
def test_no_serious_violation_on_any_screen(browser: Browser, address: str, axe: str, width: int) -> None:
    view = View(browser, address, viewport={"width": width, "height": 800}, has_touch=width < 800)
    view.page.evaluate(axe)
    wait_until(lambda: view.page.locator("#cards .loop img").count() == 3)
    found = {"start": violations(view)}
    view.page.locator("#cards button").first.click()
    wait_until(lambda: view.number("#steps p") >= 1)
    found["play"] = violations(view)
    view.press("?")
    found["help"] = violations(view)
    view.press("Escape")
    view.press("g")
    wait_until(lambda: view.page.locator("#every").is_visible())
    found["actions"] = violations(view)
    assert found == {"start": [], "play": [], "help": [], "actions": []}
    view.context.close()
