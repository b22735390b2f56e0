"""What the documentation says works: its links and file names lead somewhere, its commands and its Python run.

Every fenced block of README and docs is accounted for: Python runs on small data; of shell blocks every `acvp` line is
parsed by the command line, and those in `RUN` run; other programs and pictures in letters are listed with a reason.
Blocks of `text` are what a command printed; those of the quickstart that do not depend on the machine are compared.
"""

from __future__ import annotations

import ast
import re
import shlex
import shutil
import textwrap
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import Any

import numcodecs
import numpy as np
import pytest
import torch

import acvp.cli.main
import acvp.models
from acvp.cli.main import main
from acvp.data.collect import CollectConfig, collect
from acvp.data.frames import GRAY_84
from acvp.data.store import EpisodeStore
from tests.agents.small import tiny_agent
from tests.evaluation.runs import make_run
from tests.play.sessions import network

ROOT = Path(__file__).parent.parent
PAGES = [*sorted(ROOT.glob("*.md")), *sorted((ROOT / "docs").rglob("*.md"))]

PICTURES = {
    "src/acvp/": "the tree of the sources",
    "config.json ": "files of a run folder",
    "store.json ": "files of a store",
    "freeway/train/": "files of the authors' layout",
    "frames (T+1": "arrays of an npz file",
    "x_t-15:t": "a network in letters",
}
"""Blocks that are no program, by how they begin."""

OTHERS = {
    "git": "nothing to clone in a test",
    "pip": "installs",
    "tensorboard": "serves until it is stopped",
    "python": "serves until it is stopped",
    "srun": "needs a cluster",
    ".": "activates the environment",
    "cd": "changes the folder",
    ".venv/bin/acvp": "serves until it is stopped",
    "torchrun": "run by tests/training/test_torchrun.py",
}
"""Other programs that stand in shell blocks; `make` is known to have a target of that name."""

SMALL = {
    "--frames": "400", "--env-id": "toy", "--windows": "2", "--horizon": "3", "--states": "2", "--episodes": "1",
    "--policy": "sticky-random", "--minutes": "0.01", "--format": "npz", "--preset": "smoke",
    "--import": "acvp.envs.toy", "--devices": "1",
}  # fmt: skip
"""What an option is given instead, so that its command runs in a second."""

RUN: dict[str, dict[str, str]] = {
    "collect": {},
    "data info": {},
    "data verify": {},
    "data export": {},
    "data split": {},
    "data filter": {},
    "train": {"--preset": "smoke", "--minutes": "0.01", "--device": "cpu"},
    "evaluate": {"--shuffled-windows": "0", "--videos": "0"},
    "counterfactual": {},
    "analyze": {"--states": "2", "--steps": "1", "--examples": "1"},
    "agent evaluate": {"--max-steps": "20"},
    "report": {},
}
"""Commands that run, each with more options for a small one; the others are only parsed."""

NOT_SHIPPED = "stores/freeway-2015"
"""The authors' recordings: commands on them are only parsed."""

MADE = {"collect": "--out", "train": "--run"}
"""Commands that would continue what the small world already has under this option."""


@dataclass(frozen=True)
class Block:
    """A fenced block of a page."""

    page: str
    language: str
    text: str

    def __str__(self) -> str:
        return f"{self.page}: {self.text.strip().splitlines()[0]:.60}"

    @property
    def lines(self) -> list[str]:
        """Its commands, one each."""
        return [line for line in self.text.replace("\\\n", " ").splitlines() if words(line)]


def short(page: Path) -> str:
    """The name of a page: its path below docs/, or beside README."""
    return page.relative_to(ROOT / "docs" if page.is_relative_to(ROOT / "docs") else ROOT).as_posix()


def words(line: str) -> list[str]:
    """The words of a command, those in brackets too."""
    return [word.strip("[]") for word in shlex.split(line, comments=True)]


def blocks() -> Iterator[Block]:
    for page in PAGES:
        for language, text in re.findall(r"^ *```(\w*)\n(.*?)^ *```$", page.read_text(), re.DOTALL | re.MULTILINE):
            yield Block(short(page), language, textwrap.dedent(text))


BLOCKS = list(blocks())
PYTHON = [block for block in BLOCKS if block.language == "python"]
SHELL = [b for b in BLOCKS if b.language in ("", "sh") and not b.text.startswith(tuple(PICTURES))]


@pytest.mark.parametrize("page", PAGES, ids=short)
def test_links_lead_somewhere(page: Path) -> None:
    links = re.findall(r"\]\((?!https?:|#)([^)#]+)", page.read_text())
    assert [link for link in links if not (page.parent / link).exists()] == []


@dataclass(frozen=True)
class Mention:
    """A source file that a page names, as `file.py` or `file.py:symbol`, below the folder in its column's header."""

    folder: str
    file: str
    symbol: str

    def __str__(self) -> str:
        return f"{self.folder}{self.file}:{self.symbol}".rstrip(":")

    def exists(self) -> bool:
        """Whether a file of this name, or of a path with this end, defines the symbol."""
        paths = [ROOT / self.folder / self.file, ROOT / self.file, ROOT / "src/acvp" / self.file]
        if not self.folder:
            paths += [path for folder in ("src", "tests", "benchmarks") for path in (ROOT / folder).rglob(self.file)]
        return any(not self.symbol or self.symbol in symbols(path) for path in paths if path.is_file())


def symbols(path: Path) -> set[str]:
    """The functions, classes, methods and variables that a source file defines."""
    names = set()
    for node in ast.parse(path.read_text()).body:
        targets = node.targets if isinstance(node, ast.Assign) else [getattr(node, "target", None)]
        names |= {name.id for name in targets if isinstance(name, ast.Name)}
        if isinstance(node, ast.FunctionDef | ast.ClassDef):
            names.add(node.name)
        if isinstance(node, ast.ClassDef):
            names |= {f"{node.name}.{part.name}" for part in node.body if isinstance(part, ast.FunctionDef)}
    return names


def mentions(text: str) -> Iterator[Mention]:
    folders: list[str] = []
    for line in text.splitlines():
        cells = line.split("|")
        in_table = line.startswith("|")
        if in_table and not folders:
            folders = [(re.findall(r"`((?:src|tests)/[\w/]*/)`", cell) or [""])[0] for cell in cells]
        if not in_table:
            folders = []
        for folder, cell in zip(folders if in_table else [""] * len(cells), cells, strict=True):
            for file, symbol in re.findall(r"`([\w/]+\.py)(?::([\w.]+))?`", cell):
                yield Mention(folder, file, symbol)


@pytest.mark.parametrize("page", ["docs/paper.md", "docs/deviations.md", "docs/architecture.md", "CONTRIBUTING.md"])
def test_named_files_and_symbols_exist(page: str) -> None:
    named = [mention for mention in mentions((ROOT / page).read_text()) if mention.file != "utils.py"]
    assert [str(mention) for mention in named if not mention.exists()] == []


@pytest.mark.parametrize(
    "text",
    [
        "`data/nothing.py`",
        "`data/merge.py:nothing`",
        "`models/predictor.py:Predictor.nothing`",
        "| paper | code (`src/acvp/models/`) |\n|---|---|\n| | `split.py:split` |",
    ],
)
def test_a_missing_file_or_symbol_is_noticed(text: str) -> None:
    assert [mention.exists() for mention in mentions(text)] == [False]


def test_every_block_is_accounted_for() -> None:
    assert {block.language for block in BLOCKS} <= {"", "sh", "python", "text"}
    programs = {words(line)[0] for block in SHELL for line in block.lines}
    assert programs <= {"acvp", "make", *OTHERS}, "a block that is neither run nor listed"
    fences = sum(len(re.findall(r"^ *```", page.read_text(), re.MULTILINE)) for page in PAGES)
    assert fences == 2 * len(BLOCKS)
    targets = re.findall(r"^([\w-]+):", (ROOT / "Makefile").read_text(), re.MULTILINE)
    made = {words(line)[1] for block in SHELL for line in block.lines if words(line)[0] == "make"}
    assert made <= set(targets)


def commands() -> Iterator[str]:
    """Every acvp command line: of shell blocks, behind torchrun, and in lines of prose where it is whole."""
    for block in SHELL:
        for line in block.lines:
            if "acvp" in words(line) and words(line)[0] in ("acvp", "torchrun", "srun"):
                yield shlex.join(words(line)[words(line).index("acvp") :])
    for page in PAGES:
        for span in re.findall(r"`(acvp [^`]*--[^`]*)`", page.read_text()):
            if page.name == "README.md" and "…" not in span:
                yield span


@pytest.mark.parametrize("command", sorted(set(commands())))
def test_the_command_line_accepts_every_command(command: str, monkeypatch: pytest.MonkeyPatch) -> None:
    parsed: list[Any] = []

    def parse_only(verb: Any, options: Any) -> int:
        parsed.append(options)
        return 0

    monkeypatch.setattr(acvp.cli.main, "execute", parse_only)
    assert main(shlex.split(command)[1:]) == 0
    assert len(parsed) == 1


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with a store, runs and an agent under all the names that the pages use."""
    folder = tmp_path_factory.mktemp("docs")
    for seed, name in enumerate(("freeway", "freeway-test")):
        collect(CollectConfig(env_id="toy", frames=900, out=folder / "stores" / name, seed=seed))
    store = EpisodeStore(folder / "stores" / "freeway")
    tiny_agent().save(folder / "agents" / "tiny")
    shutil.copytree(folder / "agents" / "tiny", folder / "runs" / "agents" / "freeway")
    make_run(folder / "runs" / "mine", store, predictor=network())
    for name in ("recurrent", "freeway", "a", "b", "feedforward", "toy", "catch"):
        shutil.copytree(folder / "runs" / "mine", folder / "runs" / name)
    for name in ("toy", "mine", "catch"):
        shutil.copytree(folder / "stores" / "freeway", folder / "stores" / name)
    make_run(folder / "runs" / "gray", store, view=GRAY_84, predictor=network(GRAY_84))
    return folder


def small(command: list[str]) -> list[str]:
    """The arguments of a command, without the program, with values that make it take a second."""
    (verb,) = [verb for verb in RUN if command[1:][: len(verb.split())] == verb.split()]
    values = [SMALL.get(before, word) for before, word in pairwise(command)]
    values = ["stores/freeway" if word == "DIR" else "exported" if word == "ROOT" else word for word in values]
    if verb in MADE:
        shutil.rmtree(values[values.index(MADE[verb]) + 1], ignore_errors=True)
    more = [(option, value) for option, value in RUN[verb].items() if option not in values]
    return [*values, *(word for pair in more for word in pair)]


@pytest.mark.slow
@pytest.mark.parametrize("block", SHELL, ids=str)
def test_shell_blocks_run(block: Block, world: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    shutil.copytree(world, tmp_path / "world")
    monkeypatch.chdir(tmp_path / "world")
    for line in block.lines:
        command = words(line)
        if NOT_SHIPPED in line:
            continue
        if command[0] == "acvp" and any(command[1:][: len(verb.split())] == verb.split() for verb in RUN):
            assert main(small(command)) == 0, line


def outputs(page: str) -> Iterator[tuple[str, str]]:
    """Each command of a page that is the only one of its block and is followed by what it prints."""
    shown = [block for block in BLOCKS if block.page == page]
    for block, after in pairwise(shown):
        if after.language == "text" and len(block.lines) == 1:
            yield block.lines[0], after.text


MACHINE = ("acvp train", "acvp evaluate", "acvp counterfactual", "acvp report")
"""Commands whose output depends on how far a run got."""


@pytest.mark.slow
def test_the_quickstart_shows_what_its_commands_print(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    shown = [(line, text) for line, text in outputs("quickstart.md") if not line.startswith(MACHINE)]
    assert len(shown) == 2
    for line, text in shown:
        assert main(words(line)[1:]) == 0
        printed = [row.strip() for row in capsys.readouterr().out.splitlines()]
        assert [row for row in text.splitlines() if row != "…" and row not in printed] == []


def given(folder: Path) -> dict[str, dict[str, Any]]:
    """What the Python of each page takes from the reader."""
    episode = EpisodeStore(folder / "stores" / "freeway")[0]
    frames, chosen = episode.frames(0, 4), episode.actions[:3].astype(np.int64)
    gray = np.zeros((2, 4, 84, 84), np.uint8)
    floats = torch.randint(0, 256, (1, 7, 210, 160, 3), dtype=torch.uint8, generator=torch.Generator().manual_seed(0))
    return {
        "README.md": {"frames": frames, "actions": chosen},
        "training.md": {"frames": frames, "actions": chosen},
        "agents.md": {"frames": gray, "rng": np.random.default_rng(0)},
        "imagination.md": {},
        "control.md": {"observations": gray, "greedy_actions": np.zeros(2, np.int64)},
        "data.md": {"np": np, "numcodecs": numcodecs, "chunk": episode.chunks[0], "height": 24, "width": 24}
        | {"palette": episode.palette},
        "models.md": {
            **vars(acvp.models), "torch": torch, "mean": torch.zeros(210, 160, 3), "pixels": floats,
            "actions": torch.zeros(1, 6, dtype=torch.long), "last_frames": floats[0, :4].numpy(),
            "next_actions": np.zeros(2, np.int64),
        },
        "play.md": {"frames": frames[None, -acvp.load(folder / "runs" / "mine").context :]},
        "environments.md": {},
        "extending.md": {"__name__": __name__},
        "metrics.md": {},
        "quickstart.md": {},
        "how-to/own-game.md": {"__name__": __name__},
        "how-to/own-data.md": {},
        "how-to/agents.md": {},
        "how-to/exploration.md": {"observations": gray, "greedy_actions": np.zeros(2, np.int64)},
        "how-to/export.md": {},
    }  # fmt: skip


SHORTER = {
    "10_000": "8",
    "import PPO": "import PPO\n\nPPO = __import__('functools').partial(PPO, n_steps=8, batch_size=8)",
    "total_timesteps=100": "total_timesteps=8",
    "num_envs=16": "num_envs=2",
}
"""What Python on the pages has instead, so that it runs in a second."""


@pytest.mark.usefixtures("built_in_metrics")
@pytest.mark.parametrize("page", sorted({block.page for block in PYTHON}))
def test_python_blocks_run(page: str, world: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """One after the other, as a reader goes through a page."""
    monkeypatch.chdir(world)
    if page == "play.md":
        pytest.importorskip("onnxruntime")
        assert main(["export", "--predictor", "runs/mine", "--onnx", "folder"]) == 0
    names = given(world)[page]
    for block in PYTHON:
        if block.page == page:
            text = block.text
            for long, short in SHORTER.items():
                text = text.replace(long, short)
            exec(compile(text, str(block), "exec"), names)  # noqa: S102
    assert page not in EXPECTED or EXPECTED[page](names)


EXPECTED: dict[str, Callable[[dict[str, Any]], bool]] = {
    "README.md": lambda names: names["future"].shape == (3, 24, 24, 3),
    "training.md": lambda names: names["future"].shape == (3, 24, 24, 3),
    "control.md": lambda names: names["actions"].shape == (2,) and names["envs"].num_envs == 2,
    "data.md": lambda names: (
        names["always_up"](("NOOP", "UP"), None)(None) == 1
        and names["batch"].frames.shape == (32, 5, 24, 24)
        and np.array_equal(names["rgb"], names["store"][0].frames(0, 16))
    ),
    "metrics.md": lambda names: names["brightness"](torch.ones(2, 3, 4, 4), torch.zeros(2, 3, 4, 4)).tolist() == [1, 1],
    "models.md": lambda names: names["future"].shape == (2, 210, 160, 3) and names["predictions"].frames.shape[1] == 3,
    "quickstart.md": lambda names: names["future"].shape == (10, 24, 24, 3) and names["frame"].shape == (24, 24, 3),
    "how-to/exploration.md": lambda names: names["actions"].shape == (2,),
    "how-to/own-data.md": lambda _: main(["data", "import", "episodes", "--format", "npz", "--out", "imported"]) == 0,
    "how-to/export.md": lambda names: names["same"].about == names["predictor"].about,
    "how-to/agents.md": lambda names: names["envs"].num_envs == 2,
    "extending.md": lambda names: (
        names["future"].shape == (5, 24, 24, 3)
        and 0 < names["imagined"].steps <= 8
        and names["imagined"].frame.shape == names["real"].shape
    ),
    "play.md": lambda names: names["outputs"]["frame"].shape == (1, 24, 24, 3),
}
"""What must have come of the Python of a page."""
