"""The documentation builds without a warning, needs nothing from elsewhere, and every page is in its menu."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
SITE = pytest.mark.skipif(find_spec("mkdocstrings_handlers") is None, reason="pip install 'acvp[docs]'")


def build(config: Path, out: Path) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "mkdocs", "build", "--strict", "-f", str(config), "-d", str(out)]
    return subprocess.run(command, capture_output=True, text=True, check=False)


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    out = tmp_path_factory.mktemp("site")
    built = build(ROOT / "mkdocs.yml", out)
    assert built.returncode == 0, built.stderr
    return out


def names(tags: str, page: Path) -> list[str]:
    """What elements of these names load."""
    return re.findall(rf'<(?:{tags})\b[^>]*?(?:src|href)="?([^"\s>]+)', page.read_text())


@SITE
@pytest.mark.slow
def test_pages_load_nothing_from_elsewhere(site: Path) -> None:
    pages = list(site.rglob("*.html"))
    loaded = {link for page in pages for link in names("script|link|img|iframe|source", page)}
    assert len(pages) > 30
    assert "assets/javascripts" in str(loaded)
    assert [link for link in loaded if link.startswith(("http:", "https:", "//"))] == []


@SITE
@pytest.mark.slow
def test_every_list_and_table_is_one(site: Path) -> None:
    """GitHub reads a list after a line of text; mkdocs would join them to one paragraph."""
    raw = []
    for page in site.rglob("*.html"):
        text = re.sub(r"<(pre|code)\b.*?</\1>", "", page.read_text().partition("<article")[2], flags=re.DOTALL)
        paragraphs = re.findall(r"<(?:p|li)>((?:(?!<(?:/?p|/?li|ul|ol)>).)*)", text, re.DOTALL)
        raw += [f"{page.name}: {lines}" for lines in paragraphs if re.search(r"^(- |1\. |\|)", lines, re.MULTILINE)]
    assert raw == []


@SITE
@pytest.mark.slow
def test_links_to_files_of_the_repository_lead_to_copies(site: Path) -> None:
    assert "repository/examples/own_game.py.html" in str(names("a", site / "environments.html"))
    assert "class Catch" in re.sub(r"<[^>]+>", "", (site / "repository/examples/own_game.py.html").read_text())
    for picture in names("img", site / "control.html"):
        assert (site / picture).stat().st_size > 0
    assert (site / "repository/results/control/index.html").exists()


@SITE
@pytest.mark.slow
def test_the_search_finds_pages_and_no_source_code(site: Path) -> None:
    entries = json.loads((site / "search" / "search_index.json").read_text())["docs"]
    pages = {entry["location"].partition("#")[0] for entry in entries}
    assert {"quickstart.html", "how-to/own-game.html", "repository/CONTRIBUTING.html", "api.html"} <= pages
    assert [name for name in pages if ".py" in name or name.startswith("repository/results/")] == []


@SITE
@pytest.mark.slow
def test_the_python_page_has_signatures_and_examples(site: Path) -> None:
    text = re.sub(r"<[^>]+>", "", (site / "api.html").read_text())
    for name in ("collect", "train", "evaluate", "load", "rollout", "check_predictor"):
        assert re.search(rf"\b{name}\(", text), name
    assert "&gt;&gt;&gt; " in text
    assert "<blockquote>" not in (site / "api.html").read_text()


@SITE
@pytest.mark.slow
@pytest.mark.parametrize("link", ["missing.md", "index.md#missing", "../missing.png"])
def test_a_broken_link_is_an_error(link: str, tmp_path: Path) -> None:
    (tmp_path / "docs").mkdir()
    config = tmp_path / "mkdocs.yml"
    config.write_text(
        f"INHERIT: {ROOT / 'mkdocs.yml'}\nhooks: []\nnav: []\nplugins: []\nextra_css: []\ndocs_dir: docs\n"
    )
    for text, code in (("# Title\n", 0), (f"# Title\n[link]({link})\n", 1)):
        (tmp_path / "docs" / "index.md").write_text(text)
        built = build(config, tmp_path / "site")
        assert built.returncode == code, built.stderr
    assert link.removeprefix("index.md") in built.stderr


def test_every_page_is_in_the_menu() -> None:
    menu = (ROOT / "mkdocs.yml").read_text().partition("\nnav:\n")[2]
    listed = re.findall(r"- (?:[\w ]+: )?([\w/-]+\.md)$", menu, re.MULTILINE)
    pages = [path.relative_to(ROOT / "docs").as_posix() for path in (ROOT / "docs").rglob("*.md")]
    assert sorted(listed) == sorted(pages)
