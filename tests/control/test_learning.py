"""An agent that learns with informed exploration."""

from __future__ import annotations

import io
import json
import signal
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch
from rich.console import Console

from acvp.agents import session
from acvp.agents import settings as presets
from acvp.agents.config import AgentTrainConfig
from acvp.agents.dqn import AcvpDqn
from acvp.agents.session import train_agent
from acvp.control.exploration import InformedExploration
from acvp.control.learning import informed_strategy
from acvp.errors import UserError
from acvp.models import About, Predictor, build_predictor
from acvp.presets import network
from tests.agents.small import SMALL_TOY, TOY_ACTIONS
from tests.agents.test_session import SHORT, outcome, stop_at


@pytest.fixture(autouse=True)
def short(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(session, "EVALUATION_STEPS", 10)
    monkeypatch.setitem(presets.PRESETS, "smoke", lambda: replace(SHORT, decisions=60, evaluations=1))


def predictor(view: str = "gray84", env_id: str = SMALL_TOY) -> Predictor:
    frame = (84, 84, 1) if view == "gray84" else (16, 16, 3)
    config = network("feedforward", frame, actions=5, width=2, hidden=8, factors=8)
    made = build_predictor(config, torch.Generator().manual_seed(0)).eval()
    made.about = About(env_id=env_id, view=view, action_meanings=TOY_ACTIONS)
    return made


def run(folder: Path, guide: Predictor | None = None, **options: Any) -> int:
    config = AgentTrainConfig(env_id=SMALL_TOY, preset="smoke", run=folder, save_minutes=99, **options)
    strategy = informed_strategy(config, lambda path: guide)  # type: ignore[arg-type, return-value]
    return train_agent(config, Console(file=io.StringIO()), strategy).exit_code


WAYS: dict[str, tuple[Predictor | None, dict[str, Any]]] = {
    "informed-model": (predictor(), {"predictor": Path("runs/gray")}),
    "informed-emulator": (None, {}),
}


@pytest.mark.parametrize("name", WAYS)
def test_an_agent_learns_with_it_and_goes_on_exactly(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    guide, options = WAYS[name]
    used: list[object] = []
    real = AcvpDqn._sample_action

    def sample(dqn: AcvpDqn, *args: Any) -> Any:
        used.append(dqn.exploration)
        return real(dqn, *args)

    monkeypatch.setattr(AcvpDqn, "_sample_action", sample)
    assert run(tmp_path / "whole", guide, exploration=name, **options) == 0
    assert {type(each) for each in used} == {InformedExploration}
    with monkeypatch.context() as patch:
        stop_at(30, patch)
        assert run(tmp_path / "parts", guide, exploration=name, **options) == 128 + signal.SIGTERM
    assert run(tmp_path / "parts", guide, exploration=name, **options) == 0
    assert outcome(tmp_path / "parts") == outcome(tmp_path / "whole")
    config = json.loads((tmp_path / "whole" / "config.json").read_text())
    assert config["settings"]["exploration"] == name


def test_other_strategies_are_not_its_business() -> None:
    config = AgentTrainConfig(env_id=SMALL_TOY, exploration="random")
    assert informed_strategy(config, lambda path: predictor()) is None


@pytest.mark.parametrize(
    ("guide", "message"),
    [
        (predictor("rgb"), "looks at frames in rgb; an agent sees gray84: train a predictor with acvp train --view"),
        (predictor(env_id="acvp/Other-v0"), "predicts acvp/Other-v0, the game is acvp-tests/AgentToy-v0"),
    ],
)
def test_a_predictor_that_cannot_guide_is_refused(tmp_path: Path, guide: Predictor, message: str) -> None:
    with pytest.raises(UserError, match=message):
        run(tmp_path / "run", guide, exploration="informed-model", predictor=Path("runs/colour"))
    assert not (tmp_path / "run").exists()
