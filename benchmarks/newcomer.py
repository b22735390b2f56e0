"""python -m benchmarks.newcomer: from a fresh clone to a moving dream of each game, as a newcomer would, with a clock.

Clones this repository into a temporary folder, installs it as `make play` does, starts `acvp play` for each game and
opens it in Chromium. Writes results/newcomer.json, and the load of the machine with it. PIP_ARGS is passed on.
"""

from __future__ import annotations

import os
import re
import resource
import signal
import subprocess
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import tyro
from playwright.sync_api import Page, sync_playwright

from acvp.loaded import best_packaged
from benchmarks.provenance import RESULTS, write_results
from tests.play.browsing import chromium

STEPS = 10
"""Predicted steps after which a dream counts as moving."""
PATIENCE = 300
"""Seconds to wait for it."""


@dataclass(frozen=True)
class Options:
    """Measure the first minutes of a newcomer."""

    busy: bool = False
    """Measure although the machine is busy: its load is written beside the times."""


def main(options: Options) -> None:
    """Measure everything and write it."""
    started, cores, load = time.monotonic(), os.cpu_count() or 1, [os.getloadavg()[0]]
    if load[0] > cores and not options.busy:
        raise SystemExit(f"the machine has a load of {load[0]:.0f}: measure when it is idle, or pass --busy")
    with tempfile.TemporaryDirectory() as folder:
        clone = Path(folder) / "acvp"
        steps = [
            timed(
                f"git clone <this repository> {clone.name}",
                ["git", "clone", "--quiet", str(RESULTS.parent), str(clone)],
            ),
            timed("make install", ["make", "install", f"PIP_ARGS={os.environ.get('PIP_ARGS', '')}"], clone),
        ]
        load.append(os.getloadavg()[0])
        games = {name: play(clone, name) for name in best_packaged()}
    load.append(os.getloadavg()[0])
    body = {
        "what": f"seconds by the clock; games: until {STEPS} steps are predicted",
        "cores": cores, "load at start, before the games, at the end": [round(value, 1) for value in load],
        "steps": steps, "games": games,
    }  # fmt: skip
    command = "python -m benchmarks.newcomer" + " --busy" * options.busy
    write_results("newcomer", body, command=command, seed=0, started=started)


def timed(shown: str, command: list[str], folder: Path | None = None) -> dict[str, Any]:
    """Run a command; return it with its seconds by the clock and of the processor."""
    before, started = processor_time(), time.monotonic()
    subprocess.run(command, cwd=folder, check=True)
    seconds = time.monotonic() - started
    print(f"{shown}: {seconds:.0f} s", flush=True)
    return {"command": shown, "seconds": round(seconds, 1), "processor seconds": round(processor_time() - before, 1)}


def processor_time() -> float:
    """Return the seconds that finished child processes have used."""
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def play(clone: Path, game: str) -> dict[str, Any]:
    """Start the play server of a game, open its page, and return how long it takes until the dream moves."""
    command = [str(clone / ".venv" / "bin" / "acvp"), "play", "--predictors", game, "--no-browser"]
    before, started = processor_time(), time.monotonic()
    server = subprocess.Popen(command, cwd=clone, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    try:
        address = wait_for_address(server)
        served = time.monotonic() - started
        moving = served + until_moving(address)
    finally:
        server.send_signal(signal.SIGINT)
        server.wait()
    print(f"{game}: page after {served:.1f} s, dream after {moving:.1f} s", flush=True)
    used = round(processor_time() - before, 1)
    seconds = {"page": round(served, 1), "dream": round(moving, 1), "processor seconds": used}
    return {"command": f"acvp play --predictors {game}", **seconds}


def wait_for_address(server: subprocess.Popen[str]) -> str:
    """Return the address that the server prints."""
    assert server.stdout is not None
    for line in server.stdout:
        if match := re.search(r"http://\S+", line):
            return match[0]
    raise RuntimeError("the play server has ended without an address")


def until_moving(address: str) -> float:
    """Return the seconds from opening a page until its dream has moved for some steps."""
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=chromium(), args=["--no-sandbox"])
        page = browser.new_page()
        started = time.monotonic()
        page.goto(address)
        while not has_moved(page):
            if time.monotonic() > started + PATIENCE:
                raise SystemExit(f"{address}: the dream does not move")
            page.wait_for_timeout(50)
        seconds = time.monotonic() - started
        browser.close()
    return seconds


def has_moved(page: Page) -> bool:
    """Return whether a dream has moved for some steps."""
    counted = page.locator("#steps p").inner_text().split()
    return bool(counted) and counted[0].isdigit() and int(counted[0]) >= STEPS


if __name__ == "__main__":
    main(tyro.cli(Options))
