"""Measures for single claims of the paper, on frames and positions whose answer is known."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import torch
from numpy.typing import NDArray

from acvp.bootstrap import Accumulator, Bootstrap
from acvp.data.frames import get_view
from acvp.evaluation.claims import (
    AFTER,
    ClaimMeter,
    appearing,
    claim_events,
    find_collisions,
    find_wraps,
    found_share,
    marches,
    summarize_claims,
)
from acvp.evaluation.config import EvaluateConfig
from acvp.evaluation.figures import horizon_tables
from acvp.evaluation.horizon import paired_differences
from acvp.evaluation.run import evaluate
from acvp.evaluation.windows import HeldOutPart
from tests.evaluation.predictors import Oracle, as_model, small_network

Frames = NDArray[np.float32]
SHAPE = (210, 160, 3)
FREEWAY = ("NOOP", "UP", "DOWN")


def rows(*values: float) -> NDArray[np.float64]:
    """Positions of one object that only moves up and down."""
    return np.array([[[value, 46.8] for value in values]])


def test_a_wrap_is_a_jump_across_the_frame() -> None:
    assert find_wraps(rows(30, 26, 195, 191, 110, 114), SHAPE).tolist() == [[False, True, False, False, False]]
    assert find_wraps(rows(30, np.nan, 195), SHAPE).tolist() == [[False, False]]  # gone in between: no wrap
    assert find_wraps(rows(195, 26), SHAPE).all()
    sideways = np.array([[[50.0, 2.0], [50.0, 158.0]]])
    assert find_wraps(sideways, SHAPE).tolist() == [[True]]


def test_a_collision_begins_where_the_object_is_pushed_down() -> None:
    positions, actions = rows(100, 96, 100, 104, 104, 108, 112, 108, 112), np.array([[1, 1, 1, 1, 2, 0, 1, 1]])
    begins = [False, True, False, False, False, False, False, True]  # the fifth step obeys DOWN: the sixth may be its
    assert find_collisions(positions, actions, FREEWAY).tolist() == [begins]
    one_push, held = rows(100, 96, 100, 104, 108, 112, 112), np.array([[1, 1, 2, 1, 2, 1]])
    assert find_collisions(one_push, held, FREEWAY).sum() == 1  # whatever is pressed meanwhile
    assert not find_collisions(rows(100, 104, 108), np.array([[1, 1]]), FREEWAY).any()  # pushed before the window


def test_only_freeway_has_collisions_and_a_wrap_is_none() -> None:
    positions, actions = rows(30, 26, 195, 199), np.array([[1, 1, 1]])
    events = claim_events("ALE/Freeway-v5", positions, actions, FREEWAY, SHAPE)
    assert events["wrap_kept"].tolist() == [[False, True, False]]
    assert not events["collision_kept"].any()
    assert set(claim_events("ALE/Seaquest-v5", positions, actions, FREEWAY, SHAPE)) == {"wrap_kept"}
    assert claim_events("ALE/Freeway-v5", None, actions, FREEWAY, SHAPE) == {}


def fleet(column: int, *, bullet: int | None = None, brightness: float = 134) -> Frames:
    """Three rows of five invaders on black, and shields and a cannon below them."""
    frame = np.zeros((1, 3, 210, 160), np.float32)
    for row in (40, 60, 80):
        for number in range(5):
            left = column + 16 * number
            frame[:, :, row : row + 10, left : left + 8] = brightness
    frame[:, :, 160:176, 40:120] = 181
    if bullet is not None:
        frame[:, :, bullet : bullet + 8, 70:72] = 200
    return frame


def test_the_fleet_marches_when_it_moves_and_a_bullet_is_no_march() -> None:
    there, moved = fleet(25), fleet(28)
    assert marches(moved, there, there).tolist() == [True]
    assert marches(fleet(25, bullet=120), fleet(25, bullet=110), there).tolist() == [False]
    shields = fleet(25)
    shields[:, :, 160:176] = 0  # below the fleet
    assert marches(shields, there, there).tolist() == [False]
    none_left = np.zeros_like(there)
    assert marches(fleet(25), none_left, none_left).tolist() == [False]


def test_marches_at_the_right_and_at_a_wrong_step() -> None:
    meter = ClaimMeter("ALE/SpaceInvaders-v5", np.zeros((210, 160, 3), np.float32), 3, {}, 8.0)
    truth = [fleet(25), fleet(25), fleet(28), fleet(28)]
    knows, blind, early = truth[1:], [fleet(25)] * 3, [fleet(28)] * 3
    seen: list[list[float]] = [[], [], []]
    false: list[list[float]] = [[], [], []]
    for step in range(3):
        meter.true_step(truth[step + 1], truth[step])
        for model, frames in enumerate((knows, blind, early)):
            values = meter.measure(model, frames[step], None)
            seen[model] += values["march_seen"].tolist()
            false[model] += values["march_false"].tolist()
    nan = np.nan
    np.testing.assert_equal(seen, [[nan, 1, nan], [nan, 0, nan], [nan, 0, nan]])
    np.testing.assert_equal(false, [[0, nan, 0], [0, nan, 0], [1, nan, 0]])


def things(*boxes: tuple[int, int, int]) -> Frames:
    """White squares on black, each by its row, column and side."""
    frame = np.zeros((1, 1, 84, 84), np.float32)
    for row, column, side in boxes:
        frame[:, :, row : row + side, column : column + side] = 255
    return frame


BLACK = np.zeros((84, 84, 1), np.float32)
BULLET, BALL, OLD = (10, 10, 2), (40, 40, 6), (70, 10, 2)


def shares(predicted: Frames, truth: Frames, before: Frames) -> tuple[float, float]:
    labels, small = appearing(truth, before, BLACK)
    few, many = found_share(predicted, truth, before, labels, small)
    return float(few[0]), float(many[0])


def test_small_and_larger_things_are_found_or_missed() -> None:
    before, truth = things(OLD), things(BULLET, BALL)  # one thing vanishes, which does not count
    assert shares(truth, truth, before) == (1, 1)
    assert shares(things(BALL), truth, before) == (0, 1)
    assert shares(things(BULLET), truth, before) == (1, 0)
    assert shares(before, truth, before) == (0, 0)
    assert shares(truth * 0.6, truth, before) == (1, 1)  # nearer to what is there than to nothing
    assert shares(truth * 0.5, truth, before) == (0, 0)


@pytest.mark.parametrize("view", ["rgb", "gray84"])
def test_a_bullet_is_small_and_a_marching_fleet_is_not_in_every_view(view: str) -> None:
    def seen(frame: Frames) -> Frames:
        colored = frame.transpose(0, 2, 3, 1).astype(np.uint8)
        return get_view(view).apply(colored, None).astype(np.float32).transpose(0, 3, 1, 2)

    there = seen(fleet(25, bullet=120))
    black = np.zeros(there.shape[2:] + there.shape[1:2], np.float32)
    for after, wanted in ((fleet(25, bullet=128), [True]), (fleet(30, bullet=120), [False])):
        _, small = appearing(seen(after), there, black)
        assert small[0].tolist() == wanted
    wide = fleet(25, bullet=120)
    wide[:, :, 190:192, 100:140] = 200  # a line that lies is as thin as one that stands
    assert appearing(seen(wide), there, black)[1][0].tolist() == [True]


def test_changes_near_each_other_are_one_thing() -> None:
    edges = things((40, 40, 1), (40, 44, 1), (44, 40, 1), (44, 44, 1))  # of one larger thing that moves
    assert np.isnan(shares(edges, edges, things())[0])
    assert shares(edges, edges, things())[1] == 1
    assert np.isnan(shares(edges, edges, edges)).all()  # nothing changes


def test_a_thing_that_moves_is_found_where_it_appears() -> None:
    before, truth = things((10, 10, 2)), things((12, 10, 2))
    assert shares(truth, truth, before)[0] == 1
    assert shares(things((10, 10, 2), (12, 10, 2)), truth, before)[0] == 1  # what it leaves behind is not judged
    assert shares(things(), truth, before)[0] == 0
    assert shares(before, truth, before)[0] == 0


@pytest.mark.parametrize(("back", "wanted"), [(0.0, 1.0), (20.0, 0.0), (np.inf, 0.0)])
def test_an_object_is_kept_if_it_is_in_its_place_some_steps_after_the_event(back: float, wanted: float) -> None:
    flags = np.zeros((2, 8), np.bool_)
    flags[:, 2] = True
    meter = ClaimMeter("ALE/Freeway-v5", BLACK, 1, {"wrap_kept": flags}, 8.0)
    kept = []
    for step in range(8):
        meter.true_step(things(), things())
        lost_before = 20.0 if step == 1 else 0.0  # the second window has lost the object before it wraps
        distance = np.array([back if step == 2 + AFTER else 0.0, lost_before])
        kept.append(meter.measure(0, things(), distance).get("wrap_kept", np.full(2, np.nan)))
    np.testing.assert_equal(np.array(kept)[:, 0], [np.nan] * (2 + AFTER) + [wanted] + [np.nan] * (5 - AFTER))
    assert np.isnan(np.array(kept)[:, 1]).all()


def test_the_translation_error_leaves_lost_objects_out() -> None:
    meter = ClaimMeter("ALE/MsPacman-v5", BLACK, 1, {}, 8.0)
    meter.true_step(things(), things())
    values = meter.measure(0, np.repeat(things(), 3, 0)[:1], np.array([3.0, np.inf, np.nan]))
    np.testing.assert_equal(values["translation"], [3.0, np.nan, np.nan])


def filled(values: NDArray[np.float64]) -> Accumulator:
    """One value per episode and step; NaN: none."""
    accumulator = Accumulator(*values.shape)
    for step in range(values.shape[1]):
        accumulator.add(step, np.arange(len(values)), values[:, step])
    return accumulator


def test_measures_are_pooled_over_ranges_of_steps() -> None:
    values = np.full((4, 40), np.nan)
    values[0, 3], values[1, 9], values[2, 10] = 1.0, 0.0, 1.0
    body = summarize_claims(
        {"net": {"error": filled(np.zeros((4, 40))), "wrap_kept": filled(values)}}, Bootstrap(4, seed=0)
    )
    assert set(body) == {"wrap_kept"}
    assert body["wrap_kept"]["steps"] == [[1, 10], [11, 30], [31, 40]]
    assert body["wrap_kept"]["models"]["net"]["mean"] == [0.5, 1.0, None]
    assert body["wrap_kept"]["models"]["net"]["count"] == [2, 1, 0]


def test_paired_differences_cancel_what_episodes_share() -> None:
    hard = np.array([[1.0], [50.0], [900.0], [4.0]]) * np.ones((4, 12))
    body = paired_differences({"a": {"error": filled(hard)}, "b": {"error": filled(hard + 1)}}, Bootstrap(4, seed=0))
    (pair,) = body["metrics"]["error"]
    assert (pair["first"], pair["second"]) == ("a", "b")
    assert body["steps"] == [1, 5, 10, 12]
    for part in ("mean", "low", "high"):
        assert pair[part] == pytest.approx([-1.0] * 4)


def test_evaluation_reports_claims_and_pairs_on_toy_game(toy_part: HeldOutPart) -> None:
    oracle = Oracle(toy_part.store)
    oracle.normalizer.set_mean(torch.from_numpy(toy_part.store[0].frames().mean(0)).float())
    models = [as_model("truth", oracle), as_model("net", small_network(toy_part.store))]
    config = EvaluateConfig(
        predictors=(Path("run"),), data=(toy_part.store.path,), horizon=12, windows=12, batch_size=5
    )
    body = evaluate(models, toy_part, config).to_dict() | {"outcomes": {}}
    found = [name for name in ("small_found", "large_found") if name in body["claims"]]
    assert found
    for name in found:
        assert set(body["claims"][name]["models"]["truth"]["mean"]) <= {1.0, None}
        assert max(filter(None, body["claims"][name]["models"]["net"]["mean"]), default=0.0) < 1
    assert body["claims"]["translation"]["models"]["truth"]["mean"] == [0.0, 0.0]
    pairs = {(pair["first"], pair["second"]): pair for pair in body["paired"]["metrics"]["error"]}
    assert max(pairs["truth", "net"]["high"]) < 0
    table = next(table for table in horizon_tables(body) if table.title.startswith("Claims"))
    assert ("Translation error (recorded pixels)", "1–10") in [row[:2] for row in table.rows]
    assert body["models"]["net"]["kind"] == "mlp"
