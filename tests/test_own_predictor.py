"""A predictor of one's own, in a module of the user's, works in every verb that takes a predictor."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import gymnasium
import pytest

import acvp
from acvp.cli.main import main
from acvp.models import config as registry
from acvp.play.model_pool import make_model_pool
from acvp.play.session import Session

MODULE = """
from dataclasses import dataclass

import torch
from torch import nn

from acvp.models import ActionFactors, HistoryPredictor, Outcome, PredictorConfig


@dataclass(frozen=True, kw_only=True)
class Config(PredictorConfig):
    channels: int = 4


class Painter(HistoryPredictor, kind="painter-of-a-test"):
    config_class = Config

    def __init__(self, config, generator):
        super().__init__(config)
        self.colors = config.frame[2]
        self.look = nn.Conv2d(config.context * self.colors, config.channels, 5, padding=2)
        self.act = nn.Linear(config.actions, config.channels)
        self.paint = nn.Conv2d(config.channels, self.colors + 1, 5, padding=2)
        self.judge = nn.Linear(config.channels, 4)
        for weight in self.parameters():
            nn.init.uniform_(weight, -0.05, 0.05, generator=generator)

    def next_frame(self, stacked, action):
        features = self.look(stacked).relu() * self.act(action)[:, :, None, None]
        opacity, colors = self.paint(features).split([1, self.colors], 1)
        frame = torch.lerp(stacked[:, -self.colors :], 2 * colors.tanh(), (opacity - 2).sigmoid())
        judged = self.judge(features.mean((2, 3)))
        return frame, Outcome(judged[:, :3], judged[:, 3])

    def action_factors(self):
        return [ActionFactors(name="features", weight=self.act.weight, bias=self.act.bias, gates=True)]
"""


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    (tmp_path / "painter_of_a_test.py").write_text(MODULE)
    monkeypatch.chdir(tmp_path)
    monkeypatch.syspath_prepend(str(tmp_path))
    yield tmp_path
    registry._CLASSES.pop("painter-of-a-test", None)


@pytest.mark.slow
def test_every_verb_takes_a_predictor_of_ones_own(folder: Path) -> None:
    def run(line: str) -> None:
        assert main(f"{line} --import painter_of_a_test".split()) == 0, line

    assert main(["collect", "--env-id", "toy", "--frames", "600", "--out", "data"]) == 0
    assert main(["agent", "train", "--env-id", "toy", "--preset", "smoke", "--steps", "40", "--run", "agent"]) == 0
    model = "--model painter_of_a_test:Painter --predictor.channels 5"
    run(f"train --data data {model} --preset smoke --device cpu --run run")
    assert vars(acvp.load("run").config)["channels"] == 5
    run("evaluate --predictors run --data data --horizon 3 --windows 4 --reward-steps 8 --videos 0 --out results")
    run("counterfactual --predictors run --data data --states 3 --out results")
    run("analyze --predictor run --data data --states 3 --examples 1 --out results")
    run("control --predictors run --agent agent --episodes 2 --horizons 2 --max-steps 5 --out results")
    run("explore --env-id toy --predictor run --seeds 1 --max-steps 5 --map-steps 5 --map-seeds 1 --out results")
    run("export --predictor run --onnx onnx")
    names = ("evaluation", "counterfactual", "analysis", "control", "explore")
    results = {name: json.loads((folder / "results" / f"{name}.json").read_text()) for name in names}
    assert "run" in results["evaluation"]["curves"]
    assert "features" in json.dumps(results["analysis"])
    assert (folder / "onnx" / "step.onnx").exists()

    acvp.check_predictor(acvp.load("run"))
    env = gymnasium.make("acvp.envs:acvp/Imagined-v0", predictor="run", data="data", horizon=3)
    env.reset(seed=1)
    assert env.step(0)[0].shape == (24, 24, 3)
    session = Session(make_model_pool(["run"]))
    for _ in range(6):
        session.step()
    assert session.state.imagined.steps > 0
    session.close()
