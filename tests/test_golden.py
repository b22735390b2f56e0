"""Seeded runs give the recorded results: bit for bit on the recorded machine, nearly so elsewhere.

A change that moves numbers on purpose records them again (`python -m tests.golden --write tests/golden.json`) and says
so in the changelog.
"""

from __future__ import annotations

import copy
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.golden import COMMANDS, differences, flatten, measure, pack

RECORD = Path(__file__).with_name("golden.json")


@pytest.fixture(scope="module")
def recorded() -> dict[str, Any]:
    record: dict[str, Any] = json.loads(RECORD.read_text())
    return record


@pytest.mark.slow
def test_seeded_runs_give_the_recorded_results(recorded: dict[str, Any], tmp_path: Path) -> None:
    assert differences(recorded, measure(tmp_path)) == []


def test_every_command_has_recorded_results(recorded: dict[str, Any]) -> None:
    assert COMMANDS.keys() <= recorded["results"].keys()
    assert all(any(result.values()) for result in recorded["results"].values())


def test_texts_times_and_provenance_are_not_results() -> None:
    body = {"provenance": {"seed": 1}, "runs": {"a": [{"mean": 0.5, "seconds": 3.0}, {"low": None}]}, "what": "text"}
    assert dict(flatten("case", body)) == {"runs/a/0/mean": 0.5, "runs/a/1/low": None}
    assert dict(flatten("case", {"table": [[1, 2], [3, None]], "names": ["x"]})) == {"table": [[1, 2], [3, None]]}


Change = Callable[[dict[str, Any]], None]


def _set(case: str, kind: str, name: str, change: Callable[[Any], Any]) -> Change:
    def apply(record: dict[str, Any]) -> None:
        values = record["results"][case][kind]
        values[name] = change(values[name])

    return apply


def _other_frame(text: str, pixels: int) -> str:
    """A frame of one color, of which some pixels have another; the real one does not matter here."""
    frame = np.zeros((10, 100, 3), np.uint8)
    frame.reshape(-1, 3)[:pixels] = 1
    return pack(frame)


LOSS = ("train-mlp", "numbers", "0/loss")
CHANGES: dict[str, tuple[Change, bool, bool]] = {
    "actions": (_set("collect-toy", "exact", "actions", lambda text: text[::-1]), True, True),
    "bytes of a store": (_set("collect-toy", "by_version", "index", lambda text: text[::-1]), True, True),
    "weights": (_set("train-pixel", "bits", "weights", lambda text: text[::-1]), True, False),
    "last bit of a loss": (_set(*LOSS, lambda loss: float(np.nextafter(loss, 0))), True, False),
    "a loss": (_set(*LOSS, lambda loss: 1.1 * loss), True, True),
    "a score": (_set("agent-evaluate", "numbers", "plays", lambda count: count + 1), True, True),
    "a step": (_set("train-mlp", "numbers", "0/step", lambda step: step + 1), True, True),
    "wrong pixels": (_set("train-pixel", "numbers", "2/wrong/1", lambda count: 2 * count), True, False),
    "an error of chosen colors": (_set("train-pixel", "numbers", "5/error/10", lambda error: 1.1 * error), True, False),
    "a large error of chosen colors": (_set("train-pixel", "numbers", "5/error/10", lambda e: 1.3 * e), True, True),
    "a missing number": (lambda record: record["results"]["train-mlp"]["numbers"].pop("0/loss"), True, True),
    "a missing case": (lambda record: record["results"].pop("explore"), True, True),
    "many pixels": (_set("rollout-qbert", "frames", "last", lambda text: _other_frame(text, 11)), True, True),
    "few pixels": (_set("rollout-qbert", "frames", "last", lambda text: _other_frame(text, 9)), True, False),
}
"""A change of the results, and whether it counts on the machine of the record and on another processor."""


@pytest.mark.parametrize("name", CHANGES)
def test_a_changed_result_is_reported_as_far_as_the_machine_allows(recorded: dict[str, Any], name: str) -> None:
    change, counts_here, counts_elsewhere = CHANGES[name]
    old = copy.deepcopy(recorded)
    _set("rollout-qbert", "frames", "last", lambda text: _other_frame(text, 0))(old)
    new = copy.deepcopy(old)
    assert differences(old, new) == []
    change(new)
    assert bool(differences(old, new)) is counts_here
    new["machine"]["processor"] = "another one"
    assert bool(differences(old, new)) is counts_elsewhere


def test_files_are_not_compared_between_versions_that_compress_otherwise(recorded: dict[str, Any]) -> None:
    new = copy.deepcopy(recorded)
    new["machine"]["versions"]["numcodecs"] = "another one"
    new["results"]["collect-toy"]["by_version"]["index"] = "0"
    assert differences(recorded, new) == []
