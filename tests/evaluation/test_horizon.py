"""Horizon curves on data that carries its own answer."""

from __future__ import annotations

import json
import tracemalloc
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from acvp.data.frames import GRAY_84
from acvp.data.windows import Window, choose_starts
from acvp.evaluation.config import EvaluateConfig
from acvp.evaluation.horizon import EvaluationWindows, found_and_exact, look_ahead
from acvp.evaluation.run import Evaluation, evaluate, frame_metrics
from acvp.evaluation.windows import HeldOutPart
from acvp.loaded import baselines
from tests.data.answers import answer_frame
from tests.evaluation.predictors import Answers, Oracle, as_model, small_network


def config(part: HeldOutPart, **options: Any) -> EvaluateConfig:
    defaults: dict[str, Any] = {"horizon": 8, "windows": 12, "batch_size": 5, "shuffled_windows": 6}
    return EvaluateConfig(predictors=(Path("run"),), data=(part.store.path,), **(defaults | options))


def mean(evaluation: Evaluation, name: str, metric: str) -> list[float]:
    return [float(value) for value in evaluation.curves[name][metric].mean]


def test_truth_is_perfect_and_one_frame_late_is_not(answers: HeldOutPart) -> None:
    models = [as_model("truth", Answers()), as_model("late", Answers(ahead=-1))]
    found = evaluate(models, answers, config(answers))
    assert mean(found, "truth", "error") == pytest.approx([0] * 8, abs=1e-6)
    assert mean(found, "truth", "gain") == pytest.approx([1] * 8)
    assert mean(found, "truth", "wrong_pixels") == [0] * 8
    assert found.totals["truth"]["exact_steps"].mean.tolist() == [8]
    assert found.totals["late"]["exact_steps"].mean.tolist() == [0]
    assert min(mean(found, "late", "wrong_pixels")) >= 1  # index and index − 1 differ in a bit at least
    assert min(mean(found, "late", "moving_mse")) > 100
    for metric, sign in (("error", 1), ("mse", 1), ("psnr", -1), ("ssim", -1)):
        assert (sign * np.subtract(mean(found, "late", metric), mean(found, "truth", metric)) > 0).all(), metric


def test_one_frame_late_has_its_closed_form(answers: HeldOutPart) -> None:
    found = evaluate([as_model("late", Answers(ahead=-1))], answers, config(answers))
    starts = choose_starts(answers.store, Window(1, 8), 12, seed=0, option="horizon")
    apart = [
        np.square((answer_frame(e, s + t).astype(float) - answer_frame(e, s + t + 1)) / 255).sum()
        for t in range(8)
        for e, s in starts
    ]
    wanted = np.reshape(apart, (8, 12)).mean(1)
    np.testing.assert_allclose(mean(found, "late", "error"), wanted, rtol=1e-6)


def test_copy_last_has_its_closed_form_on_toy_game(toy_part: HeldOutPart) -> None:
    found = evaluate([as_model("net", small_network(toy_part.store))], toy_part, config(toy_part, windows=20))
    starts = choose_starts(toy_part.store, Window(1, 8), 20, seed=0, option="horizon")
    wanted = np.zeros(8)
    for episode, start in starts:
        frames = toy_part.store[episode].frames(start, start + 9).astype(float) / 255
        wanted += np.square(frames[1:] - frames[0]).sum((1, 2, 3)) / len(starts)
    np.testing.assert_allclose(mean(found, "copy-last-frame", "error"), wanted, rtol=1e-5)
    assert mean(found, "copy-last-frame", "gain") == pytest.approx([0] * 8)


def test_the_oracle_keeps_the_object_and_is_sensitive_to_actions(toy_part: HeldOutPart) -> None:
    found = evaluate([as_model("oracle", Oracle(toy_part.store))], toy_part, config(toy_part))
    assert found.totals["oracle"]["exact_steps"].mean.tolist() == [8]
    assert found.totals["oracle"]["kept_steps"].mean.tolist() == [8]
    assert mean(found, "oracle", "object_distance") == pytest.approx([0] * 8)
    copied = mean(found, "copy-last-frame", "object_distance")
    assert copied[-1] > 0.2
    assert found.totals["copy-last-frame"]["kept_steps"].mean[0] < 8
    assert found.totals["mean-frame"]["kept_steps"].mean[0] == 0
    assert mean(found, "oracle", "object_found") == [1] * 8
    assert mean(found, "mean-frame", "object_found") == [0] * 8
    assert mean(found, "oracle", "object_exact") == [1] * 8
    again, kept = (np.array(mean(found, "copy-last-frame", name)) for name in ("object_found", "object_kept"))
    assert again[0] == kept[0]
    assert (again >= kept).all()
    assert (again > kept).any()  # the object came back to where it was
    shuffled = found.curves["oracle"]["sensitivity"].mean
    assert np.isnan(shuffled).all() or shuffled[-1] > 1  # its own error is 0


@pytest.mark.slow
def test_results_do_not_depend_on_the_batch_and_repeat(toy_part: HeldOutPart) -> None:
    model = as_model("net", small_network(toy_part.store))
    bodies = [
        evaluate([model], toy_part, config(toy_part, windows=23, batch_size=size)).to_dict() for size in (23, 23, 1, 7)
    ]
    assert json.dumps(bodies[0]) == json.dumps(bodies[1])
    for other in bodies[2:]:
        for name, curves in bodies[0]["curves"].items():
            for metric, curve in curves.items():
                for part, values in curve.items():
                    expected = np.array(values, float)
                    np.testing.assert_allclose(
                        np.array(other["curves"][name][metric][part], float), expected, rtol=1e-6, atol=1e-6
                    )


def test_gray_view(toy_part: HeldOutPart) -> None:
    model = as_model("net", small_network(toy_part.store, view=GRAY_84), GRAY_84)
    found = evaluate([model], toy_part, config(toy_part, windows=4))
    assert found.facts["scale"] == 128
    assert "off by more than 8" in found.formula("wrong_pixels")
    assert found.totals["copy-last-frame"]["kept_steps"].mean[0] > 0


@pytest.mark.slow
def test_memory_does_not_grow_with_windows_or_horizon(toy_part: HeldOutPart) -> None:
    models = baselines(as_model("net", small_network(toy_part.store)))

    def peak(count: int, horizon: int) -> int:
        starts = choose_starts(toy_part.store, Window(1, horizon), count, seed=0, option="horizon")
        windows = EvaluationWindows(store=toy_part.store, starts=starts, context=1, horizon=horizon, batch_size=8)
        metrics = frame_metrics(models[0], toy_part, None)
        tracemalloc.start()
        look_ahead(models, windows, metrics)
        _, most = tracemalloc.get_traced_memory()
        tracemalloc.stop()
        return most

    peak(8, 40)  # fills caches
    assert peak(48, 120) < 1.3 * peak(8, 40)  # what grows is a number for each episode, step and metric


def test_a_store_without_a_game_leaves_the_object_out(answers: HeldOutPart) -> None:
    found = evaluate([as_model("truth", Answers())], answers, config(answers))
    assert "object_distance" not in found.metrics
    assert "settings" in next(iter(found.left_out.values()))


def test_a_diverged_prediction_counts_as_black(toy_part: HeldOutPart) -> None:
    predictor = small_network(toy_part.store)
    predictor.get_parameter("fc5.weight").data.fill_(float("nan"))
    found = evaluate([as_model("nan", predictor)], toy_part, config(toy_part, windows=3))
    frames = [toy_part.store[e].frames(s + 1, s + 9) for e, s in choose_starts(
        toy_part.store, Window(1, 8), 3, seed=0, option="horizon")]  # fmt: skip
    wanted = np.mean([np.square(each / 255).sum((1, 2, 3)) for each in frames], 0)
    np.testing.assert_allclose(mean(found, "nan", "error"), wanted, rtol=1e-5)


def test_an_object_is_found_nearby_and_exact_at_its_pixel_only() -> None:
    shares = found_and_exact(np.array([0.0, 1.0, 3.5, np.inf, np.nan]), near=3.0)
    np.testing.assert_array_equal(shares["object_found"], [1, 1, 0, 0, np.nan])
    np.testing.assert_array_equal(shares["object_exact"], [1, 0, 0, 0, np.nan])
