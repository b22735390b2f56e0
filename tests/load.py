"""Run the tests that involve processes, sockets, signals and clocks beside ten busy loops: `python -m tests.load`.

A test that fails here and passes alone depends on how fast the machine is.
"""

from __future__ import annotations

import subprocess
import sys

LOOPS = 10
BUSY = "import os; parent = os.getppid()\nwhile os.getppid() == parent: pass"
"""Ends by itself with its parent, however that ends."""


def main(arguments: list[str]) -> int:
    """Start the loops, run pytest with these arguments more, and end the loops."""
    loops = [subprocess.Popen([sys.executable, "-c", BUSY]) for _ in range(LOOPS)]
    try:
        command = [sys.executable, "-m", "pytest", "-n", "4", "-m", "load and not faults", *arguments]
        return subprocess.run(command, check=False).returncode
    finally:
        for loop in loops:
            loop.kill()
            loop.wait()


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
