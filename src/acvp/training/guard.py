"""What stops a run in time: numbers that are no numbers, and signals."""

from __future__ import annotations

import signal
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from math import isfinite
from types import FrameType, MappingProxyType

import torch
from torch import Tensor, nn


class DivergenceError(Exception):
    """Loss, gradient, weights or learning rate stopped being numbers; nothing was updated with them."""


class StoppedError(Exception):
    """The run was asked to stop, and has saved."""

    def __init__(self, number: int) -> None:
        super().__init__(signal.Signals(number).name)
        self.exit_code = 128 + number


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


class StopRequest:
    """Remembers the first SIGTERM or SIGINT; a second ctrl-C interrupts at once."""

    def __init__(self) -> None:
        self.number = 0

    def __call__(self, number: int, frame: FrameType | None) -> None:
        if self.number and number == signal.SIGINT:
            raise KeyboardInterrupt
        self.number = number


@contextmanager
def stop_signals() -> Iterator[StopRequest]:
    """Turn SIGTERM and ctrl-C into a request that the training loop looks at after each step."""
    request = StopRequest()
    before = {number: signal.signal(number, request) for number in (signal.SIGTERM, signal.SIGINT)}
    try:
        yield request
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
