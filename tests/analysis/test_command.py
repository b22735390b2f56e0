"""acvp analyze as a user meets it."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest

from acvp.cli.main import main
from acvp.data.recording import open_writer
from acvp.data.store import EpisodeStore
from acvp.models import Predictor
from tests.evaluation.runs import make_run

QUICK = ["--states", "8", "--steps", "2", "--examples", "1", "--device", "cpu"]
PICTURES = {
    "similarity.png", "similarity.svg", "controlled.png", "controlled.svg", "controlled-examples.png",
    "contingency.png", "contingency.svg", "different-actions-0.png", "different-actions-0-zoom.png",
}  # fmt: skip


@pytest.mark.slow
def test_analyze_writes_everything_and_the_same_twice(
    tmp_path: Path, toy: EpisodeStore, untrained: Predictor, capsys: pytest.CaptureFixture[str]
) -> None:
    run = make_run(tmp_path / "mine", toy, predictor=untrained)
    for out in ("one", "two"):
        arguments = ["analyze", "--predictor", str(run), "--data", str(toy.path), "--out", str(tmp_path / out), *QUICK]
        assert main(arguments) == 0
    printed = capsys.readouterr()
    for words in ("Action similarity", "Non-Action", "Contingency", "opposite"):
        assert words in printed.out
    bodies = [json.loads((tmp_path / out / "analysis.json").read_text()) for out in ("one", "two")]
    assert bodies[0].pop("provenance").keys() >= {"command", "commit", "machine", "seconds", "seed", "versions"}
    assert bodies[0].pop("cpu_seconds") > 0
    del bodies[1]["provenance"], bodies[1]["cpu_seconds"]
    assert bodies[0] == bodies[1]
    assert bodies[0]["left_out"] == {}
    assert bodies[0]["run"] == "mine"
    assert set(bodies[0]["files"]) == PICTURES
    for name in PICTURES:
        first, second = ((tmp_path / out / "plots" / name).read_bytes() for out in ("one", "two"))
        assert first == second, name
        assert first.startswith(b"\x89PNG") or b"<svg" in first


@pytest.mark.slow
def test_a_predictor_without_factors_still_has_maps(
    tmp_path: Path, toy: EpisodeStore, capsys: pytest.CaptureFixture[str]
) -> None:
    run = make_run(tmp_path / "mlp", toy)
    assert main(["analyze", "--predictor", str(run), "--data", str(toy.path), *QUICK]) == 0
    body = json.loads((run / "analysis.json").read_text())
    assert body["left_out"].keys() == {"similarity", "controlled"}
    assert {"contingency", "different_actions"} <= body.keys()
    assert "left out: similarity: a MlpPredictor has no factors" in capsys.readouterr().out


@pytest.mark.slow
def test_a_store_that_cannot_be_played_again(tmp_path: Path, toy: EpisodeStore, untrained: Predictor) -> None:
    with open_writer(tmp_path / "imported", replace(toy.info, policy="imported from somewhere")) as writer:
        for episode in toy:
            writer.add(episode)
    run = make_run(tmp_path / "mine", toy, predictor=untrained)
    assert main(["analyze", "--predictor", str(run), "--data", str(tmp_path / "imported"), *QUICK]) == 0
    body = json.loads((run / "analysis.json").read_text())
    assert body["left_out"].keys() == {"explained change", "contingency", "different actions"}
    assert {"similarity", "controlled"} <= body.keys()
    assert set(body["files"]) == {name for name in PICTURES if name.startswith(("similarity", "controlled"))}


def test_nothing_at_all(tmp_path: Path, toy: EpisodeStore, capsys: pytest.CaptureFixture[str]) -> None:
    with open_writer(tmp_path / "imported", replace(toy.info, policy="imported from somewhere")) as writer:
        for episode in toy:
            writer.add(episode)
    run = make_run(tmp_path / "mlp", toy)
    assert main(["analyze", "--predictor", str(run), "--data", str(tmp_path / "imported"), *QUICK]) == 2
    assert "nothing could be analyzed" in capsys.readouterr().err
    assert not (run / "analysis.json").exists()


def test_mistakes(tmp_path: Path, toy: EpisodeStore, untrained: Predictor, capsys: pytest.CaptureFixture[str]) -> None:
    run = str(make_run(tmp_path / "mine", toy, predictor=untrained))
    data = ["--data", str(toy.path)]
    for arguments, told in (
        (["--run", run, *data, "--states", "1"], "--states 1: at least 2"),
        (["--run", run, *data, "--variance-share", "1"], "--variance-share 1: more than 0 and less than 1"),
        (["--run", run, *data, "--at", "soon"], "--at soon: write EPISODE:FRAME"),
        (["--run", run, *data, "--steps", "900"], "--steps 900"),
        (["--run", str(tmp_path / "nowhere"), *data], "no such folder"),
        (["--run", run, "--data", str(tmp_path)], "is not a dataset"),
    ):
        assert main(["analyze", *arguments]) == 2
        printed = capsys.readouterr().err
        assert printed.startswith("acvp: ")
        assert printed.count("\n") == 1
        assert told in printed
