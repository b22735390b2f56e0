"""What pyproject.toml asks for: lower bounds that were tried, no pins, nothing that only tests need."""

from __future__ import annotations

import tomllib
from pathlib import Path

from packaging.requirements import Requirement
from packaging.version import Version

ROOT = Path(__file__).parent.parent
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
CORE = [Requirement(text) for text in PROJECT["dependencies"]]
EXTRAS = [Requirement(text) for texts in PROJECT["optional-dependencies"].values() for text in texts]
LIBRARIES = [requirement for requirement in CORE + EXTRAS if requirement.name != "acvp"]


def pins(file: str) -> dict[str, Version]:
    """The versions in a file of constraints, by plain name."""
    lines = [line for line in (ROOT / file).read_text().splitlines() if line and not line.startswith("#")]
    return {plain(name): Version(version) for name, version in (line.split("==") for line in lines)}


def plain(name: str) -> str:
    return name.lower().replace("_", "-")


def lowest(requirement: Requirement) -> Version:
    """The version in `>=`."""
    (bound,) = [each.version for each in requirement.specifier if each.operator == ">="]
    return Version(bound)


def test_the_lowest_versions_are_those_that_pyproject_allows() -> None:
    assert {plain(each.name): lowest(each) for each in LIBRARIES} == pins("constraints-lowest.txt")


def test_the_pinned_environment_is_one_that_pyproject_allows() -> None:
    pinned = pins("constraints.txt")
    assert [str(each) for each in LIBRARIES if pinned[plain(each.name)] not in each.specifier] == []


def test_no_library_is_pinned() -> None:
    assert [str(each) for each in LIBRARIES if any(s.operator in ("==", "~=", "===") for s in each.specifier)] == []


def test_what_only_tests_import_is_no_dependency_of_users() -> None:
    assert {"torchmetrics", "pytest", "hypothesis", "psutil"}.isdisjoint(each.name for each in CORE)
