"""Finished parts of a long measurement, one line each, so that the same command continues after a stop or a kill."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from acvp.durable import append_line, exclusive_writer, make_folder, whole_lines, write_atomic
from acvp.errors import UserError
from acvp.reading import read_file


@contextmanager
def unfinished_results(file: Path) -> Iterator[ResultCache]:
    """Hold a folder and keep results there until they are all written: what a stopped command left is taken up."""
    make_folder(file.parent)
    with exclusive_writer(file.parent):
        yield ResultCache(file)
        file.unlink(missing_ok=True)


class ResultCache:
    """Results by what decides them: a result counts only if every setting behind it is the same."""

    def __init__(self, file: Path) -> None:
        make_folder(file.parent)
        self.file = file
        self.earlier_seconds = 0.0
        """What the parts took that were asked for and that earlier commands have measured."""
        self._parts = _read(file)
        self._counted: set[str] = set()

    def part(self, settings: dict[str, Any], measure: Callable[[], dict[str, Any]]) -> dict[str, Any]:
        """Return what was measured under these settings, or measure it and keep it."""
        part = self._parts.get(_key(settings))
        if part is not None and _key(settings) not in self._counted:
            self.earlier_seconds += part["seconds"]
        self._counted.add(_key(settings))
        if part is None:
            started = time.monotonic()
            result = measure()
            part = {"settings": settings, "result": result, "seconds": round(time.monotonic() - started, 1)}
            append_line(self.file, json.dumps(part))
            self._parts[_key(settings)] = part
        return _Result(part["result"], self.file)

    def values(self, name: str, settings: dict[str, Any]) -> list[Any]:
        """Return all values of one more setting for which something was measured under these settings."""
        known = [part["settings"] for part in self._parts.values()]
        return [each[name] for each in known if name in each and _key(each) == _key(settings | {name: each[name]})]


class _Result(dict[str, Any]):
    """What was measured, maybe by an earlier command; a value that its line does not have is damage of the file."""

    def __init__(self, values: dict[str, Any], file: Path) -> None:
        super().__init__(values)
        self._file = file

    def __missing__(self, name: str) -> Any:
        raise UserError(f"{self._file}: damaged (a line has no {name}); move it away to measure everything again")


def _read(file: Path) -> dict[str, dict[str, Any]]:
    """Return the parts in a file, without a last line that was never finished.

    It is written again, for a killed command may have left a line that a power loss could still take away.
    """
    if not file.exists():
        return {}
    try:
        data = read_file(file, file.parent)
    except OSError as error:
        raise UserError(f"{file}: cannot be read ({error.strerror})") from error
    whole = whole_lines(data)
    write_atomic(file, whole)
    try:
        parts = [json.loads(line) for line in whole.splitlines()]
        return {
            _key(part["settings"]): {
                "settings": part["settings"],
                "result": part["result"],
                "seconds": float(part.get("seconds", 0.0)),  # early versions did not note it
            }
            for part in parts
        }
    except (ValueError, KeyError, TypeError, RecursionError) as error:
        raise UserError(f"{file}: damaged ({error}); move it away to measure everything again") from error


def _key(settings: dict[str, Any]) -> str:
    return json.dumps(settings, sort_keys=True)
