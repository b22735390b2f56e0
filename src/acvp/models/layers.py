"""Initialised layers: Caffe's "xavier" unless the paper gives a bound of its own; all biases zero.

Every random number comes from the generator passed in, none from torch's global one.
"""

from math import sqrt

import torch
from torch import Tensor, nn

Pair = tuple[int, int]
"""(height, width)."""


def caffe_bound(weight: Tensor) -> float:
    """Return Caffe's xavier bound sqrt(3 / fan_in), fan_in being the size of weight[0] (also for a deconvolution)."""
    return sqrt(3.0 / weight[0].numel())


def fill_uniform(weight: Tensor, generator: torch.Generator, bound: float | None = None) -> None:
    """Fill a weight from U(-bound, bound) in place; without a bound, Caffe's."""
    limit = caffe_bound(weight) if bound is None else bound
    if not weight.is_meta:
        nn.init.uniform_(weight, -limit, limit, generator=generator)


def linear(
    inputs: int, outputs: int, generator: torch.Generator, *, bias: bool = True, bound: float | None = None
) -> nn.Linear:
    """Return a fully-connected layer, its weight from U(-bound, bound), its bias zero."""
    layer = nn.Linear(inputs, outputs, bias, device="meta").to_empty(device=torch.get_default_device())
    fill_uniform(layer.weight, generator, bound)
    if bias:
        nn.init.zeros_(layer.bias)
    return layer


def convolution(
    inputs: int, outputs: int, kernel: int, stride: int, pad: Pair, generator: torch.Generator
) -> nn.Conv2d:
    """Return a strided convolution with Caffe's initialisation."""
    layer = nn.Conv2d(inputs, outputs, kernel, stride, pad, device="meta")
    layer = layer.to_empty(device=torch.get_default_device())
    fill_uniform(layer.weight, generator)
    assert layer.bias is not None
    nn.init.zeros_(layer.bias)
    return layer
