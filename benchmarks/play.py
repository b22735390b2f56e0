"""make bench-play: does play hold 15 pictures a second, and how long from key to picture; writes results/play.json.

A real `acvp play` in a separate process and a real browser (chromium) share the machine. While the page plays, the up
key is pressed at random times; from the key event to the picture that shows its action is what is counted. Memory is
that of the server's process, once a second. The other games follow, 20 seconds each. Then the five games of the gallery
are exported and played by the page alone, as fast as it can. Shorter: `python -m benchmarks.play --seconds 20
--game-seconds 5`, with `--web site` for a gallery that `make gallery` has just exported, or `--run runs/mine` for a
predictor of your own. Time of the processor says what a step needs, also on a machine that has other work.
"""

from __future__ import annotations

import functools
import json
import os
import random
import shlex
import shutil
import socket
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any
from urllib.parse import urlencode

import numpy as np
import psutil
import tyro
from playwright.sync_api import Browser, Page, sync_playwright

from acvp.cli.main import main as acvp
from acvp.loaded import best_packaged
from benchmarks.provenance import write_results
from benchmarks.tables import GAMES

SEED, FPS, FIRST = 0, 15, "freeway"
RATE_LIMIT, DELAY_LIMIT, GROWTH_LIMIT = 0.97 * FPS, 120.0, 30.0
"""At least so many pictures a second, p95 of the delay at most so many ms, at most so many MB more at the end."""
SETTLED = 0.2
"""Share of the time after which memory is taken to have reached its size."""

COUNT = """() => {
  globalThis.bench = { pictures: 0, delays: [], pressed: null };
  const kinds = { childList: true, characterData: true, subtree: true };
  const watch = (selector, then) => new MutationObserver(then).observe(document.querySelector(selector), kinds);
  watch("#steps p", () => (bench.pictures += 1));
  watch("#dream figcaption span", () => {
    if (bench.pressed === null || document.querySelector("#dream figcaption span").textContent !== "up") return;
    const pressed = bench.pressed;
    bench.pressed = null;
    requestAnimationFrame(() => bench.delays.push(performance.now() - pressed));
  });
  addEventListener("keydown", (event) => { if (event.key === "ArrowUp") bench.pressed = performance.now(); }, true);
}"""


@dataclass(frozen=True)
class Options:
    """Measure play in a browser."""

    seconds: float = 600.0
    """How long to play."""
    game_seconds: float = 20.0
    """How long to play each game after the first one, and each of the gallery."""
    run: Path | None = None
    """Folder of a run or predictor; None: the freeway predictor that comes with acvp."""
    gallery: bool = False
    """Measure the gallery alone, and write results/gallery.json."""
    web: Path | None = None
    """Folder of an exported gallery; None: it is exported first."""


def main(options: Options) -> None:
    """Measure, print and write the numbers."""
    started = time.monotonic()
    chromium = shutil.which("chromium") or shutil.which("google-chrome")
    if chromium is None:
        raise SystemExit("bench-play needs a browser: apt install chromium")
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=chromium, args=["--no-sandbox"])
        body: dict[str, Any] = {} if options.gallery else measure_servers(browser, options)
        body["static"] = measure_static(browser, options)
        browser.close()
    print(body)
    name = "gallery" if options.gallery else "play"
    print(write_results(name, body, command=command(options), seed=SEED, started=started))
    complain(body)


def measure_servers(browser: Browser, options: Options) -> dict[str, Any]:
    """Measure `acvp play` with the first predictor, and shorter with those of the other games."""
    body: dict[str, Any] = {"predictor": str(options.run or FIRST), "served": measure_served(browser, options)}
    if options.run is None:
        names = [name for name in best_packaged() if name != FIRST]
        others = [Options(seconds=options.game_seconds, run=Path(name)) for name in names]
        body["other games served"] = {str(other.run): measure_served(browser, other) for other in others}
    return body


def command(options: Options) -> str:
    """Return what was called."""
    if options == Options():
        return "make bench-play"
    run = [] if options.run is None else ["--run", str(options.run)]
    run += [] if options.web is None else ["--web", str(options.web)]
    seconds = ["--gallery"] if options.gallery else ["--seconds", f"{options.seconds:g}"]
    seconds += ["--game-seconds", f"{options.game_seconds:g}"]
    return shlex.join(["python", "-m", "benchmarks.play", *seconds, *run])


def measure_served(browser: Browser, options: Options) -> dict[str, Any]:
    """Rate, delay and memory of `acvp play`."""
    with served(options) as (process, address):
        page = open_page(browser, address)
        draw, memory, begin = random.Random(SEED), [], time.monotonic()
        page.evaluate(COUNT)
        while (passed := time.monotonic() - begin) < options.seconds:
            memory.append(process.memory_info().rss / 1e6)
            tap(page, draw)
            line = f"{passed:5.0f} s  {page.locator('#rate').inner_text()}  {memory[-1]:.0f} MB"
            print(f"\r{line} ", end="", file=sys.stderr)
        counted = page.evaluate("globalThis.bench")
        passed = time.monotonic() - begin
    delays = np.array(counted["delays"])
    settled = memory[int(SETTLED * len(memory))]
    return {
        "seconds": round(passed, 1),
        "pictures a second": round(counted["pictures"] / passed, 2),
        "key to picture, ms": {name: round(float(np.quantile(delays, q)), 1) for name, q in QUANTILES.items()},
        "keys": len(delays),
        "load of the machine": round(os.getloadavg()[0], 1),
        "server memory, MB": {"settled": round(settled), "end": round(memory[-1]), "most": round(max(memory))},
    }


QUANTILES = {"median": 0.5, "p95": 0.95, "most": 1.0}


def tap(page: Page, draw: random.Random) -> None:
    """Press the up key at a random time within a second, and begin a new game where one is over."""
    if "over" in (page.locator("body").get_attribute("class") or ""):
        page.keyboard.press("Enter")
    page.wait_for_timeout(300 + 500 * draw.random())
    page.keyboard.down("ArrowUp")
    page.wait_for_timeout(200)
    page.keyboard.up("ArrowUp")


def measure_static(browser: Browser, options: Options) -> dict[str, Any]:
    """The rate of the exported page with each predictor, asked for as much as possible."""
    with tempfile.TemporaryDirectory() as folder:
        web = options.web or Path(folder) / "web"
        names = list(GAMES) if options.run is None else [str(options.run)]
        if options.web is None and acvp(["export", "--web", str(web), "--predictors", *names]):
            raise SystemExit("acvp export --web does not work here: the static page was not measured")
        with hosted(web) as address:
            known = json.loads((web / "games.json").read_text())["games"]
            rates = {game["name"]: static_rate(browser, address, game["name"], options.game_seconds) for game in known}
        largest = max(path.stat().st_size for path in web.rglob("*") if path.is_file())
    return {"real time, steps a second": FPS, "largest file, MB": round(largest / 1e6, 1), "games": rates}


def static_rate(browser: Browser, address: str, name: str, seconds: float) -> dict[str, Any]:
    """The rate of one predictor on the exported page, as such and by real time, and what else the machine did."""
    steps, used, threads = static_steps(browser, address, name, seconds)
    alone, used_alone, _ = static_steps(browser, address, name, seconds, "sessionStorage.setItem('isolated', 'tried')")
    print(f"{name}: {steps / seconds:.1f} steps a second", file=sys.stderr)
    return {
        "steps a second": round(steps / seconds, 2),
        "of real time": round(steps / seconds / FPS, 2),
        "time of the processor, ms a step": round(1000 * used / max(1, steps), 1),
        "the same in one thread": round(1000 * used_alone / max(1, alone), 1),
        "threads": threads,
        "load of the machine": round(os.getloadavg()[0], 1),
    }


def static_steps(browser: Browser, address: str, name: str, seconds: float, script: str = "") -> tuple[int, float, int]:
    """The steps of one predictor in some seconds, the processor time they take, and the threads that take it.

    A script runs before the page's own: where the page believes that it has been reloaded, it has one thread.
    """
    page = open_page(browser, f"{address}#{urlencode({'predictor': name, 'start': 0, 'moves': '0'})}", script)
    page.get_by_text("Resume", exact=True).first.wait_for()  # the link ends paused
    page.keyboard.press(".")
    for _ in range(9):
        page.keyboard.press("+")  # 60 a second
    page.evaluate(COUNT)
    used = processor_time()
    page.wait_for_timeout(1000 * seconds)
    used, steps = processor_time() - used, page.evaluate("globalThis.bench.pictures")
    threads = page.evaluate("globalThis.crossOriginIsolated ? Math.min(4, navigator.hardwareConcurrency) : 1")
    page.context.close()
    return steps, used, threads


def processor_time() -> float:
    """Return the seconds that the browser's processes have used, on all cores."""
    times = [process.cpu_times() for process in psutil.Process().children(recursive=True)]
    return float(sum(time.user + time.system for time in times))


def open_page(browser: Browser, address: str, script: str = "") -> Page:
    """Open a page, after a script, and wait until it dreams."""
    page = browser.new_context(viewport={"width": 1280, "height": 720}).new_page()
    page.add_init_script(script)
    page.goto(address)
    end = time.monotonic() + 120
    while page.locator("#steps p").inner_text() in ("", "0"):
        if time.monotonic() > end:
            raise SystemExit(f"the page does not play: {page.locator('#toast').inner_text()}")
        page.wait_for_timeout(100)
    return page


def chosen(options: Options) -> list[str]:
    """The options of acvp that choose the predictor."""
    return ["--predictors", FIRST] if options.run is None else ["--predictors", str(options.run)]


@contextmanager
def served(options: Options, *more: str) -> Iterator[tuple[psutil.Process, str]]:
    """A running `acvp play`, and its address."""
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    command = [sys.executable, "-m", "acvp", "play", "--no-browser", "--port", str(port), *chosen(options), *more]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
    try:
        assert process.stdout is not None
        said = process.stdout.readline()
        if "http://" not in said:
            raise SystemExit(f"acvp play did not start: {said}")
        yield psutil.Process(process.pid), next(word for word in said.split() if word.startswith("http://"))
    finally:
        process.terminate()
        process.wait()


@contextmanager
def hosted(folder: Path) -> Iterator[str]:
    """A static host of a folder."""

    class Quiet(SimpleHTTPRequestHandler):
        def log_message(self, format: str, *arguments: object) -> None: ...

    with ThreadingHTTPServer(("127.0.0.1", 0), functools.partial(Quiet, directory=str(folder))) as server:
        threading.Thread(target=server.serve_forever, daemon=True).start()
        yield f"http://127.0.0.1:{server.server_address[1]}/"
        server.shutdown()


def complain(body: dict[str, Any]) -> None:
    """Exit with an error where a promise is not kept."""
    if "served" in body:
        complain_of_server(body["served"])
    behind = [
        name for name, game in body.get("other games served", {}).items() if game["pictures a second"] < RATE_LIMIT
    ]
    if behind:
        raise SystemExit(f"fewer than {RATE_LIMIT:.2f} pictures a second with {', '.join(behind)}")
    slow = [name for name, rate in body["static"]["games"].items() if rate["steps a second"] < FPS]
    if slow:
        raise SystemExit(f"the static page takes fewer than {FPS} steps a second with {', '.join(slow)}")


def complain_of_server(served_numbers: dict[str, Any]) -> None:
    """Exit with an error where the server breaks a promise."""
    growth = served_numbers["server memory, MB"]["end"] - served_numbers["server memory, MB"]["settled"]
    if served_numbers["pictures a second"] < RATE_LIMIT:
        raise SystemExit(f"fewer than {RATE_LIMIT:.2f} pictures a second")
    if served_numbers["key to picture, ms"]["p95"] > DELAY_LIMIT:
        raise SystemExit(f"p95 from key to picture is over {DELAY_LIMIT:.0f} ms")
    if growth > GROWTH_LIMIT:
        raise SystemExit(f"memory grew by {growth} MB")


if __name__ == "__main__":
    main(tyro.cli(Options))
