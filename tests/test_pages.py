"""docs/architecture.md and docs/paper.md name files, symbols and tests that exist."""

from __future__ import annotations

import ast
import re
from pathlib import Path

from benchmarks import house

ROOT = Path(__file__).parent.parent
SOURCE = ROOT / "src" / "acvp"


def test_the_tree_has_every_module() -> None:
    block = house.PAGE.read_text().partition("```\nsrc/acvp/\n")[2].partition("```")[0]
    labels = [line.split()[0] for line in block.splitlines()]
    current = [line.split()[0] for line in house.tree().splitlines()[1:]]
    assert labels == current, "run python -m benchmarks.house --tree"


def test_the_counts_of_the_tree() -> None:
    graph = {"a": {"b"}, "b": {"c"}, "c": {"b"}, "d": {"a"}}
    assert house.cycles(graph) == [{"b", "c"}]
    assert house.cycles(house.imports()) == []
    assert "data.store" in house.imports()["data.windows"]
    assert "data.store" not in house.single_readers(house.imports())


def symbols(file: Path) -> set[str]:
    """Names that a module defines, those of its classes' members too."""
    names = set()
    for node in ast.walk(ast.parse(file.read_text())):
        if isinstance(node, ast.FunctionDef | ast.ClassDef):
            names.add(node.name)
        elif isinstance(node, ast.Name) and isinstance(node.ctx, ast.Store):
            names.add(node.id)
    return names


def folders_of_section(section: str) -> list[Path]:
    """Folders in which the code and the tests of a section are: those of its table's heading, and the roots."""
    named = re.findall(r"\(`((?:src|tests)/[\w/]+)`\)", section)
    return [ROOT, SOURCE, *(ROOT / name for name in named)]


def test_the_paper_page_names_what_exists() -> None:
    missing = []
    for section in (ROOT / "docs" / "paper.md").read_text().split("\n## ")[1:]:
        folders = folders_of_section(section)
        for name, names in re.findall(r"`([\w/]+\.py)(?::([\w.]+))?`", section):
            files = [folder / name for folder in folders if (folder / name).is_file()]
            known = symbols(files[0]) if files else set()
            if not files or not set(filter(None, names.split("."))) <= known:
                missing.append(f"{name}:{names}" if names else name)
    assert missing == []
