"""make bench-crowd: many pages at once, and bad ones among them; writes results/play_crowd.json.

Pages without a browser: they read, confirm and hold a key, as the real one does. First one page plays alone, turn about
with a neighbor that floods and sends garbage: what it keeps of its rate is the ratio. Then several pages play side by
side for a long time (`--minutes 60`), and memory, threads and open files of the server are compared with those at
the beginning.
"""

from __future__ import annotations

import json
import random
import struct
import sys
import threading
import time
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import psutil
import tyro
from websockets.exceptions import ConnectionClosed
from websockets.sync.client import connect
from websockets.typing import Origin

from benchmarks.play import SETTLED, served
from benchmarks.play import Options as Played
from benchmarks.provenance import write_results

SEED, FPS = 0, 15
PICTURE = 1
"""First byte of a message that is a picture."""
LEAST_KEPT, LEAST_RATE, GROWTH_LIMIT = 0.95, 0.9 * FPS, 30.0
"""Share of its rate that a page keeps beside a bad one; pictures a second of each of many; MB more at the end."""
TURNS, TURN_SECONDS = 4, 15.0
"""Alone and beside a bad page, turn about."""
BAD_MESSAGES = ('{"do":"hold","action":1}', "{", "[" * 900, '{"do":"switch","name":"nobody"}', "#-1", "")
TOO_LONG = "x" * 5000


@dataclass(frozen=True)
class Options:
    """Measure the play server with many pages."""

    minutes: float = 60.0
    """How long the pages play side by side."""
    pages: int = 4
    """How many."""
    run: Path | None = None
    """Folder of a run or predictor; None: the freeway predictor that comes with acvp."""


@dataclass
class Reader:
    """A page that plays in a thread until it is stopped."""

    address: str
    pictures: int = 0
    stopping: threading.Event = field(default_factory=threading.Event)

    def __post_init__(self) -> None:
        self.thread = threading.Thread(target=self._read, daemon=True)
        self.thread.start()
        while not self.pictures:
            if not self.thread.is_alive():
                raise SystemExit("a page was turned away")
            time.sleep(0.05)

    def _read(self) -> None:
        with open_socket(self.address) as socket:
            while not self.stopping.is_set():
                message = socket.recv(60)
                if isinstance(message, bytes) and message[0] == PICTURE:
                    (length,) = struct.unpack_from("<I", message, 1)
                    socket.send(f"#{json.loads(message[5 : 5 + length])['picture']}")
                    self.pictures += 1
                    if self.pictures % 20 == 0:
                        socket.send(json.dumps({"do": "hold", "action": self.pictures // 20 % 2}))
                    if self.pictures % 500 == 0:
                        socket.send(json.dumps({"do": "reset"}))

    def rate(self, seconds: float) -> float:
        """Pictures a second from now on."""
        before, began = self.pictures, time.monotonic()
        time.sleep(seconds)
        return (self.pictures - before) / (time.monotonic() - began)

    def stop(self) -> None:
        """Leave."""
        self.stopping.set()
        self.thread.join(60)


def open_socket(address: str) -> Any:
    """A connection as the page makes it."""
    host = address.removeprefix("http://").rstrip("/")
    return connect(f"ws://{host}/play", origin=Origin(f"http://{host}"))


def main(options: Options) -> None:
    """Measure, print and write the numbers."""
    started = time.monotonic()
    with served(Played(run=options.run), "--sessions", str(options.pages + 1)) as (process, address):
        body: dict[str, Any] = {"predictor": str(options.run or "freeway")}
        body |= {"beside a bad page": beside_bad(address), "side by side": side_by_side(process, address, options)}
    print(body)
    print(
        write_results(
            "play_crowd",
            body,
            command="make bench-crowd" if options == Options() else "python -m benchmarks.play_crowd, with options",
            seed=SEED,
            started=started,
        )
    )
    complain(body)


def beside_bad(address: str) -> dict[str, Any]:
    """The rate of a page alone and beside a bad one, turn about."""
    page, quiet, disturbed, messages = Reader(address), 0.0, 0.0, 0
    for turn in range(TURNS):
        quiet += page.rate(TURN_SECONDS) / TURNS
        over = threading.Event()
        sent: list[int] = []
        bad = threading.Thread(target=misbehave, args=(address, over, turn, sent), daemon=True)
        bad.start()
        disturbed += page.rate(TURN_SECONDS) / TURNS
        over.set()
        bad.join(60)
        messages += sum(sent)
    page.stop()
    return {
        "alone, pictures a second": round(quiet, 2),
        "beside it": round(disturbed, 2),
        "kept": round(disturbed / quiet, 3),
        "bad messages": messages,
    }


def misbehave(address: str, over: threading.Event, seed: int, sent: list[int]) -> None:
    """Flood, send garbage and messages that are too long, and come back when thrown out."""
    draw = random.Random(seed)
    while not over.is_set():
        with suppress(ConnectionClosed, OSError, TimeoutError), open_socket(address) as socket:
            for _ in range(500):
                kind = draw.choice(("hold", "garbage", "deep", "long" if draw.random() < 0.01 else "hold"))
                socket.send(
                    {"hold": '{"do":"hold","action":1}', "garbage": "{", "deep": "[" * 900, "long": "x" * 5000}[kind]
                )
                sent.append(1)
        time.sleep(0.05)


def side_by_side(process: psutil.Process, address: str, options: Options) -> dict[str, Any]:
    """Rates of all pages, and what the server holds, for a long time."""
    pages = [Reader(address) for _ in range(options.pages)]
    begin, seconds, memory = time.monotonic(), 60 * options.minutes, []
    held = (process.num_threads(), process.num_fds())
    first = [page.pictures for page in pages]
    while (passed := time.monotonic() - begin) < seconds:
        memory.append(process.memory_info().rss / 1e6)
        print(f"\r{passed:5.0f} s  {memory[-1]:.0f} MB ", end="", file=sys.stderr)
        time.sleep(min(1.0, seconds / 10))
        if not all(page.thread.is_alive() for page in pages):
            raise SystemExit(f"a page has lost its connection after {passed:.0f} s")
    rates = [(page.pictures - before) / passed for page, before in zip(pages, first, strict=True)]
    after = (process.num_threads(), process.num_fds())
    for page in pages:
        page.stop()
    return {
        "minutes": options.minutes,
        "pictures a second": [round(rate, 2) for rate in rates],
        "server memory, MB": {"settled": round(memory[int(SETTLED * len(memory))]), "end": round(memory[-1])},
        "threads and open files": {"begin": held, "end": after},
    }


def complain(body: dict[str, Any]) -> None:
    """Exit with an error where a promise is not kept."""
    memory = body["side by side"]["server memory, MB"]
    held = body["side by side"]["threads and open files"]
    if not body["beside a bad page"]["bad messages"]:
        raise SystemExit("the bad page could send nothing: no comparison")
    if min(body["side by side"]["pictures a second"]) < LEAST_RATE:
        raise SystemExit(f"a page had fewer than {LEAST_RATE:.1f} pictures a second")
    if body["beside a bad page"]["kept"] < LEAST_KEPT:
        raise SystemExit(f"a bad page leaves its neighbor less than {LEAST_KEPT} of its rate")
    if memory["end"] - memory["settled"] > GROWTH_LIMIT:
        raise SystemExit(f"memory grew from {memory['settled']} to {memory['end']} MB")
    if any(end > begin for begin, end in zip(held["begin"], held["end"], strict=True)):
        raise SystemExit(f"threads and open files grew: {held}")


if __name__ == "__main__":
    main(tyro.cli(Options))
