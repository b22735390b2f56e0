"""What objects are seen by: the memory of the last frames, windows around objects, and a memory of many frames."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
import torch
from numpy.typing import NDArray

from acvp.pixel import ObjectConfig, ObjectPredictor
from acvp.pixel.config import OLD, SEEN_FRAMES
from acvp.pixel.object_network import DRAWN, TRAIL, screen_ages
from acvp.pixel.object_windows import copy_sources, cut, owned, past_actions, see
from acvp.pixel.objects import Background
from acvp.training.config import OptimizerConfig
from acvp.training.optimizers import make_optimizer, set_learning_rate
from acvp.training.run import take_weights
from tests.models.small_predictors import seeded, training_batch
from tests.pixel.small_objects import (
    CONFIG,
    FLOOR,
    GREEN,
    RED,
    SIDE,
    STRIPE,
    background,
    classes,
    episode,
    floor,
    make,
    normalized,
    squares,
)


def test_the_background_under_an_object_is_remembered() -> None:
    predictor = make()
    frames = np.stack([squares((10, left)) for left in (2, 8, 14, 17)])
    state = predictor.observe(normalized(predictor, frames[None]))
    assert np.array_equal(state.under[0].numpy(), floor())
    usual = background()
    usual.usual[:] = FLOOR
    predictor.set_background(usual)
    seen = predictor.observe(normalized(predictor, frames[None])).under[0].numpy()
    assert (seen[10:16, 20:22] == STRIPE).all()  # the square came later: the stripe was seen before
    never = predictor.observe(normalized(predictor, np.stack([frames[-1]] * 4)[None])).under[0].numpy()
    assert (never[10:16, 20:22] == FLOOR).all()  # never seen: the usual color


def test_a_trail_says_where_the_main_color_was() -> None:
    predictor = make()
    frames = np.stack([squares((10, 5)), squares((10, 8)), floor(), squares((12, 8))])
    state = predictor.observe(normalized(predictor, frames[None]))
    objects = predictor.find(state.recent)
    _, trail = see(state.memory, objects, predictor.kinds, CONFIG)
    assert trail.present[0].tolist() == [True, False, True, True]
    assert trail.offset[0].tolist() == [[0, 0], [0, 0], [-2, 0], [-2, -3]]
    features = trail.features()
    assert features.shape == (1, TRAIL)
    assert features[0, SEEN_FRAMES:].sum() == 2, "one step is known, down and right; two are not"


def test_the_object_as_it_was_can_be_copied_from_where_it_was() -> None:
    predictor = make()
    first = squares((20, 5))
    first[22, 7] = GREEN  # a mark that only the oldest frame has
    frames = np.stack([first, squares((20, 8)), squares((20, 11)), squares((20, 14))])
    memory = predictor.observe(normalized(predictor, frames[None])).memory
    look = predictor._look(memory)
    copies = copy_sources(memory, look, look.objects.center + torch.tensor([[0, 3]]), CONFIG)[0]
    here, under, newest, before, oldest = copies.numpy()
    corner = DRAWN // 2 - SIDE // 2 + 1  # where the square is in a window that is centered on it
    assert here[corner + 1, corner - 2] == RED, "what the pixels show now"
    assert (under == GREEN).sum() == (under == RED).sum() == 0
    for patch in (newest, before, oldest):
        assert (patch[corner : corner + SIDE, corner : corner + SIDE] != FLOOR).all()
    assert (oldest == GREEN).sum() == 1
    assert (newest == GREEN).sum() == (before == GREEN).sum() == 0


def test_past_actions_are_remembered_and_move_on() -> None:
    predictor = make()
    frames, actions = normalized(predictor, np.stack([squares((10, 5))] * 4)[None]), torch.tensor([[0, 2, 1]])
    state = predictor.observe(frames, actions)
    assert state.past[0].argmax(1).tolist() == [0, 2, 1]
    _, after = predictor.predict(state, torch.tensor([2]))
    assert after.past[0].argmax(1).tolist() == [2, 1, 2]
    assert predictor.observe(frames).past.sum() == 0, "unknown"
    assert past_actions(torch.arange(5.0).view(1, 5, 1), 2).flatten(1).tolist() == [[0, 1, 2, 1, 2, 3]]


def test_ages_count_the_steps_since_a_pixel_changed() -> None:
    predictor = make()
    frames = np.stack([squares((10, 2)), squares((10, 5)), squares((10, 5)), squares((10, 5))])
    state = predictor.observe(normalized(predictor, frames[None]))
    age = state.age[0].numpy()
    assert age[12, 3] == 2  # left when the square moved, two steps ago
    assert age[12, 9] == 2
    assert age[12, 6] == OLD  # red before and after
    assert age[0, 0] == OLD


def test_windows_are_cut_around_centers_of_their_rows() -> None:
    planes = torch.arange(2 * 2 * 6 * 7).view(2, 2, 6, 7)
    windows = cut(planes, torch.tensor([1, 0]), torch.tensor([[3, 2], [0, 6]]), 4, -1)
    assert torch.equal(windows[0], planes[1, :, 1:5, 0:4])
    assert windows[1, 0, 2, 2] == planes[0, 0, 0, 6]
    assert windows[1, 0, 1, 2] == -1  # above the frame
    assert windows[1, 0, 2, 3] == -1  # beyond its right edge


def test_a_pixel_belongs_to_the_nearest_object_and_to_the_first_of_equals() -> None:
    shape = (2, 60, 70)
    row, center = torch.tensor([0, 0, 1]), torch.tensor([[20, 20], [20, 30], [59, 0]])
    at, mine = owned(row, center, shape)
    owner = torch.full(shape, -1).flatten()
    for number in range(3):
        owner[at[number][mine[number]]] = number
    owner = owner.view(shape)
    half = DRAWN // 2
    for down in range(60):
        for right in range(70):
            distances = [
                max(abs(down - y), abs(right - x)) if -half <= down - y < half and -half <= right - x < half else 999
                for y, x in ((20, 20), (20, 30))
            ]
            nearest = int(np.argmin(distances)) if min(distances) < 999 else -1
            assert owner[0, down, right] == nearest
    assert owner[1, 59, 0] == 2
    assert (owner[1] == 2).sum() == half * (half + 1)  # the part of the window inside the frame


LONG = replace(CONFIG, context=24, grid_context=4)
"""A longer memory: the grid embeds four frames of 24."""


def blinking(on: int, off: int, length: int) -> NDArray[np.uint8]:
    """Frames of a floor on which a green square is shown for ``on`` frames and hidden for ``off``, in turns."""
    shown = squares((8, 20), color=GREEN)
    return np.stack([shown if time % (on + off) < on else floor() for time in range(length)])


def test_a_longer_memory_keeps_what_pixels_showed_and_when_they_changed() -> None:
    predictor = make(LONG)
    frames = normalized(predictor, blinking(3, 40, 24)[None])  # hidden for 21 frames, since frame 3
    state = predictor.observe(frames)
    assert int(state.age[0, 10, 22]) == 24 - 1 - 3
    assert int(state.before[0, 10, 22]) == GREEN
    assert torch.equal(state.classes[:, 2], state.before.long())
    assert int(state.age[0, 0, 0]) == LONG.context - 1  # never changed
    assert int(state.before[0, 0, 0]) == FLOOR
    frame, after = predictor.predict(state, torch.zeros(1, dtype=torch.int64))
    kept = torch.from_numpy(classes(predictor, frame)) == state.classes[:, 1]
    assert torch.equal(after.age, torch.where(kept, (state.age + 1).clamp(max=23), 0))
    assert torch.equal(after.before.long(), torch.where(kept, state.before.long(), state.classes[:, 1]))


def test_the_clock_says_when_something_changed_however_much_it_was() -> None:
    ages = torch.tensor([[[3, 3], [0, 3]]])
    clock = screen_ages(ages, LONG)
    assert clock.shape == (1, LONG.context)
    torch.testing.assert_close(clock[0, [0, 3]], torch.full((2,), 1 / LONG.context))
    assert clock.count_nonzero() == 2


def test_a_longer_memory_learns_when_a_hidden_square_returns() -> None:
    """The last frames are all alike: only the number of steps since the square was seen tells when it comes back."""
    assert _wrong_after_learning_to_blink(LONG) == 0
    assert _wrong_after_learning_to_blink(replace(LONG, context=4)) > 0  # it sees four frames


def _wrong_after_learning_to_blink(config: ObjectConfig) -> int:
    """Return in how many of the 16 phases of a blinking square the next frame is predicted wrong after training."""
    predictor = ObjectPredictor(config, seeded(1))
    predictor.normalizer.set_mean(torch.zeros(config.frame))
    colors = background().colors.copy()
    colors[GREEN] = True  # no object: the grid predicts it
    predictor.set_background(Background(colors, floor(), (RED,)))
    optimizer = make_optimizer(OptimizerConfig(name="adamw"), predictor)
    set_learning_rate(optimizer, 1e-2)
    film = blinking(3, 13, 64)
    windows = np.stack([film[start : start + config.context + 1] for start in range(16)])
    still = torch.zeros(16, config.context, dtype=torch.int64)
    for step in range(120):  # the grid learns from the first quarter of a batch
        turned = normalized(predictor, np.roll(windows, 4 * step, 0))
        batch = training_batch(turned, still, predict=1, teacher_forcing=True)
        optimizer.zero_grad()
        predictor.loss(batch)[0].backward()  # type: ignore[no-untyped-call]
        optimizer.step()
    state = predictor.observe(normalized(predictor, windows[:, :-1]))
    frame, _ = predictor.predict(state, still[:, 0])
    return int((classes(predictor, frame) != windows[:, -1]).any((1, 2)).sum())


def test_a_network_that_grows_a_longer_memory_predicts_as_before() -> None:
    small, grown = make(replace(LONG, context=4)), ObjectPredictor(LONG, seeded(3))
    take_weights(grown, small.state_dict())
    grown.set_background(background())
    frames = normalized(small, np.stack([episode(np.random.default_rng(row), 24)[0] for row in range(4)]))
    action = torch.tensor([0, 1, 2, 1])
    before, _ = small.predict(small.observe(frames), action)
    after, _ = grown.predict(grown.observe(frames), action)
    assert not torch.equal(before, frames[:, -1])
    assert torch.equal(before, after)
    with pytest.raises(RuntimeError, match="recall"):
        take_weights(small, grown.state_dict())
