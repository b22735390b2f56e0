"""A window never crosses an episode's end: every window of many random stores, each frame telling where it is from."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from acvp.data.recording import open_writer
from acvp.data.store import EpisodeStore
from acvp.data.windows import Window, Windows
from tests.data.answers import INFO, answer_action, answer_episode, read_answer
from tests.faults import Trials, counted


def random_store(path: Path, rng: np.random.Generator) -> EpisodeStore:
    """Up to six episodes of 1 to 50 frames, terminated and truncated ones mixed."""
    with open_writer(path, INFO) as writer:
        for number in range(rng.integers(1, 7)):
            frames, terminated = int(rng.integers(1, 51)), bool(rng.integers(2))
            writer.add(answer_episode(number, frames, terminated=terminated))
    return EpisodeStore(path)


def assert_within(windows: Windows, number: int) -> None:
    """Fail unless a window is consecutive frames of one episode with their own actions and end."""
    batch, length = windows.batch(np.array([number])), windows.window.length
    assert batch.palette is not None
    told = [read_answer(batch.palette[frame]) for frame in batch.frames[0]]
    episode, last = told[-1]
    first = last - length + 1  # below 0 where a short episode is padded
    assert told == [(episode, max(0, first + t)) for t in range(length)]
    steps = [first + t for t in range(length - 1)]
    assert batch.actions[0].tolist() == [answer_action(episode, t) if t >= 0 else 0 for t in steps]
    assert batch.rewards[0].tolist() == [max(0, t) for t in steps]
    header = windows.store[episode].header
    over = [header.terminated and first + t + 2 == header.frames for t in range(length - 1)]
    assert batch.terminated[0].tolist() == over


@counted("5 windows never cross an end, in random stores", quick=20, full=1000)
def test_no_window_crosses_an_end(trials: Trials, tmp_path: Path) -> None:
    def once(i: int, rng: np.random.Generator) -> None:
        store = random_store(tmp_path / str(i), rng)
        length = int(rng.integers(1, min(12, max(entry.frames for entry in store.entries)) + 1))
        context = int(rng.integers(1, length + 1))
        window = Window(context, length - context)
        missing = [0 if entry.frames >= length else context - 1 for entry in store.entries]
        counts = [max(0, e.frames - length + 1 + more) for e, more in zip(store.entries, missing, strict=True)]
        places = sum(counts)
        windows = Windows(store, window)
        assert len(windows) == places
        ends = np.cumsum(counts)
        for number in {*range(0, places, 1 + places // 30), *(int(end) - 1 for end in ends if end)}:
            assert_within(windows, number)  # and the last one of each episode

    trials.run(once)
