"""What a screen of the page must not do, in any width: overlap, cut off, scroll sideways, shut people out."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from itertools import combinations
from typing import Any

from tests.faults import PATIENCE
from tests.play.browsing import View

WIDTHS = (320, 390, 820, 1024, 1280)
SCHEMES = ("light", "dark")
CARDS = "#start > h2, #start > p, #more h3, .cards > button, header > *"
SERIOUS = {"serious", "critical"}
BOXES = """parts => [...document.querySelectorAll(parts)].map(element => {
  const { x, y, width, height } = element.getBoundingClientRect();
  const name = element.id || element.dataset.do || element.getAttribute("aria-label") || element.textContent.trim();
  return { name: `${element.tagName} ${name}`, x, y: y + scrollY, width, height };
}).filter(box => box.width && box.height)"""
CUT_OFF = """texts => [...document.querySelectorAll(texts)].filter(
  element => element.offsetParent && element.scrollWidth > element.clientWidth + 1
).map(element => element.textContent)"""
AXE = """() => axe.run(document, { resultTypes: ["violations"] }).then(({ violations }) => violations.flatMap(
  ({ id, impact, nodes }) => nodes.map(({ target }) => [impact, `${id}: ${target.join(" ")}`])))"""


def widths_and_schemes(view: View) -> Iterator[str]:
    """Set a page to each width in light and dark, and yield what it is."""
    for width in WIDTHS:
        view.page.set_viewport_size({"width": width, "height": 800})
        for scheme in SCHEMES:
            view.page.emulate_media(color_scheme=scheme)  # type: ignore[arg-type]
            yield f"{width} {scheme}"


def check_layout(view: View, parts: str, texts: str = "none") -> None:
    """Check that, once the pictures have their new size, no parts overlap or leave the screen, and no text is cut."""
    _settled(lambda: _layout_problems(view, parts, texts))


def check_accessible(view: View) -> None:
    """Check that axe-core, loaded before, finds no serious violation once colors have changed."""
    _settled(lambda: [text for impact, text in view.page.evaluate(AXE) if impact in SERIOUS])


def _settled(problems: Callable[[], list[str]]) -> None:
    """Wait until there are no problems: a slow machine takes a while for pictures and colors to change."""
    end = time.monotonic() + PATIENCE
    while (found := problems()) and time.monotonic() < end:
        time.sleep(0.1)
    assert found == []


def _layout_problems(view: View, parts: str, texts: str) -> list[str]:
    boxes, size = view.page.evaluate(BOXES, parts), view.page.viewport_size
    assert size is not None
    width = size["width"]
    pairs = [f"{a['name']} | {b['name']}" for a, b in combinations(boxes, 2) if overlap(a, b)]
    outside = [f"outside: {box['name']}" for box in boxes if box["x"] < 0 or box["x"] + box["width"] > width]
    scrolls = view.page.evaluate("document.documentElement.scrollWidth") != width
    cut = [f"cut off: {text}" for text in view.page.evaluate(CUT_OFF, texts)]
    return [f"{width}: {text}" for text in (*pairs, *outside, *cut, *(["scrolls sideways"] if scrolls else []))]


def overlap(one: dict[str, Any], other: dict[str, Any]) -> bool:
    """Return whether two boxes share more than a pixel's edge."""
    return all(
        min(one[at] + one[side], other[at] + other[side]) - max(one[at], other[at]) > 1
        for at, side in (("x", "width"), ("y", "height"))
    )
