"""What a user can get wrong about a training: one line that names the value and the cure, exit code 2."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from acvp.cli.main import main
from acvp.data.store import EpisodeStore
from acvp.durable import exclusive_writer, seal
from acvp.errors import UserError
from acvp.models import Predictor
from tests.data.answers import answer_store
from tests.training.small import run, small_config

SMOKE = ["train", "--preset", "smoke", "--device", "cpu"]


def complaint(capsys: pytest.CaptureFixture[str], *arguments: object) -> str:
    """The one line that a wrong command gets."""
    assert main([*SMOKE, *map(str, arguments)]) == 2
    printed = capsys.readouterr()
    lines = [line for line in printed.err.splitlines() if line.startswith("acvp: ")]
    assert len(lines) == 1
    assert "Traceback" not in printed.err
    return lines[0]


@pytest.fixture(scope="module")
def begun(store: EpisodeStore, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run that has been started with the smoke preset's config; its folder."""
    from acvp.training.config import TrainConfig
    from acvp.training.presets import make_config

    folder = tmp_path_factory.mktemp("begun") / "run"
    folder.mkdir()
    training = make_config(TrainConfig(data=(store.path,), preset="smoke"), store)
    config = {"training": json.loads(json.dumps(training.to_dict())), "store": store.digest}
    (folder / "config.json").write_bytes(seal(config))
    return folder


def test_changed_config_names_the_fields(store: EpisodeStore, begun: Path, capsys: pytest.CaptureFixture[str]) -> None:
    line = complaint(capsys, "--data", store.path, "--run", begun, "--seed", 9, "--test-fraction", 0.2)
    assert "seed: 1 → 9" in line
    assert "test_fraction: 0.1 → 0.2" in line
    line = complaint(capsys, "--data", store.path, "--run", begun, "--model", "recurrent")
    assert "predictor.kind: 'feedforward' → 'recurrent'" in line


def test_resume_never_refuses_a_begun_run(store: EpisodeStore, begun: Path, capsys: pytest.CaptureFixture[str]) -> None:
    line = complaint(capsys, "--data", store.path, "--run", begun, "--resume", "never")
    assert "has already begun" in line
    assert "--resume auto" in line


def test_other_frames_and_actions_than_the_checkpoint(
    begun: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    answer_store(tmp_path / "other", [60] * 20)
    line = complaint(capsys, "--data", tmp_path / "other", "--run", begun)
    assert "frames of another size (predictor.frame.0: 16 → 6)" in line


def test_other_actions_than_the_checkpoint(store: EpisodeStore, tmp_path: Path) -> None:
    run(store, small_config(), tmp_path / "run")
    fewer = small_config().to_dict()
    fewer["predictor"]["actions"] = 7
    (tmp_path / "run" / "config.json").write_bytes(seal({"training": fewer, "store": store.digest}))
    with pytest.raises(UserError, match="another number of actions"):
        run(store, small_config(), tmp_path / "run")


def test_another_store_of_the_same_kind(store: EpisodeStore, tmp_path: Path) -> None:
    from tests.training.small import toy_store

    run(store, small_config(), tmp_path / "run")
    with pytest.raises(UserError, match="another dataset"):
        run(toy_store(tmp_path / "other", seed=5), small_config(), tmp_path / "run")


def test_empty_split_and_empty_store(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    answer_store(tmp_path / "one", [60])
    assert "need two different episodes, and it has 1" in complaint(
        capsys, "--data", tmp_path / "one", "--run", tmp_path / "r"
    )
    answer_store(tmp_path / "none", [])
    assert "has no episodes" in complaint(capsys, "--data", tmp_path / "none", "--run", tmp_path / "r")
    assert not (tmp_path / "r").exists()


@pytest.mark.slow
def test_short_episodes_are_counted(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    answer_store(tmp_path / "short", [1] * 10 + [60] * 10)
    assert main([*SMOKE, "--data", str(tmp_path / "short"), "--run", str(tmp_path / "run")]) == 0
    assert "left out, with under 2 frames" in capsys.readouterr().err
    answer_store(tmp_path / "shorter", [1] * 6)
    line = complaint(capsys, "--data", tmp_path / "shorter", "--run", tmp_path / "r")
    assert "has the 2 frames that a window needs at least" in line


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--device", "cuda"], "--device cuda: not on this machine"),
        (["--device", "mps"], "--device mps: not on this machine"),
        (["--accumulate", "3"], "--accumulate 3 cannot share evenly"),
        (["--accumulate", "0"], "--accumulate 0: at least 1"),
        (["--minutes", "0"], "--minutes 0: more than 0"),
        (["--test-fraction", "1"], "--test-fraction 1: more than 0 and less than 1"),
        (["--seed", "-1"], "--seed -1: at least 0"),
    ],
)
def test_wrong_options(
    store: EpisodeStore, tmp_path: Path, capsys: pytest.CaptureFixture[str], options: list[str], message: str
) -> None:
    assert message in complaint(capsys, "--data", store.path, "--run", tmp_path / "run", *options)


def test_folders_that_are_not_runs(store: EpisodeStore, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "letters").mkdir()
    (tmp_path / "letters" / "love.txt").write_text("dear")
    assert "love.txt" in complaint(capsys, "--data", store.path, "--run", tmp_path / "letters")
    assert "is a file" in complaint(capsys, "--data", store.path, "--run", tmp_path / "letters" / "love.txt")
    assert "no such folder" in complaint(capsys, "--data", tmp_path / "nowhere", "--run", tmp_path / "run")


@pytest.mark.slow
def test_a_second_writer_is_refused(store: EpisodeStore, tmp_path: Path) -> None:
    """Promise 15."""
    folder = tmp_path / "run"
    folder.mkdir()
    (folder / "checkpoints").mkdir()
    with exclusive_writer(folder):
        code = (
            "import sys; from pathlib import Path; from acvp.data.store import EpisodeStore; "
            "from tests.training.small import run, small_config; "
            f"run(EpisodeStore({str(store.path)!r}), small_config(), Path({str(folder)!r}))"
        )
        done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.returncode == 1
    assert "is being written by process" in done.stderr


def test_a_damaged_run_config_is_reported(store: EpisodeStore, tmp_path: Path) -> None:
    run(store, small_config(), tmp_path / "run")
    config = tmp_path / "run" / "config.json"
    config.write_bytes(config.read_bytes().replace(b'"seed": 1', b'"seed": 2'))
    with pytest.raises(UserError, match=r"config\.json: its checksum does not match"):
        run(store, small_config(), tmp_path / "run")


def test_a_run_without_a_whole_checkpoint_is_reported(store: EpisodeStore, tmp_path: Path) -> None:
    run(store, small_config(), tmp_path / "run")
    for file in (tmp_path / "run" / "checkpoints").rglob("model.safetensors"):
        file.write_bytes(b"")
    with pytest.raises(UserError, match=r"none of \d checkpoints is whole"):
        run(store, small_config(), tmp_path / "run")


def test_bfloat16_where_it_does_not_run(store: EpisodeStore, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("acvp.models.devices.cpu_has_bfloat16", lambda: False)
    with pytest.raises(UserError, match="--precision bf16: bfloat16 does not run on this cpu"):
        run(store, small_config(), tmp_path / "run", precision="bf16")


def test_networks_that_cannot_be_compiled(store: EpisodeStore, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(graph: object, inputs: object) -> None:
        raise RuntimeError("no compiler here")

    def compile_broken(predictor: Predictor) -> None:
        predictor.get_submodule("encoder").compile(backend=broken)

    monkeypatch.setattr("acvp.training.run.compile_networks", compile_broken)
    with pytest.raises(UserError, match=r"no compiler here.*; use --compile off"):
        run(store, small_config(), tmp_path / "run", compile="on")
