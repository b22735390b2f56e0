"""The networks have the paper's sizes: parameters, every intermediate shape, initial values."""

from math import sqrt

import pytest
import torch
from torch import Tensor, nn

from acvp.models import (
    FeedforwardConfig,
    MlpConfig,
    NoActionConfig,
    PredictorConfig,
    RecurrentConfig,
    build_predictor,
    config_from_dict,
)
from acvp.models.baselines import MlpPredictor
from acvp.models.encoder_decoder import GRAY_84, Deconvolution, FrameDecoder, FrameEncoder
from tests.models.small_predictors import LEARNED, SIZES, seeded


def parameters(config: PredictorConfig) -> int:
    """Return the number of parameters of a predictor, built without memory."""
    with torch.device("meta"):
        return sum(weight.numel() for weight in build_predictor(config).parameters())


@pytest.mark.parametrize(
    ("config", "count"),
    [
        (FeedforwardConfig(actions=3), 57_214_787),
        (FeedforwardConfig(actions=18), 57_245_507),
        (RecurrentConfig(actions=3), 90_740_547),
        (RecurrentConfig(actions=18), 90_771_267),
        (FeedforwardConfig(actions=18, factor_bias=False), 57_245_507 - 2 * 2048),
        (NoActionConfig(actions=18), 57_245_507 - 2 * 2048**2 - (18 + 3) * 2048 + 2048**2 + 2048),
        (MlpConfig(actions=18), 86_615_264),
        (FeedforwardConfig.gray_84x84(actions=6), 17_928_001),
    ],
    ids=lambda value: getattr(value, "kind", str(value)),
)
def test_parameter_counts_are_those_of_the_authors_code(config: PredictorConfig, count: int) -> None:
    assert parameters(config) == count


@pytest.mark.parametrize("actions", [3, 18])
def test_the_gray_mlp_has_as_many_parameters_as_the_gray_recurrent_network(actions: int) -> None:
    sizes = MlpPredictor.sizes("cpu", GRAY_84)
    mlp = parameters(MlpConfig(actions=actions, frame=GRAY_84, **sizes))
    assert mlp / parameters(RecurrentConfig.gray_84x84(actions=actions)) == pytest.approx(1, abs=0.02)
    assert MlpPredictor.sizes("paper", GRAY_84) == sizes
    assert MlpPredictor.sizes("paper", (210, 160, 3)) == {}


@pytest.mark.parametrize("stored", [{}, {"hidden": [400, 2048, 2048, 400]}], ids=["without sizes", "with sizes"])
def test_a_stored_gray_mlp_keeps_its_earlier_size(stored: dict[str, list[int]]) -> None:
    config = config_from_dict({"kind": "mlp", "actions": 3, "frame": [84, 84, 1], "pixel_scale": 128.0} | stored)
    assert parameters(config) == 11_495_600


def test_tensor_transform_has_one_matrix_per_action() -> None:
    assert LEARNED["feedforward-tensor"].actions == 3
    assert parameters(FeedforwardConfig(actions=3, transform="tensor")) == 57_214_787 - (
        2 * 2048**2 + (3 + 3) * 2048
    ) + (3 * 2048**2 + 2048)


def trace(network: nn.Module, value: Tensor) -> list[tuple[int, ...]]:
    """Return the output shape of every layer of a network."""
    shapes: list[tuple[int, ...]] = []
    for layer in network.modules():
        if isinstance(layer, nn.Conv2d | nn.Linear | Deconvolution):
            layer.register_forward_hook(lambda _layer, _in, out: shapes.append(tuple(out.shape)))
    network(value)
    return shapes


@pytest.mark.parametrize(("config", "frames"), [(FeedforwardConfig(actions=18), 4), (RecurrentConfig(actions=18), 1)])
def test_every_intermediate_shape_of_the_rgb_network(config: FeedforwardConfig | RecurrentConfig, frames: int) -> None:
    with torch.device("meta"):
        encoder = FrameEncoder(config, frames, torch.Generator())
        decoder = FrameDecoder(config, torch.Generator())
        encoded = trace(encoder, torch.empty(2, 3 * frames, 210, 160))
        decoded = trace(decoder, torch.empty(2, 2048))
    assert encoded == [(2, 64, 102, 78), (2, 128, 50, 38), (2, 128, 24, 18), (2, 128, 11, 8), (2, 2048)]
    assert decoded == [(2, 11264), (2, 128, 24, 18), (2, 128, 50, 38), (2, 128, 102, 78), (2, 3, 210, 160)]


@pytest.mark.parametrize("kind", [FeedforwardConfig, RecurrentConfig])
def test_every_intermediate_shape_of_the_gray_network(kind: type[FeedforwardConfig | RecurrentConfig]) -> None:
    config = kind.gray_84x84(actions=6)
    assert config.pixel_scale == 128
    with torch.device("meta"):
        encoded = trace(FrameEncoder(config, 4, torch.Generator()), torch.empty(2, 4, 84, 84))
        decoded = trace(FrameDecoder(config, torch.Generator()), torch.empty(2, 1024))
    assert encoded == [(2, 64, 40, 40), (2, 64, 20, 20), (2, 64, 10, 10), (2, 1024)]
    assert decoded == [(2, 6400), (2, 64, 20, 20), (2, 64, 40, 40), (2, 1, 84, 84)]


BOUNDS = {"lstm": 0.08, "transform.encoded": 1.0, "transform.action": 0.1}


@pytest.mark.parametrize("name", LEARNED)
def test_initial_values_fill_their_bounds_and_biases_are_zero(name: str) -> None:
    for key, value in build_predictor(LEARNED[name], seeded(3)).named_parameters():
        if key.endswith("bias"):
            assert not value.any(), key
            continue
        rows = value[0] if key == "transform.weight" else value  # the 3-way tensor is a matrix per action
        caffe = sqrt(3 / rows[0].numel())
        bound = next((bound for prefix, bound in BOUNDS.items() if key.startswith(prefix)), caffe)
        assert 0.8 * bound < value.abs().max() <= bound, key
        assert abs(value.mean()) < 4 * bound / sqrt(3 * value.numel()), key


def test_deconvolution_fan_in_is_outputs_times_kernel() -> None:
    weight = Deconvolution(64, 3, 8, 2, (0, 1), seeded(0)).weight
    assert weight.shape == (64, 3, 8, 8)
    assert 0.95 * sqrt(3 / (3 * 64)) < weight.abs().max() <= sqrt(3 / (3 * 64))


def test_the_generator_alone_decides_the_weights() -> None:
    config = RecurrentConfig(**SIZES, factors=9)
    before = torch.get_rng_state()
    one, same, other = (build_predictor(config, seeded(seed)) for seed in (5, 5, 6))
    assert torch.equal(torch.get_rng_state(), before)
    for key, value in one.named_parameters():
        assert torch.equal(value, same.get_parameter(key))
        assert key.endswith("bias") or not torch.equal(value, other.get_parameter(key))
