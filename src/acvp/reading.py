"""The one place that opens files to read: regular files, inside the folder that the user named.

A named pipe or a device would block or never end. A file name in a JSON file, or a symbolic link in a folder that
somebody else made, may lead to any file of the reader's.
"""

from __future__ import annotations

import errno
import stat
from pathlib import Path

KINDS = {
    stat.S_IFIFO: "a named pipe",
    stat.S_IFSOCK: "a socket",
    stat.S_IFCHR: "a device",
    stat.S_IFBLK: "a device",
    stat.S_IFDIR: "a folder",
}


def check_file(file: Path, within: Path | None = None) -> None:
    """Raise OSError unless this is a regular file that lies in `within`, all symbolic links followed.

    `within` None: the user named the file itself.
    """
    try:
        if within is not None and not file.resolve().is_relative_to(within.resolve()):
            raise OSError(errno.EPERM, f"it lies outside {within}, which no name or symbolic link in there may lead to")
        kind = stat.S_IFMT(file.stat().st_mode)
    except (ValueError, RuntimeError) as error:  # a zero byte in the name; links that go round in circles
        raise OSError(errno.EINVAL, str(error)) from error
    if kind != stat.S_IFREG:
        raise OSError(errno.EINVAL, f"it is {KINDS.get(kind, 'something else')}, not a regular file")


def read_file(file: Path, within: Path | None = None) -> bytes:
    """Return the bytes of a file; OSError as by `check_file`."""
    check_file(file, within)
    return file.read_bytes()
