"""docs/metrics.md and the code say the same."""

from __future__ import annotations

from pathlib import Path

import pytest

from acvp.evaluation.metrics import METRICS, PSNR_CAP, WRONG_IN_PALETTE, formula
from acvp.models.pixels import NEAR, PATCH, SEARCH, STANDS_OUT, WRONG_BY

PAGE = " ".join((Path(__file__).parents[2] / "docs" / "metrics.md").read_text().split())


@pytest.mark.parametrize("name", METRICS)
def test_the_page_has_every_formula(name: str) -> None:
    metric = METRICS[name]
    how = metric.formula.format(scale="scale", wrong="color is wrong")
    assert f"| `{name}` | {metric.title} | {metric.unit} | {how} | {metric.better} |" in PAGE


def test_the_page_has_every_constant() -> None:
    assert WRONG_IN_PALETTE in PAGE
    assert f"off by more than {WRONG_BY} of 255" in PAGE
    assert f"{PSNR_CAP:g} dB" in PAGE
    assert f"within {PATCH:.0%} of the frame's longer side".replace("%", " %") in PAGE
    assert f"farther off than {NEAR:.0%} (8".replace("%", " %") in PAGE
    assert f"up to {SEARCH:.0%} of the longer".replace("%", " %") in PAGE
    assert f"by more than {STANDS_OUT}" in PAGE


def test_formulas_name_the_view() -> None:
    assert "/255)²" in formula("error", scale=255.0, palette=True)
    assert "palette" in formula("wrong_pixels", scale=255.0, palette=True)
    assert "more than 8 of 255" in formula("wrong_pixels", scale=128.0, palette=False)
