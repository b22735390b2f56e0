"""Run folders."""

from __future__ import annotations

import json
import os
import platform
import re
import shutil
import subprocess
import sys
import time
from pathlib import Path
from types import SimpleNamespace

import pytest

import acvp.runs
from acvp.errors import UserError
from acvp.runs import (
    RunFolder,
    clock,
    default_path,
    machine,
    peak_memory_bytes,
    peak_memory_mb,
    provenance,
    write_results,
)

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


def test_damaged_metrics_are_reported(tmp_path: Path) -> None:
    (tmp_path / "metrics.jsonl").write_text('{"step": 1\n')
    with pytest.raises(UserError, match=r"metrics\.jsonl: damaged"):
        RunFolder(tmp_path).metrics()


def test_a_missing_config_is_reported(tmp_path: Path) -> None:
    with pytest.raises(UserError, match=r"is .* a run folder"):
        RunFolder(tmp_path).read_config()


def test_a_second_writer_is_refused(tmp_path: Path) -> None:
    run = RunFolder(tmp_path / "run")
    with run.writing():
        second = RunFolder(tmp_path / "run")
        with pytest.raises(UserError, match="is being written by process"), second.writing():
            pass


def test_results_are_written_with_their_provenance(tmp_path: Path) -> None:
    started = time.monotonic() - 5
    file = write_results(tmp_path / "new" / "x.json", {"mean": 0.5}, seed=3, started=started, earlier_seconds=100)
    body = json.loads(file.read_text())
    assert body.pop("mean") == 0.5
    origin = body.pop("provenance")
    assert body == {}
    assert origin["seed"] == 3
    assert origin["seconds"] >= 105
    assert origin["command"] == [Path(sys.argv[0]).name, *sys.argv[1:]]
    assert origin.keys() >= {"time", "commit", "versions", "machine", "peak_memory_mb"}


def test_results_name_another_command_and_no_duration_on_request(tmp_path: Path) -> None:
    origin = json.loads(write_results(tmp_path / "x.json", {}, command="make bench").read_text())["provenance"]
    assert origin["command"] == "make bench"
    assert origin["seed"] is None
    assert "seconds" not in origin


def test_results_that_json_cannot_hold_leave_the_old_file(tmp_path: Path) -> None:
    write_results(tmp_path / "x.json", {"mean": 1})
    with pytest.raises(ValueError, match="not JSON compliant"):
        write_results(tmp_path / "x.json", {"mean": float("nan")})
    assert json.loads((tmp_path / "x.json").read_text())["mean"] == 1


def test_provenance_has_commit_and_versions() -> None:
    found = provenance()
    assert found["versions"]["torch"]
    assert found["commit"] is None or re.fullmatch(r"[0-9a-f]{40}(-dirty)?", found["commit"])


@pytest.mark.parametrize("inside", ["src/acvp", "venv/lib/site-packages/acvp"])
def test_the_commit_is_acvps_own(tmp_path: Path, inside: str) -> None:
    """Not that of a repository that it happens to be installed in; marked after a change of any file but results."""
    package, result = tmp_path / inside, tmp_path / "results" / "x.json"
    result.parent.mkdir()
    result.touch()
    shutil.copytree(Path(acvp.runs.__file__).parent, package, ignore=shutil.ignore_patterns("pretrained", "*.pyc"))
    for command in ("init", "add .", "-c user.name=n -c user.email=e commit -m m"):
        subprocess.run(["git", *command.split()], cwd=tmp_path, capture_output=True, check=True)
    head = subprocess.run(["git", "rev-parse", "HEAD"], cwd=tmp_path, capture_output=True, text=True, check=True)
    code = "import acvp.runs; print(acvp.runs.__file__, acvp.runs.provenance()['commit'])"
    environment = os.environ | {"PYTHONPATH": str(package.parent), "PYTHONDONTWRITEBYTECODE": "1"}

    def found() -> list[str]:
        done = subprocess.run([sys.executable, "-c", code], env=environment, capture_output=True, text=True, check=True)
        return done.stdout.split()

    expected = head.stdout.strip() if inside == "src/acvp" else "None"
    assert found() == [str(package / "runs.py"), expected]
    result.write_text("{}")
    assert found()[1] == expected
    (package / "testing.py").unlink()
    assert found()[1] == (f"{expected}-dirty" if inside == "src/acvp" else "None")


@pytest.mark.parametrize(("system", "unit"), [("darwin", 1), ("linux", 1024)])
def test_peak_memory_counts_in_the_systems_unit(monkeypatch: pytest.MonkeyPatch, system: str, unit: int) -> None:
    usage = SimpleNamespace(ru_maxrss=5 * 2**20)
    monkeypatch.setattr("resource.getrusage", lambda who: usage)
    monkeypatch.setattr("sys.platform", system)
    assert peak_memory_bytes() == 5 * 2**20 * unit
    assert peak_memory_mb() == 5 * unit


@pytest.mark.parametrize(
    ("seconds", "text"),
    [
        (0, "0:00:00"),
        (59.9, "0:00:59"),
        (3661, "1:01:01"),
        (259_200, "72:00:00"),
        (259_201, "3 days"),
        (1e6, "12 days"),
    ],
)
def test_times_are_hours_up_to_three_days(seconds: float, text: str) -> None:
    assert clock(seconds) == text


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
