"""The loss of objects: which of them count, for how much, and which pixels are an object's own."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
import torch
from numpy.typing import NDArray
from torch import Tensor

from acvp.pixel import ObjectPredictor, object_loss
from acvp.pixel.config import PAST_ACTIONS, SEEN_FRAMES
from acvp.pixel.object_loss import CONTROLLED_WEIGHT, MOST_ALIKE, QUIET_ONE_IN, Moving, StepLoss
from acvp.pixel.object_windows import Memory, Objects, will_change
from tests.models.small_predictors import training_batch
from tests.pixel.small_objects import (
    CONFIG,
    FLOOR,
    GREEN,
    MOVES,
    RED,
    SIDE,
    batch_of,
    make,
    moves_of,
    normalized,
    squares,
)


@pytest.mark.parametrize(("controlled", "learned"), [((RED,), True), ((), False)])
def test_only_controlled_objects_are_learned_in_all_frames_of_a_window(
    controlled: tuple[int, ...], learned: bool
) -> None:
    predictor = make(replace(CONFIG, controlled_colors=controlled, context=8))
    still, moved = np.stack([squares((20, 30))] * 9), np.stack([squares((20, 30))] * 9)
    moved[:4] = squares((20, 27))  # an action moves it long before the predicted frame
    actions = torch.zeros(1, 8, dtype=torch.int64)
    ways = [moves_of(predictor).moving(*_windows(predictor, frames)) for frames in (still, moved)]
    assert [way.move.tolist().count(MOVES.index((0, 3))) for way in ways] == [0, 1]
    losses = []
    for other in (0, 2):
        actions[0, 3] = other  # that action; what is predicted last depends on the four after it
        batch = training_batch(normalized(predictor, moved[None]), actions, predict=1, teacher_forcing=True)
        losses.append(predictor.loss(batch)[1]["move_loss"])
    assert torch.equal(losses[0], losses[1]) is not learned


def test_of_many_objects_of_a_color_some_count_for_all() -> None:
    alike, rare, controlled = 5 * MOST_ALIKE, 3, 2 * MOST_ALIKE
    number = alike + rare + controlled
    color = torch.tensor([GREEN] * alike + [FLOOR] * rare + [RED] * controlled)
    rows = torch.arange(number)
    objects = Objects(rows, torch.zeros(number, 5, dtype=torch.int64), torch.zeros(number, dtype=torch.int64))
    moving = Moving(objects, rows, color, color == RED)
    counted, weight = moves_of(make())._sample(moving, torch.ones(number, dtype=torch.bool))
    assert [int(counted[color == one].sum()) for one in (GREEN, FLOOR, RED)] == [MOST_ALIKE, rare, controlled]
    assert [float((weight * counted)[color == one].sum()) for one in (GREEN, FLOOR, RED)] == [alike, rare, controlled]


def _windows(predictor: ObjectPredictor, frames: NDArray[np.uint8]) -> tuple[Memory, Tensor]:
    window = torch.from_numpy(frames)[None]
    count = len(frames) - SEEN_FRAMES
    past = torch.zeros(1, count, PAST_ACTIONS, predictor.actions)
    return predictor._memory(window[:, :-1], past), window[:, -count:]


def test_a_controlled_move_weighs_more_and_counts_once_a_frame() -> None:
    others, controlled = make(), make(replace(CONFIG, controlled_colors=(RED,)))
    controlled.load_state_dict(others.state_dict())
    batch = batch_of(others, np.random.default_rng(3), 3, 1)  # 4 frames and a target: no other frame has its past
    loss, weighted = (predictor.loss(batch)[1]["move_loss"] for predictor in (others, controlled))
    torch.testing.assert_close(weighted, CONTROLLED_WEIGHT * loss)


class Fixed:
    """Draws nothing at random: every quiet object counts, and the first one is drawn."""

    def random(self, count: int) -> NDArray[np.float64]:
        return np.zeros(count)

    def integers(self, count: int) -> int:
        return 0

    def permutation(self, count: int) -> NDArray[np.int64]:
        return np.arange(count)


def step_of(predictor: ObjectPredictor, frames: NDArray[np.uint8], target: NDArray[np.uint8]) -> StepLoss:
    """The losses of objects after frames (T, H, W) that do not change."""
    memory = predictor.observe(normalized(predictor, frames[None])).memory
    vectors = torch.zeros(1, 1, predictor.actions)
    return replace(moves_of(predictor), rng=Fixed()).step(memory, vectors, torch.from_numpy(target)[None, None], 1)  # type: ignore[arg-type]


def test_quiet_objects_weigh_as_many_as_they_stand_for(monkeypatch: pytest.MonkeyPatch) -> None:
    predictor, still = make(), squares((4, 4), (20, 30), (38, 4))
    sampled = step_of(predictor, np.stack([still] * 4), still)
    monkeypatch.setattr(object_loss, "QUIET_ONE_IN", 1)
    every = step_of(predictor, np.stack([still] * 4), still)
    assert every.moves > 0
    torch.testing.assert_close(sampled.moves, QUIET_ONE_IN * every.moves)


def test_an_object_learns_to_draw_no_pixel_of_another() -> None:
    """The first of two squares is drawn; what changes beside the second one is nothing to it."""
    predictor, still = make(), squares((20, 6), (20, 18))
    changed = still.copy()
    changed[23, 15] = GREEN  # in the windows of both, nearer to the second
    own = still.copy()
    own[23, 2] = GREEN  # nearer to the first
    losses = [step_of(predictor, np.stack([still] * 4), target).drawing for target in (still, changed, own)]
    assert torch.equal(losses[0], losses[1])
    assert not torch.equal(losses[0], losses[2])


@pytest.mark.parametrize(("beside", "changes"), [(1, True), (2, True), (3, False)])
def test_what_changes_close_around_an_object_is_its_change(beside: int, changes: bool) -> None:
    predictor, still = make(), squares((20, 6))
    memory = predictor.observe(normalized(predictor, np.stack([still] * 4)[None])).memory
    target = torch.from_numpy(still)[None].clone()
    target[0, 22, 6 + SIDE - 1 + beside] = GREEN
    assert will_change(memory, predictor.find(memory.recent), target).tolist() == [changes]
