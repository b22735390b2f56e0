"""make bench-data: size, exactness and speed of stores on the paper's five games; writes results/data.json.

Every comparison is a ratio of two things timed in this one run, on one core, turn about.
"""

from __future__ import annotations

import os
import statistics
import tempfile
import time
import tracemalloc
from collections.abc import Callable
from pathlib import Path
from typing import Any

import ale_py
import numpy as np
from ale_py import roms
from numpy.typing import NDArray
from PIL import Image

from acvp.data.collect import CollectConfig, collect, make_player
from acvp.data.episode import Episode
from acvp.data.formats import export_store
from acvp.data.frames import GRAY_84, RGB
from acvp.data.recording import open_writer
from acvp.data.replay import first_difference, replay_game
from acvp.data.store import EpisodeStore
from acvp.data.windows import Window, Windows
from benchmarks.provenance import write_results

GAMES = ("seaquest", "space_invaders", "freeway", "qbert", "ms_pacman")
FRAMES, SEED = 20_000, 1
WINDOW, BATCH, ROUNDS = Window(4, 12), 32, 5


def main() -> None:
    """Measure all games and print where the numbers are."""
    started = time.monotonic()
    cores = os.sched_getaffinity(0)
    games = {}
    with tempfile.TemporaryDirectory() as folder:
        for name in GAMES:
            os.sched_setaffinity(0, {min(cores)})
            games[name] = measure(name, Path(folder))
            os.sched_setaffinity(0, cores)
            games[name]["two workers against one, frames/s"] = scaling(name, Path(folder))
            print(name, games[name], flush=True)
    bars = {
        "at most 600 bytes a frame": all(game["bytes a frame"] <= 600 for game in games.values()),
        "every episode replays bit for bit": all(game["replays"] for game in games.values()),
        "windows 10 times faster than PNG": all(
            game["times faster than PNG folders"]["store, palette indices"] >= 10 for game in games.values()
        ),
        "10,000 frames/s into a batch": all(
            game["window frames/s"]["store, palette indices"] >= 10_000 for game in games.values()
        ),
        "memory at most 1.5 times the compressed size": all(
            game["memory after reading all / compressed size"] <= 1.5 for game in games.values()
        ),
        "recording at most 1.5 times the bare emulator": all(
            game["collection time / bare emulator time"] <= 1.5 for game in games.values()
        ),
        "two workers are faster": all(game["two workers against one, frames/s"] > 1.3 for game in games.values()),
    }
    body = {
        "bars": bars,
        "what": f"{FRAMES} frames a game, sticky-random at ε = 0.3, windows of 16 frames",
        "games": games,
    }
    print(write_results("data", body, command="make bench-data", seed=SEED, started=started))


def config(name: str, out: Path, frames: int = FRAMES, workers: int = 1) -> CollectConfig:
    return CollectConfig(env_id=name, out=out, frames=frames, seed=SEED, epsilon=(0.3,), workers=workers)


def measure(name: str, folder: Path) -> dict[str, Any]:
    """All numbers of one game on one core."""
    collect(config(name, folder / name))
    store = EpisodeStore(folder / name)
    with replay_game(store) as game:
        differences = [first_difference(episode, game) for episode in store]
    return {
        "frames": store.frames,
        "episodes": len(store),
        "colors": None if store.palette is None else len(store.palette),
        "bytes a frame": round(store.size / store.frames, 1),
        "episodes replayed bit for bit": f"{differences.count(None)} of {len(store)}",
        "replays": not any(differences),
        "memory after reading all / compressed size": memory_ratio(store.path),
        **against_others(store, folder / f"{name}-others"),
        "collection time / bare emulator time": emulator_ratio(name, folder),
    }


def against_others(store: EpisodeStore, folder: Path) -> dict[str, Any]:
    """The same frames in PNG folders and in Minari: size, and time of random windows."""
    some = store[: next(k for k in range(1, len(store) + 1) if store[:k].frames >= 2000 or k == len(store))]
    export_store("authors", some, folder / "png")
    export_store("minari", some, folder / "minari", dataset_id="acvp/bench-v0")
    stored, rgb, gray = (Windows(some, WINDOW, view) for view in (None, RGB, GRAY_84))
    numbers = np.random.default_rng(SEED).integers(len(stored), size=BATCH)
    rates = turn_about(
        {
            "store, palette indices": lambda: stored.batch(numbers),
            "store, RGB": lambda: rgb.batch(numbers),
            "store, gray 84×84": lambda: gray.batch(numbers),
            "PNG folders, RGB": lambda: png_batch(stored, numbers, folder / "png" / "train"),
            "Minari, RGB": lambda: minari_batch(stored, numbers[:2], folder / "minari" / "acvp" / "bench-v0" / "data"),
        },
        {"Minari, RGB": 2 * WINDOW.length},
    )
    return {
        "bytes a frame, PNG folders": size_of(folder / "png") // some.frames,
        "bytes a frame, Minari": size_of(folder / "minari") // some.frames,
        "window frames/s": {name: round(rate) for name, rate in rates.items()},
        "times faster than PNG folders": {
            name: round(rates[name] / rates["PNG folders, RGB"], 1) for name in rates if name.startswith("store")
        },
    }


def turn_about(tasks: dict[str, Callable[[], object]], frames: dict[str, int]) -> dict[str, float]:
    """Frames/s of each task: the median of several rounds in which each has its turn."""
    times: dict[str, list[float]] = {name: [] for name in tasks}
    for _ in range(ROUNDS + 1):
        for name, task in tasks.items():
            start = time.perf_counter()
            task()
            times[name].append(time.perf_counter() - start)
    default = BATCH * WINDOW.length
    return {name: frames.get(name, default) / statistics.median(times[name][1:]) for name in tasks}


def png_batch(windows: Windows, numbers: NDArray[np.int64], folder: Path) -> NDArray[np.uint8]:
    """The same windows from a folder of PNG files, whose names are known."""
    episodes = sorted(p for p in folder.iterdir() if p.is_dir())
    batch = np.empty((len(numbers), WINDOW.length, *windows.store.info.frame_shape), np.uint8)
    for row, number in enumerate(numbers.tolist()):
        position, start = windows.locate(number)
        for t in range(WINDOW.length):
            with Image.open(episodes[position] / f"{start + t:05d}.png") as image:
                batch[row, t] = np.asarray(image.convert("RGB"))
    return batch


def minari_batch(windows: Windows, numbers: NDArray[np.int64], folder: Path) -> NDArray[np.uint8]:
    """The same windows from Minari, which reads whole episodes."""
    from minari.dataset.minari_storage import MinariStorage

    storage = MinariStorage.read(folder)
    rows = []
    for number in numbers.tolist():
        position, start = windows.locate(number)
        (episode,) = storage.get_episodes([position])
        rows.append(episode["observations"][start : start + WINDOW.length])
    return np.stack(rows)


def emulator_ratio(name: str, folder: Path) -> float:
    """Time to record an episode, written to disk, against the bare emulator playing the same one; turn about."""
    player, ratios = make_player(config(name, folder)), []
    info = EpisodeStore(folder / name).info
    with open_writer(folder / f"{name}-ratio", info) as writer:
        for number in range(ROUNDS):
            start = time.perf_counter()
            episode = player(number)
            writer.add(episode)
            ratios.append((time.perf_counter() - start) / bare_emulator_time(name, episode))
    return round(statistics.median(ratios), 3)


def bare_emulator_time(name: str, episode: Episode) -> float:
    """Seconds for an episode's actions in ale_py's own interface, with the RGB screen after each."""
    ale = ale_py.ALEInterface()
    ale.setFloat("repeat_action_probability", 0.0)
    rom = roms.get_rom_path(name)
    assert rom is not None
    ale.loadROM(rom)
    actions = ale.getMinimalActionSet()
    start = time.perf_counter()
    ale.reset_game()
    for action in episode.actions.tolist():
        for _ in range(4):
            ale.act(actions[action])
        ale.getScreenRGB()
    return time.perf_counter() - start


def scaling(name: str, folder: Path) -> float:
    """How much faster two workers record than one, the workers' start included."""
    rates = []
    for workers in (1, 2):
        start = time.perf_counter()
        store = collect(config(name, folder / f"{name}-workers-{workers}", workers=workers))
        rates.append(store.frames / (time.perf_counter() - start))
    return round(rates[1] / rates[0], 2)


def memory_ratio(path: Path) -> float:
    """Memory that reading every part takes, against the size of the parts."""
    tracemalloc.start()
    store = EpisodeStore(path)
    for episode in store:
        episode.stored(0, 1)
    held, _ = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    return round(held / store.size, 2)


def size_of(folder: Path) -> int:
    return sum(p.stat().st_size for p in folder.rglob("*") if p.is_file())


if __name__ == "__main__":
    main()
