"""The paper's table of phases, and when a phase ends at what rate."""

from __future__ import annotations

from typing import Any

import pytest

from acvp.errors import UserError
from acvp.models import find_class
from acvp.training.config import Phase, within_minutes
from acvp.training.presets import paper, paper_curriculum, with_defaults


@pytest.mark.parametrize(
    ("recurrent", "rows"),
    [
        (False, [(5, 4, 1, 32, 1e-4, 1_500_000), (7, 4, 3, 8, 1e-5, 1_000_000), (9, 4, 5, 8, 1e-5, 1_000_000)]),
        (True, [(21, 11, 10, 4, 1e-4, 1_500_000), (14, 11, 3, 4, 1e-5, 1_000_000), (16, 11, 5, 4, 1e-5, 1_000_000)]),
    ],
)
def test_the_papers_phases(recurrent: bool, rows: list[tuple[float, ...]]) -> None:
    kind = find_class("recurrent" if recurrent else "feedforward")
    made = paper(kind.config_class(actions=3))
    phases = with_defaults(made, {"phases": ({}, {}, {})} | dict(kind.training_defaults("paper", (210, 160, 3)))).phases
    found = [(p.context + p.predict, p.context, p.predict, p.batch_size, p.lr, p.steps) for p in phases]
    assert found == rows
    assert [phase.teacher_forcing for phase in phases] == [recurrent, False, False]


def test_the_papers_decay() -> None:
    first = paper_curriculum(context=4)[0]
    rates = [first.learning_rate(step, 0.0) for step in (0, 99_999, 100_000, 1_499_999)]
    assert rates == pytest.approx([1e-4, 1e-4, 0.9e-4, 0.9**14 * 1e-4])


def phase(**changes: Any) -> Phase:
    return Phase(**({"predict": 1, "context": 4, "batch_size": 2, "lr": 1.0, "steps": 10} | changes))


def test_warm_up_and_cosine() -> None:
    warm = phase(warmup=3)
    assert [warm.learning_rate(step, 0.0) for step in range(5)] == [0.25, 0.5, 0.75, 1.0, 1.0]
    by_steps = phase(anneal=True)
    assert [by_steps.learning_rate(step, 1e9) for step in (0, 5, 10)] == pytest.approx([1.0, 0.5, 0.0])
    by_clock = phase(steps=None, minutes=1.0, anneal=True)
    assert [by_clock.learning_rate(7, seconds) for seconds in (0, 30, 60)] == pytest.approx([1.0, 0.5, 0.0])


def test_progress_is_that_of_the_nearest_end() -> None:
    assert phase(minutes=1.0).progress(5, 48.0) == 0.8
    assert phase(minutes=1.0).progress(9, 48.0) == 0.9
    assert phase(minutes=1.0).progress(99, 0.0) == 1.0


def test_minutes_are_shared_in_proportion() -> None:
    timed = (phase(minutes=20.0, steps=None), phase(minutes=10.0, steps=None))
    assert [p.minutes for p in within_minutes(timed, 3.0)] == [2.0, 1.0]
    counted = (phase(steps=100), phase(steps=300))
    assert [(p.minutes, p.steps) for p in within_minutes(counted, 4.0)] == [(1.0, 100), (3.0, 300)]
    (annealed,) = within_minutes((phase(steps=100, anneal=True),), 4.0)
    assert (annealed.minutes, annealed.steps) == (4.0, None)  # else its rate would fall by the nearer end


@pytest.mark.parametrize(
    "wrong",
    [
        {"steps": None},
        {"steps": 0},
        {"lr": 0.0},
        {"predict": 0},
        {"warmup": -1},
        {"event_share": -0.1},
        {"priority_share": -0.1},
        {"priority_share": 0.9, "event_share": 0.2},
        {"reward_weight": 0.0},
        {"steps": None, "patience": 1, "anneal": True},
    ],
)
def test_impossible_phases(wrong: dict[str, Any]) -> None:
    with pytest.raises(UserError, match="phase: "):
        phase(**wrong)
