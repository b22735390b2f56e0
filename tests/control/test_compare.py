"""Learning curves of several runs beside each other, of runs whose scores are known."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from acvp.agents.evaluate import evaluation_seed, play_references, pool_references, write_references
from acvp.cli.main import main
from acvp.control import compare
from acvp.envs import make_game
from acvp.runs import RunFolder


def written(folder: Path, *, exploration: str, seed: int, scores: list[float], **changes: Any) -> str:
    """Write the run of an agent whose learning curve has these scores, 100 decisions apart."""
    folder.mkdir()
    run = RunFolder(folder)
    config: dict[str, Any] = {"env_id": "acvp/Toy-v0", "dqn": {"exploration": exploration}, "seed": seed}
    run.write_config(config | changes)
    lines = [{"kind": "train", "step": 7}]
    lines += [
        {"kind": "evaluation", "step": 100 * i, "epsilon": 0.05, "mean": score, "scores": [score - 1, score + 1]}
        for i, score in enumerate(scores)
    ]
    (folder / "metrics.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))
    return str(folder)


def test_seeds_become_one_curve_with_their_error(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    runs = [
        written(tmp_path / "a", exploration="random", seed=1, scores=[0.0, 2.0]),
        written(tmp_path / "b", exploration="random", seed=2, scores=[2.0, 6.0]),
        written(tmp_path / "c", exploration="informed-model", seed=1, scores=[1.0, 9.0]),
    ]
    assert main(["agent", "compare", "--runs", *runs, "--out", str(tmp_path / "out")]) == 0
    body = json.loads((tmp_path / "out" / "learning.json").read_text())
    random = body["strategies"]["random"]
    assert [run["seed"] for run in random["runs"]] == [1, 2]
    assert random["curve"] == [
        {"step": 0, "mean": 1.0, "standard_error": pytest.approx(1.0)},
        {"step": 100, "mean": 4.0, "standard_error": pytest.approx(2.0)},
    ]
    assert body["strategies"]["informed-model"]["curve"][-1] == {"step": 100, "mean": 9.0, "standard_error": None}
    assert body["provenance"]["command"]
    assert (tmp_path / "out" / "plots" / "learning.png").stat().st_size > 5000
    assert (tmp_path / "out" / "plots" / "learning.svg").exists()
    assert "random: 4.0 ± 2.0 after 100 agent steps (seed 1, 2)" in capsys.readouterr().out


def test_strategies_differ_by_threshold_and_look_ahead(tmp_path: Path) -> None:
    ways: list[dict[str, Any]] = [{}, {"delta": 50}, {"delta": 50, "look_ahead": 3}]
    runs = [
        written(tmp_path / str(i), exploration="informed-model", seed=1, scores=[0.0], **way)
        for i, way in enumerate(ways)
    ]
    assert main(["agent", "compare", "--runs", *runs, "--out", str(tmp_path / "out")]) == 0
    body = json.loads((tmp_path / "out" / "learning.json").read_text())
    names = ["informed-model", "informed-model, δ 50", "informed-model, δ 50, 3 ahead"]
    assert list(body["strategies"]) == names


@pytest.mark.parametrize(
    ("second", "reason"),
    [
        ({"exploration": "random", "seed": 2, "scores": [0.0]}, "have different agent steps"),
        ({"exploration": "random", "seed": 1, "scores": [0.0, 1.0]}, "seed 1 comes twice"),
        ({"exploration": "random", "seed": 2, "scores": [0.0, 1.0], "env_id": "acvp/Other-v0"}, "env_id: "),
        ({"exploration": "random", "seed": 2, "scores": [0.0, 1.0], "max_steps": 9}, "max_steps: "),
        (
            {
                "exploration": "informed-model",
                "seed": 2,
                "scores": [0.0],
                "dqn": {"exploration": "x", "steps": 9},
            },
            "steps: ",
        ),
        (
            {"exploration": "informed-model", "seed": 2, "scores": [0.0], "dqn": {"exploration": "x", "lr": 9.0}},
            "lr: ",
        ),
        ({"exploration": "random", "seed": 2, "scores": []}, "no point"),
        ({"exploration": "random", "seed": 2, "scores": [1.0], "dqn": {}}, "not the run of an agent"),
    ],
)
def test_what_cannot_be_compared_is_refused(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], second: dict[str, Any], reason: str
) -> None:
    runs = [
        written(tmp_path / "a", exploration="random", seed=1, scores=[0.0, 2.0]),
        written(tmp_path / "b", **second),
    ]
    assert main(["agent", "compare", "--runs", *runs, "--out", str(tmp_path / "out")]) == 2
    assert reason in capsys.readouterr().err
    assert not (tmp_path / "out").exists()


def compared(tmp_path: Path, runs: list[str], *options: str) -> dict[str, Any]:
    assert main(["agent", "compare", "--runs", *runs, "--out", str(tmp_path / "out"), *options]) == 0
    body: dict[str, Any] = json.loads((tmp_path / "out" / "learning.json").read_text())
    return body


def test_the_best_constant_action_stands_beside_the_curves(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Over the episodes of all runs' last points; played where a run has none, and once only."""
    runs = [
        written(tmp_path / str(seed), exploration="random", seed=seed, scores=[0.0, 2.0], max_steps=20)
        for seed in (1, 2)
    ]
    options: dict[str, Any] = {"episodes": 2, "epsilon": 0.05}
    seeds = [evaluation_seed(seed, 1) for seed in (1, 2)]
    with make_game("toy", max_steps=20) as game:
        played = [play_references([game], **options, seed=seed) for seed in seeds]
    first = pool_references(played)
    assert compared(tmp_path, runs)["references"] == first
    best = first["constant"]
    assert f"constant {best['action']} {best['mean']:,.1f} ± " in capsys.readouterr().out
    monkeypatch.setattr(compare, "play_references", None)
    assert compared(tmp_path, runs)["references"] == first
    better = pool_references([played[0]])
    better["constant"]["actions"][3]["scores"] = [90.0, 90.0]
    write_references(Path(runs[0]), options | {"seed": seeds[0]}, better)
    assert compared(tmp_path, runs)["references"]["constant"]["action"] == "LEFT"  # the run's own count
    assert "references" not in compared(tmp_path, runs, "--no-references")


def test_a_game_that_cannot_be_made_has_no_references(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    run = written(tmp_path / "a", exploration="random", seed=1, scores=[0.0], env_id="acvp/Gone-v0")
    body = compared(tmp_path, [run])
    assert "references" not in body
    assert body["note"].startswith("no references: unknown environment 'acvp/Gone-v0'")
    assert "note: no references" in capsys.readouterr().out
