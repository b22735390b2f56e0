"""Prediction of objects: a square that an action moves over a floor with a stripe."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch
from torch import Tensor

from acvp.data.collect import CollectConfig, collect
from acvp.data.frames import get_view
from acvp.envs.toy import TOY_ID
from acvp.errors import UserError
from acvp.models.config import ConfigError, DatasetSplit
from acvp.pixel import ObjectConfig, ObjectPredictor
from acvp.pixel.config import SEEN_FRAMES
from acvp.pixel.loss import NO_PIXEL
from acvp.pixel.object_network import COPIES, DRAWN, drawn_colors, drawn_loss, embedded
from acvp.pixel.object_predictor import GRID_ONE_IN
from acvp.pixel.object_windows import are_lively, cut, see
from acvp.testing import check_predictor
from acvp.training.config import OptimizerConfig
from acvp.training.optimizers import make_optimizer, set_learning_rate
from tests.models.small_predictors import seeded, training_batch
from tests.pixel.small_objects import (
    CONFIG,
    GREEN,
    HEIGHT,
    MOVES,
    PALETTE,
    RED,
    SHIFT,
    SIDE,
    WIDTH,
    background,
    batch_of,
    classes,
    floor,
    make,
    moves_of,
    normalized,
    squares,
)


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
