"""The `acvp` command: handles signals first and then imports the rest, for ctrl-C may come while that takes time."""

from __future__ import annotations

import sys

from acvp.ends import handler, run, start


def main() -> int:
    """Run this process's command line and return its exit code."""
    start()
    handler.exit_code = code = run(_command)
    return code


def _command() -> int:
    from acvp import cli

    handler.loading = False
    return cli.main()


if __name__ == "__main__":
    sys.exit(main())
