"""acvp report embeds files of the folder of results, whatever the results name."""

from __future__ import annotations

import base64
import json
from pathlib import Path

import pytest

from acvp.cli.main import main
from acvp.report import markup
from tests.evaluation.runs import make_run
from tests.planted_kinds import shorten
from tests.training.small import toy_store

SECRET = b"the secret of somebody else"


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """An evaluated run."""
    folder = tmp_path_factory.mktemp("run")
    store = toy_store(folder / "store", frames=500)
    path = make_run(folder / "run", store)
    with pytest.MonkeyPatch.context() as patch:
        shorten(patch)
        arguments = ["--horizon", "3", "--windows", "3", "--shuffled-windows", "0", "--crop", "1x1+9+9"]
        assert main(["evaluate", "--predictors", str(path), "--data", str(store.path), *arguments]) == 0
    (folder / "secret").write_bytes(SECRET)
    (path / "videos" / "link.mp4").symlink_to(folder / "secret")
    return path


@pytest.mark.parametrize("kind", ["mp4", "gif", "crop", "strip"])
@pytest.mark.parametrize("way", ["absolute", "..", "link", "missing", "no name"])
def test_no_file_elsewhere_is_embedded(
    run: Path, kind: str, way: str, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    shorten(monkeypatch)
    secret, page = run.parent / "secret", run.parent / "page.html"
    name = {"absolute": str(secret), "..": "../secret", "link": "videos/link.mp4", "missing": "gone", "no name": "\0"}[
        way
    ]
    body = json.loads((run / "evaluation.json").read_text())
    whole = json.dumps(body)
    film = body["clips"][0]
    assert {"mp4", "gif", "crop", "strip"} <= film.keys()
    film[kind] = name
    if kind == "gif":
        del film["mp4"]  # only without it is the other one looked at
    (run / "evaluation.json").write_text(json.dumps(body))
    page.unlink(missing_ok=True)
    try:
        code = main(["report", "--runs", str(run), "--out", str(page)])
    finally:
        (run / "evaluation.json").write_text(whole)
    printed = capsys.readouterr().err
    if way == "missing":
        assert code == 0
        return
    assert code == 2
    assert printed.count("\n") == 1
    assert "the results name" in printed
    assert ("lies outside" in printed) == (way != "no name")
    assert not page.exists() or base64.b64encode(SECRET) not in page.read_bytes()


def test_no_control_character_is_in_a_page() -> None:
    name = "a\x1b[31m\u202e<b>"
    parts = [markup.heading(name), markup.text(name), markup.facts({name: name}), markup.source(f"{name}\n{name}")]
    page = markup.page(name, [markup.section(name, name, *parts)])
    assert page.count(r"a\x1b[31m\u202e&lt;b&gt;") == 9
    assert not set("\x1b\u202e") & set(page)
    assert page.count("&gt;\na") == 1  # lines of a file stay lines
