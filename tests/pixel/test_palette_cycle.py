"""Colors that turn into others, in stores where it is known which do."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from numpy.typing import NDArray

from acvp.pixel.statistics import palette_cycle_of
from tests.data.answers import color_store, recorded

pytestmark = pytest.mark.usefixtures("statistics_not_cached")

BLACK, RED, GREEN, BLUE = (0, 0, 0), (255, 0, 0), (0, 255, 0), (0, 0, 255)


def picture(color: tuple[int, int, int], left: int = 2) -> NDArray[np.uint8]:
    """A bar of a color on black."""
    frame = np.zeros((10, 15, 3), np.uint8)
    frame[1:4, left : left + 2] = color
    return frame


def test_a_shape_that_changes_its_color_shows_the_cycle(tmp_path: Path) -> None:
    store = recorded(tmp_path / "s", [picture((RED, GREEN, BLUE)[t % 3]) for t in range(20)])
    assert palette_cycle_of(store) == {RED: GREEN, GREEN: BLUE, BLUE: RED}


def test_a_shape_that_moves_turns_into_nothing(tmp_path: Path) -> None:
    store = recorded(tmp_path / "s", [picture(RED, left=t % 12) for t in range(40)])
    assert palette_cycle_of(store) == {}


def test_of_several_the_most_frequent_counts_and_the_rare_not_at_all(tmp_path: Path) -> None:
    often = [picture(color) for color in (RED, GREEN) * 5 + (RED, BLUE) * 3]
    once = [picture(color) for color in (GREEN, BLUE, GREEN)]
    store = recorded(tmp_path / "s", often + once)
    assert palette_cycle_of(store) == {RED: GREEN, GREEN: RED}  # blue turns into red twice only, and once into green


def test_a_store_of_too_many_colors_has_none(tmp_path: Path) -> None:
    store = color_store(tmp_path, [[(e, t, 7) for t in range(200)] for e in range(2)])
    assert palette_cycle_of(store) == {}
