"""The training curve of a report: a logarithmic axis where errors span decades, and what dotted lines are."""

from __future__ import annotations

import pytest

from acvp.report.page import training_figure


@pytest.mark.parametrize(("last", "scale"), [(0.5, "log"), (20.0, "linear"), (0.0, "linear")])
def test_the_axis_of_the_training_curve(last: float, scale: str) -> None:
    lines = [
        {"kind": "held-out", "step": step, "error": {"1": error}, "copy_last": {"1": 30.0}}
        for step, error in ((10, 25.0), (20, last))
    ]
    figure = training_figure([{"kind": "train", "step": 5}, *lines])
    assert figure is not None
    axes = figure.axes[0]
    assert axes.get_yscale() == scale
    legend = axes.get_legend()
    assert legend is not None
    assert [text.get_text() for text in legend.get_texts()] == ["1 step ahead", "dotted: copying the last frame"]


def test_a_run_without_held_out_errors_has_no_training_curve() -> None:
    assert training_figure([{"kind": "train", "step": 5}]) is None
