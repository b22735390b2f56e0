"""What the tests of the reliability promises share: counted trials, traps in the file system's calls, a telling game.

Run as a program, `python -m tests.faults '{"trap": …}' collect …` is the acvp command line with something set to go
wrong in it; the package itself has no hooks for that.
"""

from __future__ import annotations

import json
import os
import platform
import resource
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass
from fnmatch import fnmatch
from pathlib import Path
from typing import Any, TypeVar

import gymnasium
import numpy as np
import numpy.typing as npt
from filelock import FileLock
from gymnasium import spaces

import acvp.cli.main
from acvp import durable
from acvp.data.episode import Episode
from acvp.data.recording import StoreWriter
from acvp.data.store import EpisodeStore
from acvp.durable import append_line, exclusive_writer, write_atomic
from acvp.errors import UserError
from acvp.seeding import derived_seed, generator

ROOT = Path(__file__).parent.parent
RESULTS = ROOT / "results" / "faults.json"

PATIENCE = 300
"""Seconds after which something that must happen has not happened; the machine may be very busy."""

Test = TypeVar("Test", bound=Callable[..., None])
Frame = npt.NDArray[np.uint8]  # (12, 16, 3)


@dataclass(frozen=True)
class Trials:
    """So many tries of one promise."""

    promise: str
    count: int
    full: bool
    """All that `make faults` does: the figures go to results/faults.json."""

    def run(self, check: Callable[[int, np.random.Generator], None]) -> None:
        """Do every trial, each with a generator of its own; note the figures of a full run; fail if any trial did."""
        began, failures = time.monotonic(), []
        for i in range(self.count):
            try:
                check(i, generator(self.promise, i))
            except Exception as error:
                failures.append(f"trial {i}: {type(error).__name__}: {error}")
        if self.full:
            self.note(self.count - len(failures), time.monotonic() - began)
        assert not failures, f"{len(failures)} of {self.count} failed\n" + "\n".join(failures[:10])

    def note(self, passed: int, seconds: float) -> None:
        """Put the figures of a full run beside those of the other promises."""
        figures = {
            "count": self.count,
            "passed": passed,
            "seconds": round(seconds, 1),
            "command": "make faults",
            "commit": tested_commit(),
            "python": platform.python_version(),
            "platform": platform.platform(),
        }
        with FileLock(Path(tempfile.gettempdir()) / "acvp-faults.lock"):
            known = json.loads(RESULTS.read_text()) if RESULTS.exists() else {}
            text = json.dumps(known | {self.promise: figures}, indent=1, sort_keys=True)
            write_atomic(RESULTS, text.encode() + b"\n")


def tested_commit() -> str:
    """The commit of this tree, marked as dirty if anything but the results of this very run differs from it."""

    def git(*arguments: str) -> str:
        return subprocess.run(["git", *arguments], cwd=ROOT, capture_output=True, text=True, check=False).stdout.strip()

    changed = git("status", "--porcelain", "--", ".", f":(exclude){RESULTS.relative_to(ROOT)}")
    return git("rev-parse", "HEAD") + ("-dirty" if changed else "")


def counted(promise: str, *, quick: int, full: int) -> Callable[[Test], Test]:
    """Run a test with `trials` of the quick count always, and of the full count under the marker `faults`."""
    import pytest

    few = pytest.param(Trials(promise, quick, full=False), id="quick")
    all_of_them = pytest.param(Trials(promise, full, full=True), id="full", marks=pytest.mark.faults)
    return pytest.mark.parametrize("trials", [few, all_of_them])


@dataclass(frozen=True)
class Trap:
    """Where a process is to be hit: the n-th time that it does something to a file of a name."""

    operation: str
    """open, write, fsync, replace or unlink."""
    name: str
    """Pattern of the whole path; of the new name for replace."""
    nth: int = 1
    share: float = 0.0
    """Of the bytes to write, what is still written."""

    def arm(self, strike: Callable[[], None], patch: Callable[[Any, str, Any], None] = setattr) -> None:
        """Replace the system's calls by ones that strike at the place."""
        paths: dict[int, str] = {}
        times = 0

        def meant(operation: str, target: Any) -> bool:
            nonlocal times
            path = paths.get(target, "") if isinstance(target, int) else os.fspath(target)
            times += operation == self.operation and fnmatch(path, self.name)
            return operation == self.operation and fnmatch(path, self.name) and times == self.nth

        def guard(operation: str) -> Callable[..., Any]:
            real = getattr(os, operation)

            def call(*arguments: Any, **options: Any) -> Any:
                if meant(operation, arguments[operation == "replace"]):
                    if operation == "write":
                        real(arguments[0], arguments[1][: int(self.share * len(arguments[1]))])
                    strike()
                result = real(*arguments, **options)
                if operation == "open":
                    paths[result] = os.fspath(arguments[0])
                return result

            return call

        for operation in ("open", "write", "fsync", "replace", "unlink"):
            patch(os, operation, guard(operation))


def die() -> None:
    """End this process as kill -9 does."""
    os.kill(os.getpid(), signal.SIGKILL)


def die_at_use(nth: int, name: str) -> None:
    """End this process as kill -9 does when it uses a path of a name for the n-th time: opens, renames, removes it."""
    uses = 0

    def watch(event: str, arguments: tuple[Any, ...]) -> None:
        nonlocal uses
        if event != "os.kill" and (event == "open" or event.startswith(("os.", "shutil."))):
            uses += any(isinstance(each, str | os.PathLike) and name in os.fspath(each) for each in arguments)
            if uses >= nth:
                die()

    sys.addaudithook(watch)


def fail_with(number: int) -> Callable[[], None]:
    """Fail as a system's call does with this error number."""

    def fail() -> None:
        raise OSError(number, os.strerror(number))

    return fail


class TellingGame(gymnasium.Env[Frame, np.int64]):
    """Every frame tells the seed of its episode, its own index and the action before it."""

    metadata = {"render_modes": ["rgb_array"], "render_fps": 10}  # noqa: RUF012  (Gymnasium declares it so)

    def __init__(self, render_mode: str | None = None) -> None:
        self.render_mode = render_mode
        self.observation_space = spaces.Box(0, 255, (12, 16, 3), np.uint8)
        self.action_space = spaces.Discrete(3)

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[Frame, dict[str, Any]]:
        self._seed, self._index = seed or 0, 0
        return telling_frame(self._seed, 0, 0), {}

    def step(self, action: int | np.int64) -> tuple[Frame, float, bool, bool, dict[str, Any]]:
        self._index += 1
        over = self._index == telling_length(self._seed)
        terminated = over and self._seed % 2 == 0
        frame = telling_frame(self._seed, self._index, int(action))
        return frame, self._index % 5, terminated, over and not terminated, {}

    def render(self) -> Frame:
        return telling_frame(self._seed, self._index, 0)


TELLING_ID = "acvp-tests/Telling-v0"
if TELLING_ID not in gymnasium.registry:
    gymnasium.register(TELLING_ID, entry_point="tests.faults:TellingGame")


def telling_length(seed: int) -> int:
    """Actions in the episode of a seed."""
    return 8 + seed % 60


def telling_frame(seed: int, index: int, action: int) -> Frame:
    """Sixteen grays: three rows of hexadecimal digits, and below them noise that both numbers decide."""
    cells = np.random.default_rng([seed, index]).integers(16, size=(12, 16))
    for row, value in enumerate((seed, index, action)):
        cells[row] = [int(digit, 16) for digit in f"{value:016x}"]
    return np.repeat(cells[..., None].astype(np.uint8) * 16, 3, axis=2)


def assert_told_right(episode: Episode, collection_seed: int) -> None:
    """Fail unless everything in an episode of the telling game is what its number says."""
    header = episode.header
    assert header.seed == derived_seed("game", collection_seed, header.number)
    assert header.frames == telling_length(header.seed) + 1
    actions = [0, *episode.actions.tolist()]
    right = np.stack([telling_frame(header.seed, i, action) for i, action in enumerate(actions)])
    assert np.array_equal(episode.frames(), right)
    assert episode.rewards.tolist() == [i % 5 for i in range(1, header.frames)]
    assert header.terminated == (header.seed % 2 == 0)
    assert header.truncated != header.terminated


def collect_command(out: Path, *, frames: int, workers: int = 1, seed: int = 7) -> list[str]:
    """The arguments of an acvp command that records the telling game."""
    named = {"env-id": TELLING_ID, "import": "tests.faults", "out": out, "frames": frames, "workers": workers}
    return ["collect", *(f"--{name}={value}" for name, value in (named | {"seed": seed}).items())]


def start(arguments: list[str], **mishap: Any) -> subprocess.Popen[bytes]:
    """Start an acvp command in a process of its own, in which `mishap` (see `main`) happens."""
    command = [sys.executable, "-m", "tests.faults", json.dumps(mishap, default=asdict), *arguments]
    pipe = subprocess.PIPE
    return subprocess.Popen(
        command,
        cwd=ROOT,
        stdin=pipe,
        stdout=pipe,
        stderr=pipe,
        start_new_session=True,
        preexec_fn=_hear_interrupts,
    )


def _hear_interrupts() -> None:
    """Undo what a background job inherits: that SIGINT is ignored."""
    signal.signal(signal.SIGINT, signal.SIG_DFL)


def complaint(errors: bytes) -> str:
    """The one line that acvp itself wrote to stderr; libraries may warn beside it."""
    text = errors.decode()
    assert "Traceback" not in text, text
    (line,) = [line for line in text.splitlines() if line.startswith("acvp: ")]
    return line


def added(output: bytes) -> set[int]:
    """The episodes that a started command reported as safe."""
    return {int(line.split()[1]) for line in output.splitlines() if line.startswith(b"added ")}


def contents(folder: Path) -> dict[str, bytes]:
    """All files of a folder by name, but for the lock and who held it last."""
    files = (file for file in folder.rglob("*") if file.is_file())
    held = {durable.LOCK_NAME, durable.HOLDER_NAME}
    return {str(file.relative_to(folder)): file.read_bytes() for file in files if file.name not in held}


def assert_nothing_wrong(folder: Path, collection_seed: int = 7) -> set[int]:
    """The numbers of the episodes visible in a store of the telling game; fails unless all are whole and right."""
    if not (folder / "store.json").exists():
        return set()
    store = EpisodeStore(folder)
    for episode in store:
        assert_told_right(episode, collection_seed)
    assert store.frames == sum(map(len, store))
    assert store.size == sum(
        (folder / "episodes" / f"{e.number:06d}.safetensors").stat().st_size for e in store.entries
    )
    return {entry.number for entry in store.entries}


def filling(size: int) -> bytes:
    """So many bytes that are easy to tell from others."""
    return bytes(range(256)) * (size // 256) + bytes(size % 256)


def main(arguments: list[str]) -> int:
    """The acvp command line with one mishap: a trap that kills or fails, a largest file size, no look at free space.

    Three more verbs show the tools below it: `write PATH SIZE`, `append PATH LINE` and `hold FOLDER`.
    """
    mishap, verb = json.loads(arguments[0]), arguments[1]
    report_additions()
    if "trap" in mishap:
        Trap(**mishap["trap"]).arm(fail_with(mishap["error"]) if "error" in mishap else die)
    if "die_at_use" in mishap:
        die_at_use(mishap["die_at_use"], mishap["of"])
    if "file_limit" in mishap:
        resource.setrlimit(resource.RLIMIT_FSIZE, (mishap["file_limit"], mishap["file_limit"]))
    if mishap.get("blind"):
        plenty = shutil._ntuple_diskusage(2**50, 0, 2**50)
        setattr(shutil, "disk_usage", lambda path: plenty)  # noqa: B010
    if verb == "write":
        write_atomic(Path(arguments[2]), filling(int(arguments[3])))
    elif verb == "append":
        append_line(Path(arguments[2]), arguments[3])
    elif verb == "hold":
        hold(Path(arguments[2]))
    else:
        return acvp.cli.main.main(arguments[1:])
    return 0


def hold(folder: Path) -> None:
    """Say when ready, wait for a line, try to become the folder's writer, say how it went, stay until told to go."""
    durable.HOLDER_SECONDS = PATIENCE
    print("ready", flush=True)
    sys.stdin.readline()
    try:
        with exclusive_writer(folder):
            print("won", flush=True)
            sys.stdin.readline()
    except UserError as error:
        print(f"refused: {error}", flush=True)


def report_additions() -> None:
    """Let this process say of every episode when it is safe."""
    real_add = StoreWriter.add

    def add(writer: StoreWriter, episode: Episode) -> None:
        real_add(writer, episode)
        print(f"added {episode.header.number}", flush=True)

    setattr(StoreWriter, "add", add)  # noqa: B010  (mypy minds a plain assignment to a method)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
