"""The optimizers, against numbers worked out by hand."""

from __future__ import annotations

from math import sqrt

import pytest
import torch
from torch import nn
from torch.optim import AdamW

from acvp.checkpoint import optimizer_tensors, restore_optimizer
from acvp.errors import UserError
from acvp.training.config import OptimizerConfig
from acvp.training.optimizers import GravesRmsprop, make_optimizer, orthogonal, set_learning_rate


def test_graves_rmsprop_by_hand() -> None:
    weight = nn.Parameter(torch.tensor([1.0], dtype=torch.float64))
    optimizer = GravesRmsprop([weight], lr=0.1)
    # g = 2: m = 0.1, n = 0.2, Δ = −0.1 · 2 / √(0.2 − 0.01 + 0.01)
    weight.grad = torch.tensor([2.0], dtype=torch.float64)
    optimizer.step()
    first = -0.2 / sqrt(0.2)
    assert weight.item() == pytest.approx(1 + first, abs=1e-12)
    # g = −1: m = 0.095 − 0.05 = 0.045, n = 0.19 + 0.05 = 0.24, Δ = 0.9 Δ + 0.1 / √(0.24 − 0.002025 + 0.01)
    weight.grad = torch.tensor([-1.0], dtype=torch.float64)
    optimizer.step()
    second = 0.9 * first + 0.1 / sqrt(0.24 - 0.045**2 + 0.01)
    assert weight.item() == pytest.approx(1 + first + second, abs=1e-12)
    assert optimizer.state[weight]["mean"].item() == pytest.approx(0.045)
    assert optimizer.state[weight]["square"].item() == pytest.approx(0.24)


def test_graves_rmsprop_is_the_plain_loop() -> None:
    generator = torch.Generator().manual_seed(0)
    shapes = [(3, 4), (5,), (2, 2, 2)]
    weights = [nn.Parameter(torch.randn(shape, generator=generator)) for shape in shapes]
    plain = [weight.detach().clone() for weight in weights]
    m, n, delta = ([torch.zeros(shape) for shape in shapes] for _ in range(3))
    optimizer = GravesRmsprop(weights, lr=0.01)
    for _ in range(20):
        gradients = [torch.randn(shape, generator=generator) for shape in shapes]
        for i, g in enumerate(gradients):
            weights[i].grad = g.clone()
            m[i] = 0.95 * m[i] + 0.05 * g
            n[i] = 0.95 * n[i] + 0.05 * g**2
            delta[i] = 0.9 * delta[i] - 0.01 * g / (n[i] - m[i] ** 2 + 0.01).sqrt()
            plain[i] += delta[i]
        optimizer.step()
    for weight, expected in zip(weights, plain, strict=True):
        torch.testing.assert_close(weight.detach(), expected, rtol=1e-5, atol=1e-6)


def test_a_constant_gradient_does_not_divide_by_nothing() -> None:
    """With n = m² in the limit, rounding must not make the root imaginary: 0.01 is what is left."""
    weight = nn.Parameter(torch.zeros(1))
    optimizer = GravesRmsprop([weight], lr=0.01)
    for _ in range(2000):
        weight.grad = torch.full((1,), 1e4)
        optimizer.step()
    assert torch.isfinite(weight).all()


def test_biases_learn_at_twice_the_rate() -> None:
    network = nn.Sequential(nn.Linear(2, 3), nn.Linear(3, 1))
    optimizer = make_optimizer(OptimizerConfig(name="adam", bias_rate=2.0), network)
    set_learning_rate(optimizer, 0.5)
    rates = {id(weight): group["lr"] for group in optimizer.param_groups for weight in group["params"]}
    found = {name: rates[id(weight)] for name, weight in network.named_parameters()}
    assert found == {"0.weight": 0.5, "0.bias": 1.0, "1.weight": 0.5, "1.bias": 1.0}


def test_weight_decay_spares_biases() -> None:
    optimizer = make_optimizer(OptimizerConfig(name="adamw", weight_decay=0.1), nn.Linear(2, 1))
    assert [group["weight_decay"] for group in optimizer.param_groups] == [0.1, 0.0]


@pytest.mark.parametrize("shape", [(16, 40), (40, 16), (24, 24)])
def test_orthogonal_keeps_directions_and_evens_out_sizes(shape: tuple[int, int]) -> None:
    generator = torch.Generator().manual_seed(0)
    left, _ = torch.linalg.qr(torch.randn(shape[0], 16, generator=generator))
    right, _ = torch.linalg.qr(torch.randn(shape[1], 16, generator=generator))
    sizes = torch.linspace(0.1, 7.0, 16)
    result = orthogonal(left @ torch.diag(sizes) @ right.T)
    inside = left.T @ result @ right
    assert (inside.diagonal() > 0.6).all()
    assert (inside.diagonal() < 1.3).all()
    torch.testing.assert_close(left @ torch.diag(inside.diagonal()) @ right.T, result, rtol=0, atol=1e-4)


def test_orthogonal_is_newton_schulz_step_by_step() -> None:
    matrix = torch.randn(20, 90, generator=torch.Generator().manual_seed(1), dtype=torch.float64)
    plain = matrix / matrix.norm()
    for _ in range(5):
        square = plain @ plain.T
        plain = 3.4445 * plain - 4.7750 * square @ plain + 2.0315 * square @ square @ plain
    torch.testing.assert_close(orthogonal(matrix), plain, rtol=1e-6, atol=1e-6)
    assert torch.isfinite(orthogonal(torch.zeros(3, 5))).all()


class Inner(nn.Module):
    """Layers of every sort that Muon tells apart."""

    def __init__(self) -> None:
        super().__init__()
        self.wide = nn.Conv2d(16, 32, 3)
        self.thin = nn.Linear(32, 15)
        self.place = nn.Parameter(torch.zeros(20, 20))
        self.head = nn.Linear(32, 40)


def test_muon_takes_inner_matrices_and_leaves_the_rest_to_adamw() -> None:
    network = Inner()
    matrices, others, biases = make_optimizer(OptimizerConfig(name="muon", weight_decay=0.1), network).param_groups
    assert [id(w) for w in matrices["params"]] == [id(network.wide.weight)]
    assert {id(w) for w in others["params"]} == {id(network.thin.weight), id(network.place), id(network.head.weight)}
    assert (matrices["weight_decay"], others["weight_decay"], biases["weight_decay"]) == (0.1, 0.1, 0.0)


def test_muon_steps_by_as_much_as_adamw() -> None:
    """A matrix moves by about 0.2 learning rates in the root mean square, against its gradient; the rest is AdamW's."""
    network = Inner()
    optimizer = make_optimizer(OptimizerConfig(name="muon", weight_decay=0.01), network)
    set_learning_rate(optimizer, 1e-3)
    generator = torch.Generator().manual_seed(2)
    matrix, before = network.wide.weight, network.wide.weight.detach().clone()
    plain = nn.Parameter(network.head.weight.detach().clone())
    reference = AdamW([plain], lr=1e-3, weight_decay=0.01)
    gradient = torch.randn(matrix.shape, generator=generator)
    for step in range(1, 4):
        matrix.grad = gradient.clone()
        network.head.weight.grad = torch.randn(40, 32, generator=generator)
        plain.grad = network.head.weight.grad.clone()
        optimizer.step()
        reference.step()
        change = (matrix.detach() - before * (1 - 1e-5) ** step) / 1e-3
        assert 0.15 * step < change.square().mean().sqrt() < 0.25 * step
        assert (change * gradient).sum() < 0
    torch.testing.assert_close(network.head.weight, plain)


def test_muon_without_a_gradient_only_shrinks_weights() -> None:
    network = Inner()
    optimizer = make_optimizer(OptimizerConfig(name="muon", weight_decay=0.5), network)
    set_learning_rate(optimizer, 0.1)
    before = network.wide.weight.detach().clone()
    network.wide.weight.grad = torch.zeros_like(before)
    optimizer.step()
    torch.testing.assert_close(network.wide.weight.detach(), 0.95 * before)


def test_muon_resumes_as_if_never_stopped() -> None:
    gradients = torch.randn(4, 32, 16, 3, 3, generator=torch.Generator().manual_seed(3))
    networks = [Inner(), Inner()]
    networks[1].load_state_dict(networks[0].state_dict())
    optimizers = [make_optimizer(OptimizerConfig(name="muon"), network) for network in networks]
    for number, gradient in enumerate(gradients):
        if number == 2:
            state = {name: tensor.clone() for name, tensor in optimizer_tensors(optimizers[1]).items()}
            optimizers[1] = make_optimizer(OptimizerConfig(name="muon"), networks[1])
            restore_optimizer(optimizers[1], state)
        for network, optimizer in zip(networks, optimizers, strict=True):
            set_learning_rate(optimizer, 1e-2)
            network.wide.weight.grad = gradient.clone()
            network.place.grad = gradient[:20, 0, 0, 0, None].expand(20, 20).clone()
            optimizer.step()
    assert torch.equal(networks[0].wide.weight, networks[1].wide.weight)
    assert torch.equal(networks[0].place, networks[1].place)


@pytest.mark.parametrize("wrong", [{"bias_rate": 0.0}, {"name": "adam", "weight_decay": 0.1}])
def test_wrong_options(wrong: dict[str, object]) -> None:
    with pytest.raises(UserError):
        OptimizerConfig(**wrong)  # type: ignore[arg-type]
