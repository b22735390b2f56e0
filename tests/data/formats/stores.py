"""Stores to send around the world: frames say which episode and index they are, the rest is random."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import numpy as np
from hypothesis import strategies as st
from numpy.typing import NDArray

from acvp.data.episode import Episode
from acvp.data.recording import EpisodeRecorder, open_writer
from acvp.data.store import EpisodeStore, StoreInfo
from tests.data.answers import HEIGHT as ANSWER_HEIGHT
from tests.data.answers import WIDTH as ANSWER_WIDTH
from tests.data.answers import answer_frame, read_answer

HEIGHT, WIDTH = 8, 10
MEANINGS = ("NOOP", "FIRE", "UP", "DOWN")
INFO = StoreInfo(env_id="ALE/Some_Game-v5", frame_shape=(HEIGHT, WIDTH, 3), action_meanings=MEANINGS, policy="test")


@dataclass(frozen=True)
class Plan:
    """What an episode of a test is to be."""

    frames: int
    terminated: bool
    truncated: bool
    many_colors: bool
    seed: int


plans = st.builds(
    Plan,
    frames=st.one_of(st.integers(1, 4), st.integers(5, 40)),
    terminated=st.booleans(),
    truncated=st.booleans(),
    many_colors=st.booleans(),
    seed=st.integers(0, 2**31 - 1),
)
store_plans = st.lists(plans, min_size=1, max_size=3)


def frame_of(plan: Plan, episode: int, index: int) -> NDArray[np.uint8]:
    """(8, 10, 3): the answer in a corner, the rest of one color or of random ones."""
    frame = np.full((HEIGHT, WIDTH, 3), (90, 91, 92), np.uint8)
    if plan.many_colors:
        frame[:] = np.random.default_rng((plan.seed, index)).integers(0, 256, frame.shape)
    frame[:ANSWER_HEIGHT, :ANSWER_WIDTH] = answer_frame(episode, index)
    return frame


def answer_of(frame: NDArray[np.uint8]) -> tuple[int, int]:
    return read_answer(frame[:ANSWER_HEIGHT, :ANSWER_WIDTH])


def record(plan: Plan, number: int) -> Episode:
    rng, recorder = np.random.default_rng(plan.seed), EpisodeRecorder()
    recorder.start(frame_of(plan, number, 0), lives=int(rng.integers(-1, 5)))
    for t in range(plan.frames - 1):
        action, reward, lives = rng.integers(len(MEANINGS)), np.float32(rng.normal()), rng.integers(-1, 5)
        recorder.step(int(action), float(reward), frame_of(plan, number, t + 1), lives=int(lives))
    return recorder.finish(number=number, seed=plan.seed, terminated=plan.terminated, truncated=plan.truncated)


def make_store(path: Path, planned: list[Plan]) -> EpisodeStore:
    with open_writer(path, INFO) as writer:
        for number, plan in enumerate(planned):
            writer.add(record(plan, number))
    return EpisodeStore(path)


def simple_store(path: Path, lengths: list[int]) -> EpisodeStore:
    """Terminated episodes of few colors."""
    return make_store(path, [Plan(n, True, False, False, 1000 + i) for i, n in enumerate(lengths)])
