"""A real browser, where one is found."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray
from playwright.sync_api import Browser, Page, sync_playwright

from tests.faults import PATIENCE
from tests.play.serving import wait_until

NAMES = ("chromium", "chromium-browser", "google-chrome")
DESK = {"width": 1280, "height": 720}
PHONE = {"width": 390, "height": 844}


def chromium() -> str | None:
    """Return where a chromium is, by $ACVP_CHROMIUM or on the path."""
    return os.environ.get("ACVP_CHROMIUM") or next((found for name in NAMES if (found := shutil.which(name))), None)


@contextmanager
def a_browser() -> Iterator[Browser]:
    """Start a browser, or skip and say why."""
    path = chromium()
    if path is None:
        pytest.skip(
            "no chromium found: the page is not tested in a browser (apt install chromium, or set ACVP_CHROMIUM)"
        )
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=path, args=["--no-sandbox"])
        yield browser
        browser.close()


class View:
    """A page as a player sees it; whatever the browser complains about is kept."""

    def __init__(self, browser: Browser, address: str, **options: Any) -> None:
        self.context = browser.new_context(**({"viewport": DESK} | options))
        self.context.set_default_timeout(PATIENCE * 1000)
        self.page: Page = self.context.new_page()
        self.complaints: list[str] = []
        self.page.on("console", lambda said: self.complaints.extend([said.text] if said.type == "error" else []))
        self.page.on("pageerror", lambda error: self.complaints.append(str(error)))
        self.page.goto(address)

    def text(self, selector: str) -> str:
        return self.page.locator(selector).inner_text()

    def number(self, selector: str) -> int:
        """Return the number that a metric shows; -1 while it shows none."""
        text = self.page.locator(selector).evaluate("element => element.firstChild?.textContent ?? ''")
        digits = "".join(character for character in text if character.isdigit())
        return int(digits) if digits else -1

    def until(self, selector: str, text: str) -> None:
        wait_until(lambda: text in self.text(selector))

    def picture(self, world: str) -> NDArray[np.uint8]:
        """Return what a world's canvas shows, (h, w, 3)."""
        script = """canvas => [canvas.height, canvas.width,
          Array.from(canvas.getContext("2d").getImageData(0, 0, canvas.width, canvas.height).data)]"""
        height, width, data = self.page.locator(f"#{world} canvas").evaluate(script)
        return np.array(data, np.uint8).reshape(height, width, 4)[..., :3]

    def press(self, key: str, times: int = 1) -> None:
        for _ in range(times):
            self.page.keyboard.press(key)

    def pause(self) -> None:
        self.press(".")
        self.until("[data-do=pause]", "Resume")
