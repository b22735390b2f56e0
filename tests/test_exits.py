"""Promise 17: every verb ends in one line on stderr and a documented exit code, without a traceback."""

from __future__ import annotations

import os
import resource
import signal
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest

from acvp import __version__
from acvp import exits as ends
from acvp.cli.main import main
from acvp.data.collect import CollectConfig, collect
from acvp.errors import UserError
from tests.commands import PATIENCE, VERBS, assert_alone, assert_ended, commands, start
from tests.envs.misbehaving import MISBEHAVING, SAVING, env_id
from tests.faults import Trials, counted

MOMENTS = 10
ENDING = [verb for verb in VERBS if verb != "play"]
"""The verbs that end by themselves; `play` is the last of all."""
GIVING_UP = (
    "OpenBLAS error: Memory allocation",
    "terminate called after throwing",
    "libgomp: Thread creation failed",
    "cannot allocate memory for thread-local data",
)
"""What libraries print that end the process themselves when they get no memory: it is out of Python's hands."""


class Made:
    """What the verbs work on: as much of it as is needed, and how long each takes when nothing disturbs it."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        store = collect(CollectConfig(env_id="toy", out=folder / "store", frames=1200, seed=1))
        collect(CollectConfig(env_id="toy", out=folder / "other", frames=200, seed=2))
        self._rest = store
        self._known: dict[str, tuple[float, int]] = {}

    def for_all_verbs(self) -> None:
        """Make what the verbs need that import torch."""
        if (self.folder / "run").exists():
            return
        from tests.agents.small import tiny_agent
        from tests.agents.test_sb3 import save_zip
        from tests.control.test_compare import written
        from tests.evaluation.predictors import small_network
        from tests.evaluation.runs import make_run

        make_run(self.folder / "run", self._rest)
        make_run(self.folder / "rewarded", self._rest, predictor=small_network(self._rest, predict_rewards=True))
        tiny_agent().save(self.folder / "agent")
        written(self.folder / "learned", exploration="random", seed=1, scores=[0.0, 2.0])
        save_zip(self.folder / "dqn.zip")
        exported = ["--format", "npz", "--out", str(self.folder / "exported")]
        assert main(["data", "export", str(self.folder / "store"), *exported]) == 0

    def undisturbed(self, verb: str, out: Path) -> tuple[float, int]:
        """Return the seconds and the bytes that a verb takes; 10 seconds where it has no end."""
        if verb not in self._known:
            began, child = time.monotonic(), start(self.arguments(verb, out))
            child.wait_until_ready()
            if verb == "play":
                assert child.process.stdout is not None
                child.process.stdout.readline()
                child.process.terminate()
            code, _, errors = child.end()
            assert_ended(code, errors, 143 if verb == "play" else 0)
            self._known[verb] = 10.0 if verb == "play" else time.monotonic() - began, child.peak_bytes()
        return self._known[verb]

    def arguments(self, verb: str, out: Path) -> list[str]:
        """Return the arguments of a verb that writes to a new folder."""
        out.mkdir()
        return commands(self.folder, out / "new" if verb not in ("data info", "report") else out)[verb]


@pytest.fixture(scope="session")
def made(tmp_path_factory: pytest.TempPathFactory) -> Made:
    return Made(tmp_path_factory.mktemp("made"))


def verb_of(trials: Trials, made: Made, i: int) -> str:
    """Return the verb of a trial; the quick ones use those that need nothing more."""
    if trials.full:
        made.for_all_verbs()
    return VERBS[i % len(VERBS)]


@counted("17 SIGINT at any moment is one line and 130", quick=2, full=len(VERBS) * MOMENTS)
def test_ctrl_c_at_any_time(tmp_path: Path, made: Made, trials: Trials) -> None:
    """The first moment is while acvp is being imported, the others are spread over what the verb takes."""

    def interrupt(i: int, rng: np.random.Generator) -> None:
        verb, moment = verb_of(trials, made, i), i // len(VERBS)
        seconds = made.undisturbed(verb, tmp_path / f"first{i}")[0] if moment else 0.0
        signaled(made.arguments(verb, tmp_path / str(i)), signal.SIGINT, seconds * moment / MOMENTS)

    trials.run(interrupt)


@counted("17 SIGTERM at any moment is one line and 143", quick=1, full=len(VERBS) * 3)
def test_sigterm_at_any_time(tmp_path: Path, made: Made, trials: Trials) -> None:
    def terminate(i: int, rng: np.random.Generator) -> None:
        verb = verb_of(trials, made, i)
        seconds = made.undisturbed(verb, tmp_path / f"first{i}")[0] * rng.uniform() if trials.full else 0.0
        signaled(made.arguments(verb, tmp_path / str(i)), signal.SIGTERM, seconds)

    trials.run(terminate)


def signaled(arguments: list[str], number: signal.Signals, seconds: float) -> None:
    """Start a command, send it a signal so much later, and check its end."""
    child = start(arguments)
    child.wait_until_ready()
    time.sleep(seconds)
    child.process.send_signal(number)
    code, _, errors = child.end()
    assert_ended(code, errors, 0, 128 + number)
    assert_alone(child)


@pytest.mark.load
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_to_a_collection_leaves_no_worker(tmp_path: Path, number: signal.Signals) -> None:
    out = tmp_path / "store"
    child = start(["collect", "--env-id", "toy", "--frames", str(10**7), "--workers", "2", "--out", str(out)])
    while len(list((out / "episodes").glob("0*"))) < 3:
        assert child.process.poll() is None
        time.sleep(0.01)
    child.process.send_signal(number)
    code, _, errors = child.end()
    assert_ended(code, errors, 128 + number)
    assert_alone(child)


@counted("17 a reader that has gone is 141 without a word", quick=1, full=len(VERBS))
def test_a_closed_pipe(tmp_path: Path, made: Made, trials: Trials) -> None:
    def close(i: int, rng: np.random.Generator) -> None:
        reader, writer = os.pipe()
        os.close(reader)
        child = start(made.arguments(verb_of(trials, made, i), tmp_path / str(i)), stdout=writer)
        os.close(writer)
        code, _, errors = child.end()
        silent = {"train", "agent train", "agent learn"}  # all they say goes to stderr
        assert_ended(code, errors, 0 if VERBS[i] in silent else 141)

    trials.run(close)


@counted("17 a full stdout is one line and 2", quick=1, full=len(VERBS))
def test_a_full_output(tmp_path: Path, made: Made, trials: Trials) -> None:
    def fill(i: int, rng: np.random.Generator) -> None:
        full = os.open("/dev/full", os.O_WRONLY)
        child = start(made.arguments(verb_of(trials, made, i), tmp_path / str(i)), stdout=full)
        os.close(full)
        code, _, errors = child.end()
        silent = {"train", "agent train", "agent learn"}
        assert_ended(code, errors, 0 if VERBS[i] in silent else 2)
        assert (code == 0) or "acvp: stdout: No space left on device\n" in errors

    trials.run(fill)


@counted("17 an output that knows ASCII only gets other characters", quick=1, full=len(ENDING))
def test_an_output_in_ascii(tmp_path: Path, made: Made, trials: Trials) -> None:
    def print_plainly(i: int, rng: np.random.Generator) -> None:
        ascii_only = {"PYTHONIOENCODING": "ascii", "LC_ALL": "C", "PYTHONUTF8": "0", "PYTHONCOERCECLOCALE": "0"}
        child = start(made.arguments(verb_of(trials, made, i), tmp_path / str(i)), variables=ascii_only)
        code, output, errors = child.end()
        assert_ended(code, errors, 0)
        assert (output + errors).isascii()
        if VERBS[i] == "data info":
            assert "of 24x24, " in output
            assert "sticky-random, epsilon = 0.3, seed 1" in output

    trials.run(print_plainly)


@counted("17 too little memory is one line and 2", quick=1, full=2 * len(ENDING))
def test_too_little_memory(tmp_path: Path, made: Made, trials: Trials) -> None:
    """With a part of the address space that a verb needs; some C libraries crash or end the process themselves then."""

    def starve(i: int, rng: np.random.Generator) -> None:
        verb = verb_of(trials, made, i % len(ENDING))
        peak = made.undisturbed(verb, tmp_path / f"first{i}")[1] if trials.full else 200 * 10**6
        memory = int(peak * (rng.uniform(0.3, 0.95) if trials.full else 1.0))
        child = start(made.arguments(verb, tmp_path / str(i)), memory=memory)
        code, _, errors = child.end()
        if code not in (-signal.SIGSEGV, -signal.SIGABRT) and not any(words in errors for words in GIVING_UP):
            assert_ended(code, errors, 0, 2)  # 0: what it asked for in vain was not needed
        assert trials.full or "acvp: not enough memory (" in errors

    trials.run(starve)


@counted("17 a path that cannot be is one line and 2", quick=5, full=len(VERBS) * 2)
def test_a_path_that_cannot_be(tmp_path: Path, made: Made, trials: Trials, capsys: pytest.CaptureFixture[str]) -> None:
    """A name too long, or a folder within a file, in place of what is read or written."""
    (tmp_path / "file").write_text("")

    def misname(i: int, rng: np.random.Generator) -> None:
        verb = verb_of(trials, made, i)
        bad = tmp_path / ("x" * 300 if i < len(VERBS) else "file/x")
        written = [str(bad) in option for option in commands(made.folder, bad)[verb]]
        arguments = commands(made.folder if any(written) else bad, bad)[verb]
        capsys.readouterr()
        assert main(arguments) == 2
        (line,) = capsys.readouterr().err.splitlines()
        assert line.startswith("acvp: ")
        assert str(bad) in line

    trials.run(misname)


@counted("17 a misbehaving env is one line and 2", quick=1, full=len(MISBEHAVING) + len(SAVING))
def test_misbehaving_envs_from_the_command_line(tmp_path: Path, trials: Trials) -> None:
    """In a process of its own; test_misbehaving.py tries all of them within one."""
    explore = ["--strategies", "informed-emulator", "--seeds", "1", "--max-steps", "9", "--map-steps", "9"]

    def misbehave(i: int, rng: np.random.Generator) -> None:
        name, (_, _, message) = [*MISBEHAVING.items(), *SAVING.items()][i]
        verb = ["collect", "--frames", "20"] if name in MISBEHAVING else ["explore", *explore]
        game = ["--env-id", env_id(name), "--import", "tests.envs.misbehaving"]
        code, _, errors = start([*verb, *game, "--out", str(tmp_path / name)]).end()
        assert_ended(code, errors, 2)
        assert f"acvp: {env_id(name)}: " in errors
        assert message in errors

    trials.run(misbehave)


def caused(error: Exception, cause: Exception) -> Exception:
    """Return an error that another one led to."""
    error.__cause__ = cause
    return error


@pytest.mark.parametrize(
    ("error", "message"),
    [
        (MemoryError(), "not enough memory (MemoryError): "),
        (RuntimeError("[enforce fail at alloc_cpu.cpp:121] DefaultCPUAllocator: can't allocate memory"), "not enough"),
        (OSError(12, "Cannot allocate memory"), "not enough memory"),
        (caused(KeyError("x"), MemoryError("deep")), "not enough memory (MemoryError: deep)"),
        (PermissionError(13, "Permission denied", "/a/b"), "/a/b: Permission denied"),
        (IsADirectoryError(21, "Is a directory", b"/a"), "/a: Is a directory"),
        (OSError(30, "Read-only file system", Path("/ro/x")), "/ro/x: Read-only file system"),
        (OSError("no number"), "OSError: no number"),
        (UserError("two\nlines \x1b[31m"), "two lines \\x1b[31m"),
    ],
)
def test_what_a_user_can_fix_is_one_line_and_2(
    error: Exception, message: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    assert ends.run(lambda: _raise(error)) == 2
    (line,) = capsys.readouterr().err.splitlines()
    assert line.startswith(f"acvp: {message}")


SILENT = (
    "error return without exception set",
    "<built-in function f> returned NULL without setting an exception",
)


@pytest.mark.parametrize("text", SILENT)
@pytest.mark.parametrize(("limit", "code"), [(10**12, 2), (resource.RLIM_INFINITY, 70)])
def test_a_silent_failure_of_a_c_library_is_a_lack_of_memory_under_a_limit(
    limit: int, code: int, text: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(resource, "getrlimit", lambda which: (limit, limit))
    assert ends.run(lambda: _raise(SystemError(text))) == code
    assert ("not enough memory" in capsys.readouterr().err) == (code == 2)


@pytest.mark.parametrize("failure", [MemoryError(), SystemError("error return without exception set")])
def test_a_lack_of_memory_while_reporting_is_one_line_and_2(
    failure: Exception, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(ends, "_reason", lambda error: _raise(failure))
    assert ends.run(lambda: _raise(MemoryError())) == 2
    assert capfd.readouterr().err.startswith("acvp: not enough memory: ")


HOARDING = """
import sys
from acvp.exits import run_process
hoard = []
def command():
    for size in [2**n for n in range(22, 3, -1)]:
        try:
            while True: hoard.append(bytes(size))
        except MemoryError: pass
    raise MemoryError("of a hoarder")
code = run_process(command)
open("/proc/self/status").read()
sys.exit(code)
"""


def test_memory_is_reserved_for_the_end_of_a_process_that_has_none_left() -> None:
    """Every block of every size is taken, so that only the reserve is left for the message and for what follows."""
    limit = 150 * 2**20
    done = subprocess.run(
        [sys.executable, "-c", HOARDING],
        capture_output=True,
        text=True,
        check=False,
        timeout=PATIENCE,
        preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_AS, (limit, limit)),
    )
    assert_ended(done.returncode, done.stderr, 2)
    assert done.stderr.startswith("acvp: not enough memory (MemoryError: of a hoarder): ")


def _raise(error: BaseException) -> int:
    raise error


def test_a_bug_keeps_its_traceback_and_exits_with_70(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    monkeypatch.delenv("ACVP_DEBUG", raising=False)
    assert ends.run(lambda: _raise(IndexError("of mine"))) == 70
    (line,) = capsys.readouterr().err.splitlines()
    (file,) = tmp_path.iterdir()
    assert line == f"acvp: unexpected IndexError: of mine; this is a bug in acvp: please report it with {file}"
    assert "in _raise" in file.read_text()
    assert f"acvp {__version__}, Python " in file.read_text()
    monkeypatch.setenv("ACVP_DEBUG", "1")
    assert ends.run(lambda: _raise(UserError("mine"))) == 2
    assert "in _raise" in capsys.readouterr().err


def test_help_lists_the_exit_codes(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--help"]) == 0
    text = capsys.readouterr().out
    for code in ("0 done", "1 problems", "2 something you can fix", "130 and 143", "141", "70 a bug"):
        assert code in text
