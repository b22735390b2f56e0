"""Run folders."""

from __future__ import annotations

import platform
import re
import sys
from pathlib import Path

import pytest

from acvp.errors import UserError
from acvp.runs import RunFolder, default_path, machine, provenance


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


def test_the_machine_has_its_processor_and_instruction_set(monkeypatch: pytest.MonkeyPatch) -> None:
    import torch

    processor, instructions, cores, _ = machine().split(", ")
    assert processor
    assert instructions == torch.backends.cpu.get_cpu_capability()
    assert int(cores.removesuffix(" cores")) > 0
    assert provenance()["machine"] == machine()
    monkeypatch.delitem(sys.modules, "torch")
    assert machine() == f"{processor}, {cores}, {platform.system()} {platform.machine()}", "it does not import torch"
