"""What stops a run in time: numbers that are no numbers."""

from __future__ import annotations

from collections.abc import Mapping
from math import isfinite
from types import MappingProxyType

import torch
from torch import Tensor, nn


class DivergenceError(Exception):
    """Loss, gradient, weights or learning rate stopped being numbers; nothing was updated with them."""


def gradient_norm(network: nn.Module) -> Tensor:
    """Return the norm of all gradients together; it is not finite where any of them is not."""
    gradients = [weight.grad for weight in network.parameters() if weight.grad is not None]
    return _norm(gradients)


def refuse_divergence(step: int, network: nn.Module, numbers: Mapping[str, float] = MappingProxyType({})) -> None:
    """Raise unless the weights and everything that the update of a step is made of are finite."""
    weights = float(_norm([weight.detach() for weight in network.parameters()]))
    for name, value in {**numbers, "norm of the weights": weights}.items():
        if not isfinite(value):
            raise DivergenceError(
                f"step {step}: the {name} is {value}; stopped before the update, the last checkpoint is untouched; "
                "try a lower learning rate"
            )


def _norm(tensors: list[Tensor]) -> Tensor:
    norm: Tensor = torch.linalg.vector_norm(torch.stack(torch._foreach_norm(tensors)))
    return norm
