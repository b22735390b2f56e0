"""Finished parts of a long measurement, one line each, so that the same command goes on where it was stopped."""

from __future__ import annotations

import hashlib
import json
import time
from collections.abc import Callable
from dataclasses import fields, is_dataclass
from pathlib import Path
from typing import Any

from acvp.durable import append_line, make_folder, write_atomic
from acvp.errors import UserError
from acvp.models import Predictor
from acvp.reading import read_file


class Ledger:
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
    """Return the parts in a file; a last line that was never finished is taken out of it."""
    if not file.exists():
        return {}
    try:
        data = read_file(file, file.parent)
    except OSError as error:
        raise UserError(f"{file}: cannot be read ({error.strerror})") from error
    whole = data[: data.rfind(b"\n") + 1]
    if len(whole) < len(data):
        write_atomic(file, whole)
    try:
        parts = [json.loads(line) for line in whole.splitlines()]
        return {
            _key(part["settings"]): {
                "settings": part["settings"],
                "result": part["result"],
                "seconds": float(part.get("seconds", 0.0)),  # earlier versions did not tell
            }
            for part in parts
        }
    except (ValueError, KeyError, TypeError, RecursionError) as error:
        raise UserError(f"{file}: damaged ({error}); move it away to measure everything anew") from error


def _key(settings: dict[str, Any]) -> str:
    return json.dumps(settings, sort_keys=True)


def fingerprint(predictor: Predictor) -> str:
    """Return a hash of a predictor's weights and configuration, of which defaults do not count: there may be more of
    them one day.
    """
    config = predictor.config
    assert is_dataclass(config)
    chosen = {each.name: getattr(config, each.name) for each in fields(config)}
    chosen = {each.name: chosen[each.name] for each in fields(config) if chosen[each.name] != each.default}
    digest = hashlib.sha256(repr((type(config).__name__, chosen)).encode())
    for name, tensor in predictor.state_dict().items():
        digest.update(name.encode())
        digest.update(tensor.numpy(force=True).tobytes())
    return digest.hexdigest()[:16]
