"""A stopped evaluation continues: finished parts are not measured again, and the result is the undisturbed one."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any
from unittest.mock import patch

import pytest

from acvp.console import Progress
from acvp.data.store import EpisodeStore
from acvp.errors import UserError
from acvp.evaluation import run as command
from acvp.evaluation.config import EvaluateConfig
from acvp.evaluation.figures import horizon_tables
from acvp.evaluation.horizon import EvaluationWindows, _BatchMeasurer
from acvp.evaluation.run import leading_metric
from acvp.loaded import identity
from acvp.pixel import PixelPredictor
from tests.analysis.conftest import small_feedforward
from tests.evaluation.predictors import as_model
from tests.evaluation.runs import make_run
from tests.pixel.small_pixel import make

OPTIONS: dict[str, Any] = {"horizon": 4, "windows": 6, "shuffled_windows": 3, "batch_size": 2, "videos": 0}


LEADS = ("error", "wrong_pixels")


class Shown:
    """What a progress bar was shown of the looking ahead."""

    def __init__(self) -> None:
        self.steps: list[tuple[int, int]] = []

    def __call__(self, name: str) -> Progress:
        return lambda done, total: self.steps.append((done, total)) if name == "looking ahead" else None


def evaluate(run: Path, store: EpisodeStore, out: Path, shown: Shown | None = None, **changes: Any) -> dict[str, Any]:
    config = EvaluateConfig(predictors=(run,), data=(store.path,), out=out, device="cpu", **(OPTIONS | changes))
    with patch.object(command, "load", lambda path: small_feedforward(store)):
        command.evaluate_runs(config, shown or Shown())
    body: dict[str, Any] = json.loads((out / "evaluation.json").read_text())
    del body["provenance"]
    return body


@pytest.mark.slow
def test_a_stopped_evaluation_measures_only_what_is_missing(
    toy: EpisodeStore, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    run, out, shown = make_run(tmp_path / "run", toy), tmp_path / "out", Shown()
    whole = evaluate(run, toy, tmp_path / "whole", shown)
    assert [done for done, total in shown.steps if total == 36] == _steps()
    real = _BatchMeasurer._measure
    measured: list[Any] = []

    def measure(measurer: _BatchMeasurer, starts: Any, *arguments: Any) -> None:
        if len(measured) == 2:
            raise KeyboardInterrupt
        measured.append(starts)
        real(measurer, starts, *arguments)

    with monkeypatch.context() as patch:
        patch.setattr(_BatchMeasurer, "_measure", measure)
        with pytest.raises(KeyboardInterrupt):
            evaluate(run, toy, out)
        assert len((out / "evaluation.jsonl").read_text().splitlines()) == 2
        del measured[:]
        measured.append("room for one")
        assert evaluate(run, toy, out) == whole
    assert len(measured) == 2  # one of three batches
    assert not (out / "evaluation.jsonl").exists()


def _steps() -> list[int]:
    """Window steps shown: after every step of three batches of two windows, then of two under other actions."""
    steps, done = [], 0
    for windows in (2, 2, 2, 2, 1):
        steps += [done + windows * t for t in range(1, 5)]
        done += 4 * windows
        steps.append(done)
    return steps


@pytest.mark.slow
@pytest.mark.parametrize("changed", [{"seed": 1}, {"horizon": 3}, {"windows": 4}])
def test_what_another_command_left_is_not_taken(
    toy: EpisodeStore, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, changed: dict[str, Any]
) -> None:
    run, out = make_run(tmp_path / "run", toy), tmp_path / "out"
    with monkeypatch.context() as patch:
        patch.setattr(command, "write_plots", _interrupt)
        with pytest.raises(KeyboardInterrupt):
            evaluate(run, toy, out)
    assert evaluate(run, toy, out, **changed) == evaluate(run, toy, tmp_path / "fresh", **changed)


def test_all_that_decides_a_batch_is_part_of_its_identity(toy: EpisodeStore) -> None:
    options: dict[str, Any] = {"store": toy, "starts": [], "context": 4, "horizon": 4}
    changes: list[dict[str, Any]] = [{}, {"context": 5}, {"horizon": 5}, {"positions": {}}]
    batches = [EvaluationWindows(**(options | change)).identity() for change in changes]
    first, second = (as_model("net", small_feedforward(toy, seed)) for seed in (1, 2))
    models = [identity([first], toy), identity([second], toy), identity([first], toy.subset([0]))]
    for kinds in (batches, models):
        assert len({json.dumps(each) for each in kinds}) == len(kinds)


def _interrupt(*arguments: Any) -> None:
    raise KeyboardInterrupt


@pytest.mark.slow
def test_predictors_that_name_colors_are_led_by_wrong_pixels(toy: EpisodeStore, tmp_path: Path) -> None:
    ordinary, exact = as_model("net", small_feedforward(toy)), as_model("exact", make())
    assert isinstance(exact.predictor, PixelPredictor)
    assert leading_metric([ordinary]) == "error"
    assert leading_metric([ordinary, exact]) == "wrong_pixels"
    body = evaluate(make_run(tmp_path / "run", toy), toy, tmp_path / "out")
    assert body["leading_metric"] == "error"
    titles = {lead: [table.title for table in horizon_tables(body | {"leading_metric": lead})] for lead in LEADS}
    assert titles["error"][0].startswith("Squared error (paper's scale)")
    assert titles["wrong_pixels"][0].startswith("Wrong pixels")
    assert titles["wrong_pixels"][1].startswith("Squared error (paper's scale)")
    last = horizon_tables(body | {"leading_metric": "wrong_pixels"})[3]
    assert [row[0] for row in last.rows][:2] == ["Wrong pixels", "Squared error (paper's scale)"]
    assert last.heads[-2:] == ("copy-last-frame", "mean-frame")


@pytest.mark.slow
def test_joined_shards_are_one_evaluation_bit_for_bit(toy: EpisodeStore, tmp_path: Path) -> None:
    run, out = make_run(tmp_path / "run", toy), tmp_path / "out"
    options: dict[str, Any] = {"key_steps": (1, 2)}
    whole = evaluate(run, toy, tmp_path / "whole", **options)
    for shard, parts in (("2/3", 2), ("1/3", 2)):
        assert shard_of(run, toy, out, shard, **options)["parts"] == parts
    assert not (out / "evaluation.json").exists()
    with pytest.raises(UserError, match=r"shard 3/3 is missing or unfinished in .*evaluation\.shards.*--shard 3/3"):
        evaluate(run, toy, out, **options)
    shard_of(run, toy, out, "3/3", **options)
    with patch.object(_BatchMeasurer, "_measure", lambda *_: pytest.fail("measured again")):
        assert evaluate(run, toy, out, **options) == whole
    assert not (out / "evaluation.shards").exists()
    assert not (out / "evaluation.jsonl").exists()


def shard_of(run: Path, store: EpisodeStore, out: Path, shard: str, **changes: Any) -> dict[str, Any]:
    config = EvaluateConfig(
        predictors=(run,), data=(store.path,), out=out, device="cpu", shard=shard, **(OPTIONS | changes)
    )
    with patch.object(command, "load", lambda path: small_feedforward(store)):
        return command.evaluate_runs(config, Shown())


def test_a_shard_out_of_range_is_refused(tmp_path: Path) -> None:
    for shard in ("0/3", "4/3", "2", "a/b"):
        with pytest.raises(UserError, match=f"--shard {shard}: write NUMBER/TOTAL"):
            EvaluateConfig(predictors=(tmp_path,), data=(tmp_path,), shard=shard)
