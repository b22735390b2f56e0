"""Run folders, and result files with provenance.

A run folder has everything about one training:

config.json       the configuration; contains its own checksum
starts.jsonl      a line per start: time, command line, commit, versions, machine
metrics.jsonl     a line per report: losses, errors, speed
checkpoints/      see checkpoint.py
tensorboard/      the metrics for TensorBoard
predictor/        the finished predictor
plots/ videos/    results of its evaluation
"""

from __future__ import annotations

import json
import math
import os
import platform
import re
import subprocess
import sys
import time
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from importlib.metadata import PackageNotFoundError, version
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from acvp import __version__
from acvp.compat import current_run
from acvp.durable import (
    append_line,
    exclusive_writer,
    finished_lines,
    make_folder,
    read_file,
    seal,
    unseal,
    write_atomic,
)
from acvp.errors import UserError

CONFIG_NAME = "config.json"
STARTS_NAME = "starts.jsonl"
PLOTS_NAME = "plots"
METRICS_NAME = "metrics.jsonl"
LIBRARIES = (
    "torch", "lightning-fabric", "numpy", "safetensors", "numcodecs", "gymnasium", "ale-py", "stable-baselines3"
)  # fmt: skip


def default_path(env_id: str, model: str, seed: int) -> Path:
    """Return runs/{game}__{model}__{seed}__{time}."""
    game = re.sub(r"[^A-Za-z0-9.-]+", "-", env_id)
    return Path("runs") / f"{game}__{model}__{seed}__{time.strftime('%Y%m%d-%H%M%S')}"


class RunFolder:
    """The files of one run."""

    def __init__(self, path: Path) -> None:
        self.path = path

    @property
    def checkpoints(self) -> Path:
        return self.path / "checkpoints"

    @property
    def predictor(self) -> Path:
        return self.path / "predictor"

    @property
    def tensorboard(self) -> Path:
        return self.path / "tensorboard"

    @property
    def begun(self) -> bool:
        """Whether a run was started in this folder."""
        return (self.path / CONFIG_NAME).exists()

    @contextmanager
    def writing(self) -> Iterator[None]:
        """Make the folder if it is missing, and lock it; a second writer gets an error."""
        self._refuse_foreign_folder()
        for folder in (self.checkpoints, self.path / "plots", self.path / "videos"):
            make_folder(folder)
        with exclusive_writer(self.path):
            yield

    def read_config(self) -> dict[str, Any]:
        """Return the configuration of the run."""
        file = self.path / CONFIG_NAME
        try:
            config: dict[str, Any] = current_run(unseal(read_file(file, self.path)))
        except OSError as error:
            raise UserError(f"{file}: cannot be read ({error.strerror}); is {self.path} a run folder?") from error
        except ValueError as error:
            raise UserError(f"{file}: {error}") from error
        return config

    def write_config(self, config: dict[str, Any]) -> None:
        """Write the configuration of the run."""
        write_atomic(self.path / CONFIG_NAME, seal(config))

    def note_start(self) -> None:
        """Add a line about this start: time, command, code and machine."""
        append_line(self.path / STARTS_NAME, json.dumps(provenance()))

    def add_metrics(self, values: dict[str, Any]) -> None:
        """Add a line of metrics."""
        append_line(self.path / METRICS_NAME, json.dumps(values))

    def metrics(self) -> list[dict[str, Any]]:
        """Return all lines of metrics, without an unfinished last line."""
        file = self.path / METRICS_NAME
        try:
            return [json.loads(line) for line in finished_lines(file)]
        except OSError as error:
            raise UserError(f"{file}: cannot be read ({error.strerror})") from error
        except (ValueError, RecursionError) as error:
            raise UserError(f"{file}: damaged ({error}); move it away to continue without the old metrics") from error

    def forget_metrics_after(self, step: int, lines: int | None = None) -> None:
        """Remove the lines that a resumed run writes again: those of later steps, those after the first `lines`, and an
        unfinished last line.
        """
        if not (self.path / METRICS_NAME).exists():
            return
        kept = [line for line in self.metrics()[:lines] if line.get("step", 0) <= step]
        write_atomic(self.path / METRICS_NAME, "".join(json.dumps(line) + "\n" for line in kept).encode())

    def _refuse_foreign_folder(self) -> None:
        if self.path.is_file():
            raise UserError(f"{self.path} is a file; a run is a folder: choose another --run")
        if self.path.is_dir() and not self.begun:
            ours = {"checkpoints", "plots", "videos"}
            foreign = sorted(p.name for p in self.path.iterdir() if not p.name.startswith(".") and p.name not in ours)
            if foreign:
                raise UserError(f"{self.path} is not a run and not empty (it has {foreign[0]}); choose another --run")


def differences(before: Any, now: Any, name: str = "") -> list[str]:
    """Return the fields in which two configurations differ, each as `name: before → now`."""
    if isinstance(before, dict) and isinstance(now, dict):
        keys = [*before, *(key for key in now if key not in before)]
        pairs = [(key, before.get(key), now.get(key)) for key in keys]
    elif isinstance(before, list) and isinstance(now, list) and len(before) == len(now):
        pairs = [(str(i), a, b) for i, (a, b) in enumerate(zip(before, now, strict=True))]
    else:
        return [] if before == now else [f"{name}: {before!r} → {now!r}"]
    return [text for key, a, b in pairs for text in differences(a, b, f"{name}.{key}" if name else key)]


def clock(seconds: float) -> str:
    """Return seconds as h:mm:ss, or as days if they are over three days."""
    if seconds > 3 * 86400:
        return f"{seconds / 86400:,.0f} days"
    minutes, second = divmod(int(seconds), 60)
    return f"{minutes // 60}:{minutes % 60:02d}:{second:02d}"


def provenance() -> dict[str, Any]:
    """Return where a result comes from: time, command, commit, versions and machine."""
    return {
        "time": time.strftime("%Y-%m-%d %H:%M:%S%z"),
        "command": [Path(sys.argv[0]).name, *sys.argv[1:]],
        "commit": commit(),
        "versions": versions(),
        "machine": machine(),
    }


def versions() -> dict[str, str | None]:
    """Return the versions of Python, acvp and the libraries."""
    own = {"python": platform.python_version(), "acvp": __version__}
    return own | {library: _version(library) for library in LIBRARIES}


def machine() -> str:
    """Return processor, torch's instruction set (if torch is loaded), usable cores and system."""
    processor = platform.processor() or platform.machine()
    info = Path("/proc/cpuinfo")
    if info.exists():
        named = re.search(r"^model name\s*:\s*(.+)$", info.read_text(encoding="utf-8"), re.MULTILINE)
        processor = named[1].strip() if named else processor
    torch = sys.modules.get("torch")  # importing it takes seconds
    parts = [processor, *([torch.backends.cpu.get_cpu_capability()] if torch else [])]
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count()
    return ", ".join([*parts, f"{cores} cores", f"{platform.system()} {platform.machine()}"])


def _version(package: str) -> str | None:
    try:
        return version(package)
    except PackageNotFoundError:
        return None


def peak_memory_bytes() -> int | None:
    """Return the peak memory of this process in bytes; None on Windows."""
    if find_spec("resource") is None:  # pragma: no cover
        return None
    import resource

    return memory_of(resource.getrusage(resource.RUSAGE_SELF))


def memory_of(usage: Any) -> int:
    """Return the peak memory in bytes of what the system says a process has used."""
    unit = 1 if sys.platform == "darwin" else 1024  # macOS counts in bytes, Linux in kilobytes
    return int(usage.ru_maxrss) * unit


def peak_memory_mb() -> int | None:
    """Return the peak memory of this process in units of 2²⁰ bytes."""
    taken = peak_memory_bytes()
    return None if taken is None else round(taken / 2**20)


def commit() -> str | None:
    """Return the commit of the code that runs, marked if it was changed since; None outside acvp's repository.

    A package in a virtual environment inside another repository is not part of that repository. Files in results/ are
    no code: a benchmark of several parts writes there after each.
    """
    folder = Path(__file__).resolve().parent
    top = _git("rev-parse", "--show-toplevel")
    if top is None or Path(top).resolve() / "src" / "acvp" != folder:
        return None
    head = _git("rev-parse", "HEAD")
    changed = _git("status", "--porcelain", "--untracked-files=no", "--", ":/", ":(exclude,top)results")
    return f"{head}-dirty" if head and changed else head


def _git(*arguments: str) -> str | None:
    """Return the output of git in acvp's folder; None if git fails or is missing."""
    command, folder = ["git", *arguments], Path(__file__).parent
    try:
        done = subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False, timeout=10)
    except (OSError, subprocess.TimeoutExpired):
        return None
    return done.stdout.strip() or None


def write_results(
    path: Path,
    body: dict[str, Any],
    *,
    seed: int | None = None,
    started: float | None = None,
    earlier_seconds: float = 0.0,
    command: str | None = None,
) -> Path:
    """Write results as JSON with their provenance, and return the path.

    `seed`: what random numbers were drawn with; None: none were drawn.
    `started`: value of time.monotonic when the work began; None: no duration is written.
    `earlier_seconds`: duration of the parts that earlier commands measured.
    `command`: what to run to get these results; None: the command line of this process.
    """
    origin = provenance() | ({} if command is None else {"command": command})
    origin |= {"seed": seed, "peak_memory_mb": peak_memory_mb()}
    if started is not None:
        origin["seconds"] = round(time.monotonic() - started + earlier_seconds, 1)
    text = json.dumps({"provenance": origin} | body, indent=1, ensure_ascii=False, allow_nan=False)
    make_folder(path.parent)
    write_atomic(path, text.encode() + b"\n")
    return path


def numbers(values: Iterable[float]) -> list[float | None]:
    """Return numbers for JSON, which has no NaN."""
    return [float(f"{value:.9g}") if math.isfinite(value) else None for value in values]


def default_out(runs: Sequence[Path]) -> Path:
    """Return the folder of results: that of the run, or `evaluation` if there are several or it comes with acvp."""
    return runs[0] if len(runs) == 1 and runs[0].is_dir() else Path("evaluation")
