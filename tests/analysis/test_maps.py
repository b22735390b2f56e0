"""Contingency maps and the pictures of every action's future, for predictors that know the truth or nothing."""

from __future__ import annotations

import io
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch
from numpy.typing import NDArray
from PIL import Image

from acvp.analysis.branches import (
    agreement,
    contingency_maps,
    correlation,
    different_actions,
    informative_region,
    predict_futures,
    spread,
)
from acvp.analysis.config import AnalyzeConfig
from acvp.analysis.figures import GAP, SIDE, grid
from acvp.analysis.samples import Emulated, Study, open_study
from acvp.data.frames import RGB
from acvp.data.store import EpisodeStore
from acvp.data.windows import WindowStart
from acvp.errors import UserError
from acvp.evaluation.windows import branched_states, every_action
from acvp.figures import LINE
from acvp.loaded import LoadedModel, baselines
from tests.evaluation.predictors import Oracle, as_model

CONTEXT = 10


def quiet(done: int, total: int) -> None:
    """Progress that nobody wants to see."""


@pytest.fixture(scope="module")
def oracle(toy: EpisodeStore) -> LoadedModel:
    return as_model("oracle", Oracle(toy, CONTEXT))


def study_of(model: LoadedModel, store: EpisodeStore, **options: object) -> Study:
    config = AnalyzeConfig(predictor=Path("run"), data=store.path, states=12, **options)  # type: ignore[arg-type]
    return open_study(model, store, config, quiet)


@pytest.mark.slow
def test_who_knows_the_truth_has_the_true_maps(toy: EpisodeStore, oracle: LoadedModel) -> None:
    part = contingency_maps(study_of(oracle, toy), quiet)
    found = part.body["correlation"]
    assert found["mean_maps"] == found["by_state"] == pytest.approx(1)
    assert found["by_state_of_mean_map"] < 0.7  # the player is elsewhere in other states
    assert 0 < part.body["states"] <= 12
    assert part.files.keys() == {"contingency.png", "contingency.svg"}


def test_who_ignores_the_action_has_none(toy: EpisodeStore, oracle: LoadedModel) -> None:
    copy_last = baselines(oracle)[0]
    part = contingency_maps(study_of(copy_last, toy), quiet)
    assert part.body["correlation"]["mean_maps"] == part.body["correlation"]["by_state"] == 0


def test_correlation_is_pearsons() -> None:
    one, other = np.random.default_rng(0).normal(size=(2, 5, 6))
    assert correlation(one, other) == pytest.approx(np.corrcoef(one.ravel(), other.ravel())[0, 1])
    assert correlation(one, np.ones((5, 6))) == 0


def test_a_map_is_the_standard_deviation_over_actions() -> None:
    """Over two actions half of their difference, for they are all there are; root mean square over channels."""
    frames = torch.zeros(2, 3, 4, 5)
    frames[1, 0, 2, 3], frames[1, 1, 2, 3] = 30.0, 40.0
    expected = np.zeros((4, 5))
    expected[2, 3] = np.sqrt((15**2 + 20**2) / 3)
    np.testing.assert_allclose(spread(frames), expected)


def test_a_state_is_compared_with_the_mean_map_of_the_others() -> None:
    maps = list(np.random.default_rng(0).normal(size=(3, 5, 6)))
    others = [correlation((maps[1] + maps[2]) / 2, maps[0]), correlation((maps[0] + maps[2]) / 2, maps[1]),
              correlation((maps[0] + maps[1]) / 2, maps[2])]  # fmt: skip
    found = agreement(maps, [maps[0], maps[2], maps[1]])
    assert found["by_state_of_mean_map"] == pytest.approx(np.mean(others), rel=1e-3)
    assert found["by_state"] == pytest.approx((1 + 2 * correlation(maps[1], maps[2])) / 3, rel=1e-3)


def test_a_single_state_has_no_other_states() -> None:
    values = np.random.default_rng(0).normal(size=(5, 6))
    assert agreement([values], [values])["by_state_of_mean_map"] == 0


def test_predicted_futures_of_the_truth(toy: EpisodeStore, oracle: LoadedModel) -> None:
    plans = every_action(toy.action_count, 3)
    for branched in branched_states(toy, [WindowStart(0, 5), WindowStart(2, 20)], RGB, CONTEXT, lambda number: plans):
        assert branched is not None
        assert np.array_equal(predict_futures(oracle, branched), branched.futures)


def test_the_emulator_agrees_with_the_store(toy: EpisodeStore, oracle: LoadedModel) -> None:
    study = study_of(oracle, toy)
    taken = study.futures[np.arange(12), study.samples.actions[:, -1]]
    assert np.array_equal(taken, study.samples.after)
    player = np.argwhere((study.samples.after == 240).all(-1)).reshape(12, -1, 3)[..., 1:].mean(1)
    assert np.array_equal(study.positions[:, 1], player)


def test_examples_are_informative_samples(toy: EpisodeStore, oracle: LoadedModel) -> None:
    study = study_of(oracle, toy, examples=2)
    assert len(study.examples) == 2
    for start in study.examples:
        futures = study.futures[study.samples.starts.index(start)]
        assert (futures != futures[:1]).any()


def test_frames_named_by_at(toy: EpisodeStore, oracle: LoadedModel) -> None:
    number = toy.entries[2].number
    study = study_of(oracle, toy, at=(f"{number}:15",))
    assert [study.title(start) for start in study.examples] == [f"episode {number}, frame 15"]
    part = different_actions(study, quiet)
    assert part.body["states"] == [f"episode {number}, frame 15"]
    assert part.files.keys() == {"different-actions-0.png", "different-actions-0-zoom.png"}


@pytest.mark.parametrize(
    ("at", "told"),
    [("x", "write EPISODE:FRAME"), ("99:15", "the test episodes of"), ("0:3", "frames 9 to"), ("0:9999", "to come")],
)
def test_named_frames_that_are_not_there(toy: EpisodeStore, oracle: LoadedModel, at: str, told: str) -> None:
    with pytest.raises(UserError, match=told):
        study_of(oracle, toy, at=(at,))


def test_the_informative_region() -> None:
    futures = np.zeros((3, 2, 100, 80, 1), np.uint8)
    assert informative_region(futures) == (slice(None), slice(None))
    futures[1, 1, 40:44, 70:76] = 9
    rows, columns = informative_region(futures)
    assert rows.start <= 40 < 44 <= rows.stop
    assert rows.stop - rows.start == 25
    assert columns.start <= 70
    assert columns.stop == 80


def test_a_grid_has_crisp_pixels_in_their_places() -> None:
    first: NDArray[np.uint8] = np.array([[[0], [200]], [[100], [50]]], np.uint8)
    data = grid(["a", "b"], [("one", [first]), ("two", [first, 255 - first])])
    picture = np.array(Image.open(io.BytesIO(data)))
    scale = 84
    assert np.unique(picture[LINE : LINE + scale, SIDE + scale : SIDE + 2 * scale]).tolist() == [200]
    assert np.unique(picture[LINE + scale : LINE + 2 * scale, SIDE : SIDE + scale]).tolist() == [100]


def test_many_columns_are_put_below_each_other() -> None:
    pictures: list[NDArray[np.uint8]] = [np.full((20, 20, 3), 10 + i, np.uint8) for i in range(18)]
    data = grid([str(i) for i in range(18)], [("first", pictures[:1]), ("all", pictures)])
    picture = np.array(Image.open(io.BytesIO(data)))
    down, across = 8 * 20 + GAP, 8 * 20 + GAP
    for i in range(18):
        top = LINE + down + (i // 9) * (LINE + down)  # the second band has no row "first"
        assert (picture[top + 5, SIDE + (i % 9) * across + 5] == 10 + i).all()


def test_a_store_that_cannot_be_played_again(toy: EpisodeStore, oracle: LoadedModel) -> None:
    imported = EpisodeStore(toy.path, replace(toy.info, policy="imported from somewhere"), toy.entries)
    study = study_of(oracle, imported)
    assert len(study.examples) == 2  # some, as none is known to be better
    with pytest.raises(UserError, match="was imported"):
        contingency_maps(study, quiet)


def test_a_game_that_neither_saves_nor_reports_positions(toy: EpisodeStore, oracle: LoadedModel) -> None:
    study = study_of(oracle, toy)
    positions = np.full((12, 2, 2), np.nan)
    silent = replace(study, emulated=Emulated(positions, None))
    with pytest.raises(UserError, match="does not report where its controlled object is"):
        _ = silent.positions
    with pytest.raises(UserError, match="cannot save its state"):
        _ = silent.futures
