"""A signal reaches a command at any time, and never as a traceback."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.commands import PATIENCE, assert_ended

SIGNALS = {
    "while loading": ("swallowing()", "handler.loading = True", 130),
    "in an import that swallows errors": ("import swallows", "handler.loading = False", 130),
    "where Python drops errors": ("Dropping(); wait()", "handler.loading = False", 130),
    "and turned into another error": ("turned()", "handler.loading = False", 130),
    "in a wait": ("kill(); wait()", "handler.loading = False", 130),
    "twice after the end": ("atexit.register(kill), atexit.register(kill)", "handler.loading = False", 0),
}
"""What a program does → the code that it ends with."""


PROGRAM = """
import atexit, os, signal, sys, time
from acvp.exits import handler, run_process
def kill(): os.kill(os.getpid(), signal.SIGINT); time.sleep(0.01)
def wait():
    for _ in range(6000): time.sleep(0.01)
def swallowing():
    try: kill()
    except BaseException: pass
class Dropping:
    def __del__(self): kill()
def turned():
    try: kill()
    except KeyboardInterrupt: raise ValueError("other")
def command():
    {loading}
    {act}
    return 0
signal.signal(signal.SIGINT, signal.default_int_handler)
def deaf(): return all(signal.getsignal(n) == signal.SIG_IGN for n in (signal.SIGINT, signal.SIGALRM))
atexit.register(lambda: deaf() or print("heard", file=sys.stderr))
sys.exit(run_process(command))
"""


@pytest.mark.load
@pytest.mark.parametrize("when", SIGNALS)
def test_a_signal_is_never_lost_and_never_a_traceback(tmp_path: Path, when: str) -> None:
    act, loading, expected = SIGNALS[when]
    swallow = (
        "import os, signal, time\ntry: os.kill(os.getpid(), signal.SIGINT); time.sleep(0.5)\nexcept BaseException: pass"
    )
    (tmp_path / "swallows.py").write_text(swallow)
    act += "; wait()" if "import" in act else ""
    done = subprocess.run(
        [sys.executable, "-c", PROGRAM.format(act=act, loading=loading)],
        env=os.environ | {"PYTHONPATH": str(tmp_path)},
        capture_output=True,
        text=True,
        check=False,
        timeout=PATIENCE,
    )
    assert_ended(done.returncode, done.stderr, expected)
    lines = [line for line in done.stderr.splitlines() if line.startswith("acvp:")]  # libraries may warn
    assert lines == ([] if expected == 0 else ["acvp: stopped; run the same command again"])


def test_a_background_job_stays_deaf_to_ctrl_c() -> None:
    program = PROGRAM.format(act="kill()", loading="handler.loading = False").replace("default_int_handler", "SIG_IGN")
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=False)
    said = [line for line in done.stderr.splitlines() if line.startswith(("acvp:", "heard"))]  # libraries may warn
    assert (done.returncode, said) == (0, [])
