"""The command line as a user meets it: one line and exit code 2 for a mistake, no traceback."""

import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace

import pytest

from acvp import __version__
from acvp.cli.main import SUMMARIES, load_verb, main
from acvp.console import stages
from acvp.data.store import EpisodeStore
from acvp.errors import UserError
from tests.commands import HUB_VERBS, VERBS
from tests.data.answers import answer_store

DEVICE_OPTIONS = {
    "train": ["--data", "d"],
    "calibrate": ["--predictor", "p", "--data", "d"],
    "evaluate": ["--predictors", "p", "--data", "d"],
    "counterfactual": ["--predictors", "p", "--data", "d"],
    "analyze": ["--predictor", "p", "--data", "d"],
    "agent train": ["--env-id", "toy"],
    "agent learn": ["--env-id", "toy", "--run", "r"],
    "control": ["--predictors", "p", "--agent", "a"],
    "explore": ["--env-id", "toy", "--out", "o"],
}
"""Verb with the option --device → the options that it requires."""


def run(*arguments: object) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "acvp", *map(str, arguments)]
    return subprocess.run(command, capture_output=True, text=True, check=False)


def test_version(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--version"]) == 0
    assert capsys.readouterr().out == f"acvp {__version__}\n"


def test_record_look_and_verify(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    store = tmp_path / "toy"
    assert main(["collect", "--env-id", "toy", "--frames", "200", "--out", str(store), "--seed", "3"]) == 0
    assert "acvp/Toy-v0" in capsys.readouterr().out
    assert main(["data", "info", str(store)]) == 0
    assert "sticky-random, ε = 0.3, seed 3" in capsys.readouterr().out
    assert (store / "contact-sheet.png").stat().st_size > 1000
    assert main(["data", "verify", str(store), "--replay"]) == 0
    assert "every frame replayed, nothing wrong" in capsys.readouterr().out


@pytest.mark.parametrize("format", ["authors", "minari", "npz", "video"])
def test_what_is_exported_can_be_imported(tmp_path: Path, format: str) -> None:
    here, there, back = (str(tmp_path / name) for name in ("here", "there", "back"))
    store = answer_store(Path(here), [40, 33, 50])
    assert main(["data", "export", here, "--format", format, "--out", there]) == 0
    assert main(["data", "import", there, "--format", format, "--out", back]) == 0
    found = Path(back) / "train" if format == "authors" and (Path(back) / "train").exists() else Path(back)
    assert {e.content for e in EpisodeStore(found).entries} == {e.content for e in store.entries}


def test_an_export_can_be_split(tmp_path: Path) -> None:
    here, there, back = (str(tmp_path / name) for name in ("here", "there", "back"))
    answer_store(Path(here), [40] * 10)
    assert main(["data", "export", here, "--format", "authors", "--out", there, "--test-fraction", "0.3"]) == 0
    assert main(["data", "import", there, "--format", "authors", "--out", back, "--actions", "3"]) == 0
    assert [len(EpisodeStore(Path(back) / side)) for side in ("train", "test")] == [7, 3]


def test_damage_is_listed_with_exit_code_1(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    answer_store(tmp_path / "s", [5, 5, 5])
    for number in (0, 2):
        part = tmp_path / "s" / "episodes" / f"{number:06d}.safetensors"
        part.write_bytes(part.read_bytes()[:-1])
    assert main(["data", "verify", str(tmp_path / "s")]) == 1
    assert len(capsys.readouterr().err.splitlines()) == 2


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["collect", "--env-id", "freewey", "--out", "x"], "unknown environment 'freewey'"),
        (["collect", "--env-id", "CartPole-v1", "--out", "x"], "not images"),
        (["collect", "--env-id", "toy", "--out", "x", "--policy", "clever"], "unknown policy 'clever'"),
        (["collect", "--env-id", "toy", "--out", "x", "--import", "no_such_module"], "no_such_module"),
        (["collect", "--env-id", "toy", "--out", "x", "--epsilon", "2"], "--epsilon 2: a probability"),
        (["collect", "--env-id", "toy", "--out", "/proc/x"], "/proc/x"),
        (["data", "import", "nowhere", "--format", "npz", "--out", "x"], "nowhere: no such file or folder"),
        (["collect", "--env-id", "toy", "--out", "x", "--policy", ":x"], "unknown policy ':x'"),
        (["collect", "--env-id", "toy", "--out", "x", "--import", ".x"], "cannot import module '.x'"),
        (["data", "info", "nowhere"], "nowhere: no such folder"),
        (["data", "verify", "."], "is not a dataset of acvp"),
        (["train"], "acvp: missing: --data DATASET …; see acvp train --help\n"),
        (["collect"], "acvp: missing: --env-id ENV_ID, --out PATH; see acvp collect --help\n"),
        (["train", "--data", "x", "--minutes", "abc"], "acvp: --minutes abc: expected FLOAT; see acvp train --help\n"),
        (["train", "--data", "x", "--preset=foo"], "--preset foo: choose one of paper, authors, gpu, cpu, smoke\n"),
        (["evaluate", "--predictors", "p", "--data", "d", "--horizon", "3.5"], "acvp: --horizon 3.5: expected INT;"),
        (["evaluate", "--predictors", "p", "--data", "d", "--key-steps", "a"], "--key-steps a: expected INT …;"),
        (["collect", "--env-id", "toy", "--frames"], "acvp: --frames: its value is missing; see acvp collect --help\n"),
        (["analyze", "--run", "here", "--data", "x", "--states", "few"], "acvp: --states few: expected INT;"),
        (["evaluate", "--runs=here", "--data", "x", "--horizon", "far"], "acvp: --horizon far: expected INT;"),
        (["evaluate", "--predictor", "p", "--horizon", "far"], "acvp: --horizon far: expected INT;"),
        (["analyze", "--predictors=p", "--data", "x", "--states", "few"], "acvp: --states few: expected INT;"),
        (
            ["collect", "--env", "toy", "--out", "x"],
            "acvp: --env: no such option of acvp collect (did you mean --env-id",
        ),
    ],
)
def test_mistakes_get_one_line(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    arguments: list[str],
    message: str,
) -> None:
    monkeypatch.chdir(tmp_path)
    assert main(arguments) == 2
    printed = capsys.readouterr()
    assert printed.err.count("\n") == 1
    assert printed.err.startswith("acvp: ")
    assert message in printed.err
    assert printed.out == ""


@pytest.mark.slow
def test_files_of_the_current_folder_are_not_imported_unasked(tmp_path: Path) -> None:
    answer_store(tmp_path / "s", [5])
    (tmp_path / "PIL.py").write_text("raise SystemExit('ran')")
    done = subprocess.run(
        [str(Path(sys.executable).parent / "acvp"), "data", "info", "s"], cwd=tmp_path, capture_output=True, check=False
    )
    assert done.returncode == 0


def test_a_mistake_leaves_no_folder(tmp_path: Path) -> None:
    assert main(["collect", "--env-id", "nothing", "--out", str(tmp_path / "x")]) == 2
    assert list(tmp_path.iterdir()) == []


def test_wrong_options_exit_with_2() -> None:
    done = run("collect", "--env-id", "toy")
    assert done.returncode == 2
    assert "Traceback" not in done.stderr


def test_help_teaches() -> None:
    text = " ".join(run("collect", "--help").stdout.replace("│", " ").split())
    for words in ("--env-id", "--policy", "sticky-random", "--epsilon", "(default: 0.3)", "--workers", "--seed"):
        assert words in text


def test_every_verb_is_among_those_that_are_interrupted_and_given_bad_output() -> None:
    assert {verb.removesuffix(" by two") for verb in VERBS} == set(SUMMARIES) - set(HUB_VERBS)


@pytest.mark.parametrize("verb", SUMMARIES)
def test_no_help_shows_a_type_of_python(verb: str, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        main([*verb.split(), "--help"])
    text = capsys.readouterr().out
    assert f"usage: acvp {verb}" in text
    assert [words for words in ("{None}", "(default: None)") if words in text] == []


@pytest.mark.parametrize("name", DEVICE_OPTIONS)
def test_each_device_option_takes_a_numbered_gpu(name: str) -> None:
    arguments, verb = DEVICE_OPTIONS[name], load_verb(name)
    for device in ("auto", "cpu", "cuda", "cuda:1", "mps"):
        assert verb.parse(name, [*arguments, "--device", device]).device == device
    for device in ("gpu", "cuda:", "cuda:x", "cpu:1", "cuda:1\n"):
        with pytest.raises(UserError, match="no device has this name; use auto, cpu"):
            verb.parse(name, [*arguments, "--device", device])


def test_all_verbs_with_a_device_are_tested() -> None:
    assert {name for name in SUMMARIES if "--device" in load_verb(name).known} == set(DEVICE_OPTIONS)


def test_recording_does_not_import_torch() -> None:
    code = "import sys, acvp.cli.main; sys.exit('torch' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


def test_progress_is_written_where_there_is_no_terminal(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("acvp.console.LINE_SECONDS", 0.0)
    assert main(["collect", "--env-id", "acvp/Toy-v0", "--frames", "300", "--out", str(tmp_path / "s")]) == 0
    assert main(["data", "verify", str(tmp_path / "s")]) == 0
    told = capsys.readouterr().err
    assert "recording: 300 of 300 frames" in told
    assert "checking: " in told


def test_short_stages_do_not_put_off_the_next_line(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr("acvp.console.LINE_SECONDS", 30.0)
    now = iter(range(0, 100, 20))  # seconds: of the start, and of each report and line
    monkeypatch.setattr("acvp.console.time", SimpleNamespace(monotonic=lambda: float(next(now))))
    with stages() as stage:
        stage("one")(1, 9)
        stage("two")(2, 9)
    assert capsys.readouterr().err == "two: 2 of 9\n"
