"""Running a plan: what is skipped, refused, resumed, and what a failure or an interruption leaves behind."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path

import psutil
import pytest

from acvp.data.store import GOAL_NAME
from acvp.errors import UserError
from acvp.reproduce.plan import Plan, Step
from acvp.reproduce.run import Outcome, Runner, finished, opened, plan_table, refuse_stale
from tests.data.answers import answer_store

SCRIPT = """
import pathlib, signal, sys, time
verb, folder = sys.argv[1:3]
made = pathlib.Path(folder)
made.mkdir(parents=True, exist_ok=True)
limit = time.monotonic() + 60
if verb == "fail":
    print("some text\\nacvp: the value is 3; choose 4")
    sys.exit(2)
if verb == "meet":
    (made / "here").touch()
    while not pathlib.Path(sys.argv[3], "here").exists():
        assert time.monotonic() < limit
        time.sleep(0.01)
if verb == "wait":
    def save(number, frame):
        while not pathlib.Path("awaited").exists() and time.monotonic() < limit:
            time.sleep(0.01)
        (made / "saved").touch()
        sys.exit(143)
    signal.signal(signal.SIGTERM, save)
    (made / "waits").touch()
    while time.monotonic() < limit:
        time.sleep(0.01)
began = time.process_time()
while verb == "work" and time.process_time() < began + 0.6:
    pass
(made / "result").write_text(verb)
"""
PROGRAM = (sys.executable, "-c", SCRIPT)


def step(name: str, *words: str, inputs: tuple[str, ...] = (), after: tuple[str, ...] = ()) -> Step:
    command = (words[0] if words else "make", name, *words[1:])
    return Step(name=name, command=command, result=f"{name}/result", part="data", inputs=inputs, after=after)


def run(out: Path, *steps: Step, jobs: int = 1) -> tuple[dict[str, Outcome], list[str]]:
    lines: list[str] = []
    plan = Plan(steps, "core")
    with opened(plan, out):
        refuse_stale(plan, out)
        return Runner(plan, out, jobs, lines.append, PROGRAM).run(), lines


def test_a_failure_is_one_line_and_only_what_needs_it_is_not_run(tmp_path: Path) -> None:
    steps = [step("a", "fail"), step("b", inputs=("a",)), step("c"), step("d", inputs=("b",)), step("e", after=("d",))]
    outcomes, lines = run(tmp_path, *steps)
    assert outcomes == {"a": "failed", "b": "not run", "c": "finished", "d": "not run", "e": "finished"}
    log = tmp_path / "logs" / "a.log"
    assert f"a: failed with exit code 2 (the value is 3; choose 4); see {log}" in lines
    assert log.read_text().startswith("$ acvp fail a\n")
    ended = [json.loads(line) for line in (tmp_path / "steps.jsonl").read_text().splitlines()]
    assert [(line["step"], line["exit_code"]) for line in ended] == [("a", 2), ("c", 0), ("e", 0)]


def test_core_seconds_are_those_of_the_step_alone(tmp_path: Path) -> None:
    run(tmp_path, step("a", "work"), step("b", after=("a",)))
    lines = map(json.loads, (tmp_path / "steps.jsonl").read_text().splitlines())
    used = {line["step"]: line["core_seconds"] for line in lines}
    assert used["a"] >= 0.6
    assert used["a"] > used["b"] > 0


def test_a_step_without_its_result_has_failed(tmp_path: Path) -> None:
    outcomes, lines = run(tmp_path, replace(step("a"), result="a/other"))
    assert outcomes == {"a": "failed"}
    assert "a: failed with exit code 0" in lines[-1]


def test_finished_steps_are_skipped_and_their_results_stand(tmp_path: Path) -> None:
    run(tmp_path, step("a"))
    (tmp_path / "a" / "result").write_text("kept")
    outcomes, lines = run(tmp_path, step("a"), replace(step("b"), repeat=True))
    assert (tmp_path / "a" / "result").read_text() == "kept"
    assert outcomes == {"a": "finished", "b": "finished"}
    (tmp_path / "b" / "result").write_text("old")
    _, lines = run(tmp_path, step("a"), replace(step("b"), repeat=True))
    assert [line.partition(":")[0] for line in lines] == ["b", "b"]
    assert (tmp_path / "b" / "result").read_text() == "make"


def test_independent_steps_run_at_once_and_no_more_than_asked_for(tmp_path: Path) -> None:
    outcomes, lines = run(tmp_path, step("a", "meet", "b"), step("b", "meet", "a"), step("c"), jobs=2)
    assert set(outcomes.values()) == {"finished"}
    words = [tuple(line.split()[:2]) for line in lines]
    assert words.index(("c:", "started,")) > min(words.index((f"{name}:", "finished")) for name in "ab")


@pytest.fixture
def awaited(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Steps that are told to end save once somebody waits for them, however fast or slow they are."""
    wait = subprocess.Popen.wait

    def waiting(process: subprocess.Popen[bytes], timeout: float | None = None) -> int:
        (tmp_path / "awaited").touch()
        return wait(process, timeout)

    monkeypatch.setattr(subprocess.Popen, "wait", waiting)
    yield
    (tmp_path / "awaited").touch()


@pytest.mark.usefixtures("awaited")
def test_an_interruption_ends_all_processes_and_lets_them_save(tmp_path: Path) -> None:
    steps = (step("a", "wait"), step("b", "wait"))
    plan = Plan(steps, "core")

    def interrupt(line: str) -> None:
        if line.startswith("b: started"):
            while not all((tmp_path / name / "waits").exists() for name in "ab"):
                pass
            raise KeyboardInterrupt

    with opened(plan, tmp_path):
        runner = Runner(plan, tmp_path, 2, interrupt, PROGRAM)
        with pytest.raises(KeyboardInterrupt):
            runner.run()
    assert all((tmp_path / name / "saved").exists() for name in "ab")
    left = [process for process in psutil.Process().children() if process.status() != psutil.STATUS_ZOMBIE]
    assert [process for process in left if SCRIPT in process.cmdline()] == []
    assert not any(finished(each, tmp_path) for each in steps)


def other_options(out: Path) -> None:
    run(out, replace(step("a"), command=("make", "a", "--minutes", "30")))


def foreign(out: Path) -> None:
    (out / "holiday.txt").touch()


def damaged(out: Path) -> None:
    run(out, step("a"))
    (out / "plan.json").write_text((out / "plan.json").read_text().replace("make", "fake"))


@pytest.mark.parametrize(
    ("prepare", "message"),
    [
        (
            other_options,
            r"a was made with other options \(--minutes 30 → 60; --x not given → y\); choose another --out, or delete",
        ),
        (foreign, r"not a folder of acvp reproduce \(it has holiday.txt\)"),
        (damaged, "plan.json: cannot be read"),
    ],
)
def test_a_folder_of_another_plan_is_refused(prepare: Callable[[Path], None], message: str, tmp_path: Path) -> None:
    prepare(tmp_path)
    before = sorted(path.name for path in tmp_path.rglob("*"))
    with pytest.raises(UserError, match=message):
        run(tmp_path, replace(step("a"), command=("make", "a", "--minutes", "60", "--x", "y")))
    assert sorted(path.name for path in tmp_path.rglob("*")) == before


def test_a_deleted_step_is_made_again_with_other_options(tmp_path: Path) -> None:
    other_options(tmp_path)
    (tmp_path / "a" / "result").unlink()
    (tmp_path / "a").rmdir()
    outcomes, _ = run(tmp_path, step("a"))
    assert outcomes == {"a": "finished"}


def test_steps_of_other_games_stay_in_the_plan(tmp_path: Path) -> None:
    run(tmp_path, step("a"))
    run(tmp_path, step("b"))
    with pytest.raises(UserError, match="a was made with other options"):
        run(tmp_path, step("a", "meet", "a"))


def test_results_of_inputs_that_are_gone_are_refused(tmp_path: Path) -> None:
    steps = (step("a"), step("b", inputs=("a",)))
    run(tmp_path, *steps)
    (tmp_path / "a" / "result").unlink()
    with pytest.raises(UserError, match="b has results, but a that they were made from is not finished; delete"):
        run(tmp_path, *steps)


def test_a_dataset_is_finished_once_it_has_its_frames(tmp_path: Path) -> None:
    store = answer_store(tmp_path / "train", [5, 7])
    short, enough = (replace(step("train"), result="train/store.json", frames=frames) for frames in (13, 12))
    assert [finished(each, tmp_path) for each in (short, enough)] == [False, True]
    (store.path / GOAL_NAME).write_text("12")
    assert not finished(enough, tmp_path)  # surplus episodes of other workers may be there


def test_the_table_shows_cost_and_state(tmp_path: Path) -> None:
    steps = (step("a"), replace(step("b"), minutes=59.9, megabytes=1500))
    run(tmp_path, steps[0])
    (tmp_path / "b").mkdir()
    table = plan_table(Plan(steps, "core"), tmp_path)
    assert [row[-1] for row in table.rows] == ["finished", "begun"]
    assert table.rows[1][2:4] == ("59.9", "1,500")
    assert table.title == "2 steps, about 1 core-hours, of which 0.998 are left, and 1.5 GB"
