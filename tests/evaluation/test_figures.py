"""Figures of errors: logarithms where errors span decades, both baselines; conclusions compare with them."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from acvp.console import visible
from acvp.evaluation.figures import conclusions, curve_figure, smallest_of_decades, worse_from
from acvp.figures import image


def curve(*means: float) -> dict[str, list[float]]:
    return {"mean": list(means), "low": list(means), "high": list(means)}


def body(run: tuple[float, ...], copying: tuple[float, ...], mean: tuple[float, ...], metric: str = "error") -> Any:
    """What evaluation.json holds, of one metric."""
    described = {"title": "Title", "unit": "sum over a frame", "formula": "formula", "better": "lower"}
    curves = {"mine": run, "copy-last-frame": copying, "mean-frame": mean}
    return {
        "metrics": {metric: described}, "baselines": ["copy-last-frame", "mean-frame"], "leading_metric": metric,
        "curves": {name: {metric: curve(*values)} for name, values in curves.items()},
        "game": "toy", "view": "rgb", "windows": 1, "episodes": 1, "horizon": len(run),
    }  # fmt: skip


@pytest.mark.parametrize(
    ("run", "sentence"),
    [
        ((1, 1, 1), "better than copying the last frame and than the mean frame at every step"),
        ((1, 9, 1), "better than copying the last frame and than the mean frame at 2 of 3 steps, also at the last"),
        ((1, 3.5, 1), "better than copying the last frame and than the mean frame at 2 of 3 steps, also at the last"),
        ((1, 3, 5), "worse than copying the last frame from step 3 on: train longer"),
        ((1, 4, 5), "worse than copying the last frame from step 2 on: train longer"),
        ((2, 4, 4), "no better than copying the last frame at every step: train longer"),
        ((2, 4, 4.1), "worse than copying the last frame at every step: train longer"),
        ((1, 3.5, 3.5), "worse than the mean frame from step 2 on"),
    ],
)
def test_the_conclusion_names_the_metric_the_step_and_the_cure(run: tuple[float, ...], sentence: str) -> None:
    assert conclusions(body(run, (2, 4, 4), (3, 3, 3))) == [f"mine, by title: {sentence}"]


def test_a_run_that_is_better_again_later_is_not_worse_from_the_first_bad_step() -> None:
    other = np.ones(4)
    assert worse_from(np.array([2, 2, 0.5, 2.0]), other) == 4
    assert worse_from(np.array([2, 2, 2, 0.5]), other) is None
    assert worse_from(np.array([0.5, np.nan, 2, 2]), other) == 3


@pytest.mark.parametrize(
    ("run", "metric", "smallest", "scale"),
    [
        ((0.4, 13), "error", 0.1, "log"),
        ((0, 0.02), "error", 0.01, "symlog"),
        ((60, 90), "error", None, "linear"),
        ((0.4, 13), "psnr", None, "linear"),
    ],
)
def test_errors_over_decades_have_a_logarithmic_axis(
    run: tuple[float, ...], metric: str, smallest: float | None, scale: str
) -> None:
    shown = body(run, (500, 900), (550, 560), metric)
    assert smallest_of_decades(shown, metric) == (None if smallest is None else pytest.approx(smallest))
    figure = curve_figure(shown, metric)
    assert figure.axes[0].get_yscale() == scale
    assert ("logarithmic" in figure.texts[0].get_text()) == (scale != "linear")
    assert ("linear below" in figure.texts[0].get_text()) == (scale == "symlog")


def test_a_logarithmic_axis_begins_just_below_the_lowest_band() -> None:
    shown = body((0.4, 13), (500, 900), (550, 560))
    shown["curves"]["mine"]["error"]["low"] = [0.2, 9]
    assert curve_figure(shown, "error").axes[0].get_ylim()[0] == pytest.approx(0.16)


def test_the_legend_has_both_baselines_in_plain_words() -> None:
    legend = curve_figure(body((1, 2), (3, 4), (5, 6)), "error").axes[0].get_legend()
    assert legend is not None
    names = [text.get_text() for text in legend.get_texts()]
    assert names == ["mine", "copying the last frame", "mean of the training frames"]


@pytest.mark.parametrize("name", ["a$\\frac{$b$", "_hidden", "\x1b[31m", "的"], ids=ascii)
def test_the_legend_shows_the_name_of_a_run_as_it_is(name: str, recwarn: pytest.WarningsRecorder) -> None:
    shown = body((1, 2), (3, 4), (5, 6))
    shown["curves"] = {name if run == "mine" else run: curves for run, curves in shown["curves"].items()}
    figure = curve_figure(shown, "error")
    assert image(figure, "png")
    assert not recwarn
    legend = figure.axes[0].get_legend()
    assert legend is not None
    text = legend.get_texts()[0]
    assert text.get_text().strip() == visible(name)
    assert not text.get_parse_math()
