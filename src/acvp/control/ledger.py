"""Finished parts of a long measurement, one line each, so that the same command goes on where it was stopped."""

from __future__ import annotations

import hashlib
import json
from dataclasses import fields, is_dataclass
from pathlib import Path
from typing import Any

from acvp.durable import append_line, make_folder, write_atomic
from acvp.errors import UserError
from acvp.models import Predictor


class Ledger:
    """Results by what decides them: a result counts only if every setting behind it is the same."""

    def __init__(self, file: Path) -> None:
        make_folder(file.parent)
        self.file = file
        self._results = _read(file)

    def get(self, settings: dict[str, Any]) -> dict[str, Any] | None:
        """Return what was measured under these settings, None if it has not been."""
        return self._results.get(_key(settings))

    def values(self, name: str, settings: dict[str, Any]) -> list[Any]:
        """Return all values of one more setting for which something was measured under these settings."""
        known = [json.loads(key) for key in self._results]
        return [each[name] for each in known if name in each and _key(each) == _key(settings | {name: each[name]})]

    def put(self, settings: dict[str, Any], result: dict[str, Any]) -> None:
        """Keep what was measured under these settings."""
        append_line(self.file, json.dumps({"settings": settings, "result": result}))
        self._results[_key(settings)] = result


def _read(file: Path) -> dict[str, dict[str, Any]]:
    """Return the results in a file; a last line that was never finished is taken out of it."""
    if not file.exists():
        return {}
    data = file.read_bytes()
    whole = data[: data.rfind(b"\n") + 1]
    if len(whole) < len(data):
        write_atomic(file, whole)
    try:
        lines = [json.loads(line) for line in whole.splitlines()]
        return {_key(line["settings"]): line["result"] for line in lines}
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
