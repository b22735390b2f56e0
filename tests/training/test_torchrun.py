"""The documented torchrun line starts and trains."""

from __future__ import annotations

import os
import shlex
import signal
import subprocess
import sys
from contextlib import suppress
from pathlib import Path

import pytest

from acvp.checkpoint import newest_good
from tests.faults import PATIENCE, ROOT
from tests.training.small import toy_store


@pytest.mark.slow
def test_the_documented_line_trains_in_two_processes(tmp_path: Path) -> None:
    text = (ROOT / "docs" / "training.md").read_text()
    (words,) = [shlex.split(line) for line in text.splitlines() if line.startswith("torchrun ")]
    store, run = toy_store(tmp_path / "store"), tmp_path / "run"
    small = {"8": "2", "stores/freeway": str(store.path), "paper": "smoke", "runs/freeway": str(run)}
    assert set(small) < set(words)
    command = [small.get(word, word) for word in words] + ["--minutes", "0.02", "--device", "cpu"]
    command.insert(1, "--standalone")  # any free port
    found = {"PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}", "OMP_NUM_THREADS": "1"}
    pipe = subprocess.PIPE
    process = subprocess.Popen(
        command, env=os.environ | found, cwd=tmp_path, stdout=pipe, stderr=pipe, text=True, start_new_session=True
    )
    try:
        _, errors = process.communicate(timeout=PATIENCE)
    finally:
        with suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
    assert process.returncode == 0, errors
    saved = newest_good(run / "checkpoints", pytest.fail)
    assert saved is not None
    assert saved.step > 0
    assert (run / "predictor" / "model.safetensors").exists()
