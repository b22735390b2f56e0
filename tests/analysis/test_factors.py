"""Where factors are found, and what is left of a network without some of them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
import pytest
import torch
from torch import Tensor, nn

from acvp.analysis.factors import POOLED, all_factors, factor_tables, with_only
from acvp.errors import UserError
from acvp.models import ActionFactors, HistoryPredictor, Outcome, Predictor, PredictorConfig, build_predictor
from acvp.models.networks import FactoredTransform, FeedforwardPredictor
from acvp.pixel.config import PixelConfig
from acvp.pixel.predictor import PixelPredictor
from tests.models.small_predictors import ACTIONS, SIZES, random_window, seeded, small_predictor


def transform_of(predictor: Predictor) -> FactoredTransform:
    assert isinstance(predictor, FeedforwardPredictor)
    assert isinstance(predictor.transform, FactoredTransform)
    return predictor.transform


@dataclass(frozen=True, kw_only=True)
class GainConfig(PredictorConfig):
    """A predictor of one's own."""


class GainPredictor(HistoryPredictor, kind="test-gain"):
    """Multiplies the last frame by a gain per channel that the action decides."""

    config_class: ClassVar[type[Any]] = GainConfig

    def __init__(self, config: GainConfig, generator: torch.Generator) -> None:
        super().__init__(config)
        self.gain = nn.Linear(config.actions, config.frame[2])
        for weight in self.parameters():
            nn.init.uniform_(weight, -1, 1, generator=generator)

    def next_frame(self, stacked: Tensor, action: Tensor) -> tuple[Tensor, Outcome | None]:
        return stacked[:, -self.config.frame[2] :] * self.gain(action)[:, :, None, None], None

    def action_factors(self) -> list[ActionFactors]:
        return [ActionFactors(name="gain", weight=self.gain.weight, bias=self.gain.bias, gates=True)]


def test_a_predictor_of_ones_own_names_its_factors() -> None:
    predictor = build_predictor(GainConfig(actions=ACTIONS, frame=SIZES["frame"]), seeded(1)).eval()
    assert {name: table.shape for name, table in factor_tables(predictor).items()} == {"gain": (2, ACTIONS)}
    second = np.array([False, True])
    kept, whole = every_future(with_only(predictor, second)), every_future(predictor)  # (B, A, C, H, W)
    assert torch.equal(kept[:, :, 1], whole[:, :, 1])
    assert not kept[:, :, 0].any()
    held = every_future(with_only(predictor, second, hold=True))
    torch.testing.assert_close(held[:, 0, 0], whole[:, :, 0].mean(1))


def every_future(predictor: Predictor) -> torch.Tensor:
    """Predictions (B, A, C, H, W) after some random frames."""
    frames, _ = random_window(predictor, 1)
    with torch.inference_mode():
        return predictor.predict_all(predictor.observe(frames[:, :-1]))


def pixel_predictor() -> PixelPredictor:
    """A small pixel-exact network whose actions tell."""
    palette = tuple((30 * i, 255 - 20 * i) for i in range(8))
    config = PixelConfig(
        actions=ACTIONS, frame=SIZES["frame"], palette=palette, quantized=True, context=3, cell=3, embedding=4,
        channels=(6, 8), blocks=(1, 2), predict_rewards=False,
    )  # fmt: skip
    predictor = build_predictor(config, seeded(1)).eval()
    assert isinstance(predictor, PixelPredictor)
    with torch.no_grad():
        for name, weight in predictor.named_parameters():
            if ".action." in name or ".second." in name or name.startswith("head."):
                weight.normal_(generator=seeded(len(name)))
        predictor.copy.bias.zero_()
    return predictor


@pytest.mark.parametrize("name", ["feedforward", "recurrent", "feedforward-heads"])
def test_the_papers_networks_have_the_rows_of_one_matrix(name: str) -> None:
    predictor = small_predictor(name)
    tables = factor_tables(predictor)
    assert tables.keys() == {"W^a"}
    assert tables["W^a"].shape == (9, ACTIONS)
    assert np.array_equal(tables["W^a"], all_factors(predictor))


def test_the_pixel_exact_network_has_a_table_for_each_scale() -> None:
    tables = factor_tables(pixel_predictor())
    assert {name: len(table) for name, table in tables.items()} == {
        "scale 1": 2 * 2 * 6,  # a block down and one up, γ and β each
        "scale 2": 2 * 2 * 8,
        POOLED: 56,
    }


def test_the_full_tensor_has_matrices_but_no_factors_to_divide() -> None:
    predictor = small_predictor("feedforward-tensor")
    assert factor_tables(predictor)["W"].shape == (10 * 10, ACTIONS)
    with pytest.raises(UserError, match="no factors that could be divided"):
        all_factors(predictor)


@pytest.mark.parametrize("name", ["no-action", "mlp", "copy-last-frame"])
def test_others_have_none(name: str) -> None:
    with pytest.raises(UserError, match="has no factors"):
        factor_tables(small_predictor(name))


def test_both_parts_of_the_split_together_are_the_whole() -> None:
    """W^dec is linear in the factors, so what two halves give, less b once, is what all give."""
    predictor = small_predictor("feedforward")
    with torch.no_grad():
        transform_of(predictor).action.bias.fill_(1.0)  # as with start "shared"
    kept = np.arange(9) % 3 == 0
    h_enc, action = torch.rand(4, 10, generator=seeded(3)), torch.eye(ACTIONS)[[0, 1, 2, 0]]
    whole, one, other = (
        transform_of(each)(h_enc, action)
        for each in (predictor, with_only(predictor, kept), with_only(predictor, ~kept))
    )
    assert torch.allclose(whole, one + other - transform_of(predictor).decoded.bias, atol=1e-5)
    assert not torch.allclose(whole, one, atol=1e-2)


def test_a_copy_is_changed_and_not_the_predictor() -> None:
    predictor = small_predictor("feedforward")
    before = all_factors(predictor)
    copy = with_only(predictor, np.arange(9) < 4)
    assert np.array_equal(all_factors(predictor), before)
    assert np.array_equal(all_factors(copy)[:4], before[:4])
    assert not all_factors(copy)[4:].any()


@pytest.mark.parametrize("hold", [False, True])
def test_without_factors_actions_change_nothing(hold: bool) -> None:
    predictor = small_predictor("recurrent")
    futures = every_future(with_only(predictor, np.zeros(9, np.bool_), hold=hold))
    torch.testing.assert_close(futures[:, 0], futures[:, 1], rtol=0, atol=1e-8)  # rows of a batch differ by rounding
    one, other = every_future(predictor)[:, :2].unbind(1)
    assert (one - other).abs().max() > 1e-4
    kept = every_future(with_only(predictor, np.ones(9, np.bool_), hold=hold))
    assert torch.equal(kept, every_future(predictor))


def test_the_pixel_exact_network_works_without_factors() -> None:
    predictor = pixel_predictor()
    count = len(all_factors(predictor))
    assert not any(factors.gates for factors in predictor.action_factors())
    futures = every_future(predictor)
    assert (futures[:, 0] != futures[:, 1]).any()
    blind = every_future(with_only(predictor, np.zeros(count, np.bool_)))
    assert torch.equal(blind[:, 0], blind[:, 1])
    assert torch.equal(every_future(with_only(predictor, np.ones(count, np.bool_))), futures)
