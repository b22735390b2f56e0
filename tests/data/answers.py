"""Test data that carries its own answer: a frame's pixels say which episode it is of and where it stands in it."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from acvp.data.episode import Episode
from acvp.data.recording import EpisodeRecorder, open_writer
from acvp.data.store import EpisodeStore, StoreInfo

HEIGHT, WIDTH = 6, 8
ACTIONS = ("NOOP", "LEFT", "RIGHT")
INFO = StoreInfo(env_id="test/Answers-v0", frame_shape=(HEIGHT, WIDTH, 3), action_meanings=ACTIONS, policy="test")
DARK, LIGHT = (10, 20, 30), (200, 210, 220)


def answer_frame(episode: int, index: int) -> NDArray[np.uint8]:
    """48 two-colored pixels: 24 bits of the episode's number, 24 of the frame's index."""
    bits = [(value >> bit) & 1 for value in (episode, index) for bit in range(24)]
    return np.array([(DARK, LIGHT)[bit] for bit in bits], np.uint8).reshape(HEIGHT, WIDTH, 3)


def read_answer(frame: NDArray[np.uint8]) -> tuple[int, int]:
    """(episode, index) back from a frame; anything but the two colors is an error."""
    flat = frame.reshape(-1, 3)
    bits = [int(tuple(pixel) == LIGHT) for pixel in flat.tolist()]
    assert all(tuple(pixel) in (DARK, LIGHT) for pixel in flat.tolist())
    return sum(b << i for i, b in enumerate(bits[:24])), sum(b << i for i, b in enumerate(bits[24:]))


def answer_action(episode: int, index: int) -> int:
    return (episode * 7 + index) % len(ACTIONS)


def answer_episode(number: int, frames: int, *, terminated: bool = True, name: int | None = None) -> Episode:
    """Episode `number`, whose frames say `name` (its number where None)."""
    name = number if name is None else name
    recorder = EpisodeRecorder()
    recorder.start(answer_frame(name, 0), lives=3)
    for t in range(frames - 1):
        recorder.step(answer_action(name, t), float(t), answer_frame(name, t + 1), lives=2)
    return recorder.finish(number=number, seed=number + 100, terminated=terminated, truncated=not terminated)


def answer_store(path: Path, lengths: list[int], *, terminated: bool = True) -> EpisodeStore:
    """A store whose episode e has lengths[e] frames."""
    with open_writer(path, INFO) as writer:
        for number, frames in enumerate(lengths):
            writer.add(answer_episode(number, frames, terminated=terminated))
    return EpisodeStore(path)


def color_store(path: Path, palettes: list[list[tuple[int, int, int]]]) -> EpisodeStore:
    """One episode per palette; frame t is all of color t."""
    with open_writer(path, INFO) as writer:
        for number, palette in enumerate(palettes):
            frames = np.broadcast_to(np.array(palette, np.uint8)[:, None, None], (len(palette), 6, 8, 3))
            recorder = EpisodeRecorder()
            recorder.start(frames[0])
            for frame in frames[1:]:
                recorder.step(0, 0.0, frame)
            writer.add(recorder.finish(number=number, seed=0, terminated=True, truncated=False))
    return EpisodeStore(path)


def recorded(path: Path, frames: Iterable[NDArray[np.uint8]]) -> EpisodeStore:
    """A store of one episode of these RGB frames."""
    first, *rest = frames
    recorder = EpisodeRecorder()
    recorder.start(first)
    for frame in rest:
        recorder.step(0, 0.0, frame)
    height, width, _ = first.shape
    with open_writer(path, replace(INFO, frame_shape=(height, width, 3))) as writer:
        writer.add(recorder.finish(number=0, seed=0, terminated=True, truncated=False))
    return EpisodeStore(path)
