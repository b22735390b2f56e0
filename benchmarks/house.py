"""Counts of the source tree: modules, lines, readers, import cycles, retired words, and files that run in a command.

`python -m benchmarks.house` prints the table of docs/architecture.md for this tree; `--tree` writes the tree there.
"""

from __future__ import annotations

import argparse
import ast
import json
import os
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from itertools import count
from pathlib import Path

from websockets.sync.client import ClientConnection, connect
from websockets.typing import Origin

from tests import words

ROOT = Path(__file__).parent.parent
SOURCE = ROOT / "src" / "acvp"
PAGE = ROOT / "docs" / "architecture.md"
PORT = 18790
PATIENCE = 900
"""Seconds to wait for a command."""

TRACER = """
import importlib, pathlib, signal, sys, threading
source, report, *arguments = sys.argv[1:]
for file in sorted(pathlib.Path(source).rglob("*.py")):
    name = ".".join(("acvp", *file.relative_to(source).with_suffix("").parts)).removesuffix(".__init__")
    if not name.endswith("__main__"):
        importlib.import_module(name)
from acvp.cli.main import main
seen = set()
def note(frame, event, argument):
    if event == "call" and frame.f_code.co_flags & 1:  # functions, not bodies of modules and classes
        seen.add(frame.f_code.co_filename)
def write(*_):
    files = "\\n".join(sorted(name for name in seen.copy() if name.startswith(source)))
    pathlib.Path(report + ".new").write_text(files)
    pathlib.Path(report + ".new").rename(report)
signal.signal(signal.SIGUSR1, lambda *_: seen.clear())
signal.signal(signal.SIGUSR2, write)
threading.setprofile(note)
sys.setprofile(note)
main(arguments)
write()
"""
"""A process that imports all of acvp, runs a command, and writes which files had a function called."""


def modules() -> dict[str, Path]:
    """Return the files of all modules by their dotted name below acvp; a package has the name of its folder."""
    files = sorted(SOURCE.rglob("*.py"))
    return {".".join(file.relative_to(SOURCE).with_suffix("").parts).removesuffix(".__init__"): file for file in files}


def imports() -> dict[str, set[str]]:
    """Return the modules that each module imports, in functions too."""
    files = modules()
    graph: dict[str, set[str]] = {name: set() for name in files}
    for name, file in files.items():
        for node in ast.walk(ast.parse(file.read_text())):
            names = []
            if isinstance(node, ast.Import):
                names = [alias.name for alias in node.names]
            elif isinstance(node, ast.ImportFrom):
                names = [f"{node.module}.{alias.name}" for alias in node.names]
            for imported in (name.removeprefix("acvp.") for name in names if name.startswith("acvp.")):
                graph[name] |= {imported if imported in files else imported.rpartition(".")[0]} & files.keys() - {name}
    return graph


def single_readers(graph: dict[str, set[str]]) -> list[str]:
    """Return the modules, without packages, that exactly one other module imports."""
    readers = {name: [other for other in graph if name in graph[other]] for name in graph}
    plain = [name for name, file in modules().items() if file.name != "__init__.py"]
    return [name for name in plain if len(readers[name]) == 1]


def cycles(graph: dict[str, set[str]]) -> list[set[str]]:
    """Return the groups of modules that import each other, directly or through others."""
    reached = {name: _reachable(graph, name) for name in graph}
    groups = {frozenset(other for other in reached[name] if name in reached[other]) for name in graph}
    return [set(group) for group in groups if group]


def _reachable(graph: dict[str, set[str]], start: str) -> set[str]:
    reached: set[str] = set()
    left = set(graph[start])
    while left:
        name = left.pop()
        reached.add(name)
        left |= graph[name] - reached
    return reached


@contextmanager
def traced(report: Path, *arguments: str) -> Iterator[subprocess.Popen[bytes]]:
    """Run a command that writes the files it used to a report."""
    command = [sys.executable, "-c", TRACER, str(SOURCE), str(report), *arguments]
    process = subprocess.Popen(
        command, env=os.environ | {"OMP_NUM_THREADS": "1"}, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
    )
    try:
        yield process
    finally:
        process.terminate()
        process.wait(PATIENCE)


def files_of(folder: Path, *arguments: str) -> list[str]:
    """Run a command and return the files whose functions it called."""
    report = folder / "files.txt"
    with traced(report, *arguments) as process:
        process.wait(PATIENCE)
    return report.read_text().splitlines()


def files_of_a_key(folder: Path, run: Path) -> list[str]:
    """Return the files whose functions are called from a key press in the browser to the next pictures."""
    report = folder / "key.txt"
    with traced(report, "play", "--predictors", str(run), "--port", str(PORT), "--no-browser") as process:
        with _connected() as page:
            page.send(json.dumps({"do": "pause", "on": True}))
            _pictures(page)
            process.send_signal(signal.SIGUSR1)
            for command in ({"do": "hold", "action": 1}, {"do": "step"}):
                page.send(json.dumps(command))
            _pictures(page)
            process.send_signal(signal.SIGUSR2)
            _wait_for(report.exists)
        return report.read_text().splitlines()


@contextmanager
def _connected() -> Iterator[ClientConnection]:
    end = time.monotonic() + PATIENCE
    while True:
        try:
            page = connect(f"ws://127.0.0.1:{PORT}/play", origin=Origin(f"http://127.0.0.1:{PORT}"))
            break
        except OSError:
            if time.monotonic() > end:
                raise
            time.sleep(0.5)
    with page:
        yield page


def _pictures(page: ClientConnection) -> None:
    """Receive and acknowledge pictures until there are none for a second."""
    for received in count():
        try:
            message = page.recv(timeout=1.0 if received else PATIENCE)
        except TimeoutError:
            return
        if isinstance(message, bytes) and message[0] == 1:
            length = int.from_bytes(message[1:5], "little")
            page.send(f"#{json.loads(message[5 : 5 + length])['picture']}")


def _wait_for(true: object) -> None:
    end = time.monotonic() + PATIENCE
    while not (callable(true) and true()):
        if time.monotonic() > end:
            raise TimeoutError("the traced command wrote no report")
        time.sleep(0.1)


def commands(folder: Path) -> dict[str, int]:
    """Return how many files run in each of the commands of a first session, on ToyGame."""
    data, run = folder / "data", folder / "run"
    common = ("--data", str(data))
    return {
        "collect": len(files_of(folder, "collect", "--env-id", "toy", "--frames", "900", "--out", str(data))),
        "train": len(files_of(folder, "train", *common, "--preset", "smoke", "--device", "cpu", "--run", str(run))),
        "train, pixel": len(
            files_of(
                folder, "train", *common, "--model", "pixel", "--preset", "smoke", "--device", "cpu",
                "--run", str(folder / "pixel"),
            )
        ),
        "evaluate": len(
            files_of(folder, "evaluate", "--predictors", str(run), *common, "--horizon", "6", "--windows", "6")
        ),
        "a key press in play": len(files_of_a_key(folder, run)),
    }  # fmt: skip


def table() -> dict[str, int | str]:
    """Return all counts by name."""
    files, graph = modules(), imports()
    groups = cycles(graph)
    rows: dict[str, int | str] = {
        "modules": len(files),
        "modules without `__init__.py`": sum(file.name != "__init__.py" for file in files.values()),
        "lines": sum(len(file.read_text().splitlines()) for file in files.values()),
        "modules with a single reader": len(single_readers(graph)),
        "import cycles": ", ".join(f"one of {len(group)} modules" for group in groups) or "none",
        "uses of retired words": sum(1 for _ in words.uses()),
    }
    with tempfile.TemporaryDirectory() as folder:
        rows |= {f"files that run: {name}": number for name, number in commands(Path(folder)).items()}
    return rows


def tree() -> str:
    """Return the tree of the source: every package and module with the first sentence of its docstring."""
    lines = ["src/acvp/"]
    for name, file in sorted(
        modules().items(), key=lambda item: (item[0].count(".") > 0 or _is_package(item[1]), item)
    ):
        if name == "__init__":
            continue
        package = _is_package(file)
        folders = file.relative_to(SOURCE).parent.parts
        label = f"{'  ' * (len(folders) + (not package))}{file.parent.name + '/' if package else file.name}"
        lines.append(f"{label:26} {_first_sentence(file)}")
    return "\n".join(lines)


def _is_package(file: Path) -> bool:
    return file.name == "__init__.py"


def _first_sentence(file: Path) -> str:
    text = " ".join((ast.get_docstring(ast.parse(file.read_text())) or "").split("\n\n")[0].split())
    return text.removesuffix(".")


def write_tree() -> None:
    """Replace the tree in docs/architecture.md."""
    before, _, rest = PAGE.read_text().partition("```\nsrc/acvp/\n")
    PAGE.write_text(f"{before}```\n{tree()}\n```{rest.partition('```')[2]}")


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--tree", action="store_true", help="write the tree into docs/architecture.md instead")
    if parser.parse_args().tree:
        write_tree()
    else:
        for row, value in table().items():
            print(f"| {row} | {value:,} |" if isinstance(value, int) else f"| {row} | {value} |")
