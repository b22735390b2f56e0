"""An agent of version 0.1.0 still loads, and its stopped run continues to the end it would have had.

The files were made by 0.1.0 (commit b68685d) with the runs of tests/agents/short_runs.py.
"""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest
import torch

from acvp.agents.agent import load_agent
from acvp.cli.main import main
from tests.agents.short_runs import run
from tests.golden import machine

FILES = Path(__file__).parents[1] / "fixtures" / "v010"
SAME_MACHINE = json.loads((FILES / "expected.json").read_text())["machine"] == machine()


def test_an_agent_of_0_1_0_plays(tmp_path: Path) -> None:
    options = ["--episodes", "1", "--epsilon", "0", "--max-steps", "20", "--out", str(tmp_path / "out")]
    assert main(["agent", "evaluate", "--agent", str(FILES / "agent-run"), *options]) == 0
    body = json.loads((tmp_path / "out" / "agent-evaluation.json").read_text())
    assert body["steps"] == [20]


@pytest.mark.slow
def test_a_stopped_agent_of_0_1_0_continues_to_its_end(tmp_path: Path, short: Callable[..., None]) -> None:
    shutil.copytree(FILES / "stopped-agent", tmp_path / "run")
    assert run(tmp_path / "run").exit_code == 0

    before = (FILES / "stopped-agent" / "metrics.jsonl").read_text()
    after = (tmp_path / "run" / "metrics.jsonl").read_text()
    assert after.startswith(before), "it began again"
    whole = [json.loads(line) for line in (FILES / "agent-run" / "metrics.jsonl").read_text().splitlines()]
    lines = [json.loads(line) for line in after.splitlines()]
    assert [(line["step"], line["updates"]) for line in lines] == [(line["step"], line["updates"]) for line in whole]
    if SAME_MACHINE and torch.get_num_threads() == 1:  # the fixture was made with one thread
        assert [line["scores"] for line in lines] == [line["scores"] for line in whole]
        resumed, never_stopped = (
            load_agent(path).network.state_dict() for path in (tmp_path / "run", FILES / "agent-run")
        )
        assert resumed.keys() == never_stopped.keys()
        assert all(torch.equal(resumed[name], never_stopped[name]) for name in resumed)
