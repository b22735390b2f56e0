"""Continuous actions from recording to export: the paper's networks learn them, everything else says what it needs."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import gymnasium
import numpy as np
import pytest
import torch
from gymnasium.utils.env_checker import check_env

from acvp.cli.main import main
from acvp.data.collect import CollectConfig, collect
from acvp.data.store import EpisodeStore
from acvp.errors import UserError
from acvp.loaded import load
from acvp.models import About, Predictor, build_predictor
from acvp.models.config import ConfigError, config_to_dict
from acvp.models.pixels import ActionError
from acvp.models.rollout import rollout
from acvp.play.onnx import OnnxPredictor, example_frames, to_graphs
from acvp.testing import check_predictor
from tests.networks import network
from tests.training.small import sizes

FRAME = (24, 24, 3)
KINDS = ("feedforward", "recurrent", "mlp", "no-action")


def small(kind: str, limits: Any, **options: Any) -> Predictor:
    config = network(kind, FRAME, actions=len(limits), action_range=limits, **sizes(kind), **options)
    return build_predictor(config).eval()


@pytest.fixture(scope="module")
def drift(tmp_path_factory: pytest.TempPathFactory) -> EpisodeStore:
    """A few plays of DriftGame."""
    return collect(CollectConfig(env_id="drift", out=tmp_path_factory.mktemp("drift") / "store", frames=700, seed=3))


@pytest.mark.parametrize("kind", KINDS)
def test_predictors_of_vectors_keep_the_contract(kind: str) -> None:
    check_predictor(small(kind, ((-1.0, 1.0), (0.0, 5.0)), predict_rewards=True))


def test_actions_are_scaled_by_their_range() -> None:
    narrow, wide = small("feedforward", ((-1.0, 1.0),)), small("feedforward", ((0.0, 500.0),))
    frames = np.random.default_rng(0).integers(0, 256, (4, *FRAME), np.uint8)
    for share in (-1.0, 0.2, 1.0):
        ours = rollout(narrow, frames, np.array([[share]], np.float32))
        theirs = rollout(wide, frames, np.array([[250 + 250 * share]], np.float32))
        assert np.abs(ours.astype(int) - theirs).max() <= 1
    assert "action_range" in config_to_dict(narrow.config)
    assert "action_range" not in config_to_dict(network("feedforward", FRAME, actions=2, **sizes("feedforward")))


def test_what_is_no_action_is_refused() -> None:
    predictor, frames = small("feedforward", ((-1.0, 1.0), (-1.0, 1.0))), np.zeros((4, *FRAME), np.uint8)
    with pytest.raises(ActionError, match="they are continuous, vectors of 2 numbers"):
        rollout(predictor, frames, np.array([0, 1]))
    with pytest.raises(ActionError, match=r"component 1 of an action is 1\.5, outside -1 to 1"):
        rollout(predictor, frames, np.array([[0.0, 1.5]], np.float32))
    with pytest.raises(ActionError, match="cannot be listed"):
        predictor.predict_all(predictor.observe(torch.zeros(1, 4, 3, 24, 24)))
    with pytest.raises(ConfigError, match="1 pairs for 2 components"):
        network("feedforward", FRAME, actions=2, action_range=((-1.0, 1.0),), **sizes("feedforward"))


def train(store: EpisodeStore, run: Path, kind: str) -> int:
    data, rest = ["--data", str(store.path)], ["--device", "cpu", "--run", str(run)]
    return main(["train", *data, "--model", kind, "--preset", "smoke", "--predict-rewards", *rest])


@pytest.fixture(scope="module")
def run(drift: EpisodeStore, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A feedforward network after a smoke training on DriftGame."""
    folder = tmp_path_factory.mktemp("runs") / "feedforward"
    assert train(drift, folder, "feedforward") == 0
    return folder


@pytest.mark.slow
def test_a_network_learns_vectors_and_is_evaluated(drift: EpisodeStore, run: Path, tmp_path: Path) -> None:
    assert train(drift, tmp_path / "recurrent", "recurrent") == 0
    quick = ["--horizon", "6", "--windows", "8", "--shuffled-windows", "8", "--strip", "1-2", "--out", str(tmp_path)]
    runs = [str(run), str(tmp_path / "recurrent")]
    assert main(["evaluate", "--predictors", *runs, "--data", str(drift.path), *quick]) == 0
    curves = json.loads((tmp_path / "evaluation.json").read_text())["curves"]
    assert {"error", "sensitivity"} <= curves["feedforward"].keys()
    assert curves["feedforward"]["sensitivity"]["mean"][0] != 1  # the actions of other windows change predictions


@pytest.mark.parametrize("kind", ["pixel", "objects"])
def test_networks_that_need_numbers_name_those_that_do_not(
    drift: EpisodeStore, tmp_path: Path, kind: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert train(drift, tmp_path / "run", kind) != 0
    assert f"--model {kind} needs numbered actions" in " ".join(capsys.readouterr().err.split())


@pytest.mark.slow
@pytest.mark.parametrize("verb", ["counterfactual", "analyze", "play", "agent train", "explore", "agent learn"])
def test_verbs_that_need_a_list_of_actions_say_so(
    drift: EpisodeStore, run: Path, tmp_path: Path, verb: str, capsys: pytest.CaptureFixture[str]
) -> None:
    data = ["--data", str(drift.path)]
    options = {
        "counterfactual": ["--predictors", str(run), *data, "--out", str(tmp_path)],
        "analyze": ["--predictor", str(run), *data, "--out", str(tmp_path)],
        "play": ["--predictors", str(run), *data],
        "agent train": ["--env-id", "drift", "--preset", "smoke", "--run", str(tmp_path / "a")],
        "explore": ["--env-id", "drift", "--out", str(tmp_path)],
        "agent learn": ["--env-id", "drift", "--run", str(tmp_path / "a")],
    }
    assert main([*verb.split(), *options[verb]]) != 0
    complaint = " ".join(capsys.readouterr().err.split())
    assert "needs a list of actions, and these are vectors of 2 numbers" in complaint
    assert "TransformAction" in complaint


@pytest.mark.slow
def test_an_imagined_env_has_the_action_space_of_the_game(drift: EpisodeStore, run: Path) -> None:
    env = gymnasium.make("acvp.envs:acvp/Imagined-v0", predictor=run, data=drift.path, horizon=5, device="cpu")
    assert env.action_space == gymnasium.make("acvp.envs:acvp/Drift-v0").action_space
    check_env(env.unwrapped, skip_render_check=True)
    env.reset(seed=1)
    with pytest.raises(UserError, match="the imagined env: component 0 of an action is 2, outside -1 to 1"):
        env.step(np.array([2.0, 0.0], np.float32))
    envs = gymnasium.make_vec(
        "acvp.envs:acvp/Imagined-v0", num_envs=3, predictor=run, data=drift.path, horizon=2, device="cpu"
    )
    envs.reset(seed=1)
    for _ in range(3):
        observations, *_ = envs.step(envs.action_space.sample())
    assert observations.shape == (3, *FRAME)


@pytest.mark.slow
def test_onnx_takes_vectors(run: Path) -> None:
    pytest.importorskip("onnxscript")
    predictor = load(run)
    graphs = to_graphs(predictor)  # compares with torch, under random vectors
    onnx, frames = OnnxPredictor(graphs), example_frames(predictor).numpy()
    left, right = (
        onnx.step(onnx.observe(frames), np.array([[0.0, side]], np.float32))[0]["frame"] for side in (-1.0, 1.0)
    )
    assert not np.array_equal(left, right)


def test_a_predictor_of_other_ranges_is_refused(drift: EpisodeStore) -> None:
    from acvp.data.frames import RGB
    from acvp.loaded import LoadedModel, check_alike

    predictor = small("feedforward", ((-2.0, 2.0), (-1.0, 1.0)))
    predictor.about = About(env_id=drift.info.env_id, view="rgb", action_meanings=("down", "right"))
    with pytest.raises(UserError, match=r"knows actions from -2 to 2, from -1 to 1, .* from -1 to 1, from -1 to 1"):
        check_alike([LoadedModel(name="it", predictor=predictor, view=RGB)], drift)
