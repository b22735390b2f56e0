"""make bench-scale: time and memory of what is done with datasets of 10⁵ to 10⁷ frames; writes results/scale.json.

Each dataset is synthetic: valid part files, written without playing a game, and deleted afterwards. Every measurement
runs in a separate process, whose peak of memory is measured. An exponent of 1 is linear growth, 0 is none. The
set-up of a training is measured on 20,000 frames of an Atari game, and every verb that reads a dataset on 10⁶ frames,
but for those that need the game of the dataset (counterfactual, play, agent train --imagined: they open it, and read
what they show) or the hub (data push and pull).
"""

from __future__ import annotations

import contextlib
import hashlib
import json
import os
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from math import log
from pathlib import Path
from typing import Any

import numpy as np
import tyro

from acvp.data.episode import OPENING_FRAMES, Episode, finish_content_hash
from acvp.data.merge import split
from acvp.data.recording import EpisodeRecorder, Recorded, open_writer
from acvp.data.store import EpisodeStore, StoreInfo
from acvp.data.verify import contact_sheet, describe, verify
from acvp.data.windows import Window, Windows
from acvp.runs import memory_of
from benchmarks.provenance import ORIGIN, RESULTS, part_origin, write_results

HEIGHT, WIDTH = 64, 64
"""Of a frame; small, because verify hashes every pixel: 10⁷ frames of Atari are 336 GB."""
LONG, SHORT = 2_000, 10
"""Frames of an episode."""
RENDERED = 8
"""Episodes that are rendered. The others have the frames of one of these and other actions: made in little time."""
INFO = StoreInfo(
    env_id="benchmark/Squares-v0", frame_shape=(HEIGHT, WIDTH, 3), action_meanings=("NOOP", "LEFT", "RIGHT"),
    policy="synthetic",
)  # fmt: skip


@dataclass(frozen=True, kw_only=True)
class ScaleConfig:
    """Measure time and memory of datasets of some sizes."""

    frames: tuple[int, ...] = (100_000, 1_000_000, 10_000_000)
    """Frames of the datasets, ascending. 10,000,000 need 3 GB of disk."""
    short_frames: tuple[int, ...] = (10_000, 100_000)
    """Frames of the datasets of episodes of 10 frames, ascending."""
    command_frames: int = 1_000_000
    """Frames of the dataset that commands are run on; 0: none are."""
    setup_frames: int = 20_000
    """Frames of the dataset whose training is set up; 0: none is."""
    only: tuple[str, ...] = ()
    """Parts to measure: long episodes, short episodes, set-up, commands. Others stay as the file has them."""
    measure: tuple[str, ...] = ()
    """Used by the benchmark itself: what to measure in this process, the dataset, and to make one, its sizes."""


class Template:
    """A rendered episode, to be copied with other actions."""

    def __init__(self, seed: int, frames: int) -> None:
        self.episode = render(seed, frames)
        self._stops = (frames, min(frames, OPENING_FRAMES))
        self._frames = [hashlib.sha256(self.episode.stored(0, stop).data) for stop in self._stops]
        self._colors = [int(self.episode.stored(0, stop).max()) + 1 for stop in self._stops]

    def copy(self, number: int) -> Episode:
        """Return a copy with other actions, and therefore another content."""
        actions = np.random.default_rng(number).integers(0, 3, len(self.episode) - 1).astype(np.int16)
        assert self.episode.palette is not None
        content, opening = (
            finish_content_hash(frames.copy(), self.episode.palette[:colors], actions[: stop - 1])
            for frames, colors, stop in zip(self._frames, self._colors, self._stops, strict=True)
        )
        header = replace(self.episode.header, number=number, content=content, opening=opening)
        return replace(self.episode, header=header, actions=actions)


def render(seed: int, frames: int) -> Episode:
    """Return an episode of squares that move over a background, as in a game with few colors."""
    rng = np.random.default_rng(seed)
    background = np.zeros((HEIGHT, WIDTH, 3), np.uint8)
    background[::7, :, 1] = 90
    recorder, at = EpisodeRecorder(), rng.integers(0, HEIGHT - 20, (6, 2))
    for t in range(frames):
        frame = background.copy()
        at = (at + rng.integers(-3, 4, at.shape)) % (HEIGHT - 20, WIDTH - 20)
        for number, (y, x) in enumerate(at.tolist()):
            frame[y : y + 12, x : x + 8] = (40 * number, 255 - 30 * number, 128)
        if t:
            recorder.step(int(rng.integers(3)), float(t % 100 == 0), frame)
        else:
            recorder.start(frame)
    return recorder.finish(number=0, seed=seed, terminated=True, truncated=False)


def make(path: Path, frames: int, episode_frames: int = LONG) -> dict[str, float]:
    """Write a dataset in a new process, and return how long adding its episodes took, without rendering them."""
    return measured("make", path, str(frames), str(episode_frames))


def make_here(path: Path, frames: int, episode_frames: int) -> None:
    """Write a dataset in this process, and print what `make` returns."""
    templates = [Template(seed, episode_frames) for seed in range(RENDERED)]
    seconds = busy = 0.0
    with open_writer(path, INFO) as writer:
        recorded = Recorded(writer, range(frames))
        while not recorded.enough(frames):
            number = len(writer)
            episode = templates[number % RENDERED].copy(number)
            began, working = time.perf_counter(), time.process_time()
            writer.add(episode)
            seconds += time.perf_counter() - began
            busy += time.process_time() - working
    print(json.dumps({"seconds": seconds, "cpu_seconds": busy, "peak_memory_mb": peak_memory()}))


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


class _SetUpError(Exception):
    """Raised where the first update would be."""


def train_setup(path: Path) -> None:
    """Do what acvp train does until its first update."""
    from acvp.cli.train import run
    from acvp.training.config import TrainConfig
    from acvp.training.trainer import Trainer

    def stop(trainer: Trainer) -> None:
        raise _SetUpError(str(trainer.state.step))

    Trainer.fit = stop  # type: ignore[method-assign, assignment]
    with tempfile.TemporaryDirectory() as folder, contextlib.suppress(_SetUpError):
        run(TrainConfig(data=(path,), model="pixel", preset="cpu", run=Path(folder) / "run", device="cpu"))


MEASURES: dict[str, Callable[[Path], Any]] = {
    "open": lambda path: repr(EpisodeStore(path)),
    "info": info,
    "split": lambda path: split(EpisodeStore(path), test_fraction=0.1, seed=1),
    "first batch": first_batch,
    "verify": check,
    "collect bookkeeping": resume,
}


def measured(name: str, path: Path, *more: str) -> dict[str, float]:
    """Return seconds and peak memory of one of the measures, in a new process."""
    command = [sys.executable, "-m", "benchmarks.scale", "--measure", name, str(path), *more]
    done = subprocess.run(command, check=True, capture_output=True, text=True)
    values: dict[str, float] = json.loads(done.stdout.splitlines()[-1])
    return values


def measure_here(name: str, path: Path) -> None:
    """Measure something in this process and print it."""
    began, busy = time.perf_counter(), time.process_time()
    (MEASURES | {"train set-up": train_setup})[name](path)
    values = {"seconds": time.perf_counter() - began, "cpu_seconds": time.process_time() - busy}
    print(json.dumps(values | {"peak_memory_mb": peak_memory()}))


def peak_memory() -> float:
    """Return the peak memory of this process, which does not begin with that of its parent."""
    peak = next(line for line in Path("/proc/self/status").read_text().splitlines() if line.startswith("VmHWM"))
    return int(peak.split()[1]) / 1024


def run_process(*arguments: str) -> dict[str, float]:
    """Run a Python module in a new process, and return seconds, processor seconds and peak memory."""
    began = time.perf_counter()
    process = subprocess.Popen([sys.executable, "-m", *arguments], stdout=subprocess.DEVNULL)
    _, status, usage = os.wait4(process.pid, 0)
    if status:
        raise RuntimeError(f"{' '.join(arguments)} failed")
    busy = usage.ru_utime + usage.ru_stime
    return {"seconds": time.perf_counter() - began, "cpu_seconds": busy, "peak_memory_mb": memory_of(usage) / 2**20}


def commands(out: Path, frames: int) -> dict[str, Any]:
    """Run commands that read a dataset, and return what each took."""
    make(out / "data", frames)
    run, here = str(out / "run"), str(out / "data")
    update = ("--preset", "smoke", "--device", "cpu", "--minutes", "0.01")
    lines: dict[str, tuple[str, ...]] = {
        "collect, ToyGame": (
            "collect", "--env-id", "acvp/Toy-v0", "--frames", str(frames), "--out", str(out / "toy")
        ),
        "data info": ("data", "info", here),
        "data verify": ("data", "verify", here),
        "data split": ("data", "split", here, "--out", str(out / "parts")),
        "data merge": ("data", "merge", str(out / "parts/train"), str(out / "parts/test"), "--out", str(out / "both")),
        "data filter, half of the episodes": (
            "data", "filter", here, "--episodes", f":{len(EpisodeStore(here)) // 2}", "--out", str(out / "half")
        ),
        "data export, npz": ("data", "export", here, "--format", "npz", "--out", str(out / "npz")),
        "data import, npz": ("data", "import", str(out / "npz"), "--format", "npz", "--out", str(out / "again")),
        "train, pixel, smoke": ("train", "--data", here, "--model", "pixel", *update, "--run", f"{run}-1"),
        "train, pixel, smoke, statistics cached": (
            "train", "--data", here, "--model", "pixel", *update, "--run", f"{run}-2"
        ),
        "train, feedforward, smoke": ("train", "--data", here, *update, "--run", run),
        "evaluate, 8 windows": ("evaluate", "--predictors", run, "--data", here, "--windows", "8", "--horizon", "5",
                                "--shuffled-windows", "4", "--videos", "0", "--device", "cpu"),
        "analyze, 8 states": ("analyze", "--predictor", run, "--data", here, "--states", "8", "--device", "cpu"),
        "report": ("report", "--runs", run, "--out", str(out / "report.html")),
    }  # fmt: skip
    costs = {name: run_process("acvp", *arguments) for name, arguments in lines.items()}
    return {"frames": frames, "pixels of a frame": f"{HEIGHT}×{WIDTH}", "costs": costs}


def exponents(sizes: dict[int, dict[str, dict[str, float]]]) -> dict[str, dict[str, float]]:
    """Return how time and memory of each measure grow from the smallest to the largest dataset: size to this power."""
    least, most = min(sizes), max(sizes)
    growth: dict[str, dict[str, float]] = {}
    for name in sizes[least]:
        small, large = sizes[least][name], sizes[most][name]
        growth[name] = {unit: round(log(large[unit] / small[unit]) / log(most / least), 3) for unit in small}
    return growth


def series(folder: Path, frames: Sequence[int], episode_frames: int) -> dict[str, Any]:
    """Measure datasets of several sizes, and return times, memory and their growth."""
    sizes: dict[int, dict[str, dict[str, float]]] = {}
    bytes_ = {}
    for size in frames:
        path = folder / str(size)
        added = make(path, size, episode_frames)
        bytes_[str(size)] = EpisodeStore(path).size
        sizes[size] = {"add episodes": added} | {name: measured(name, path) for name in MEASURES}
        print(size, sizes[size], flush=True)
        shutil.rmtree(path)
    return {
        "frames of an episode": episode_frames,
        "pixels of a frame": f"{HEIGHT}×{WIDTH}",
        "bytes": bytes_,
        "measures": {str(size): values for size, values in sizes.items()},
        "growth exponents": exponents(sizes),
    }


def setup(folder: Path, frames: int) -> dict[str, Any]:
    """Return what the set-up of a training takes, from the start of the command to its first update."""
    data, game = folder / "game", "ms_pacman"
    run_process("acvp", "collect", "--env-id", game, "--frames", str(frames), "--seed", "1", "--out", str(data))
    times = [run_process("benchmarks.scale", "--measure", "train set-up", str(data)) for _ in range(2)]
    return {"game": game, "frames": frames, "first": times[0], "statistics cached": times[1]}


def main() -> None:
    """Measure all sizes and print where the numbers are."""
    config = tyro.cli(ScaleConfig)
    if config.measure:
        name, data, *sizes = config.measure
        make_here(Path(data), *map(int, sizes)) if sizes else measure_here(name, Path(data))
        return
    started = time.monotonic()
    body = earlier(RESULTS / "scale.json") if config.only else {}
    for name, measure in sections(config).items():
        with tempfile.TemporaryDirectory() as temporary:
            body[name] = measure(Path(temporary)) | part_origin()
        path = write_results("scale", body, command="make bench-scale", seed=0, started=started)
    print(path)


def earlier(file: Path) -> dict[str, Any]:
    """Return the parts that a result file has, each with the time, commit and machine of its measurement."""
    if not file.exists():
        return {}
    parts = json.loads(file.read_text())
    origin = parts.pop("provenance")
    return {name: {"measured": {key: origin[key] for key in ORIGIN}} | part for name, part in parts.items()}


def sections(config: ScaleConfig) -> dict[str, Callable[[Path], dict[str, Any]]]:
    """Return what is asked for, by name; each is written once it is measured."""
    parts = _sections(config)
    unknown = [only for only in config.only if not any(name.startswith(only) for name in parts)]
    if unknown:
        raise SystemExit(f"--only {unknown[0]}: choose of {', '.join(parts)}")
    return {name: part for name, part in parts.items() if not config.only or name.startswith(config.only)}


def _sections(config: ScaleConfig) -> dict[str, Callable[[Path], dict[str, Any]]]:
    chosen: dict[str, Callable[[Path], dict[str, Any]]] = {
        "long episodes": lambda folder: series(folder, config.frames, LONG),
        "short episodes": lambda folder: series(folder, config.short_frames, SHORT),
    }
    if config.setup_frames:
        chosen["set-up of acvp train, pixel, preset cpu"] = lambda folder: setup(folder, config.setup_frames)
    if config.command_frames:
        chosen["commands"] = lambda folder: commands(folder, config.command_frames)
    return chosen


if __name__ == "__main__":
    main()
