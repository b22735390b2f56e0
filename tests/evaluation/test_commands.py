"""acvp evaluate and acvp counterfactual as a user meets them."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import av
import pytest

from acvp.cli.evaluate import DRIVER_SEED
from acvp.cli.main import main
from acvp.data.frames import GRAY_84
from acvp.data.recording import open_writer
from acvp.data.store import EpisodeStore
from acvp.evaluation.metrics import METRICS
from acvp.evaluation.windows import training_of
from acvp.models import About
from acvp.runs import default_out
from tests.evaluation.predictors import small_network
from tests.evaluation.runs import make_run

QUICK = ["--horizon", "6", "--windows", "6", "--shuffled-windows", "3", "--strip", "1-2"]


@pytest.mark.slow
def test_evaluate_writes_everything_and_the_same_twice(
    tmp_path: Path, toy: EpisodeStore, capsys: pytest.CaptureFixture[str]
) -> None:
    runs = [make_run(tmp_path / name, toy) for name in ("a", "b")]
    arguments = ["evaluate", "--predictors", *map(str, runs), "--data", str(toy.path), *QUICK, "--crop", "2x3+8+8"]
    for out in ("one", "two"):
        assert main([*arguments, "--out", str(tmp_path / out)]) == 0
    printed = capsys.readouterr()
    assert "Squared error" in printed.out
    assert "copy-last-frame" in printed.out
    check_files(tmp_path / "one")
    files = sorted(path.relative_to(tmp_path / "one") for path in (tmp_path / "one").rglob("*.*"))
    for file in files:
        first, second = ((tmp_path / out / file).read_bytes() for out in ("one", "two"))
        assert without_provenance(first) == without_provenance(second), file


def check_files(out: Path) -> None:
    body = json.loads((out / "evaluation.json").read_text())
    assert set(body["curves"]) == {"a", "b", "copy-last-frame", "mean-frame"}
    assert set(body["metrics"]) == set(METRICS)
    assert body["provenance"].keys() >= {"command", "commit", "machine", "seconds", "seed", "versions"}
    assert "held out in training by every run" in body["test_part"]
    for metric in METRICS:
        assert (out / "plots" / f"{metric}.png").read_bytes().startswith(b"\x89PNG")
        assert b"<svg" in (out / "plots" / f"{metric}.svg").read_bytes()
    assert {path.name for path in (out / "videos").iterdir()} == {"0.mp4", "0.gif"}
    assert {path.name for path in (out / "strips").iterdir()} == {"0.png", "0-crop.png"}


def without_provenance(data: bytes) -> object:
    if not data.startswith(b"{"):
        return data
    body = json.loads(data)
    assert body.pop("provenance")
    return body


@pytest.mark.slow
def test_one_run_keeps_its_results(tmp_path: Path, toy: EpisodeStore) -> None:
    run = make_run(tmp_path / "a", toy)
    assert main(["evaluate", "--predictors", str(run), "--data", str(toy.path), *QUICK, "--videos", "0"]) == 0
    assert json.loads((run / "evaluation.json").read_text())["clips"] == []


def test_counterfactual_writes_everything(
    tmp_path: Path, toy: EpisodeStore, capsys: pytest.CaptureFixture[str]
) -> None:
    run, out = make_run(tmp_path / "a", toy), tmp_path / "out"
    data = ["--data", str(toy.path), "--out", str(out), "--states", "8"]
    assert main(["counterfactual", "--predictors", str(run), *data]) == 0
    assert "chance" in capsys.readouterr().out
    body = json.loads((out / "counterfactual.json").read_text())
    assert body["runs"]["copy-last-frame"]["accuracy"]["mean"] == pytest.approx(body["chance"]["mean"])
    assert len(body["runs"]["a"]["accuracy_by_action"]["mean"]) == 5
    assert {path.name for path in (out / "plots").glob("counterfactual*")} >= {
        "counterfactual.png", "counterfactual.svg", "counterfactual-0.png",
    }  # fmt: skip


def mistake(arguments: list[str], capsys: pytest.CaptureFixture[str]) -> str:
    """The one line that a mistake gets."""
    assert main(arguments) == 2
    printed = capsys.readouterr()
    assert printed.err.startswith("acvp: ")
    assert printed.err.count("\n") == 1
    return printed.err


def test_runs_of_different_sizes(tmp_path: Path, toy: EpisodeStore, capsys: pytest.CaptureFixture[str]) -> None:
    runs = [make_run(tmp_path / "rgb", toy), make_run(tmp_path / "gray", toy, view=GRAY_84)]
    told = mistake(["evaluate", "--predictors", *map(str, runs), "--data", str(toy.path)], capsys)
    assert "rgb predicts frames 24×24×3 (rgb), gray 84×84×1 (gray84)" in told


def test_runs_of_another_game(tmp_path: Path, toy: EpisodeStore, capsys: pytest.CaptureFixture[str]) -> None:
    predictor = small_network(toy)
    predictor.about = About(env_id="ALE/Pong-v5", view="rgb", action_meanings=("A",) * 5)
    run = make_run(tmp_path / "pong", toy, predictor=predictor)
    told = mistake(["evaluate", "--predictors", str(run), "--data", str(toy.path)], capsys)
    assert "pong predicts ALE/Pong-v5" in told


@pytest.mark.parametrize("verb", ["evaluate", "counterfactual"])
def test_another_number_of_actions(
    tmp_path: Path, toy: EpisodeStore, capsys: pytest.CaptureFixture[str], verb: str
) -> None:
    fewer = EpisodeStore(toy.path, replace(toy.info, action_meanings=("NOOP", "UP")), toy.entries)
    run = make_run(tmp_path / "few", fewer)
    assert "knows 2 actions" in mistake([verb, "--runs", str(run), "--data", str(toy.path)], capsys)


def test_a_horizon_longer_than_any_test_episode(
    tmp_path: Path, toy: EpisodeStore, capsys: pytest.CaptureFixture[str]
) -> None:
    run = make_run(tmp_path / "a", toy)
    base = ["evaluate", "--predictors", str(run), "--data", str(toy.path)]
    assert "--horizon 900" in mistake([*base, "--horizon", "900", "--videos", "0"], capsys)
    told = mistake([*base, "--horizon", "5", "--video-steps", "900"], capsys)
    assert "--video-steps 900" in told
    assert not (run / "evaluation.json").exists()  # found out before the long work


def test_a_store_without_the_saved_seed(tmp_path: Path, toy: EpisodeStore, capsys: pytest.CaptureFixture[str]) -> None:
    info = replace(toy.info, policy="imported from somewhere")
    with open_writer(tmp_path / "imported", info) as writer:
        for episode in toy:
            writer.add(episode)
    run = make_run(tmp_path / "a", toy)
    told = mistake(["counterfactual", "--predictors", str(run), "--data", str(tmp_path / "imported")], capsys)
    assert "counterfactuals need a store made by acvp collect" in told
    assert "was imported" in told


def test_no_codec(
    tmp_path: Path, toy: EpisodeStore, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(av, "codecs_available", set())
    run = make_run(tmp_path / "a", toy)
    told = mistake(["evaluate", "--predictors", str(run), "--data", str(toy.path)], capsys)
    assert "--video-formats gif" in told
    assert not (run / "evaluation.json").exists()  # found out before the long work


def test_a_predictor_alone_is_not_tested_on_what_it_was_trained_on(
    tmp_path: Path, toy: EpisodeStore, capsys: pytest.CaptureFixture[str]
) -> None:
    predictor = small_network(toy)
    assert predictor.about is not None
    predictor.about = replace(predictor.about, data=f"1,000 frames, store digest {toy.digest[:16]}")
    run = make_run(tmp_path / "a", toy, predictor=predictor)
    trained = training_of(run / "predictor")
    assert trained == training_of(run)  # a part of a run knows its split
    bare = (run / "predictor").rename(tmp_path / "bare")
    told = mistake(["evaluate", "--predictors", str(bare), "--data", str(toy.path)], capsys)
    assert "does not say which episodes were held out" in told


def test_other_mistakes(tmp_path: Path, toy: EpisodeStore, capsys: pytest.CaptureFixture[str]) -> None:
    run, data = str(make_run(tmp_path / "a", toy)), str(toy.path)
    (tmp_path / "x").mkdir()
    same = str(make_run(tmp_path / "x" / "a", toy))
    for arguments, told in (
        (["--runs", run, same, "--data", data], "two are called a"),
        (["--runs", run, "--data", data, "--horizon", "0"], "--horizon 0: at least 1"),
        (["--runs", run, "--data", data, "--batch-size", "0"], "--batch-size 0: at least 1"),
        (["--runs", run, "--data", data, "--crop", "20x20+8+8"], "leaves the frame"),
        (["--runs", run, "--data", data, "--strip", "200"], "--strip 200"),
        (["--runs", run, "--data", data, "--device", "cuda"], "--device cuda"),
        (["--runs", str(tmp_path / "nowhere"), "--data", data], "no such folder"),
        (["--runs", run, "--data", str(tmp_path)], "is not a dataset"),
        (["--runs", str(tmp_path / "x"), "--data", data], "cannot be read"),
    ):
        assert told in mistake(["evaluate", *arguments], capsys)


def test_evaluate_records_what_a_driver_plays_and_tests_keys(
    tmp_path: Path, toy: EpisodeStore, capsys: pytest.CaptureFixture[str]
) -> None:
    predictor = small_network(toy, 1)
    predictor.about = About(env_id=toy.info.env_id, view="rgb", action_meanings=tuple(toy.info.action_meanings))
    predictor.save_pretrained(tmp_path / "p")
    driven = ["--driver", "held", "--driver-frames", "200", "--key-steps", "1", "3", "--out", str(tmp_path / "out")]
    quick = ["--horizon", "4", "--windows", "3", "--shuffled-windows", "0", "--videos", "0"]
    arguments = ["evaluate", "--predictors", str(tmp_path / "p"), *driven, *quick]
    assert main(arguments) == 0
    recorded = EpisodeStore(tmp_path / "out" / "episodes")
    assert "held" in recorded.info.policy
    assert recorded.info.epsilon == 0.05
    assert recorded.info.seed == DRIVER_SEED, "not the episodes of acvp collect with its own seeds"
    assert (
        200 <= sum(entry.frames for entry in recorded.entries) < 200 + max(entry.frames for entry in recorded.entries)
    )
    body = json.loads((tmp_path / "out" / "evaluation.json").read_text())
    assert body["keys"]["steps"] == [1, 3]
    assert body["keys"]["works"].keys() == {"p", "copy-last-frame", "mean-frame"}
    assert body["keys"]["works"]["copy-last-frame"]["mean"] == [0.0, 0.0]
    assert "Keys work" in capsys.readouterr().out
    assert main(arguments) == 0, "the recording is there already"


def test_a_packaged_predictor_is_evaluated_beside_no_folder_of_its_name(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    assert default_out([Path("freeway")]) == Path("evaluation")
    Path("freeway").mkdir()
    assert default_out([Path("freeway")]) == Path("freeway")


def test_evaluate_without_data_or_driver_names_both(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["evaluate", "--predictors", "freeway"]) == 2
    assert "--driver" in capsys.readouterr().err
