"""What pyproject.toml asks for: lower bounds that were tried, no pins, nothing that only tests need."""

from __future__ import annotations

import ast
import sys
import tomllib
from pathlib import Path

from packaging.requirements import Requirement
from packaging.version import Version

ROOT = Path(__file__).parent.parent
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
CORE = [Requirement(text) for text in PROJECT["dependencies"]]
EXTRAS = [Requirement(text) for texts in PROJECT["optional-dependencies"].values() for text in texts]
OTHER_NAMES = {"PIL": "pillow", "cv2": "opencv-python-headless", "h5py": "minari"}
"""Modules that are not called like the requirement that installs them."""
OPTIONAL = {
    "agents": {"stable-baselines3"},
    "datasets": {"datasets", "pyarrow"},
    "lerobot": {"pyarrow"},
    "minari": {"minari"},
    "export": {"onnx", "onnxruntime", "onnxscript"},
}
"""What only an extra installs; all else that the source imports comes with acvp."""
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


def imported() -> set[str]:
    """Requirements that the source imports, wherever in a file."""
    modules: set[str] = set()
    for file in (ROOT / "src").rglob("*.py"):
        for node in ast.walk(ast.parse(file.read_text())):
            if isinstance(node, ast.Import):
                modules |= {alias.name.partition(".")[0] for alias in node.names}
            elif isinstance(node, ast.ImportFrom) and node.module is not None:
                modules.add(node.module.partition(".")[0])
    return {plain(OTHER_NAMES.get(module, module)) for module in modules - sys.stdlib_module_names - {"acvp"}}


def test_a_bare_install_has_all_that_the_source_imports_but_the_extras() -> None:
    assert imported() - {each.name for each in CORE} == set.union(*OPTIONAL.values())


def test_each_extra_installs_what_it_is_for() -> None:
    extras = {
        name: texts for name, texts in PROJECT["optional-dependencies"].items() if name not in ("all", "dev", "docs")
    }
    assert {name: {Requirement(text).name for text in texts} for name, texts in extras.items()} == OPTIONAL
    assert PROJECT["optional-dependencies"]["all"] == [f"acvp[{','.join(OPTIONAL)}]"]


def test_the_lowest_versions_are_those_that_pyproject_allows() -> None:
    assert {plain(each.name): lowest(each) for each in LIBRARIES} == pins("constraints-lowest.txt")


def test_the_pinned_environment_is_one_that_pyproject_allows() -> None:
    pinned = pins("constraints.txt")
    assert [str(each) for each in LIBRARIES if pinned[plain(each.name)] not in each.specifier] == []


def test_no_library_is_pinned() -> None:
    assert [str(each) for each in LIBRARIES if any(s.operator in ("==", "~=", "===") for s in each.specifier)] == []


def test_what_only_tests_import_is_no_dependency_of_users() -> None:
    assert {"torchmetrics", "pytest", "hypothesis", "psutil"}.isdisjoint(each.name for each in CORE)
