"""What a report reads from a run folder, and the training curve it draws."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from acvp.report.page import training_figure
from acvp.report.sources import ReportConfig, read_sources
from acvp.runs import RunFolder


def held_out(step: int, error: float, copy_last: float) -> dict[str, Any]:
    return {"kind": "held-out", "step": step, "error": {"1": error}, "copy_last": {"1": copy_last}}


def test_the_training_curve_has_copying_beside_the_error() -> None:
    figure = training_figure([held_out(5, 3.0, 7.0), {"kind": "train", "step": 6}, held_out(10, 2.0, 7.5)])
    assert figure is not None
    curves = [tuple(np.asarray(data).tolist() for data in line.get_data()) for line in figure.axes[0].lines[:-1]]
    assert curves == [([5, 10], [3.0, 2.0]), ([5, 10], [7.0, 7.5])]
    assert training_figure([{"kind": "train", "step": 6}]) is None


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    run = RunFolder(tmp_path / "run")
    run.path.mkdir()
    run.write_config({"training": {}})
    return run.path


def test_an_analysis_of_another_run_is_not_shown(folder: Path) -> None:
    analysis = folder / "analysis.json"
    analysis.write_text(json.dumps({"run": "another"}))
    assert read_sources(ReportConfig(runs=(folder,))).runs[0].analysis is None
    analysis.write_text(json.dumps({"run": folder.name}))
    found = read_sources(ReportConfig(runs=(folder,))).runs[0].analysis
    assert found is not None
    assert found.folder == folder


def test_an_unfinished_line_of_starts_does_not_count(folder: Path) -> None:
    (folder / "starts.jsonl").write_text('{"time": 1}\n{"time": 2}\n{"ti')
    assert read_sources(ReportConfig(runs=(folder,))).runs[0].starts == [{"time": 1}, {"time": 2}]
    (folder / "starts.jsonl").write_text('{"time": 1}\n{"time": 2}')
    assert read_sources(ReportConfig(runs=(folder,))).runs[0].starts == [{"time": 1}], (
        "a whole line ends with its newline"
    )
