"""The documented torchrun lines train in two processes what one process trains, bit for bit.

One process adds up two gradient-accumulation steps, as two processes add up their halves of each batch.
"""

from __future__ import annotations

import os
import shlex
import signal
import socket
import subprocess
import sys
from collections.abc import Sequence
from contextlib import suppress
from pathlib import Path

import pytest

from acvp.data.store import EpisodeStore
from acvp.runs import RunFolder
from tests.faults import PATIENCE, ROOT
from tests.training.small import toy_store

FOUND = {"PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}", "OMP_NUM_THREADS": "1"}
SHORT = ["--device", "cpu", "--phases.0.steps", "4", "--import", "counted"]
COUNTED = """
from acvp.data import statistics

write = statistics._write

def count(file, key, arrays):
    with open("computed", "a") as computed:
        print(file.name, file=computed)
    write(file, key, arrays)

statistics._write = count
"""
"""A module that notes which statistics of a dataset its process computes."""


def documented(page: str, program: str) -> list[str]:
    """The words of the one line of a page that starts a program with torchrun."""
    text = (ROOT / "docs" / page).read_text().replace("\\\n", " ")
    (words,) = [shlex.split(line) for line in text.splitlines() if line.startswith(f"{program} ")]
    return words


def replaced(words: Sequence[str], values: dict[str, str]) -> list[str]:
    """The words with some of them replaced, each of which must be there."""
    assert set(values) <= set(words)
    return [values.get(word, word) for word in words]


def ended(commands: Sequence[Sequence[str]], folder: Path) -> None:
    """Run commands at the same time in a folder, and require that all of them succeed."""
    (folder / "counted.py").write_text(COUNTED)
    pipe = subprocess.PIPE
    processes = [
        subprocess.Popen(
            command, env=os.environ | FOUND, cwd=folder, stdout=pipe, stderr=pipe, text=True, start_new_session=True
        )
        for command in commands
    ]
    try:
        errors = [process.communicate(timeout=PATIENCE)[1] for process in processes]
    finally:
        for process in processes:
            with suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
    assert [process.returncode for process in processes] == [0] * len(commands), "\n".join(errors)


def alone(words: Sequence[str], run: Path) -> list[str]:
    """The same training in one process."""
    command = list(words[words.index("acvp") :])
    command[command.index("--run") + 1] = str(run)
    return [*command, "--accumulate", "2"]


def learned(run: Path) -> tuple[bytes, list[object]]:
    """Weights and losses of a finished run."""
    lines = [line for line in RunFolder(run).metrics() if line["kind"] == "train"]
    return (run / "predictor" / "model.safetensors").read_bytes(), [line["loss"] for line in lines]


@pytest.fixture
def store(tmp_path: Path) -> EpisodeStore:
    return toy_store(tmp_path / "store")


@pytest.mark.slow
@pytest.mark.load
def test_two_processes_of_a_node_train_as_one_does(store: EpisodeStore, tmp_path: Path) -> None:
    here = {"8": "2", "stores/freeway": str(store.path), "paper": "smoke", "runs/freeway": str(tmp_path / "two")}
    words = replaced(documented("training.md", "torchrun"), here)
    words = [*words, *SHORT, "--phases.1.steps", "2"]
    words.insert(1, "--standalone")  # any free port
    ended([words], tmp_path)
    ended([alone(words, tmp_path / "one")], tmp_path)
    assert learned(tmp_path / "two") == learned(tmp_path / "one")


@pytest.mark.slow
@pytest.mark.load
def test_two_nodes_train_as_one_process_does_and_compute_each_statistic_once(
    store: EpisodeStore, tmp_path: Path
) -> None:
    """Two torchruns on this machine, each with one process, meet as those of two nodes do."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    here = {
        "8": "1", "$SLURMD_NODENAME:29500": f"127.0.0.1:{port}", "stores/freeway": str(store.path), "paper": "smoke",
        "runs/freeway": str(tmp_path / "two"),
    }  # fmt: skip
    _, *words = replaced(documented("how-to/cluster.md", "srun"), here)
    words = [*words, *SHORT, "--model", "pixel"]
    words[1:1] = ["--local-addr", "127.0.0.1"]
    ended([words, words], tmp_path)
    computed = (tmp_path / "computed").read_text().split()
    assert len(computed) == len(set(computed)) > 1
    ended([alone(words, tmp_path / "one")], tmp_path)
    assert (tmp_path / "computed").read_text().split() == computed, "the cache was not used"
    assert learned(tmp_path / "two") == learned(tmp_path / "one")
