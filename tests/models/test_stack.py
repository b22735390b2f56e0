"""A stack either mirrors its frame exactly or is refused with its shapes."""

import re

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from acvp.models import ConfigError, FeedforwardConfig
from acvp.models.encoder_decoder import FrameDecoder, FrameEncoder, stack_sizes
from tests.models.small_predictors import SIZES, seeded

LAYER = st.tuples(st.integers(1, 6), st.tuples(st.integers(0, 2), st.integers(0, 2)), st.integers(1, 3))


@settings(max_examples=80)
@given(st.tuples(st.integers(1, 40), st.integers(1, 40)), st.lists(LAYER, min_size=1, max_size=3))
def test_any_accepted_stack_gives_frames_of_the_same_size(
    size: tuple[int, int], layers: list[tuple[int, tuple[int, int], int]]
) -> None:
    kernels, pads, strides = (tuple(values) for values in zip(*layers, strict=True))
    options = SIZES | {"frame": (*size, 1), "kernels": kernels, "pads": pads, "strides": strides}
    options |= {"channels": (2,) * len(layers), "decoder_channels": (2,) * (len(layers) - 1)}
    try:
        config = FeedforwardConfig(**options)
    except ConfigError as error:
        assert f"{size[0]}×{size[1]}" in str(error)  # noqa: PT017
        return
    feature = FrameEncoder(config, 1, seeded(0))(torch.zeros(1, 1, *size))
    assert FrameDecoder(config, seeded(0))(feature).shape == (1, 1, *size)


def test_sizes_of_the_paper() -> None:
    assert FeedforwardConfig(actions=3).sizes() == ((210, 160), (102, 78), (50, 38), (24, 18), (11, 8))


def test_a_stack_without_mirror_is_refused_with_every_shape() -> None:
    with pytest.raises(ConfigError) as caught:
        FeedforwardConfig(actions=3, pads=((0, 0), (1, 1), (1, 1), (0, 0)))
    message = str(caught.value)
    for part in ("210×160", "kernel 8, pad 0×0, stride 2", "102×77", "50×37", "102×76, not 102×77", "pad or kernel"):
        assert part in message, message


def test_a_frame_that_is_too_small_is_refused() -> None:
    with pytest.raises(ConfigError, match=r"8×8 .* is too small"):
        stack_sizes((8, 8), (6, 6), ((0, 0), (0, 0)), (2, 2))


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"actions": 0}, "actions is 0"),
        ({"actions": 3, "hidden": -1}, "hidden is -1"),
        ({"actions": 3, "factors": 0}, "factors is 0"),
        ({"actions": 3, "context": 0}, "context is 0"),
        ({"actions": 3, "transform": "sum"}, "transform is 'sum'"),
        ({"actions": 3, "kernels": (8, 6, 6)}, "kernels (8, 6, 6)"),
        ({"actions": 3, "frame": (210, 160, 0)}, "frame is (210, 160, 0)"),
        ({"actions": 3, "frame": (210, 160)}, "frame is (210, 160)"),
        ({"actions": 3, "hidden": 2048.5}, "hidden is 2048.5"),
        ({"actions": 3, "strides": (2, 2, 2, 0)}, "stride 0"),
    ],
)
def test_a_config_names_the_value_it_refuses(options: dict[str, object], message: str) -> None:
    with pytest.raises(ConfigError, match=re.escape(message)):
        FeedforwardConfig(**options)  # type: ignore[arg-type]
