"""make bench-scale: time and memory of what is done with datasets of 10⁵ and more frames; writes results/scale.json.

Each dataset is synthetic: valid part files, written without playing a game, and deleted afterwards. Every measurement
runs in a separate process, whose peak of memory is measured. An exponent of 1 is linear growth, 0 is none.
"""

from __future__ import annotations

import hashlib
import json
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from math import log
from pathlib import Path
from typing import Any

import numpy as np
import tyro

from acvp.data.collect import Recorded
from acvp.data.episode import OPENING_FRAMES, Episode, finish_content_hash
from acvp.data.recording import EpisodeRecorder, open_writer
from acvp.data.split import split
from acvp.data.store import EpisodeStore, StoreInfo
from acvp.data.verify import contact_sheet, describe, verify
from acvp.data.windows import Window, Windows
from benchmarks.provenance import write_results

HEIGHT, WIDTH = 210, 160
EPISODE_FRAMES = 2_000
RENDERED = 8
"""Episodes that are rendered. The others have the frames of one of these and other actions: made in little time."""
INFO = StoreInfo(
    env_id="benchmark/Squares-v0", frame_shape=(HEIGHT, WIDTH, 3), action_meanings=("NOOP", "LEFT", "RIGHT"),
    policy="synthetic",
)  # fmt: skip


@dataclass(frozen=True, kw_only=True)
class ScaleConfig:
    """Measure time and memory of datasets of some sizes."""

    frames: tuple[int, ...] = (100_000, 1_000_000)
    """Frames of the datasets, ascending. 10,000,000 need 10 GB of disk and an hour."""
    measure: tuple[str, ...] = ()
    """Used by the benchmark itself: what to measure in this process, and the dataset."""


class Template:
    """A rendered episode, to be copied with other actions."""

    def __init__(self, seed: int) -> None:
        self.episode = render(seed)
        self._frames = [hashlib.sha256(self.episode.stored(0, stop).data) for stop in (EPISODE_FRAMES, OPENING_FRAMES)]
        self._colors = [int(self.episode.stored(0, stop).max()) + 1 for stop in (EPISODE_FRAMES, OPENING_FRAMES)]

    def copy(self, number: int) -> Episode:
        """Return a copy with other actions, and therefore another content."""
        actions = np.random.default_rng(number).integers(0, 3, EPISODE_FRAMES - 1).astype(np.int16)
        assert self.episode.palette is not None
        content, opening = (
            finish_content_hash(frames.copy(), self.episode.palette[:colors], actions[: stop - 1])
            for frames, colors, stop in zip(self._frames, self._colors, (EPISODE_FRAMES, OPENING_FRAMES), strict=True)
        )
        header = replace(self.episode.header, number=number, content=content, opening=opening)
        return replace(self.episode, header=header, actions=actions)


def render(seed: int) -> Episode:
    """Return an episode of squares that move over a background, as in a game with few colors."""
    rng = np.random.default_rng(seed)
    background = np.zeros((HEIGHT, WIDTH, 3), np.uint8)
    background[::7, :, 1] = 90
    recorder, at = EpisodeRecorder(), rng.integers(0, 140, (6, 2))
    for t in range(EPISODE_FRAMES):
        frame = background.copy()
        at = (at + rng.integers(-3, 4, at.shape)) % (HEIGHT - 20, WIDTH - 20)
        for number, (y, x) in enumerate(at.tolist()):
            frame[y : y + 12, x : x + 8] = (40 * number, 255 - 30 * number, 128)
        if t:
            recorder.step(int(rng.integers(3)), float(t % 100 == 0), frame)
        else:
            recorder.start(frame)
    return recorder.finish(number=0, seed=seed, terminated=True, truncated=False)


def make(path: Path, frames: int) -> float:
    """Write a dataset, and return the seconds that adding its episodes took, without rendering them."""
    templates = [Template(seed) for seed in range(RENDERED)]
    seconds = 0.0
    with open_writer(path, INFO) as writer:
        recorded = Recorded(writer, range(frames))
        while not recorded.enough(frames):
            number = len(writer)
            episode = templates[number % RENDERED].copy(number)
            began = time.perf_counter()
            writer.add(episode)
            seconds += time.perf_counter() - began
    return seconds


def first_batch(path: Path) -> None:
    """Do what training does until its first batch, apart from the network."""
    train, _ = split(EpisodeStore(path), test_fraction=0.1, seed=1)
    windows = Windows(train, Window(4, 1))
    windows.batch(windows.draw(32, seed=1, step=0))


def info(path: Path) -> None:
    """Do what acvp data info does."""
    store = EpisodeStore(path)
    describe(store)
    contact_sheet(store, path / "sheet.png")


def check(path: Path) -> None:
    """Do what acvp data verify does."""
    assert verify(path) == []


def resume(path: Path) -> None:
    """Do what acvp collect does with episodes that are there: read the index, look for unlisted parts, and count."""
    with open_writer(path, INFO) as writer:
        recorded, frames = Recorded(writer, range(len(writer))), 0
        for entry in writer.entries:  # as if they had just been recorded, one after the other
            frames += entry.frames
            assert recorded.enough(frames)


MEASURES: dict[str, Callable[[Path], Any]] = {
    "open": lambda path: repr(EpisodeStore(path)),
    "info": info,
    "split": lambda path: split(EpisodeStore(path), test_fraction=0.1, seed=1),
    "first batch": first_batch,
    "verify": check,
    "collect bookkeeping": resume,
}


def measured(name: str, path: Path) -> dict[str, float]:
    """Return seconds and peak memory of one of the measures, in a new process."""
    command = [sys.executable, "-m", "benchmarks.scale", "--measure", name, str(path)]
    done = subprocess.run(command, check=True, capture_output=True, text=True)
    values: dict[str, float] = json.loads(done.stdout.splitlines()[-1])
    return values


def measure_here(name: str, path: Path) -> None:
    """Measure something in this process and print it."""
    began, busy = time.perf_counter(), time.process_time()
    MEASURES[name](path)
    values = {"seconds": time.perf_counter() - began, "cpu_seconds": time.process_time() - busy}
    peak = next(line for line in Path("/proc/self/status").read_text().splitlines() if line.startswith("VmHWM"))
    print(json.dumps(values | {"peak_memory_mb": int(peak.split()[1]) / 1024}))


def exponents(sizes: dict[int, dict[str, dict[str, float]]]) -> dict[str, dict[str, float]]:
    """Return how time and memory of each measure grow from the smallest to the largest dataset: size to this power."""
    least, most = min(sizes), max(sizes)
    growth: dict[str, dict[str, float]] = {}
    for name in sizes[least]:
        small, large = sizes[least][name], sizes[most][name]
        growth[name] = {unit: round(log(large[unit] / small[unit]) / log(most / least), 3) for unit in small}
    return growth


def main() -> None:
    """Measure all sizes and print where the numbers are."""
    config = tyro.cli(ScaleConfig)
    if config.measure:
        measure_here(config.measure[0], Path(config.measure[1]))
        return
    started = time.monotonic()
    sizes: dict[int, dict[str, dict[str, float]]] = {}
    facts: dict[str, Any] = {}
    with tempfile.TemporaryDirectory() as folder:
        for frames in config.frames:
            path = Path(folder) / str(frames)
            facts[str(frames)] = {"seconds to add": round(make(path, frames), 2), "bytes": EpisodeStore(path).size}
            sizes[frames] = {name: measured(name, path) for name in MEASURES}
            print(frames, facts[str(frames)], sizes[frames], flush=True)
            shutil.rmtree(path)
    body = {
        "frames of an episode": EPISODE_FRAMES,
        "datasets": facts,
        "measures": {str(frames): values for frames, values in sizes.items()},
        "growth exponents": exponents(sizes),
    }
    print(write_results("scale", body, command="make bench-scale", seed=0, started=started))


if __name__ == "__main__":
    main()
