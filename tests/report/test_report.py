"""The report page: everything is in it, nothing is fetched from elsewhere."""

from __future__ import annotations

from html.parser import HTMLParser
from pathlib import Path

import pytest

from acvp.cli.main import main
from acvp.data.collect import CollectConfig, collect
from acvp.data.store import EpisodeStore
from acvp.report.page import make_page
from acvp.report.sources import ReportConfig, read_sources
from tests.evaluation.runs import make_run

pytestmark = pytest.mark.slow

LOADING = {"src", "href", "srcset", "data", "poster", "action", "background"}
"""Attributes that make a browser fetch something."""


class Addresses(HTMLParser):
    """Collects what a page loads, and what it shows as text."""

    def __init__(self) -> None:
        super().__init__()
        self.addresses: list[str] = []
        self.tags: list[str] = []
        self.words = ""

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append(tag)
        self.addresses += [value or "" for name, value in attrs if name in LOADING]

    def handle_data(self, data: str) -> None:
        self.words += data


@pytest.fixture(scope="module")
def runs(tmp_path_factory: pytest.TempPathFactory) -> list[Path]:
    """Two runs, evaluated together."""
    folder = tmp_path_factory.mktemp("runs")
    collect(CollectConfig(env_id="toy", out=folder / "store", frames=1000, seed=1))
    store = EpisodeStore(folder / "store")
    made = [make_run(folder / name, store) for name in ("first", "<second>")]
    base = ["--runs", *map(str, made), "--data", str(store.path), "--out", str(folder / "results")]
    assert main(["evaluate", *base, "--horizon", "5", "--windows", "5", "--crop", "1x1+9+9"]) == 0
    assert main(["counterfactual", *base, "--states", "6"]) == 0
    return made


def read(file: Path) -> Addresses:
    page = Addresses()
    page.feed(file.read_text())
    return page


def test_the_page_has_everything_and_loads_nothing(runs: list[Path], capsys: pytest.CaptureFixture[str]) -> None:
    results = runs[0].parent / "results"
    assert main(["report", "--runs", *map(str, runs), "--results", str(results)]) == 0
    assert "needs no network" in capsys.readouterr().out
    page = read(results / "report.html")
    assert page.addresses
    assert all(address.startswith("data:") for address in page.addresses)
    assert not {"script", "link", "iframe", "object"} & set(page.tags)
    assert {"video", "picture", "table", "style"} <= set(page.tags)
    for words in ("Looking ahead", "Strips", "Every action's future", "Run first", "Run <second>", "commit",
                  "How this was made", "test_fraction", "Squared error", "counterfactual accuracy"):  # fmt: skip
        assert words in page.words, words
    text = (results / "report.html").read_text()
    assert "url(" not in text
    assert "@import" not in text
    assert "prefers-color-scheme: dark" in text
    assert 'name="viewport"' in text
    assert "Run &lt;second&gt;" in text  # names cannot smuggle markup in


def test_one_run_that_was_not_evaluated(runs: list[Path]) -> None:
    assert main(["report", "--runs", str(runs[0]), "--title", "Mine"]) == 0
    page = read(runs[0] / "report.html")
    assert "Not evaluated yet" in page.words
    assert "Mine" in page.words
    assert "img" in page.tags  # the training curve


def test_what_a_run_has_learned(runs: list[Path]) -> None:
    folder = runs[0].parent
    data = ["--data", str(folder / "store"), "--states", "6", "--steps", "1", "--examples", "1"]
    assert main(["analyze", "--predictor", str(runs[1]), *data]) == 0  # an MLP: maps, but no factors
    assert main(["report", "--runs", *map(str, runs), "--out", str(folder / "learned.html")]) == 0
    page = read(folder / "learned.html")
    assert "What <second> has learned" in page.words
    assert "What first has learned" not in page.words
    assert "Left out: similarity" in page.words
    assert "Where the next frame depends on the action" in page.words
    assert "Analysis of <second>" in page.words
    assert all(address.startswith("data:") for address in page.addresses)
    assert main(["report", "--runs", str(runs[1]), "--results", str(runs[1]), "--out", str(folder / "one.html")]) == 0


def test_the_claims_of_the_paper_are_shown(
    runs: list[Path], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["claims", "--results", str(runs[0].parent / "results"), "--out", str(tmp_path)]) == 0
    base = ["report", "--runs", str(runs[0]), "--out", str(tmp_path / "page.html"), "--claims"]
    assert main([*base, str(tmp_path / "claims.json")]) == 0
    shown = read(tmp_path / "page.html").words
    assert "The paper's claims" in shown
    assert "57,214,787 parameters" in shown
    assert "Conclusions: 1 confirmed, 1 by construction, " in shown
    capsys.readouterr()
    assert main([*base, str(runs[0] / "config.json")]) == 2
    assert "not written by acvp claims" in capsys.readouterr().err
    for body in ('{"claims": [{}]}', '{"claims": 5}', '{"claims": [], "conclusions": []}'):
        (tmp_path / "foreign.json").write_text(body)
        assert main([*base, str(tmp_path / "foreign.json")]) == 2
        said = capsys.readouterr().err
        assert "foreign.json: not as this version of acvp writes it" in " ".join(said.split())


def test_the_page_is_the_same_twice(runs: list[Path]) -> None:
    sources = read_sources(ReportConfig(runs=(runs[1],)))
    assert make_page(sources) == make_page(sources)


def test_mistakes(runs: list[Path], tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    broken = tmp_path / "broken"
    broken.mkdir()
    (broken / "evaluation.json").write_text("{")
    for arguments, told in (
        (["--runs", str(runs[0]), "--results", str(tmp_path)], "has neither evaluation.json nor"),
        (["--runs", str(runs[0]), "--results", str(broken)], "damaged"),
        (["--runs", str(tmp_path)], "is"),
    ):
        assert main(["report", *arguments]) == 2
        printed = capsys.readouterr().err
        assert printed.count("\n") == 1
        assert told in printed
