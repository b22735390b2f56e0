"""The public names: pinned, documented, typed, and imported only when used."""

from __future__ import annotations

import inspect
import subprocess
import sys
from dataclasses import fields
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

import acvp
from acvp.evaluation.config import EvaluateConfig
from acvp.training.config import TrainConfig

PUBLIC = {
    "EpisodeStore",
    "ImaginedEnv",
    "InformedExploration",
    "Predictor",
    "UserError",
    "__version__",
    "check_predictor",
    "collect",
    "evaluate",
    "load",
    "make_game",
    "rollout",
    "train",
}


def test_public_names() -> None:
    assert set(acvp.__all__) == PUBLIC == set(dir(acvp))


@pytest.mark.parametrize("name", sorted(PUBLIC - {"__version__"}))
def test_public_names_are_documented_and_typed(name: str) -> None:
    value = getattr(acvp, name)
    assert value.__doc__
    assert f"`{name}`" in (acvp.__doc__ or "")
    if inspect.isfunction(value):
        signature = inspect.signature(value)
        assert signature.return_annotation is not inspect.Signature.empty
        assert all(p.annotation is not inspect.Parameter.empty for p in signature.parameters.values())


def test_an_unknown_name_says_what_there_is() -> None:
    with pytest.raises(AttributeError, match=r"no attribute 'lode'; it has EpisodeStore, .*, load, .*, train"):
        _ = acvp.lode


def test_import_acvp_imports_nothing_heavy() -> None:
    code = "import sys, acvp; sys.exit(bool({'torch', 'numpy', 'gymnasium', 'rich'} & set(sys.modules)))"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


@pytest.mark.parametrize("name", ["EpisodeStore", "make_game", "collect", "train", "evaluate"])
def test_recording_does_not_import_torch(name: str) -> None:
    code = f"import sys, acvp; acvp.{name}; sys.exit('torch' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


def test_the_help_of_train_teaches_without_torch() -> None:
    code = "import sys, acvp.cli.main as m\ntry: m.main(['train', '--help'])\nfinally: sys.exit('torch' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert done.returncode == 0
    for words in ("--data", "--model", "--preset", "--run", "--resume", "--device", "--minutes", "(default: cpu)"):
        assert words in " ".join(done.stdout.replace("│", " ").split())


@pytest.mark.parametrize(("function", "config"), [(acvp.train, TrainConfig), (acvp.evaluate, EvaluateConfig)])
def test_functions_and_commands_have_the_same_defaults(function: Any, config: Any) -> None:
    options = {field.name: field.default for field in fields(config)}
    parameters = inspect.signature(function).parameters
    shared = {name: p.default for name, p in parameters.items() if name in options and p.kind is p.KEYWORD_ONLY}
    assert len(shared) >= 3
    assert shared == {name: options[name] for name in shared}


def test_collect_train_evaluate(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    dataset = acvp.collect("toy", tmp_path / "data", frames=900, seed=3)
    assert dataset.frames >= 900
    run = tmp_path / "run"
    predictor = acvp.train(tmp_path / "data", run, preset="smoke", device="cpu", minutes=0.01, quiet=True)
    assert isinstance(predictor, acvp.Predictor)
    assert predictor.about is not None
    assert predictor.about.env_id == "acvp/Toy-v0"
    results = acvp.evaluate(run, tmp_path / "data", horizon=2, windows=3, shuffled_windows=0, videos=0, quiet=True)
    assert results["horizon"] == 2
    assert (run / "evaluation.json").exists()
    assert "phase" not in capsys.readouterr().err


def test_an_unknown_option_is_refused(tmp_path: Path) -> None:
    with pytest.raises(TypeError, match="learning_rat"):
        acvp.train(tmp_path, learning_rat=1)


@pytest.mark.parametrize(("exit_code", "error"), [(130, KeyboardInterrupt), (143, SystemExit), (1, acvp.UserError)])
def test_a_run_that_stopped_early_raises(
    exit_code: int, error: type[BaseException], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    result = SimpleNamespace(exit_code=exit_code, run=SimpleNamespace(path=tmp_path / "run"))
    monkeypatch.setattr("acvp.training.run.train", lambda *_: result)
    acvp.collect("toy", tmp_path / "data", frames=300)
    with pytest.raises(error):
        acvp.train(tmp_path / "data", tmp_path / "run", preset="smoke")
