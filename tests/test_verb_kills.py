"""Promise 18: every verb that writes continues after a kill, to the results of an undisturbed run; no process stays."""

from __future__ import annotations

import json
import os
import shutil
import signal
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import psutil
import pytest

from acvp.cli.main import main
from acvp.data.collect import CollectConfig, collect
from acvp.data.formats import export_store
from acvp.data.statistics import FOLDER_NAME
from acvp.data.store import EpisodeStore
from tests.agents.small import tiny_agent
from tests.agents.test_sb3 import save_zip
from tests.analysis.conftest import small_feedforward
from tests.control.test_compare import written
from tests.evaluation.runs import make_run
from tests.faults import Trials, contents, counted, start

TARGET = "kill-target"
"""What the folder to write is called: only uses of it count as moments."""
PATIENCE = 120.0
"""Seconds that processes may take to end on a machine that is very busy."""
CLOCK = {"seconds", "cpu_seconds", "samples_per_second", "time/seconds", "time/time_elapsed", "time/fps"}
"""Numbers that depend on the machine."""
NO_RESULTS = ("starts.jsonl", "README.md", "learning-curve.json")
"""Files that tell of commands and times alone."""


@dataclass(frozen=True)
class Inputs:
    """What the verbs work on."""

    store: EpisodeStore
    run: Path
    agent: Path
    npz: Path
    zip: Path
    other: EpisodeStore
    learned: Path


@pytest.fixture(scope="module")
def inputs(tmp_path_factory: pytest.TempPathFactory) -> Inputs:
    folder = tmp_path_factory.mktemp("inputs")
    store = collect(CollectConfig(env_id="acvp/Toy-v0", out=folder / "store", frames=800, seed=1))
    run = make_run(folder / "run", store, predictor=small_feedforward(store))
    tiny_agent().save(folder / "agent")
    export_store("npz", store, folder / "npz")
    save_zip(folder / "dqn.zip")
    other = collect(CollectConfig(env_id="acvp/Toy-v0", out=folder / "other", frames=200, seed=2))
    written(folder / "learned", exploration="random", seed=1, scores=[0.0, 2.0])
    return Inputs(store, run, folder / "agent", folder / "npz", folder / "dqn.zip", other, folder / "learned")


def _evaluate(made: Inputs) -> list[Any]:
    sizes = ["--horizon", 6, "--windows", 12, "--shuffled-windows", 4, "--batch-size", 2, "--video-formats", "gif"]
    return ["evaluate", "--predictors", made.run, "--data", made.store.path, *sizes, "--device", "cpu"]


def _counterfactual(made: Inputs) -> list[Any]:
    return ["counterfactual", "--predictors", made.run, "--data", made.store.path, "--states", 12, "--device", "cpu"]


def _analyze(made: Inputs) -> list[Any]:
    sizes = ["--states", 8, "--steps", 2, "--examples", 1]
    return ["analyze", "--predictor", made.run, "--data", made.store.path, *sizes, "--device", "cpu"]


def _agent_evaluate(made: Inputs) -> list[Any]:
    return ["agent", "evaluate", "--agent", made.agent, "--episodes", 6, "--at-once", 2, "--max-steps", 20]


def _control(made: Inputs) -> list[Any]:
    sizes = ["--horizons", 1, 2, "--episodes", 2, "--max-steps", 20]
    return ["control", "--predictors", made.run, "--agent", made.agent, *sizes, "--device", "cpu"]


def _explore(made: Inputs) -> list[Any]:
    sizes = ["--seeds", 2, "--max-steps", 30, "--map-steps", 30, "--map-seeds", 1, "--noops", 3]
    return ["explore", "--env-id", "acvp/Toy-v0", *sizes, "--strategies", "random"]


def _train(made: Inputs) -> list[Any]:
    return ["train", "--data", made.store.path, "--preset", "smoke", "--device", "cpu", "--save-minutes", 0.001]


def _agent_train(made: Inputs) -> list[Any]:
    sizes = ["--preset", "smoke", "--steps", 600, "--max-steps", 50, "--save-minutes", 0.01]
    return ["agent", "train", "--env-id", "acvp/Toy-v0", *sizes]


def _agent_learn(made: Inputs) -> list[Any]:
    sizes = ["--budget", 600, "--rounds", 1, "--preset", "smoke", "--minutes", "None", "--no-references"]
    agent = ["--agent-preset", "smoke", "--agent-steps", 100, "--evaluate-episodes", 1, "--horizon", 5]
    return ["agent", "learn", "--env-id", "acvp/Toy-v0", "--model", "mlp", *sizes, *agent, "--device", "cpu"]


VERBS: dict[str, tuple[Callable[[Inputs], list[Any]], str, int]] = {
    "collect": (lambda made: ["collect", "--env-id", "acvp/Toy-v0", "--frames", 900, "--workers", 2], "--out", 60),
    "data import": (lambda made: ["data", "import", made.npz, "--format", "npz", "--actions", 5], "--out", 60),
    "data export": (lambda made: ["data", "export", made.store.path, "--format", "npz"], "--out", 20),
    "data filter": (lambda made: ["data", "filter", made.store.path, "--length", "2:"], "--out", 60),
    "data split": (lambda made: ["data", "split", made.store.path], "--out", 60),
    "data merge": (lambda made: ["data", "merge", made.store.path, made.other.path], "--out", 60),
    "evaluate": (_evaluate, "--out", 80),
    "counterfactual": (_counterfactual, "--out", 40),
    "analyze": (_analyze, "--out", 40),
    "agent evaluate": (_agent_evaluate, "--out", 24),
    "agent import": (
        lambda made: ["agent", "import", made.zip, "--env-id", "acvp/Toy-v0", "--trust-pickle"], "--out", 16
    ),
    "control": (_control, "--out", 40),
    "explore": (_explore, "--out", 40),
    "agent compare": (lambda made: ["agent", "compare", "--runs", made.learned], "--out", 12),
    "claims": (lambda made: ["claims", "--results", made.run], "--out", 8),
    "export": (lambda made: ["export", "--predictor", made.run], "--onnx", 16),
    "train": (_train, "--run", 400),
    "agent train": (_agent_train, "--run", 200),
    "agent learn": (_agent_learn, "--run", 300),
    "report": (lambda made: ["report", "--runs", made.run], "--out", 4),
}  # fmt: skip
"""A verb's arguments, the option that names what it writes, and about how often it uses that.

`reproduce` is killed in tests/reproduce/test_smoke.py.
"""
REPORT = "report.html"
"""The file that `report` writes; all others write a folder."""
LEARNED = ("data", "rounds/00/predictor-run/predictor/model", "rounds/00/calibration")
"""Results of `agent learn` that are those of an undisturbed run: an agent goes on with new imagined episodes."""
CHEAP = (
    "collect",
    "data import",
    "data export",
    "data filter",
    "evaluate",
    "counterfactual",
    "analyze",
    "agent evaluate",
    "report",
)
"""Verbs of the quick form."""


def command(verb: str, made: Inputs, target: Path) -> list[str]:
    """The arguments of a verb that writes to a folder."""
    arguments, option, _ = VERBS[verb]
    return [str(each) for each in (*arguments(made), option, target / REPORT if verb == "report" else target)]


def results(target: Path) -> dict[str, Any]:
    """What a verb came to, by file: without times, memory, commands, checkpoints, locks and cached statistics."""
    files = contents(target)
    no_result = ("checkpoints", "tensorboard", FOLDER_NAME)
    kept = {name: data for name, data in files.items() if not name.startswith(no_result)}
    return {name: _result(name, data) for name, data in kept.items() if Path(name).name not in NO_RESULTS}


def _result(name: str, data: bytes) -> Any:
    if name.endswith(".jsonl"):
        return [_timeless(json.loads(line)) for line in data.splitlines()]
    if name.endswith(".json"):
        return _timeless(json.loads(data))
    return data


def _timeless(body: dict[str, Any]) -> dict[str, Any]:
    """A JSON object without what differs between two equal runs; the card of a predictor or agent tells of times."""
    left_out = CLOCK | {"provenance", "peak_memory_mb", "about", "sha256"}
    return {name: value for name, value in body.items() if name not in left_out}


def _learned(verb: str, found: dict[str, Any]) -> dict[str, Any]:
    """What has to be equal: for `agent learn`, all that does not follow from its agent."""
    equal = {name: data for name, data in found.items() if verb != "agent learn" or name.startswith(LEARNED)}
    assert equal
    return equal


def processes_of(session: int) -> list[psutil.Process]:
    """The processes that a command and its helpers still run."""
    found = []
    for process in psutil.process_iter():
        try:
            if os.getsid(process.pid) == session and process.status() != psutil.STATUS_ZOMBIE:
                found.append(process)
        except (psutil.NoSuchProcess, ProcessLookupError, PermissionError):
            continue
    return found


def assert_no_process(session: int) -> None:
    """Fail unless all processes of a command end by themselves."""
    deadline = time.monotonic() + PATIENCE
    while alive := processes_of(session):
        assert time.monotonic() < deadline, f"left running: {alive}"
        time.sleep(0.05)


def kill_during(verb: str, made: Inputs, target: Path, nth: int) -> None:
    """Kill a verb when it uses what it writes for the n-th time, or as late before as it comes."""
    while True:
        process = start(command(verb, made, target), die_at_use=nth, of=TARGET)
        process.wait()  # whoever stays behind would keep its pipes open
        assert_no_process(process.pid)
        _, errors = process.communicate()
        if process.returncode == -signal.SIGKILL:
            return
        assert process.returncode == 0, errors.decode()
        shutil.rmtree(target)
        nth = nth * 3 // 4
        assert nth, "it uses nothing"


@pytest.mark.slow
@counted("18 every verb continues after a kill", quick=len(CHEAP), full=10 * len(VERBS))
def test_verbs_continue_after_a_kill(
    trials: Trials, inputs: Inputs, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    undisturbed: dict[str, dict[str, Any]] = {}
    verbs = list(VERBS) if trials.full else CHEAP

    def kill_once(i: int, rng: np.random.Generator) -> None:
        verb = verbs[i % len(verbs)]
        if verb not in undisturbed:
            whole = tmp_path / "whole" / verb
            assert main(command(verb, inputs, whole)) == 0, capsys.readouterr().err
            undisturbed[verb] = results(whole)
        target = tmp_path / str(i) / TARGET
        kill_during(verb, inputs, target, int(rng.integers(1, VERBS[verb][2])))
        finished = verb.endswith(("export", "import")) and verb != "data import" and target.exists()  # by one rename
        if not finished:
            assert main(command(verb, inputs, target)) == 0, f"{verb}: {capsys.readouterr().err}"
        found, expected = (_learned(verb, each) for each in (results(target), undisturbed[verb]))
        assert found.keys() == expected.keys(), verb
        assert [name for name in found if found[name] != expected[name]] == [], verb
        assert [path.name for path in target.parent.iterdir() if path.name != target.name and not finished] == []

    trials.run(kill_once)


ENDLESS = """
import gymnasium, os, time
from pathlib import Path
from acvp.envs.toy import ToyGame

class Endless(ToyGame):
    def reset(self, **options):
        Path(os.environ["ENDLESS_SIGNS"], str(os.getpid())).touch()
        return super().reset(**options)

    def step(self, action):
        time.sleep(0.01)
        frame, reward, *_, info = super().step(action)
        return frame, reward, False, False, info

gymnasium.register("acvp-tests/Endless-v0", entry_point=Endless)
"""


@pytest.mark.load
@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGTERM])
def test_workers_end_with_their_parent_in_the_middle_of_an_episode(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, number: signal.Signals
) -> None:
    (tmp_path / "endless_game.py").write_text(ENDLESS)
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    monkeypatch.setenv("ENDLESS_SIGNS", str(tmp_path / "signs"))
    (tmp_path / "signs").mkdir()
    arguments = ["--env-id", "acvp-tests/Endless-v0", "--import", "endless_game", "--max-steps", str(10**9)]
    process = start(["collect", *arguments, "--frames", str(10**9), "--workers", "2", "--out", str(tmp_path / "out")])
    try:
        while len(list((tmp_path / "signs").iterdir())) < 2:
            assert process.poll() is None, process.communicate()[1].decode()
            time.sleep(0.01)
        process.send_signal(number)
        process.wait()
        assert_no_process(process.pid)
    finally:
        for each in processes_of(process.pid):
            each.kill()
        process.communicate()
