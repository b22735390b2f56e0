"""Files of every kind that acvp reads, each with the verbs that read it, and strings of an attacker put into them.

A workshop holds one sound folder of each kind. A trial copies a kind's folder, changes one thing in it, runs the verbs
and looks at what they did: nothing outside the folder may be opened, no module that a file names may be imported.
"""

from __future__ import annotations

import hashlib
import io
import json
import os
import shutil
import sys
import zipfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager, redirect_stderr, redirect_stdout
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow
from pyarrow import parquet

from acvp.cli.main import main
from acvp.data.episode import parse, serialize
from acvp.data.store import IndexEntry, parse_entry
from acvp.durable import seal, unseal
from acvp.envs import SavedState, make_game
from acvp.errors import UserError

EVIL = "acvp_evil_module"
SECRET = b"the-secret-of-somebody-else"
MANY = 2
"""Items of a list that are all planted in."""


class Key(str):
    """A key itself, which is a string of the file as much as a value is."""


Leaf = tuple[str | int, ...]
"""Keys and positions that lead to a string in a JSON tree."""
Verb = Callable[[Path], object]
"""Reads a folder in the way of one command; UserError and exit codes are fine."""


def leaves(tree: Any, path: Leaf = ()) -> Iterator[Leaf]:
    """Where there are strings in a JSON tree: values and keys; of a long list only the first and the last item."""
    if isinstance(tree, str):
        yield path
    elif isinstance(tree, dict):
        for key, value in tree.items():
            yield (*path, Key(key))
            yield from leaves(value, (*path, key))
    elif isinstance(tree, list):
        for position in sorted({0, len(tree) - 1}) if len(tree) > MANY else range(len(tree)):
            yield from leaves(tree[position], (*path, position))


def planted(tree: Any, path: Leaf, value: str) -> Any:
    """The same tree with another string at one place."""
    if not path:
        return value
    if isinstance(path[0], Key):
        return {value if key == path[0] else key: each for key, each in tree.items()}
    copy = dict(tree) if isinstance(tree, dict) else list(tree)
    copy[path[0]] = planted(tree[path[0]], path[1:], value)  # type: ignore[index]
    return copy


@dataclass(frozen=True)
class Text:
    """How a kind of file becomes a JSON tree and bytes again, with all checksums right."""

    read: Callable[[bytes], Any]
    write: Callable[[Any], bytes]


def _lines(data: bytes) -> list[Any]:
    return [json.loads(line) for line in data.splitlines()]


def _from_lines(tree: list[Any]) -> bytes:
    return "".join(json.dumps(line) + "\n" for line in tree).encode()


def _predictor(tree: Any) -> bytes:
    return seal({name: value for name, value in tree.items() if name != "sha256"})


def part_texts(file: Path) -> Any:
    """The hashes in the header of a part."""
    header = parse(file.read_bytes()).header
    return {"content": header.content, "opening": header.opening}


SEALED = Text(unseal, seal)
PLAIN = Text(json.loads, lambda tree: json.dumps(tree).encode())
LINES = Text(_lines, _from_lines)
PREDICTOR = Text(json.loads, _predictor)


def write_npz(file: Path, tree: Any) -> None:
    """Put other texts into an npz file."""
    with np.load(file, allow_pickle=False) as archive:
        arrays = {name: archive[name] for name in archive.files}
    np.savez(file, **(arrays | {name: np.array(value) for name, value in tree.items()}))


def read_npz(file: Path) -> Any:
    """The texts of an npz file."""
    with np.load(file, allow_pickle=False) as archive, zipfile.ZipFile(file):
        return {name: archive[name].tolist() for name in archive.files if archive[name].dtype.kind == "U"}


def read_parquet(file: Path) -> Any:
    """The texts of a Parquet file: its metadata, with those that libraries look for, and those of the first row."""
    table = parquet.read_table(file)
    found = {key.decode(): value.decode() for key, value in (table.schema.metadata or {}).items()}
    metadata = {"acvp": "", "huggingface": "", "pandas": ""} | found
    first = {name: value for name, value in table.slice(0, 1).to_pylist()[0].items() if isinstance(value, str)}
    return {"metadata": {key: _parsed(value) for key, value in metadata.items()}, "row": first}


def _parsed(text: str) -> Any:
    """What JSON says, or the text itself."""
    try:
        return json.loads(text)
    except ValueError:
        return text


def write_parquet(file: Path, tree: Any) -> None:
    """Put other texts into a Parquet file."""
    table = parquet.read_table(file)
    for name, value in tree["row"].items():
        position = table.schema.get_field_index(name)
        values = [value, *table.column(name).to_pylist()[1:]]
        table = table.set_column(position, name, pyarrow.array(values, table.schema.field(position).type))
    texts = {key: each if isinstance(each, str) else json.dumps(each) for key, each in tree["metadata"].items()}
    metadata = {key: text for key, text in texts.items() if text}
    parquet.write_table(table.replace_schema_metadata(metadata), file)


def write_part(file: Path, tree: Any) -> None:
    """Put other hashes into the header of episode 0, and let the index agree with them."""
    episode = parse(file.read_bytes())
    data = serialize(replace(episode, header=replace(episode.header, **tree)))
    file.write_bytes(data)
    index = file.parent.parent / "index.jsonl"
    first, *rest = index.read_bytes().splitlines(keepends=True)
    assert parse_entry(first.strip()).number == 0
    index.write_bytes(IndexEntry.of(parse(data), data).to_line().encode() + b"\n" + b"".join(rest))


@dataclass(frozen=True)
class Kind:
    """A kind of file and the verbs that read it."""

    name: str
    folder: str
    """Of the workshop; the verbs get a copy of it."""
    file: str
    verbs: tuple[Verb, ...]
    text: Text | None = None
    read: Callable[[Path], Any] | None = None
    write: Callable[[Path, Any], None] | None = None

    def path(self, folder: Path) -> Path:
        """The file in a folder; of several the last."""
        return sorted(folder.glob(self.file))[-1]

    def tree(self, workshop: Path) -> Any:
        """The JSON tree of the sound file."""
        file = self.path(workshop / self.folder)
        return self.read(file) if self.read else self.text.read(file.read_bytes())  # type: ignore[union-attr]

    def plant(self, copy: Path, workshop: Path, leaf: Leaf, value: str) -> None:
        """Put a string at one place of the file in a copied folder."""
        tree, file = planted(self.tree(workshop), leaf, value), self.path(copy)
        if self.write:
            self.write(file, tree)
        else:
            file.write_bytes(self.text.write(tree))  # type: ignore[union-attr]
        manifest = file.parent / "manifest.json"
        if manifest.exists() and manifest != file:
            body, data = unseal(manifest.read_bytes()), file.read_bytes()
            body["files"][file.name] = {"size": len(data), "sha256": hashlib.sha256(data).hexdigest()}
            manifest.write_bytes(seal(body))


def command(*arguments: str) -> Verb:
    """An acvp command; {} stands for the folder."""
    return lambda folder: main([each.replace("{}", str(folder)) for each in arguments])


def restore_state(folder: Path) -> None:
    """Bring a game back to a saved state."""
    with make_game("acvp-tests/SmallToy-v0", sticky=0.5) as game:
        game.restore(SavedState.from_bytes((folder / "state").read_bytes()))


def read_state(file: Path) -> Any:
    """The texts of a saved state."""
    state = SavedState.from_bytes(file.read_bytes())
    return {"env_id": state.env_id, "generator": state.generator}


def write_state(file: Path, tree: Any) -> None:
    """Put other texts into a saved state."""
    file.write_bytes(replace(SavedState.from_bytes(file.read_bytes()), **tree).to_bytes())


class Watch:
    """Notes which files below a folder are opened, as long as it is on."""

    def __init__(self) -> None:
        self.outside, self.opened = "", list[str]()
        sys.addaudithook(self._hear)

    def _hear(self, event: str, arguments: tuple[Any, ...]) -> None:
        if self.outside and event == "open" and isinstance(arguments[0], str | bytes | os.PathLike):
            path = os.path.realpath(os.fsdecode(arguments[0]))
            if path.startswith(self.outside):
                self.opened.append(path)

    @contextmanager
    def over(self, outside: Path) -> Iterator[list[str]]:
        """Watch for a while; the list fills."""
        self.outside, self.opened = str(outside.resolve()) + os.sep, []
        try:
            yield self.opened
        finally:
            self.outside = ""


WATCH = Watch()


def run_verbs(verbs: tuple[Verb, ...], folder: Path) -> str:
    """Run verbs over a folder and return all that they printed; our own errors and exits are as good as success."""
    text = io.StringIO()
    with redirect_stdout(text), redirect_stderr(text):
        for verb in verbs:
            try:
                verb(folder)
            except UserError as error:
                text.write(str(error))
    return text.getvalue()


def copied(workshop: Path, kind: Kind, work: Path) -> Path:
    """A fresh copy of a kind's folder."""
    shutil.rmtree(work, ignore_errors=True)
    shutil.copytree(workshop / kind.folder, work, symlinks=True)
    return work


def values(kind: Kind, work: Path, outside: Path) -> dict[str, str]:
    """What is planted: a module, alone and before an id, and ways to name a file elsewhere."""
    secret, parent = outside / "secret.png", kind.path(work).parent
    return {
        "module": EVIL,
        "module before an id": f"{EVIL}:acvp-tests/SmallToy-v0",
        "absolute path": str(secret),
        "path by ..": os.path.relpath(secret, parent),
        "symbolic link": "planted-link.png",
    }
