"""The `acvp` command: handles signals first and then imports the rest, for ctrl-C may come while that takes time."""

from __future__ import annotations

import sys

from acvp.exits import run_process


def main() -> int:
    """Run this process's command line and return its exit code."""
    return run_process(_command)


def _command() -> int:
    from acvp.cli.main import main

    return main()


if __name__ == "__main__":
    sys.exit(main())
