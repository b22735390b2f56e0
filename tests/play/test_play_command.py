"""acvp play from the command line: what cannot work is one line, before anything is served."""

from __future__ import annotations

import signal
import socket
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
import torch

from acvp.cli.main import main
from acvp.models import predictor_files
from acvp.pixel import PixelPredictor
from acvp.play.app import session_maker
from acvp.play.config import PlayConfig
from acvp.play.model_pool import make_model_pool
from acvp.play.server import free_socket
from acvp.play.worlds import ImaginedWorld
from tests.faults import PATIENCE
from tests.play.serving import Client
from tests.play.sessions import network


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """The folder of a small predictor."""
    path = tmp_path / "tiny"
    path.mkdir()
    for name, data in predictor_files(network()).items():
        (path / name).write_bytes(data)
    return path


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--predictors", "nowhere"], "nowhere: no such folder"),
        (["--predictors", "empty"], "cannot be read"),
        (["--predictors", "begun"], "no checkpoint yet"),
        (["--predictors", "nobody"], "nobody"),
        (["--predictors", "a/x", "b/x"], "two predictors are called x"),
        (["--predictors", "tiny", "--fps", "0"], "--fps 0"),
        (["--predictors", "tiny", "--temperature", "-1"], "--temperature -1"),
        (["--predictors", "tiny", "--temperature", "nan"], "--temperature nan"),
        (["--predictors", "tiny", "--temperature", "11"], "--temperature 11"),
        (["--predictors", "tiny", "--port", "70000"], "--port 70000"),
        (["--predictors", "tiny", "--sessions", "0"], "at least 1"),
        (["--predictors", "tiny", "--policy", "clever"], "unknown policy"),
        (["--predictors", "tiny", "--data", "nowhere"], "nowhere: no such folder"),
    ],
)
def test_mistakes_get_one_line(
    folder: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    arguments: list[str],
    message: str,
) -> None:
    monkeypatch.chdir(folder.parent)
    for name in ("empty", "begun/checkpoints"):
        (folder.parent / name).mkdir(parents=True)
    assert main(["play", *arguments]) == 2
    said = capsys.readouterr().err
    assert message in said
    assert len(said.splitlines()) == 1


@pytest.mark.parametrize("steps", [1, 2])
def test_looking_at_every_action_uses_up_no_noise(steps: int) -> None:
    model = make_model_pool(["freeway"], temperature=1.0).get("freeway")
    assert isinstance(model.predictor, PixelPredictor)
    assert model.predictor.generator is not None
    world = ImaginedWorld(model)
    black = np.zeros((210, 160, 3), np.uint8)
    state = world.resync([black] * 16, [0] * 15)
    before = model.predictor.generator.get_state()
    world.every_action(state, steps)
    assert torch.equal(model.predictor.generator.get_state(), before)
    world.step(state, 0)
    assert not torch.equal(model.predictor.generator.get_state(), before)


def test_with_a_temperature_predictors_that_can_sample_do(folder: Path) -> None:
    session = session_maker(PlayConfig(predictors=(str(folder), "freeway"), temperature=0.5, seed=7))()
    sampling, other = (session.models.get(name).predictor for name in ("freeway", "tiny"))
    session.close()
    assert isinstance(sampling, PixelPredictor)
    assert sampling.temperature == 0.5
    assert sampling.generator is not None
    assert sampling.generator.initial_seed() == 7
    assert not isinstance(other, PixelPredictor)


def hear_interrupts() -> None:
    """Undo what a background job inherits: that SIGINT is ignored."""
    signal.signal(signal.SIGINT, signal.SIG_DFL)


@pytest.mark.slow
@pytest.mark.load
def test_it_serves_prints_the_address_and_ends_with_ctrl_c(folder: Path) -> None:
    with free_socket(18900) as taken:
        port = taken.getsockname()[1]
        command = [
            sys.executable,
            "-m",
            "acvp",
            "play",
            "--predictors",
            str(folder),
            "--port",
            str(port),
            "--no-browser",
        ]
        pipe = subprocess.PIPE
        with subprocess.Popen(command, stdout=pipe, stderr=pipe, text=True, preexec_fn=hear_interrupts) as process:
            assert process.stdout is not None
            assert process.stderr is not None
            assert process.stdout.readline() == f"port {port} is taken\n"
            address = process.stdout.readline().split()[2]
            found = int(address.rstrip("/").rpartition(":")[2])
            assert found > port
            with Client(found) as page:
                assert page.text("welcome")["predictors"][0] == "tiny"
                process.send_signal(signal.SIGINT)
                assert process.wait(PATIENCE) == 130
            assert "Traceback" not in process.stderr.read()
    with socket.socket() as gone:
        assert gone.connect_ex(("127.0.0.1", found)) != 0
