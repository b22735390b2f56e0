"""The pixel-exact predictor: frames of its palette only, a state that carries the past, a cross-entropy as loss."""

from __future__ import annotations

from dataclasses import replace
from math import log, sqrt
from typing import Any

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor
from torch.nn import functional

from acvp.models import ConfigError, imagine
from acvp.models.artifact import predictor_files, predictor_from_files
from acvp.pixel import PixelPredictor, UnknownColorWarning, network
from acvp.pixel.network import ActionUnet, event_heads
from acvp.pixel.palette import Colors
from acvp.pixel.predictor import PixelState
from tests.models.small_predictors import seeded, training_batch
from tests.pixel.small_pixel import CONFIG, PALETTE, frame_loss, make, window


@given(st.sets(st.tuples(*[st.integers(0, 255)] * 3), min_size=1, max_size=256), st.integers(0, 2**31))
@settings(max_examples=50)
def test_every_color_of_a_palette_is_a_class_and_back(palette: set[tuple[int, int, int]], seed: int) -> None:
    colors = Colors(tuple(palette), quantized=False)
    classes = torch.randint(0, len(colors), (3, 4), generator=seeded(seed))
    assert torch.equal(colors.classes(colors.pixels(classes)), classes)


def test_the_nearest_color_is_that_of_the_middle_of_a_cell_of_colors() -> None:
    colors = Colors(((0, 0, 0), (7, 7, 7), (255, 0, 0)), quantized=True)
    pixels = torch.tensor([[5, 5, 5], [0, 0, 0], [7, 7, 7], [250, 3, 3]], dtype=torch.uint8)
    assert colors.classes(pixels).tolist() == [1, 0, 1, 2]
    assert colors.nearest(pixels).tolist() == [1, 0, 1, 2]


def test_an_unknown_color_gives_a_warning_and_becomes_the_nearest() -> None:
    colors = Colors(PALETTE, quantized=False)
    with pytest.warns(UnknownColorWarning, match=r"2 of 3 pixels have one of 2 colors .*\(0, 230, 20\)"):
        classes = colors.classes(torch.tensor([[250, 0, 9], [0, 230, 20], [0, 0, 0]], dtype=torch.uint8))
    assert classes.tolist() == [1, 2, 0]


@pytest.mark.filterwarnings("error")
def test_a_quantized_palette_takes_similar_colors_in_silence() -> None:
    colors = Colors(PALETTE, quantized=True)
    assert colors.classes(torch.tensor([250, 0, 9], dtype=torch.uint8)).item() == 1


def test_before_training_nothing_changes() -> None:
    predictor = PixelPredictor(CONFIG, seeded(0)).eval()
    frames, actions = window(predictor, 2)
    state = predictor.observe(frames[:, :3])
    for frame, _ in imagine(predictor, state, actions[:, -2:]):
        torch.testing.assert_close(frame, frames[:, 2])


@pytest.mark.parametrize("circular_padding", [False, True])
def test_with_circular_padding_what_leaves_on_one_side_is_seen_on_the_other(*, circular_padding: bool) -> None:
    unet = ActionUnet((4, 4), (1, 1), 2, seeded(1), circular_padding=circular_padding)
    for weight in unet.parameters():
        torch.nn.init.uniform_(weight, 0.1, 0.5, generator=seeded(2))
    x = torch.rand(1, 4, 40, 30, generator=seeded(3)).requires_grad_()
    features, _ = unet(x, torch.eye(2)[:1])
    features[0, :, 0, 0].sum().backward()
    assert x.grad is not None
    seen = x.grad.abs().sum((0, 1)) > 0
    assert seen[0, 0]
    assert seen[0, -1] == seen[-1, 0] == seen[-1, -1] == circular_padding
    assert not seen[20, 15]


def test_predictions_are_frames_of_the_palette() -> None:
    predictor = make()
    frames, actions = window(predictor, 4)
    changed = False
    state = predictor.observe(frames[:, :3])
    for frame, after in imagine(predictor, state, actions[:, -4:]):
        pixels = predictor.normalizer.to_uint8(frame)
        assert {tuple(color) for color in pixels.flatten(0, 2).tolist()} <= set(PALETTE)
        assert isinstance(after, PixelState)
        assert torch.equal(predictor.colors.classes(pixels), after.classes[:, 1])
        changed |= not torch.equal(frame, frames[:, 2])
    assert changed


def test_every_action_is_predicted_as_each_alone() -> None:
    predictor = make()
    frames, _ = window(predictor, 1)
    state = predictor.observe(frames)
    every = predictor.predict_all(state)
    for action in range(3):
        torch.testing.assert_close(every[:, action], predictor.predict(state, torch.full((2,), action))[0])
    assert not torch.equal(every[:, 0], every[:, 1])


def test_from_real_frames_is_observing_then_predicting() -> None:
    predictor = make()
    frames, actions = window(predictor, 3)
    together = predictor(frames, actions, predict=3, teacher_forcing=True)
    for k in range(3):
        alone, state = predictor.predict(predictor.observe(frames[:, : 3 + k]), actions[:, 2 + k])
        torch.testing.assert_close(together.frames[:, k], alone)
        assert state.outcome is not None
        torch.testing.assert_close(together.reward[:, k], state.outcome.reward)
        torch.testing.assert_close(together.termination[:, k], state.outcome.termination)


def test_the_oldest_frame_of_the_context_still_matters_and_older_ones_do_not() -> None:
    predictor = make()
    frames, actions = window(predictor, 2)
    first = predictor.predict(predictor.observe(frames), actions[:, -1])[0]
    other = frames.clone()
    other[:, 0] = frames[:, 1]
    torch.testing.assert_close(predictor.predict(predictor.observe(other), actions[:, -1])[0], first)
    other[:, 2] = frames[:, 1]
    assert not torch.equal(predictor.predict(predictor.observe(other), actions[:, -1])[0], first)


def cross_entropy(predictor: PixelPredictor, frames: Tensor, actions: Tensor) -> Tensor:
    """The one-step loss pixel by pixel: summed over a frame's pixels, averaged over rows."""
    state = predictor.observe(frames[:, :-1])
    features, _ = predictor._features(predictor._mixed(state), functional.one_hot(actions[:, -1], 3).to(frames.dtype))
    target = predictor.colors.classes(predictor.normalizer.to_uint8(frames[:, -1]))
    total = torch.zeros(())
    cell, count = predictor.pixel_config.cell, len(PALETTE)
    for row in range(len(frames)):
        for y in range(frames.shape[-2]):
            for x in range(frames.shape[-1]):
                here = features[row, :, y // cell, x // cell]
                own = predictor.head(here).view(-1, count)[(y % cell) * cell + x % cell]
                weights = own.exp()
                *motions, turning = predictor.copy(here)
                turned = CONFIG.palette_cycle[state.classes[row, 1, y, x]]
                weights = weights + functional.one_hot(torch.tensor(turned), count) * (own[turned] + turning).exp()
                ways = [(1, *way) for way in CONFIG.motions] + [(0, *way) for way in CONFIG.older_motions]
                for motion, (source, down, right) in zip(motions, ways, strict=True):
                    from_y, from_x = y - down, x - right
                    if 0 <= from_y < frames.shape[-2] and 0 <= from_x < frames.shape[-1]:
                        color = state.classes[row, source, from_y, from_x]
                        weights = weights + functional.one_hot(color, count) * (own[color] + motion).exp()
                total = total - (weights[target[row, y, x]] / weights.sum()).log()
    return total / len(frames)


@pytest.mark.parametrize("cells_at_once", [5, 128])
def test_the_loss_is_the_cross_entropy_of_every_pixel(monkeypatch: pytest.MonkeyPatch, cells_at_once: int) -> None:
    monkeypatch.setattr("acvp.pixel.predictor.CELLS_AT_ONCE", cells_at_once)
    predictor = make(replace(CONFIG, background_subsampling=1))
    weights = (predictor.head.weight, predictor.copy.weight, predictor.place)
    frames, actions = window(predictor, 1)
    expected = cross_entropy(predictor, frames, actions)
    loss, _ = predictor.train().loss(training_batch(frames, actions, reward_weight=0.0))
    torch.testing.assert_close(loss, expected)
    for ours, theirs in zip(*(torch.autograd.grad(each, weights) for each in (loss, expected)), strict=True):
        torch.testing.assert_close(ours, theirs, rtol=1e-5, atol=1e-4)
    torch.testing.assert_close(frame_loss(predictor, frames, actions, teacher_forcing=True), loss.detach())


@pytest.mark.parametrize(("option", "source"), [(1, 1), (2, 0)])
def test_a_motion_moves_what_is_there_and_what_was(option: int, source: int) -> None:
    """Sure of the motion 3 down, 1 right, of a frame, the predictor moves that frame; nothing comes from outside."""
    config = replace(CONFIG, motions=((0, 0), (3, 1)), older_motions=((3, 1),), palette_cycle=())
    predictor = PixelPredictor(config, seeded(0)).eval()
    torch.nn.init.zeros_(predictor.copy.bias)
    predictor.copy.bias.data[option] = 9.0
    predictor.copy.bias.data[0] = 4.0  # for what would come from outside
    frames, actions = window(predictor, 1)
    state = predictor.observe(frames[:, :3])
    assert not torch.equal(state.classes[:, 0], state.classes[:, 1])
    after = predictor.predict(state, actions[:, -1])[1].classes
    assert torch.equal(after[:, 1, 3:, 1:], state.classes[:, source, :-3, :-1])
    assert torch.equal(after[:, 1, :3], state.classes[:, 1, :3])
    assert torch.equal(after[:, 1, :, :1], state.classes[:, 1, :, :1])
    assert torch.equal(after[:, 0], state.classes[:, 1])


def test_colors_turn_into_those_that_follow_them() -> None:
    predictor = PixelPredictor(CONFIG, seeded(0)).eval()
    torch.nn.init.zeros_(predictor.copy.bias)
    predictor.copy.bias.data[-1] = 9.0
    frames, actions = window(predictor, 1)
    state = predictor.observe(frames[:, :3])
    turned = predictor.predict(state, actions[:, -1])[1].classes[:, 1]
    assert torch.equal(turned, torch.tensor(CONFIG.palette_cycle)[state.classes[:, 1]])


@pytest.mark.parametrize("odds", [4.0, 6.0, 8.0])
@pytest.mark.parametrize("motions", [CONFIG.motions, ((0, 0),)])
def test_where_nothing_changes_is_found_without_weighing_all_options(
    monkeypatch: pytest.MonkeyPatch, odds: float, motions: tuple[tuple[int, int], ...]
) -> None:
    predictor = make(replace(CONFIG, motions=motions, frame=(93, 78, 3)))
    predictor.copy.bias.data[0] += odds
    frames, _ = window(predictor, 1, rows=3)
    weighed: list[int] = []
    copied_colors = network.copied_colors

    def counted(*arguments: Any) -> Tensor:
        colors = copied_colors(*arguments)
        weighed.append(colors.numel())
        return colors

    monkeypatch.setattr(network, "copied_colors", counted)
    quick = predictor.predict_all(predictor.observe(frames))
    some = sum(weighed)
    predictor.exhaustive = True
    assert torch.equal(predictor.predict_all(predictor.observe(frames)), quick)
    in_frame = 93 * 78 / (95 * 80)  # the rest fills up cells of 5×5 pixels
    assert 0 < some < weighed[-1] * in_frame


def standing(classes: Tensor, frame: Tensor | None = None) -> PixelState:
    """Return the state after two equal frames of classes (1, H, W): the mean image, or normalized ``frame``."""
    shown = torch.zeros(1, 3, *classes.shape[1:]) if frame is None else frame
    return PixelState(embedded=torch.empty(0), frame=shown, classes=classes[:, None].expand(-1, 2, -1, -1))


def test_a_thing_that_stands_still_counts_whether_its_cell_is_sampled_or_not() -> None:
    predictor = make(replace(CONFIG, background_subsampling=10_000, frame=(20, 15, 3)))
    features = torch.zeros(1, 6, 4, 3, requires_grad=True)
    now = torch.full((1, 20, 15), 1)  # 300 pixels: cell 9,700 would be the first of the sample
    thing = torch.zeros(1, 3, 20, 15)
    thing[0, 1, 7, 12] = -17 / 255
    for frame, counted in ((thing * 15 / 17, 0), (thing, 1)):
        loss = predictor._loss(features, standing(now, frame), now)
        (gradient,) = torch.autograd.grad(loss, features, allow_unused=True) if loss.requires_grad else (None,)
        cells = gradient.abs().sum((0, 1)) > 0 if gradient is not None else torch.zeros(4, 3, dtype=torch.bool)
        assert cells.sum() == counted
        assert not counted or cells[1, 2]


def test_still_cells_are_sampled_without_bias() -> None:
    """One class number more shifts the sample by one cell: three such targets see each cell once."""
    predictor = make(replace(CONFIG, background_subsampling=3, frame=(20, 15, 3)))
    features = torch.randn(1, 6, 4, 3, generator=seeded(3))
    now = torch.zeros(1, 20, 15, dtype=torch.long)
    full = make(replace(CONFIG, background_subsampling=1, frame=(20, 15, 3)))._loss(features, standing(now), now)
    chosen = []
    for first in range(3):
        target = now.clone()
        target[0, 0, 0] = first
        chosen.append(predictor._loss(features, standing(target), target).detach())
    torch.testing.assert_close(torch.stack(chosen).mean(), full.detach(), rtol=0.05, atol=0)
    assert len({round(float(each), 3) for each in chosen}) == 3


def test_losses_of_several_steps_are_averaged_and_gradients_flow() -> None:
    predictor = make(replace(CONFIG, background_subsampling=1)).train()
    frames, actions = window(predictor, 2)
    loss, parts = predictor.loss(training_batch(frames, actions, predict=2))
    assert not torch.equal(parts["frame_loss"], frame_loss(predictor, frames[:, :4], actions[:, :3]))
    torch.testing.assert_close(loss.detach(), torch.stack(list(parts.values())).sum())
    loss.backward()  # type: ignore[no-untyped-call]
    assert all(weight.grad is not None and weight.grad.isfinite().all() for weight in predictor.parameters())


@given(st.integers(0, 11))
def test_an_event_gives_the_same_logits_wherever_it_is(place: int) -> None:
    events = event_heads(CONFIG, seeded(1))
    looked_for = 100 * events.state_dict()["0.weight"][0, :, 0, 0]  # by the first of them
    still = torch.full((1, 6, 4, 3), 0.5)
    there, at_first = still.clone(), still.clone()
    there.view(6, 12)[:, place] += looked_for
    at_first[0, :, 0, 0] += looked_for
    torch.testing.assert_close(events(there), events(at_first))
    assert (events(there).reward - events(still).reward).abs().max() > 1


def test_without_events_the_outcome_is_that_of_the_places() -> None:
    both, placed = make(), make(replace(CONFIG, events=0))
    placed.load_state_dict({name: weight for name, weight in both.state_dict().items() if "events" not in name})
    mixed, action = torch.rand(1, 6, 4, 3, generator=seeded(5)), torch.eye(3)[:1]
    features, outcome = both._features(mixed, action)
    _, alone = placed._features(mixed, action)
    assert outcome is not None
    assert alone is not None
    assert both.events is not None
    added = both.events(features)
    torch.testing.assert_close(outcome.reward, alone.reward + added.reward)
    torch.testing.assert_close(outcome.termination, alone.termination + added.termination)


@pytest.mark.slow
@pytest.mark.parametrize(("temperature", "odds"), [(1.0, 3.0), (2.0, sqrt(3))])
def test_colors_are_drawn_in_proportion_and_as_the_seed_says(temperature: float, odds: float) -> None:
    config = replace(CONFIG, palette_cycle=(), palette=PALETTE[:2], frame=(10, 10, 3))
    predictor = PixelPredictor(config, seeded(0)).eval()
    torch.nn.init.constant_(predictor.copy.bias, -1e4)
    predictor.head.bias.data[1::2] = log(3)  # of each pixel: the second color three times as often
    state = predictor.observe(predictor.normalizer.to_float(torch.zeros(2000, 3, 10, 10, 3, dtype=torch.uint8)))
    actions = torch.zeros(2000, dtype=torch.long)
    draws = []
    for seed in (1, 1, 2):
        predictor.sample(temperature, seed)
        draws.append(predictor.predict(state, actions)[1].classes[:, 1])
    assert torch.equal(draws[0], draws[1])
    assert not torch.equal(draws[0], draws[2])
    share = draws[0].float().mean((1, 2))
    assert set(share.tolist()) == {0.0, 1.0}  # a frame is drawn as a whole
    assert float(share.mean()) == pytest.approx(odds / (1 + odds), abs=0.04)
    every = predictor.predict_all(state)
    assert torch.equal(every, every[:, :1].expand_as(every))  # this predictor ignores the action
    assert not torch.equal(every[0], every[1]) or len(set(every.flatten(1).sum(1).tolist())) == 2
    predictor.sample(0.0)
    assert predictor.predict(state, actions)[1].classes[:, 1].all()


def test_of_two_motions_one_is_drawn_for_all_that_may_move() -> None:
    config = replace(CONFIG, palette_cycle=(), motions=((0, 0), (3, 1)), older_motions=(), frame=(10, 10, 3))
    predictor = PixelPredictor(config, seeded(0)).eval()
    torch.nn.init.constant_(predictor.copy.bias, 20.0)  # both as likely, and chosen colors out of the question
    frames, _ = window(predictor, 1, rows=600)
    predictor.sample(seed=3)
    state = predictor.observe(frames[:, :3])
    after = predictor.predict(state, torch.zeros(600, dtype=torch.long))[1].classes[:, 1, 3:, 1:]
    stays = (after == state.classes[:, 1, 3:, 1:]).all((1, 2))
    moves = (after == state.classes[:, 1, :-3, :-1]).all((1, 2))
    assert (stays | moves).all()
    assert float(moves.float().mean()) == pytest.approx(0.5, abs=0.07)


def test_a_predictor_survives_its_files() -> None:
    predictor = make()
    frames, actions = window(predictor, 1)
    again = predictor_from_files(predictor_files(predictor))
    assert isinstance(again, PixelPredictor)
    expected = predictor.predict(predictor.observe(frames), actions[:, -1])[0]
    assert torch.equal(again.predict(again.observe(frames), actions[:, -1])[0], expected)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"palette": ()}, "1 to 256 different ones"),
        ({"palette": ((0, 0, 0), (0, 0, 0))}, "1 to 256 different ones"),
        ({"palette": ((0, 0, 256),)}, "1 to 256 different ones"),
        ({"palette": ((0, 0),)}, "of 3 values"),
        ({"channels": (4, 4)}, "one each per scale"),
        ({"cell": 0}, "cell is 0"),
        ({"events": -1}, "events is -1"),
        ({"palette_cycle": (0, 1)}, "for each of the 5 colors"),
        ({"palette_cycle": (0, 1, 2, 3, 5)}, "for each of the 5 colors"),
        ({"motions": ()}, "the first"),
        ({"motions": ((1, 0),)}, "the first"),
        ({"motions": ((0, 0), (1, 0), (1, 0))}, "different"),
        ({"motions": ((0, 0), (18, 0))}, "less than a frame's sides"),
        ({"motions": ((0, 0), (1,))}, "down, right"),
        ({"motions": tuple((y, x) for y in range(9) for x in range(9))}, "1 to 64"),
        ({"older_motions": tuple((y, x) for y in range(9) for x in range(7))}, "1 to 64"),
        ({"older_motions": ((1, 0), (1, 0))}, "different"),
        ({"older_motions": ((1, 0),), "context": 1}, "context of at least 2"),
        ({"older_motions": ((0, 13),)}, "less than a frame's sides"),
    ],
)
def test_bad_configurations(change: dict[str, object], message: str) -> None:
    blocks: dict[str, object] = {"blocks": (1,)} if "channels" in change else {}
    with pytest.raises(ConfigError, match=message):
        replace(CONFIG, **(change | blocks))  # type: ignore[arg-type]


def test_half_weights_are_half_as_large_and_come_back_as_floats() -> None:
    predictor = make()
    whole, half = predictor_files(predictor), predictor_files(predictor, half=True)
    assert len(half["model.safetensors"]) < 0.8 * len(whole["model.safetensors"])
    again = predictor_from_files(half)
    for name, weight in again.state_dict().items():
        kept = predictor.state_dict()[name]
        torch.testing.assert_close(weight, kept.half().float() if kept.is_floating_point() else kept, msg=name)
