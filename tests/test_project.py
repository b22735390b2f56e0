"""Files beside the source agree with it: version, changelog, citation, workflows, hooks."""

from __future__ import annotations

import json
import re
import tomllib
import zipfile
from pathlib import Path

import pytest

import acvp
from acvp.runs import provenance
from tests import counts, faults, smoke

ROOT = Path(__file__).parent.parent
PYPROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())
WORKFLOWS = sorted((ROOT / ".github" / "workflows").glob("*.yml"))
HEADINGS = {"Added", "Changed", "Fixed", "Removed", "Security", "Numbers changed"}


def test_the_version_has_one_home() -> None:
    assert "version" not in PYPROJECT["project"]
    assert PYPROJECT["project"]["dynamic"] == ["version", "readme"]
    home = ROOT / PYPROJECT["tool"]["hatch"]["version"]["path"]
    assert re.findall(r'^__version__ = "(.+)"$', home.read_text(), re.MULTILINE) == [acvp.__version__]


def test_citation_and_changelog_have_the_version() -> None:
    assert f"\nversion: {acvp.__version__}\n" in (ROOT / "CITATION.cff").read_text()
    latest, *_ = re.findall(r"^## ([0-9]\S+)", (ROOT / "CHANGELOG.md").read_text(), re.MULTILINE)
    assert latest == acvp.__version__


def test_the_description_on_a_package_index_has_no_dead_link_and_all_the_words() -> None:
    hook = PYPROJECT["tool"]["hatch"]["metadata"]["hooks"]["fancy-pypi-readme"]
    (fragment,) = hook["fragments"]
    readme = text = (ROOT / fragment["path"]).read_text()
    for change in hook["substitutions"]:
        text = re.sub(change["pattern"], change["replacement"], text)
    links = r"\]\(([^)]*)\)"
    assert all(link.startswith("https://") for link in re.findall(links, text))
    assert len(re.findall(links, readme)) > 20
    shown = re.findall(r"(?<!!)\[([^\]]+)\]\(", readme)
    assert [words for words in shown if words not in text] == []
    pictures = re.findall(r"!\[([^\]]+)\]\(", readme)
    assert pictures
    assert [words for words in pictures if words in text] == []


def test_results_record_the_version_of_the_source_not_of_old_metadata() -> None:
    assert provenance()["versions"]["acvp"] == acvp.__version__


def test_the_changelog_has_only_the_known_headings() -> None:
    assert set(re.findall(r"^### (.+)$", (ROOT / "CHANGELOG.md").read_text(), re.MULTILINE)) <= HEADINGS


def test_workflows_test_the_supported_python_versions() -> None:
    supported = re.findall(r":: (3\.\d+)", "\n".join(PYPROJECT["project"]["classifiers"]))
    tested = {
        v for file in WORKFLOWS for line in re.findall(r"python: \[(.+)\]", file.read_text()) for v in line.split(", ")
    }
    assert sorted(version.strip('"') for version in tested) == supported


def test_workflows_run_targets_of_the_makefile() -> None:
    run = {target for file in WORKFLOWS for target in re.findall(r"run: make (\S+)", file.read_text())}
    targets = set(re.findall(r"^([a-z-]+):", (ROOT / "Makefile").read_text(), re.MULTILINE))
    assert {"check", "test", "mutants", "smoke"} <= run <= targets


def test_hooks_are_local() -> None:
    hooks = (ROOT / ".pre-commit-config.yaml").read_text()
    assert re.findall(r"repo: (\S+)", hooks) == ["local"]
    assert re.findall(r"entry: (\S+)", hooks) == [".venv/bin/ruff", ".venv/bin/ruff", ".venv/bin/mypy"]


@pytest.mark.parametrize("name", ["results/faults.json", "tests/smoke.py", "benchmarks/data.py", ".github/a.yml"])
def test_the_smoke_test_refuses_a_wheel_with_other_folders(name: str, tmp_path: Path) -> None:
    built = tmp_path / "acvp.whl"
    for names in (["acvp/cli/main.py", "acvp-0.2.0.dist-info/METADATA"], ["acvp/cli/main.py", name]):
        with zipfile.ZipFile(built, "w") as archive:
            for member in names:
                archive.writestr(member, "")
        if name in names:
            with pytest.raises(SystemExit, match=f"should not contain .'{name}'"):
                smoke.check_contents(built)
        else:
            smoke.check_contents(built)
    with pytest.raises(SystemExit, match="too large"):
        smoke.check_size(built, limit=0)


@pytest.mark.parametrize("text", ["Name: acvp\n", "# acvp\n[page](docs/index.md)", "# acvp\n![chart](docs/chart.png)"])
def test_the_smoke_test_refuses_a_wheel_whose_description_has_dead_links(text: str, tmp_path: Path) -> None:
    built = tmp_path / "acvp.whl"
    for description in ("# acvp\n[the paper](https://arxiv.org/abs/1507.08750)", text):
        with zipfile.ZipFile(built, "w") as archive:
            archive.writestr("acvp-0.2.0.dist-info/METADATA", description)
        if description == text:
            with pytest.raises(SystemExit, match="no description, or one with links that lead nowhere"):
                smoke.check_links(built)
        else:
            smoke.check_links(built)


def test_the_reliability_page_has_the_full_counts_of_today() -> None:
    figures = json.loads(faults.RESULTS.read_text())
    page = counts.PAGE.read_text()
    assert page == counts.with_counts(page, figures), "python -m tests.counts writes them"
    assert figures.keys() == counts.NAMES.keys(), "a test of make faults is missing, or has not run"
    assert {name.split()[0] for name in figures} <= {row[2] for row in counts.ROW.finditer(page)}
    for commit in {each["commit"] for each in figures.values()}:
        assert re.fullmatch("[0-9a-f]{40}", commit), "a changed tree"


def test_a_failed_count_is_named_on_the_reliability_page() -> None:
    both = {"commit": "a" * 40, "python": "3.11", "platform": "Linux"}
    names = list(counts.NAMES)[:2]
    figures = {names[0]: both | {"count": 2000, "passed": 1999}, names[1]: both | {"count": 3, "passed": 3}}
    page = counts.with_counts("| 1 | promise | how | old | test |\n`make faults` ran\n", figures)
    assert page == (
        "| 1 | promise | how | 2,000 kills while a checkpoint is saved, 3 at random times of a training | test |\n"
        "`make faults` ran at commit aaaaaaa (Python 3.11, Linux): 1 of 2 tests passed whole. The others: promise 1 a "
        "checkpoint survives kills at 8 points of a save: 1,999 of 2,000.\n"
    )
