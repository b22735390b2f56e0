"""The result cache: finished parts of a long measurement, which resumes after a stop and can be divided into shards."""

from __future__ import annotations

import json
import shutil
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from acvp.durable import append_line, exclusive_writer, make_folder, read_file, whole_lines, write_atomic
from acvp.errors import Shard, UserError, parse_shard

SHARDS_SUFFIX, FINISHED_NAME = ".shards", "finished"


@contextmanager
def unfinished_results(file: Path, shard: str | None = None) -> Iterator[ResultCache]:
    """Lock a folder and yield its cache, which is deleted at the end; an interrupted command leaves it to the next.

    The cache of a shard stays until the command without --shard takes it over.
    """
    with locked_results(file, shard) as results:
        yield results
        if results.shard is None:
            file.unlink(missing_ok=True)


@contextmanager
def locked_results(file: Path, shard: str | None = None) -> Iterator[ResultCache]:
    """Lock a folder, or that of a shard, and yield its cache, which stays."""
    part = None if shard is None else parse_shard(shard)
    folder = file.parent if part is None else shard_folder(file, part)
    make_folder(folder)
    with exclusive_writer(folder):
        yield ResultCache(file, part)
        if part is not None:
            write_atomic(folder / FINISHED_NAME, b"")


def shard_folder(file: Path, shard: Shard) -> Path:
    """Return the folder of a shard of the results in a file."""
    return file.with_suffix(SHARDS_SUFFIX) / f"{shard.number}-of-{shard.total}"


def _join_shards(file: Path) -> None:
    """Add what all shards have measured to a cache, and remove them; UserError unless all are there and finished."""
    folder = file.with_suffix(SHARDS_SUFFIX)
    if folder.is_symlink() or not folder.is_dir():  # a link may lead anywhere
        return
    shards = [parse_shard(path.name.replace("-of-", "/")) for path in sorted(folder.glob("[1-9]*-of-[1-9]*"))]
    if not shards:
        return
    totals = sorted({shard.total for shard in shards})
    if len(totals) > 1:
        raise UserError(f"{folder} has shards of {totals[0]} and of {totals[1]}; delete those of one of them")
    for number in range(1, totals[0] + 1):
        if not (shard_folder(file, Shard(number, totals[0])) / FINISHED_NAME).is_file():
            raise UserError(
                f"shard {number}/{totals[0]} is missing or unfinished in {folder}: run the command with --shard "
                f"{number}/{totals[0]} to its end, or delete the folder to measure everything here"
            )
    parts = _read(file)
    for shard in shards:
        parts |= _read(shard_folder(file, shard) / file.name)
    write_atomic(file, "".join(json.dumps(part) + "\n" for part in parts.values()).encode())
    shutil.rmtree(folder)


class OtherShardError(Exception):
    """A part that another shard measures: a loop over parts skips it."""


class ResultCache:
    """Finished parts of a measurement, one line each, by the settings that decide them.

    A command that is interrupted and run again finds the parts that it has finished. Of several shards, each measures
    every n-th part in a separate folder; the command without --shard finds the parts of all.
    """

    def __init__(self, file: Path, shard: Shard | None = None) -> None:
        make_folder(file.parent)
        if shard is None:
            _join_shards(file)
        self.file = file if shard is None else shard_folder(file, shard) / file.name
        self.shard = shard
        """The shard that is measured; None: everything."""
        self.earlier_seconds = 0.0
        """Duration of the parts asked for that earlier commands measured."""
        self._parts = _read(self.file)
        self._counted: dict[str, int] = {}  # the keys asked for, by their number

    def part(self, settings: dict[str, Any], measure: Callable[[], dict[str, Any]]) -> dict[str, Any]:
        """Return the result of these settings, or measure it and store it; OtherShardError if another shard does."""
        part = self._parts.get(_key(settings))
        if part is not None and _key(settings) not in self._counted:
            self.earlier_seconds += part["seconds"]
        number = self._counted.setdefault(_key(settings), len(self._counted))
        if self.shard is not None and number % self.shard.total != self.shard.number - 1:
            raise OtherShardError
        if part is None:
            started = time.monotonic()
            result = measure()
            part = {"settings": settings, "result": result, "seconds": round(time.monotonic() - started, 1)}
            append_line(self.file, json.dumps(part))
            self._parts[_key(settings)] = part
        return _Result(part["result"], self.file)

    def shard_body(self) -> dict[str, Any]:
        """Return which shard was measured, for the command line."""
        assert self.shard is not None
        return {"shard": str(self.shard), "parts": len(self._parts), "folder": str(self.file.parent)}

    def values(self, name: str, settings: dict[str, Any]) -> list[Any]:
        """Return the values of one more setting for which there are results under these settings."""
        known = [part["settings"] for part in self._parts.values() if name in part["settings"]]
        return [other[name] for other in known if _key(other) == _key(settings | {name: other[name]})]


class _Result(dict[str, Any]):
    """A result that may come from the file; a missing value is reported as damage of the file."""

    def __init__(self, values: dict[str, Any], file: Path) -> None:
        super().__init__(values)
        self._file = file

    def __missing__(self, name: str) -> Any:
        raise UserError(f"{self._file}: damaged (a line has no {name}); move it away to measure everything again")


def _read(file: Path) -> dict[str, dict[str, Any]]:
    """Return the parts in a file, without an unfinished last line.

    The file is written again: a killed command may have left a line that a power loss could still remove.
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
                "seconds": float(part.get("seconds", 0.0)),  # not in early versions
            }
            for part in parts
        }
    except (ValueError, KeyError, TypeError, RecursionError) as error:
        raise UserError(f"{file}: damaged ({error}); move it away to measure everything again") from error


def _key(settings: dict[str, Any]) -> str:
    return json.dumps(settings, sort_keys=True)
