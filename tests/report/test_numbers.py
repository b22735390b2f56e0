"""The numbers of a page are those of the step, the run and the metric that they are said to be of."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import numpy as np

from acvp.evaluation.figures import horizon_tables
from acvp.evaluation.metrics import METRICS
from acvp.report.page import _compute, _glance, _horizon_cards, training_figure
from acvp.report.sources import RunSource, Sources

HORIZON = 12
NAMES = ("run", "copy-last-frame", "mean-frame")


def curve(base: int, steps: int = HORIZON) -> dict[str, list[float]]:
    """At step t a mean of base + t, a tenth of it below and above for the band: 100 is a whole number of bases."""
    means = [float(base + t) for t in range(1, steps + 1)]
    return {"mean": means, "low": [0.9 * mean for mean in means], "high": [1.1 * mean for mean in means]}


def body() -> dict[str, Any]:
    """What evaluation.json could hold; every number tells its run, its metric and its step."""
    bases = {name: {metric: 1000 * i + 100 * k for k, metric in enumerate(METRICS)} for i, name in enumerate(NAMES)}
    described = {name: {"title": each.title, "unit": each.unit, "formula": ""} for name, each in METRICS.items()}
    return {
        "horizon": HORIZON,
        "baselines": list(NAMES[1:]),
        "metrics": described,
        "curves": {name: {metric: curve(base) for metric, base in each.items()} for name, each in bases.items()},
        "steps": {name: {"exact_steps": curve(9900, 1), "kept_steps": curve(9800, 1)} for name in NAMES},
        "outcomes": {},
    }


def test_cards_show_the_numbers_of_their_step() -> None:
    seen = []
    for value, caption in _horizon_cards(body(), "run"):
        if found := re.search(r"step (\d+)", caption):
            step = int(found[1])
            seen.append(step)
            others = [
                int(each.replace(",", "")) for each in re.findall(r"[\d,]+", caption) if int(each.replace(",", "")) > 99
            ]
            assert all(number % 100 == step for number in [int(value.replace(",", "")), *others]), caption
    assert {1, 10, HORIZON} <= set(seen)


def test_tables_show_the_numbers_of_their_step_and_run() -> None:
    made = body()
    by_step = horizon_tables(made, bands=False)[0]
    assert by_step.heads[0] == "step"
    for step, *values in by_step.rows:
        assert [int(value.replace(",", "")) % 100 for value in values] == [int(step)] * len(values)
        assert [int(value.replace(",", "")) // 1000 for value in values] == [
            NAMES.index(each) for each in by_step.heads[1:]
        ]


def test_the_training_figure_draws_both_errors_of_every_horizon() -> None:
    lines = [
        {
            "kind": "held-out",
            "step": step,
            "error": {"1": 1.0 * step, "5": 5.0 * step},
            "copy_last": {"1": 7.0, "5": 9.0},
        }
        for step in (10, 20)
    ]
    figure = training_figure([{"kind": "train", "step": 5}, *lines])
    assert figure is not None
    *curves, dotted = figure.axes[0].get_lines()  # the last one is only in the legend
    drawn = [np.asarray(line.get_xydata()).T.tolist() for line in curves]
    assert not len(np.asarray(dotted.get_xydata()))
    assert [steps for steps, _ in drawn] == [[10, 20]] * 4
    assert [values for _, values in drawn] == [[10, 20], [7, 7], [50, 100], [9, 9]]


def test_a_glance_shows_accuracy_beside_chance_and_the_last_minutes() -> None:
    run = RunSource(
        name="run", config={}, about={}, metrics=[{"seconds": 60.0, "step": 3}, {"seconds": 300.0, "step": 7}],
        starts=[], analysis=None,
    )  # fmt: skip
    futures = {"runs": {"run": {"accuracy": {"mean": [0.75]}}}, "chance": {"mean": [0.25]}}
    page = "".join(_glance(Sources(folder=Path(), runs=[run], evaluation=None, counterfactual=futures)))
    assert re.search(r"0\.75.*counterfactual accuracy, chance 0\.25", page, re.DOTALL)
    assert _compute(run) == {"updates": 7, "minutes of training": "5"}
