"""Action sensitivity and moving pixels on data in which the right answer differs from every near miss."""

from __future__ import annotations

from collections import defaultdict
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from acvp.data.recording import EpisodeRecorder, open_writer
from acvp.data.store import EpisodeStore
from acvp.data.windows import Window, WindowStart, choose_starts
from acvp.evaluation.config import EvaluateConfig
from acvp.evaluation.run import evaluate
from acvp.evaluation.windows import HeldOutPart, evenly
from tests.data.answers import INFO, answer_frame, read_answer
from tests.evaluation.predictors import Answers, Knowing, as_model

HORIZON, WINDOWS, SHUFFLED = 12, 11, 5


@pytest.fixture
def part(tmp_path: Path) -> HeldOutPart:
    """Three episodes of random actions: no two windows have the same ones."""
    rng = np.random.default_rng(1)
    with open_writer(tmp_path / "store", INFO) as writer:
        for number in range(3):
            recorder = EpisodeRecorder()
            recorder.start(answer_frame(number, 0))
            for t in range(40):
                recorder.step(int(rng.integers(3)), 0.0, answer_frame(number, t + 1))
            writer.add(recorder.finish(number=number, seed=number, terminated=True, truncated=False))
    return HeldOutPart(store=EpisodeStore(tmp_path / "store"), how="all")


class Painter(Knowing):
    """Paints the whole frame in a gray of the action, and keeps a record of the actions after each window."""

    def __init__(self) -> None:
        super().__init__((6, 8, 3), 3)
        self.record: dict[WindowStart, list[list[int]]] = defaultdict(list)

    def recognize(self, frames: NDArray[np.uint8]) -> list[int]:
        actions: list[int] = []
        self.record[WindowStart(*read_answer(frames[-1]))].append(actions)
        return actions

    def go_on(self, known: list[int], action: int) -> tuple[NDArray[np.uint8], Any]:
        known.append(action)
        return painted(action), known


def painted(action: int) -> NDArray[np.uint8]:
    return np.full((6, 8, 3), 40 + 60 * action, np.uint8)


def config(part: HeldOutPart) -> EvaluateConfig:
    return EvaluateConfig(
        predictors=(Path("run"),), data=(part.store.path,), horizon=HORIZON, windows=WINDOWS, batch_size=4,
        shuffled_windows=SHUFFLED,
    )  # fmt: skip


def error(start: WindowStart, actions: list[int]) -> NDArray[np.float64]:
    """The squared error (HORIZON,) of the painted frames after a window, in the paper's scale."""
    truth = [answer_frame(start.episode, start.frame + 1 + t) for t in range(HORIZON)]
    return np.array(
        [np.square((painted(a) - x.astype(float)) / 255).sum() for a, x in zip(actions, truth, strict=True)]
    )


def test_shuffled_windows_get_the_actions_of_another_window(part: HeldOutPart) -> None:
    painter = Painter()
    found = evaluate([as_model("painter", painter)], part, config(part))
    starts = choose_starts(part.store, Window(1, HORIZON), WINDOWS, seed=0, option="horizon")
    own = {p: part.store[p.episode].actions[p.frame : p.frame + HORIZON].tolist() for p in starts}
    assert len({tuple(actions) for actions in own.values()}) == WINDOWS
    chosen = [starts[i] for i in evenly(WINDOWS, SHUFFLED)]
    assert all(painter.record[start] == [own[start]] for start in starts if start not in chosen)
    others = {}
    for start in chosen:
        first, others[start] = painter.record[start]
        assert first == own[start]
        assert others[start] != own[start]
    assert sorted(others.values()) == sorted(own[start] for start in chosen)
    shuffled = np.mean([error(start, others[start]) for start in chosen], 0)
    unshuffled = np.mean([error(start, own[start]) for start in chosen], 0)
    np.testing.assert_allclose(found.curves["painter"]["sensitivity"].mean, shuffled / unshuffled, rtol=1e-6)


def test_moving_pixels_are_those_that_differ_from_the_true_frame_before(part: HeldOutPart) -> None:
    """One frame late, every moving pixel is wrong by 190 in each channel, at every step and not only at the first."""
    found = evaluate([as_model("late", Answers(ahead=-1))], part, config(part))
    np.testing.assert_allclose(found.curves["late"]["moving_mse"].mean, 190.0**2, rtol=1e-6)
