"""Conclusions as claims.json and a page, and results that are damaged or of another shape."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from acvp.cli.main import main
from acvp.errors import UserError
from acvp.reproduce.claims import CLAIMS
from acvp.reproduce.conclusions import judge_claims, left_out, page
from acvp.reproduce.evidence import Evidence
from tests.reproduce.result_files import GAMES, NETS, evaluation, flat, row, write


def test_the_command_writes_json_and_a_page_with_every_claim(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    write(tmp_path / "in", "evaluation.json", evaluation(dict.fromkeys(NETS, 1.0)))
    assert main(["claims", "--results", str(tmp_path / "in"), "--out", str(tmp_path / "out")]) == 0
    assert "not run: 2" in capsys.readouterr().out
    body = json.loads((tmp_path / "out" / "claims.json").read_text())
    assert [claim["number"] for claim in body["claims"]] == list(range(1, 32))
    assert sum(body["conclusions"].values()) == 31
    text = (tmp_path / "out" / "claims.md").read_text()
    assert all(f"### Claim {number}\n" in text for number in range(1, 32))
    assert "- *freeway*: `acvp some verb`, [result](../in/evaluation.json)" in text
    lines = [line for line in text.splitlines() if line.startswith("| [")]
    assert len(lines) == 31
    assert {line.count(" | ") for line in lines} == {5}


def test_a_page_escapes_what_would_end_a_cell(tmp_path: Path) -> None:
    models = {"mlp": {"compute": "5 | 6 updates on a machine"}}
    write(tmp_path, "evaluation.json", evaluation({"mlp": 1.0, "mean-frame": 8.0}, models=models))
    assert "| mlp 5 \\| 6 updates | **refuted at this compute**" in page([row(tmp_path, 8)], tmp_path)


def test_a_damaged_result_is_named(tmp_path: Path) -> None:
    (tmp_path / "control.json").write_text("{")
    with pytest.raises(UserError, match=r"control\.json: damaged"):
        judge_claims(Evidence([tmp_path]))


FOREIGN: list[tuple[str, dict[str, Any]]] = [
    ("evaluation", {"game": GAMES[0], "horizon": 500, "curves": []}),
    ("evaluation", {"game": GAMES[0], "horizon": "far", "curves": {"mlp": 5}}),
    ("evaluation", {"game": GAMES[0], "horizon": 500, "curves": {"mlp": {"error": {}}, "mean-frame": {"error": {}}}}),
    ("control", {"game": GAMES[0], "runs": {"feedforward": [{"mean": 1.0}]}}),
    ("learning", {"game": GAMES[0], "strategies": 5}),
    ("explore", {"game": GAMES[0]}),
    ("analysis", {"game": GAMES[0], "run": "feedforward", "controlled": 1}),
    ("agents", {"agents": 5}),
    ("deconvolution", {}),
    ("counterfactual", {"game": GAMES[0], "runs": {"feedforward": {"accuracy": flat(0.5, 1)}}}),
]
"""Valid JSON that acvp never wrote."""


@pytest.mark.parametrize(("name", "body"), FOREIGN)
def test_a_result_of_another_shape_is_left_out_and_named(
    name: str, body: dict[str, Any], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    good, foreign = tmp_path / "b", tmp_path / "a"
    write(good, "evaluation.json", evaluation({"mlp": 1.0, "mean-frame": 8.0}))
    write(foreign, f"{name}.json", body)
    rows = judge_claims(Evidence([tmp_path]))
    assert rows[7].findings["freeway"].file == good / "evaluation.json"
    assert main(["claims", "--results", str(tmp_path), "--out", str(tmp_path)]) == 0
    printed = "".join(capsys.readouterr().out.split())
    named = left_out(rows)
    assert set(named) == {foreign / f"{name}.json"}
    for file in named:
        assert f"leftout:{file}:notasthisversion" in printed


def test_two_results_that_do_not_fit_together_are_both_named(tmp_path: Path) -> None:
    write(tmp_path, "evaluation.json", evaluation({"no-action": 1.0, "copy-last-frame": 5.0}))
    write(tmp_path, "counterfactual.json", {"game": GAMES[0], "runs": {"no-action": {}}})
    found = row(tmp_path, 7)
    assert found.conclusion == "not run"
    assert {file.name for file in found.left_out} == {"evaluation.json", "counterfactual.json"}
    assert "- left out: counterfactual.json: not as this version of acvp writes it (KeyError" in page([found], tmp_path)


def test_names_and_texts_of_results_are_no_markup_in_the_page(tmp_path: Path) -> None:
    bad, good = tmp_path / "a\x1b[31m<b>\n# A title ![x](y" / "folder", tmp_path / "z) [x](y"
    write(bad, "deconvolution.json", {"a": 1})
    body = evaluation({"mlp": 1.0, "mean-frame": 8.0})
    write(good, "evaluation.json", body | {"provenance": {"command": "acvp `evaluate`\n# Another\x1b[1m"}})
    written = page(judge_claims(Evidence([tmp_path])), tmp_path)
    assert [line for line in written.splitlines() if line.startswith("#")][1:] == [
        f"### Claim {claim.number}" for claim in CLAIMS
    ]
    assert "\x1b" not in written
    assert r"- left out: a\x1b[31m&lt;b> # A title ![x]\(y/folder/deconvolution.json: not as this version" in written
    assert r"`acvp 'evaluate'\n# Another\x1b[1m`, [result](z%29%20%5Bx%5D%28y/evaluation.json)" in written
