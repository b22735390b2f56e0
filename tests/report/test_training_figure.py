"""The training curve of a report: a logarithmic axis where errors span decades, and both baselines."""

from __future__ import annotations

import numpy as np
import pytest

from acvp.report.page import training_figure


@pytest.mark.parametrize(("last", "scale"), [(0.5, "log"), (20.0, "linear"), (0.0, "linear")])
def test_the_axis_of_the_training_curve(last: float, scale: str) -> None:
    lines = [
        {"kind": "held-out", "step": step, "error": {"1": error}, "copy_last": {"1": 30.0}, "mean_frame": {"1": 9.0}}
        for step, error in ((10, 25.0), (20, last))
    ]
    figure = training_figure([{"kind": "train", "step": 5}, *lines])
    assert figure is not None
    axes = figure.axes[0]
    assert axes.get_yscale() == scale
    legend = axes.get_legend()
    assert legend is not None
    labels = ["1 step ahead", "dashed: copying the last frame", "dotted: mean of the training frames"]
    assert [text.get_text() for text in legend.get_texts()] == labels
    drawn = [np.asarray(line.get_ydata()).tolist() for line in axes.get_lines()[:3]]
    assert drawn == [[25.0, last], [30.0, 30.0], [9.0, 9.0]]


def test_a_run_of_an_early_version_has_a_curve_without_the_mean_frame() -> None:
    figure = training_figure([{"kind": "held-out", "step": 1, "error": {"1": 2.0}, "copy_last": {"1": 3.0}}])
    assert figure is not None
    legend = figure.axes[0].get_legend()
    assert legend is not None
    assert [text.get_text() for text in legend.get_texts()] == ["1 step ahead", "dashed: copying the last frame"]


def test_a_run_without_held_out_errors_has_no_training_curve() -> None:
    assert training_figure([{"kind": "train", "step": 5}]) is None
