"""The optimisers, against numbers worked out by hand."""

from __future__ import annotations

from math import sqrt

import pytest
import torch
from torch import nn

from acvp.errors import UserError
from acvp.training.optimisers import GravesRmsprop, OptimiserConfig, make_optimiser, set_learning_rate


def test_graves_rmsprop_by_hand() -> None:
    weight = nn.Parameter(torch.tensor([1.0], dtype=torch.float64))
    optimiser = GravesRmsprop([weight], lr=0.1)
    # g = 2: m = 0.1, n = 0.2, Δ = −0.1 · 2 / √(0.2 − 0.01 + 0.01)
    weight.grad = torch.tensor([2.0], dtype=torch.float64)
    optimiser.step()
    first = -0.2 / sqrt(0.2)
    assert weight.item() == pytest.approx(1 + first, abs=1e-12)
    # g = −1: m = 0.095 − 0.05 = 0.045, n = 0.19 + 0.05 = 0.24, Δ = 0.9 Δ + 0.1 / √(0.24 − 0.002025 + 0.01)
    weight.grad = torch.tensor([-1.0], dtype=torch.float64)
    optimiser.step()
    second = 0.9 * first + 0.1 / sqrt(0.24 - 0.045**2 + 0.01)
    assert weight.item() == pytest.approx(1 + first + second, abs=1e-12)
    assert optimiser.state[weight]["mean"].item() == pytest.approx(0.045)
    assert optimiser.state[weight]["square"].item() == pytest.approx(0.24)


def test_graves_rmsprop_is_the_plain_loop() -> None:
    generator = torch.Generator().manual_seed(0)
    shapes = [(3, 4), (5,), (2, 2, 2)]
    weights = [nn.Parameter(torch.randn(shape, generator=generator)) for shape in shapes]
    plain = [weight.detach().clone() for weight in weights]
    m, n, delta = ([torch.zeros(shape) for shape in shapes] for _ in range(3))
    optimiser = GravesRmsprop(weights, lr=0.01)
    for _ in range(20):
        gradients = [torch.randn(shape, generator=generator) for shape in shapes]
        for i, g in enumerate(gradients):
            weights[i].grad = g.clone()
            m[i] = 0.95 * m[i] + 0.05 * g
            n[i] = 0.95 * n[i] + 0.05 * g**2
            delta[i] = 0.9 * delta[i] - 0.01 * g / (n[i] - m[i] ** 2 + 0.01).sqrt()
            plain[i] += delta[i]
        optimiser.step()
    for weight, expected in zip(weights, plain, strict=True):
        torch.testing.assert_close(weight.detach(), expected, rtol=1e-5, atol=1e-6)


def test_a_constant_gradient_does_not_divide_by_nothing() -> None:
    """With n = m² in the limit, rounding must not make the root imaginary: 0.01 is what is left."""
    weight = nn.Parameter(torch.zeros(1))
    optimiser = GravesRmsprop([weight], lr=0.01)
    for _ in range(2000):
        weight.grad = torch.full((1,), 1e4)
        optimiser.step()
    assert torch.isfinite(weight).all()


def test_biases_learn_at_twice_the_rate() -> None:
    network = nn.Sequential(nn.Linear(2, 3), nn.Linear(3, 1))
    optimiser = make_optimiser(OptimiserConfig(kind="adam", bias_rate=2.0), network)
    set_learning_rate(optimiser, 0.5)
    rates = {id(weight): group["lr"] for group in optimiser.param_groups for weight in group["params"]}
    found = {name: rates[id(weight)] for name, weight in network.named_parameters()}
    assert found == {"0.weight": 0.5, "0.bias": 1.0, "1.weight": 0.5, "1.bias": 1.0}


def test_weight_decay_spares_biases() -> None:
    optimiser = make_optimiser(OptimiserConfig(kind="adamw", weight_decay=0.1), nn.Linear(2, 1))
    assert [group["weight_decay"] for group in optimiser.param_groups] == [0.1, 0.0]


@pytest.mark.parametrize("wrong", [{"bias_rate": 0.0}, {"kind": "adam", "weight_decay": 0.1}])
def test_wrong_options(wrong: dict[str, object]) -> None:
    with pytest.raises(UserError):
        OptimiserConfig(**wrong)  # type: ignore[arg-type]
