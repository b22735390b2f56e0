"""Runs the plan: finished steps are skipped, stopped ones resume, and the failure of one does not stop the others.

out/
  plan.json      command of every step that was ever planned; contains its own checksum
  steps.jsonl    a line per step that ended: exit code, duration, core-seconds
  logs/          output of every step
  GAME/…         folders of the steps
  claims.json, claims.md
"""

from __future__ import annotations

import json
import os
import shlex
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from io import BufferedWriter
from pathlib import Path
from typing import Any, Literal

from acvp.console import TextTable, counted, number
from acvp.data.store import GOAL_NAME, EpisodeStore
from acvp.durable import append_line, exclusive_writer, make_folder, read_file, seal, unseal, write_atomic
from acvp.errors import MAX_REASON, UserError, one_line
from acvp.reproduce.plan import Plan, Step
from acvp.runs import clock

PLAN_NAME, STEPS_NAME, LOGS_NAME = "plan.json", "steps.jsonl", "logs"
OWN_FILES = {PLAN_NAME, STEPS_NAME, LOGS_NAME, "claims.json", "claims.md"}
POLL_SECONDS = 0.1
TAIL_BYTES = 4_000
"""End of a log in which the reason of a failure is looked for."""
THREADS = ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS")

State = Literal["finished", "begun", "to do"]
Outcome = Literal["finished", "failed", "not run"]
Report = Callable[[str], None]


def finished(step: Step, out: Path) -> bool:
    """Return whether the result of a step is there."""
    if not (out / step.result).exists():
        return False
    if not step.frames:
        return True
    try:
        store = EpisodeStore(out / step.name)
    except UserError:  # damaged: its own command reports it
        return False
    return store.frames >= step.frames and not (out / step.name / GOAL_NAME).exists()


def state_of(step: Step, out: Path) -> State:
    """Return how far a step is."""
    if finished(step, out):
        return "finished"
    return "begun" if (out / step.name).exists() else "to do"


def plan_table(plan: Plan, out: Path) -> TextTable:
    """Return the plan with what it costs and how far it is."""
    rows = []
    for step in plan.steps:
        state = "each time" if step.repeat else state_of(step, out)
        rows.append((step.name, step.part, f"{step.minutes:,.1f}", f"{step.megabytes:,.0f}", state))
    left = sum(step.minutes for step in plan.steps if step.repeat or not finished(step, out))
    title = (
        f"{counted(len(plan.steps), 'step')}, about {number(plan.minutes / 60)} {plan.unit}-hours, of which "
        f"{number(left / 60)} are left, and {plan.megabytes / 1000:,.1f} GB"
    )
    return TextTable(title, ("step", "part", f"{plan.unit}-minutes", "MB", "state"), tuple(rows))


def command_lines(plan: Plan, out: Path) -> Iterator[str]:
    """Yield the plan as shell lines; a comment begins each group of commands that can run at once."""
    folder = shlex.quote(str(out))
    threads = "OMP_NUM_THREADS=1 " if plan.unit == "core" else ""
    yield f"mkdir -p {folder}"
    for group, steps in enumerate(plan.levels(), 1):
        yield f"# group {group}: these can run at once" + (f", after group {group - 1}" if group > 1 else "")
        for step in steps:
            yield f"cd {folder} && {threads}acvp {shlex.join(step.command)}"


@contextmanager
def opened(plan: Plan, out: Path) -> Iterator[None]:
    """Lock the output folder and record the plan in it; refuse a folder of another plan."""
    if out.is_file():
        raise UserError(f"--out {out}: is a file; name a folder")
    before = _recorded(out)
    _refuse_other(plan, out, before)
    make_folder(out / LOGS_NAME)
    with exclusive_writer(out / LOGS_NAME):  # steps lock their own folders, and may have outlived a killed command
        now = {step.name: list(step.command) for step in plan.steps}
        write_atomic(out / PLAN_NAME, seal({"commands": (before or {}) | now}))
        yield


def _recorded(out: Path) -> dict[str, list[str]] | None:
    """Return the commands in plan.json; None: there is no such file."""
    file = out / PLAN_NAME
    try:
        commands: dict[str, list[str]] = unseal(read_file(file, out))["commands"]
    except FileNotFoundError:
        return None
    except (OSError, ValueError, KeyError) as error:
        raise UserError(f"{file}: cannot be read ({error}); choose another --out, or delete this file") from error
    return commands


def _refuse_other(plan: Plan, out: Path, before: dict[str, list[str]] | None) -> None:
    """Refuse a folder with foreign files, or with steps that were made with other options."""
    if before is None:
        ours = OWN_FILES | {step.name.split("/")[0] for step in plan.steps}
        names = sorted(path.name for path in out.iterdir() if path.name[0] != ".") if out.is_dir() else []
        foreign = [name for name in names if name not in ours]
        if foreign:
            raise UserError(f"--out {out}: not a folder of acvp reproduce (it has {foreign[0]}); choose another one")
        return
    for step in plan.steps:
        earlier, now = before.get(step.name), list(step.command)
        if earlier in (None, now) or step.repeat or not (out / step.name).exists():
            continue
        before_options, options = _options(earlier or []), _options(now)
        changes = [
            f"{name} {before_options.get(name, 'not given')} → {options.get(name, 'not given')}"
            for name in before_options | options
            if before_options.get(name) != options.get(name)
        ]
        raise UserError(
            f"--out {out}: {step.name} was made with other options ({'; '.join(changes)}); choose another --out, or "
            f"delete {out / step.name} to make it again"
        )


def _options(command: Sequence[str]) -> dict[str, str]:
    """Return the options of a command and what follows each; what comes before them belongs to `acvp`."""
    options, name = {"acvp": ""}, "acvp"
    for word in command:
        name = word if word.startswith("--") else name
        options[name] = "" if word == name else f"{options[name]} {word}".strip()
    return options


def refuse_stale(plan: Plan, out: Path) -> None:
    """Refuse results whose inputs have to be made again."""
    missing = {step.name for step in plan.steps if not finished(step, out)}
    for step in plan.steps:
        lacking = [name for name in step.inputs if name in missing]
        if lacking and finished(step, out) and not step.repeat:
            raise UserError(
                f"{out / step.name} has results, but {lacking[0]} that they were made from is not finished; delete "
                f"{out / step.name} to make it again"
            )


@dataclass
class Running:
    """A step that runs in another process."""

    step: Step
    process: subprocess.Popen[bytes]
    log: BufferedWriter
    started: float


@dataclass
class Runner:
    """Runs the steps of a plan that are left, several at once."""

    plan: Plan
    out: Path
    jobs: int
    report: Report
    program: tuple[str, ...] = (sys.executable, "-m", "acvp")
    """What runs a command."""
    outcomes: dict[str, Outcome] = field(default_factory=dict)
    """Steps that have ended, or that cannot run."""
    _running: list[Running] = field(default_factory=list)

    def run(self) -> dict[str, Outcome]:
        """Run until every step has ended; if interrupted, end all processes first."""
        for step in self.plan.steps:
            if finished(step, self.out) and not step.repeat:
                self.outcomes[step.name] = "finished"
        try:
            while len(self.outcomes) < len(self.plan.steps):
                self._start_ready()
                self._collect_ended()
                if self._running:
                    time.sleep(POLL_SECONDS)
        except BaseException:
            self._stop()
            raise
        return self.outcomes

    def _start_ready(self) -> None:
        """Start steps in the order of the plan while there is room, and give up those whose inputs failed."""
        busy = {running.step.name for running in self._running}
        for step in self.plan.steps:
            if step.name in self.outcomes or step.name in busy:
                continue
            failed = [name for name in step.inputs if self.outcomes.get(name, "finished") != "finished"]
            if failed:
                self.outcomes[step.name] = "not run"
                self.report(f"{step.name}: not run, it needs {failed[0]}")
            elif len(self._running) < self.jobs and all(name in self.outcomes for name in (*step.inputs, *step.after)):
                self._start(step)

    def _start(self, step: Step) -> None:
        log = self.log_file(step).open("ab")
        log.write(f"$ acvp {shlex.join(step.command)}\n".encode())
        log.flush()
        threads = dict.fromkeys(THREADS, "1") if self.plan.unit == "core" or self.jobs > 1 else {}
        process = subprocess.Popen(
            [*self.program, *step.command],
            cwd=self.out,
            env=os.environ | threads,
            stdin=subprocess.DEVNULL,
            stdout=log,
            stderr=subprocess.STDOUT,
            start_new_session=True,  # ctrl-C reaches this process alone, which then ends its children
        )
        self._running.append(Running(step, process, log, time.monotonic()))
        self.report(f"{step.name}: started, about {step.minutes:,.1f} {self.plan.unit}-minutes")

    def log_file(self, step: Step) -> Path:
        """Return the file with a step's output."""
        return self.out / LOGS_NAME / f"{step.name.replace('/', '-')}.log"

    def _collect_ended(self) -> None:
        for running in list(self._running):
            ended, status, used = os.wait4(running.process.pid, os.WNOHANG)
            if ended:
                code = running.process.returncode = os.waitstatus_to_exitcode(status)
                self._running.remove(running)
                running.log.close()
                self._end(running.step, code, time.monotonic() - running.started, used.ru_utime + used.ru_stime)

    def _end(self, step: Step, code: int, seconds: float, core_seconds: float) -> None:
        took = {"seconds": round(seconds, 1), "core_seconds": round(core_seconds, 2)}
        line = {"step": step.name, "exit_code": code} | took | {"command": list(step.command)}
        append_line(self.out / STEPS_NAME, json.dumps(line | {"time": time.strftime("%Y-%m-%d %H:%M:%S%z")}))
        if code == 0 and finished(step, self.out):
            self.outcomes[step.name] = "finished"
            self.report(f"{step.name}: finished in {clock(seconds)}")
            return
        self.outcomes[step.name] = "failed"
        log = self.log_file(step)
        self.report(f"{step.name}: failed with exit code {code} ({_reason(log)}); see {log}")

    def _stop(self) -> None:
        """End all processes: training saves its state first; a second signal kills them."""
        for running in self._running:
            running.process.terminate()
        try:
            for running in self._running:
                running.process.wait()
        except BaseException:
            for running in self._running:
                with suppress(ProcessLookupError):
                    os.killpg(running.process.pid, signal.SIGKILL)
            raise
        finally:
            for running in self._running:
                running.log.close()


def _reason(log: Path) -> str:
    """Return the last line of a log, or the last one in which acvp says why it ended."""
    with log.open("rb") as stream:
        stream.seek(max(0, log.stat().st_size - TAIL_BYTES))
        lines = stream.read().decode(errors="replace").strip().splitlines()
    said = [line.removeprefix("acvp: ") for line in lines if line.startswith("acvp: ")]
    return one_line((said or lines or ["no output"])[-1])[:MAX_REASON]


def summary(outcomes: dict[str, Outcome]) -> dict[str, Any]:
    """Return how many steps ended how."""
    return {state: list(outcomes.values()).count(state) for state in ("finished", "failed", "not run")}
