"""Prediction of objects: a square that an action moves over a floor with a stripe."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch
from numpy.typing import NDArray
from torch import Tensor

from acvp.data.collect import CollectConfig, collect
from acvp.data.frames import get_view
from acvp.envs.toy import TOY_ID
from acvp.errors import UserError
from acvp.models.config import ConfigError, DatasetSplit
from acvp.models.predictor import TrainingBatch
from acvp.pixel import ObjectConfig, ObjectPredictor
from acvp.pixel.config import OLD, PAST_ACTIONS, SEEN_FRAMES
from acvp.pixel.loss import NO_PIXEL
from acvp.pixel.object_loss import CONTROLLED_WEIGHT, MOST_ALIKE, Moving, ObjectLoss
from acvp.pixel.object_network import COPIES, DRAWN, TRAIL, drawn_colors, drawn_loss, embedded
from acvp.pixel.object_predictor import GRID_ONE_IN
from acvp.pixel.object_windows import Memory, Objects, are_lively, copy_sources, cut, owned, past_actions, see
from acvp.pixel.objects import Background
from acvp.testing import check_predictor
from acvp.training.config import OptimizerConfig
from acvp.training.optimizers import make_optimizer, set_learning_rate
from acvp.training.run import take_weights
from tests.models.small_predictors import seeded, training_batch
from tests.pixel.small_objects import (
    CONFIG,
    FLOOR,
    GREEN,
    HEIGHT,
    MOVES,
    PALETTE,
    RED,
    SIDE,
    STRIPE,
    WIDTH,
    background,
    floor,
    make,
    normalized,
    squares,
)

SHIFT = {0: 0, 1: 3, 2: -3}
"""Pixels to the right that each action moves the square."""


def episode(rng: np.random.Generator, length: int) -> tuple[NDArray[np.uint8], NDArray[np.int64]]:
    """A square on its way: frames (T, H, W) and actions (T - 1,)."""
    top, left = int(rng.integers(2, HEIGHT - SIDE - 2)), int(rng.integers(12, WIDTH - SIDE - 12))
    frames, actions = [squares((top, left))], []
    for _ in range(length - 1):
        action = int(rng.integers(3))
        if not 2 <= left + SHIFT[action] <= WIDTH - SIDE - 2:
            action = 0
        left += SHIFT[action]
        actions.append(action)
        frames.append(squares((top, left)))
    return np.stack(frames), np.array(actions)


def batch_of(predictor: ObjectPredictor, rng: np.random.Generator, rows: int, predict: int) -> TrainingBatch:
    episodes = [episode(rng, predictor.context + predict) for _ in range(rows)]
    frames = normalized(predictor, np.stack([frames for frames, _ in episodes]))
    actions = torch.from_numpy(np.stack([actions for _, actions in episodes]))
    return training_batch(frames, actions, predict=predict, teacher_forcing=True)


def classes(predictor: ObjectPredictor, frames: Tensor) -> NDArray[np.int64]:
    shown: NDArray[np.int64] = predictor.colors.classes(predictor.normalizer.to_uint8(frames)).numpy()
    return shown


def test_the_predictor_keeps_its_contract() -> None:
    check_predictor(make())


@pytest.mark.parametrize("teacher_forcing", [True, False])
def test_a_frame_without_objects_is_predicted_and_learned(teacher_forcing: bool) -> None:
    predictor = make()
    frames = normalized(predictor, np.stack([floor()] * 6)[None])
    actions = torch.zeros(1, 5, dtype=torch.int64)
    loss, metrics = predictor.loss(training_batch(frames, actions, predict=2, teacher_forcing=teacher_forcing))
    assert loss.isfinite()
    assert metrics["move_loss"] == 0
    frame, _ = predictor.predict(predictor.observe(frames[:, :4]), actions[:, 0])
    assert frame.shape == (1, 3, HEIGHT, WIDTH)


@pytest.mark.slow
def test_it_learns_to_obey_actions_at_positions_never_seen_and_restores_the_stripe() -> None:
    predictor = ObjectPredictor(replace(CONFIG, features=32), seeded(1))
    predictor.set_background(background())
    predictor.normalizer.set_mean(predictor.colors.pixels(torch.from_numpy(floor()).long()).float())
    optimizer, rng = make_optimizer(OptimizerConfig(name="muon", weight_decay=0.0), predictor), np.random.default_rng(1)
    predictor.train()
    for step in range(160):
        set_learning_rate(optimizer, 4e-3 * min(1.0, (160 - step) / 60))
        loss, _ = predictor.loss(batch_of(predictor, rng, 8, 2))
        loss.backward()  # type: ignore[no-untyped-call]
        optimizer.step()
        optimizer.zero_grad()
    predictor.eval()
    past = np.stack([squares((21, 17))] * 4)  # over the stripe
    for action, shift in SHIFT.items():
        with torch.no_grad():
            state = predictor.observe(normalized(predictor, past[None]))
            for step in range(1, 4):
                frame, state = predictor.predict(state, torch.tensor([action]))
                expected = squares((21, 17 + step * shift))
                assert (classes(predictor, frame)[0] != expected).sum() <= 2, (action, step)


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


def test_color_classes_and_floats_give_the_same_loss() -> None:
    predictor, rng = make(), np.random.default_rng(2)
    batch = batch_of(predictor, rng, 5, 2)
    stored = torch.from_numpy(classes(predictor, batch.frames)).to(torch.uint8)
    palette = torch.tensor(list(reversed(PALETTE)), dtype=torch.uint8)  # another order than the predictor's
    given = predictor.training_frames(len(PALETTE) - 1 - stored, palette)
    assert torch.equal(given, stored)
    assert torch.equal(predictor.loss(batch._replace(frames=given))[0], predictor.loss(batch)[0])


def test_the_grid_learns_from_some_windows_and_objects_from_all() -> None:
    predictor, rng = make(), np.random.default_rng(4)
    batch, other = (batch_of(predictor, rng, 2 * GRID_ONE_IN, 2) for _ in range(2))
    taught = 2
    mixed = torch.cat((batch.frames[:taught], other.frames[taught:]))
    before, after = (predictor.loss(batch._replace(frames=frames))[1] for frames in (batch.frames, mixed))
    assert torch.equal(before["frame_loss"], after["frame_loss"])
    assert not torch.equal(before["move_loss"], after["move_loss"])


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


def moves_of(predictor: ObjectPredictor) -> ObjectLoss:
    rng = np.random.default_rng(0)
    return ObjectLoss(predictor.object_network, predictor.object_config, predictor.kinds, predictor.shifts, rng)


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


def test_colors_become_numbers_of_the_table_with_its_gradient() -> None:
    table = torch.randn(5, 3, generator=seeded(1), dtype=torch.float64, requires_grad=True)
    colors = torch.randint(5, (2, 4, 6, 6), generator=seeded(2))
    weight = torch.randn(2, 12, 6, 6, generator=seeded(3), dtype=torch.float64)
    expected = torch.nn.functional.embedding(colors, table).permute(0, 1, 4, 2, 3).flatten(1, 2)
    numbers = embedded(colors, table)
    assert torch.equal(numbers, expected)
    gradients = [torch.autograd.grad((made * weight).sum(), table)[0] for made in (numbers, expected)]
    torch.testing.assert_close(*gradients)


def test_an_object_that_is_not_seen_is_shown_to_the_network_as_it_was() -> None:
    predictor = make()
    frames = np.stack([squares((10, 5)), squares((10, 8)), floor(), floor()])
    state = predictor.observe(normalized(predictor, frames[None]))
    objects = predictor.find(state.recent)
    assert objects.unseen.tolist() == [2]
    assert objects.box[0, :2].tolist() == [10, 8]
    seen, trail = see(state.memory, objects, predictor.kinds, CONFIG)
    assert trail.present[0].tolist() == [False, False, True, True]
    assert trail.offset[0].tolist() == [[0, 0], [0, 0], [0, 0], [0, -3]]
    assert seen.planes[0, 2].sum() == SIDE**2, "its own pixels"


def test_kinds_of_windows_are_those_of_their_pixels() -> None:
    predictor = make()
    frame = torch.from_numpy(squares((2, 18), color=GREEN))[None].long()
    center = torch.tensor([[3, 20], [HEIGHT - 1, WIDTH - 1]])
    row = torch.zeros(2, dtype=torch.int64)
    windows = cut(frame[:, None], row, center, 8, len(PALETTE))[:, 0]
    expected = cut(predictor.kinds.of(frame)[:, None], row, center, 8, 0)[:, 0]
    assert torch.equal(predictor.kinds.around(windows, center), expected)
    assert expected.any()


def test_objects_are_drawn_in_colors_that_the_palette_mask_allows() -> None:
    predictor = make()
    frames = normalized(predictor, np.stack([squares((10, 5), (30, 20))] * 4)[None])
    mask = np.ones((len(PALETTE), HEIGHT, WIDTH), np.bool_)
    mask[GREEN, :, : WIDTH // 2] = False
    free, _ = predictor.predict(predictor.observe(frames), torch.tensor([1]))
    assert (classes(predictor, free)[0, :, : WIDTH // 2] == GREEN).any(), "random weights draw any color"
    predictor.set_palette_mask(mask)
    masked, _ = predictor.predict(predictor.observe(frames), torch.tensor([1]))
    shown = classes(predictor, masked)[0]
    assert not (shown[:, : WIDTH // 2] == GREEN).any()
    assert (shown[:, WIDTH // 2 :] == GREEN).any()


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


def test_the_grid_is_not_trained_on_pixels_of_objects(monkeypatch: pytest.MonkeyPatch) -> None:
    predictor = make()
    targets = []

    def keep(features: Tensor, state: object, target: Tensor) -> Tensor:
        targets.append(target)
        return features.sum()

    monkeypatch.setattr(predictor, "_loss", keep)
    frames = np.stack([*[squares((20, 10))] * 4, squares((20, 13))])
    predictor.loss(training_batch(normalized(predictor, frames[None]), torch.ones(1, 4, dtype=torch.int64), predict=1))
    left_out = (targets[0][0] == NO_PIXEL).numpy()
    center, half = (22, 15), DRAWN // 2
    expected = np.zeros_like(left_out)
    expected[center[0] - half : center[0] + half, max(0, center[1] - half) : center[1] + half] = True
    assert np.array_equal(left_out, expected)


def test_true_moves_are_those_of_the_config_or_vanishing() -> None:
    predictor = make()
    past = np.stack([squares((20, 10))] * 4)
    state = predictor.observe(normalized(predictor, np.stack([past, past, past])))
    target = torch.from_numpy(np.stack([squares((22, 10)), floor(), squares((20, 11))])).long()
    found = moves_of(predictor).moving(state.memory, target[:, None])
    assert found.move.tolist() == [MOVES.index((2, 0)), len(MOVES), len(MOVES)]


def test_probabilities_of_drawing_and_copying_a_color_add_up() -> None:
    logits = torch.randn(1, 4 + COPIES, 1, 1, generator=seeded(3))
    copies = torch.tensor([2, 4, 2, 0, 0]).view(1, COPIES, 1, 1)  # 4 is beyond the frame
    share = logits.softmax(1)[0, :, 0, 0]
    expected = share[2] + share[4] + share[6]
    loss = drawn_loss(logits, copies, torch.tensor([[[2]]]))
    torch.testing.assert_close(loss[0, 0, 0], -expected.log())
    copied = torch.zeros(1, 4 + COPIES, 1, 1)
    copied[0, 1], copied[0, 4], copied[0, 6] = 1.0, 0.7, 0.7
    assert drawn_colors(copied, copies)[0, 0, 0] == 2  # neither copy is as probable as color 1, both together are
    copied[0, 5] = 9.0
    assert drawn_colors(copied, copies)[0, 0, 0] == 2  # what is beyond the frame is no color


def test_sampling_draws_moves_and_is_repeatable() -> None:
    predictor = make()
    state = predictor.observe(normalized(predictor, np.stack([squares((20, 17))] * 4)[None]))
    action = torch.tensor([1])
    predictor.sample(3.0, seed=5)
    drawn = [predictor.predict(state, action)[0] for _ in range(6)]
    predictor.sample(3.0, seed=5)
    again = [predictor.predict(state, action)[0] for _ in range(6)]
    assert all(torch.equal(frame, other) for frame, other in zip(drawn, again, strict=True))
    assert any(not torch.equal(drawn[0], other) for other in drawn[1:])


def test_quiet_objects_do_not_influence_rewards() -> None:
    predictor = make()
    past = np.stack([squares((20, 17))] * 4)
    state = predictor.observe(normalized(predictor, past[None]))
    objects = predictor.find(state.recent)
    assert are_lively(state.memory, objects).tolist() == [False]
    moved = predictor.observe(normalized(predictor, np.stack([*past[:3], squares((20, 20))])[None]))
    assert are_lively(moved.memory, predictor.find(moved.recent)).tolist() == [True]


def test_rare_colors_make_objects_too() -> None:
    predictor = make()
    shown, nothing = (
        torch.from_numpy(np.stack([frame] * SEEN_FRAMES))[None] for frame in (squares((20, 17), color=GREEN), floor())
    )
    assert predictor.find(shown).box[:, :4].tolist() == [[20, 17, 20 + SIDE - 1, 17 + SIDE - 1]]
    assert predictor.find(nothing).box.shape == (0, 5)


@pytest.mark.parametrize(
    "fields",
    [
        {"moves": ()},
        {"moves": ((0, 0), (0, 0))},
        {"moving_colors": (9,)},
        {"moving_colors": (RED, -1)},
        {"controlled_colors": (4,)},
    ],
)
def test_a_config_with_impossible_objects_is_refused(fields: dict[str, object]) -> None:
    with pytest.raises(ConfigError, match=r"moves are .*, moving_colors .* and controlled_colors"):
        replace(CONFIG, **fields)  # type: ignore[arg-type]


def test_a_context_shorter_than_what_is_seen_is_refused() -> None:
    with pytest.raises(ConfigError, match="context is 3"):
        replace(CONFIG, context=3)


def test_a_dataset_prepares_and_calibrates_a_predictor(tmp_path: Path) -> None:
    store = collect(CollectConfig(env_id=TOY_ID, out=tmp_path / "s", frames=400, seed=3))
    data = DatasetSplit(train=store, held_out=store, view=get_view("rgb"), seed=0)
    sizes = ObjectPredictor.sizes("smoke", data.frame)
    predictor = ObjectPredictor(ObjectConfig(**ObjectPredictor.prepare(data) | sizes), seeded(1))
    predictor.calibrate(data, lambda line: None, lambda done, total: None)
    first = next(iter(store)).frames(0, SEEN_FRAMES)
    objects = predictor.find(predictor.colors.classes(torch.from_numpy(first))[None])
    assert len(objects.row) > 0
    check_predictor(predictor)


def test_gray_frames_are_refused_with_the_cure(tmp_path: Path) -> None:
    store = collect(CollectConfig(env_id=TOY_ID, out=tmp_path / "s", frames=100, seed=3))
    with pytest.raises(UserError, match="use --model pixel"):
        ObjectPredictor.prepare(DatasetSplit(train=store, held_out=store, view=get_view("gray84"), seed=0))


def test_export_to_onnx_is_refused_with_the_reason() -> None:
    with pytest.raises(UserError, match="cannot be exported"):
        make().traceable()


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
