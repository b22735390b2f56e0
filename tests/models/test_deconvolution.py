"""Both forms of a deconvolution are the same function, and so are their gradients."""

from unittest.mock import patch

import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor
from torch.nn import functional

from acvp.models.encoder_decoder import Deconvolution, sub_pixel_deconvolution
from tests.models.small_predictors import seeded


@st.composite
def layers(draw: st.DrawFn) -> tuple[Deconvolution, Tensor]:
    """Draw a double-precision deconvolution with any stride and pad, and an input."""
    kernel, stride = draw(st.integers(1, 8)), draw(st.integers(1, 4))
    pad = (draw(st.integers(0, (kernel - 1) // 2)), draw(st.integers(0, (kernel - 1) // 2)))
    channels, seed = (draw(st.integers(1, 4)), draw(st.integers(1, 3))), draw(st.integers(0, 99))
    layer = Deconvolution(*channels, kernel, stride, pad, seeded(seed)).double()
    torch.nn.init.uniform_(layer.bias, generator=seeded(seed))
    size = (draw(st.integers(1, 2)), channels[0], draw(st.integers(1, 5)), draw(st.integers(1, 5)))
    return layer, torch.randn(size, generator=seeded(seed), dtype=torch.float64)


@settings(max_examples=60)
@given(layers())
def test_sub_pixel_equals_transposed(case: tuple[Deconvolution, Tensor]) -> None:
    layer, x = case
    transposed = functional.conv_transpose2d(x, layer.weight, layer.bias, layer.stride, layer.pad)
    torch.testing.assert_close(
        sub_pixel_deconvolution(x, layer.weight, layer.bias, layer.stride, layer.pad), transposed
    )


@settings(max_examples=30)
@given(layers(), st.sampled_from([0, 16]))
def test_gradients_are_those_of_the_transposed_form(case: tuple[Deconvolution, Tensor], sub_pixel_outputs: int) -> None:
    layer, x = case
    x.requires_grad_()
    weights = (x, layer.weight, layer.bias)
    with patch("acvp.models.encoder_decoder.SUB_PIXEL_OUTPUTS", sub_pixel_outputs):
        mine = layer(x)
    transposed = functional.conv_transpose2d(x, layer.weight, layer.bias, layer.stride, layer.pad)
    torch.testing.assert_close(mine, transposed)
    found = torch.autograd.grad(mine.square().sum(), weights)
    for one, other in zip(found, torch.autograd.grad(transposed.square().sum(), weights), strict=True):
        torch.testing.assert_close(one, other)


def test_forms_agree_in_single_precision_at_the_papers_last_layer() -> None:
    layer = Deconvolution(128, 3, 8, 2, (0, 1), seeded(0))
    x = torch.randn(1, 128, 102, 78, generator=seeded(1)).contiguous(memory_format=torch.channels_last)
    with torch.no_grad():
        mine = layer(x)
    assert mine.shape == (1, 3, 210, 160)
    transposed = functional.conv_transpose2d(x, layer.weight, layer.bias, 2, (0, 1))
    torch.testing.assert_close(mine, transposed, atol=1e-4, rtol=1e-4)
