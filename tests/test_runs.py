"""Run folders."""

from __future__ import annotations

import os
import platform
import re
import shutil
import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace

import pytest

import acvp.runs
from acvp.errors import UserError
from acvp.runs import RunFolder, default_path, machine, peak_memory_bytes, peak_memory_mb, provenance

ROOT = Path(__file__).parent.parent


def test_default_path_has_no_odd_characters() -> None:
    assert re.fullmatch(r"runs/ALE-Freeway-v5__mlp__3__\d{8}-\d{6}", str(default_path("ALE/Freeway-v5", "mlp", 3)))


def test_config_and_metrics_come_back(tmp_path: Path) -> None:
    run = RunFolder(tmp_path / "run")
    with run.writing():
        assert not run.begun
        run.write_config({"a": [1, 2.5]})
        run.note_start()
        for step in (1, 2, 3):
            run.add_metrics({"step": step})
    assert run.begun
    assert run.read_config() == {"a": [1, 2.5]}
    run.forget_metrics_after(2)
    assert run.metrics() == [{"step": 1}, {"step": 2}]


def test_an_unfinished_line_of_metrics_does_not_count(tmp_path: Path) -> None:
    (tmp_path / "metrics.jsonl").write_text('{"step": 1}\n{"ste')
    assert RunFolder(tmp_path).metrics() == [{"step": 1}]


def test_damaged_metrics_are_told(tmp_path: Path) -> None:
    (tmp_path / "metrics.jsonl").write_text('{"step": 1\n')
    with pytest.raises(UserError, match=r"metrics\.jsonl: damaged"):
        RunFolder(tmp_path).metrics()


def test_no_config_is_told(tmp_path: Path) -> None:
    with pytest.raises(UserError, match=r"is .* a run folder"):
        RunFolder(tmp_path).read_config()


def test_a_second_writer_is_refused(tmp_path: Path) -> None:
    run = RunFolder(tmp_path / "run")
    with run.writing():
        second = RunFolder(tmp_path / "run")
        with pytest.raises(UserError, match="is being written by process"), second.writing():
            pass


def test_provenance_tells_where_a_result_comes_from() -> None:
    found = provenance()
    assert found["versions"]["torch"]
    assert found["commit"] is None or re.fullmatch(r"[0-9a-f]{40}(-dirty)?", found["commit"])


@pytest.mark.parametrize("inside", ["src/acvp", "venv/lib/site-packages/acvp"])
def test_the_commit_is_acvps_own(tmp_path: Path, inside: str) -> None:
    """Not that of a repository that it happens to be installed in."""
    package = tmp_path / inside
    shutil.copytree(Path(acvp.runs.__file__).parent, package, ignore=shutil.ignore_patterns("pretrained", "*.pyc"))
    for command in ("init", "add .", "-c user.name=n -c user.email=e commit -m m"):
        subprocess.run(["git", *command.split()], cwd=tmp_path, capture_output=True, check=True)
    head = subprocess.run(["git", "rev-parse", "HEAD"], cwd=tmp_path, capture_output=True, text=True, check=True)
    code = "import acvp.runs; print(acvp.runs.__file__, acvp.runs.provenance()['commit'])"
    environment = os.environ | {"PYTHONPATH": str(package.parent), "PYTHONDONTWRITEBYTECODE": "1"}
    done = subprocess.run([sys.executable, "-c", code], env=environment, capture_output=True, text=True, check=True)
    file, commit = done.stdout.split()
    assert file == str(package / "runs.py")
    assert commit == (head.stdout.strip() if inside == "src/acvp" else "None")


@pytest.mark.parametrize(("system", "unit"), [("darwin", 1), ("linux", 1024)])
def test_peak_memory_counts_in_the_systems_unit(monkeypatch: pytest.MonkeyPatch, system: str, unit: int) -> None:
    usage = SimpleNamespace(ru_maxrss=5 * 2**20)
    monkeypatch.setattr("resource.getrusage", lambda who: usage)
    monkeypatch.setattr("sys.platform", system)
    assert peak_memory_bytes() == 5 * 2**20 * unit
    assert peak_memory_mb() == 5 * unit


def test_memory_is_measured_in_one_place_only() -> None:
    files = [file for folder in ("src", "benchmarks") for file in (ROOT / folder).rglob("*.py")]
    assert [file.name for file in files if "ru_maxrss" in file.read_text(encoding="utf-8")] == ["runs.py"]


def test_the_machine_has_its_processor_and_instruction_set(monkeypatch: pytest.MonkeyPatch) -> None:
    import torch

    processor, instructions, cores, _ = machine().split(", ")
    assert processor
    assert instructions == torch.backends.cpu.get_cpu_capability()
    assert int(cores.removesuffix(" cores")) > 0
    assert provenance()["machine"] == machine()
    monkeypatch.delitem(sys.modules, "torch")
    assert machine() == f"{processor}, {cores}, {platform.system()} {platform.machine()}", "it does not import torch"
