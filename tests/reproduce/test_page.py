"""docs/reproduction.md has the conclusions that follow from the results of today."""

from __future__ import annotations

from benchmarks.reproduction import PAGE, reproduction_page


def test_the_page_follows_from_the_results() -> None:
    assert PAGE.read_text() == reproduction_page(), "results have changed: run python -m benchmarks.reproduction"
