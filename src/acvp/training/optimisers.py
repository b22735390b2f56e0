"""The optimisers of the recipes: Graves' RMSProp of the paper, Adam of the authors' code, AdamW."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Any, Literal, overload

import torch
from torch import Tensor, nn
from torch.optim import Adam, AdamW, Optimizer

from acvp.errors import UserError


@dataclass(frozen=True, kw_only=True)
class OptimiserConfig:
    """Which optimiser; its learning rate comes from the phase."""

    kind: Literal["graves-rmsprop", "adam", "adamw"] = "graves-rmsprop"
    """The paper's, the authors' code's, or Adam with decoupled weight decay."""
    bias_rate: float = 1.0
    """Factor on the learning rate of biases (the authors' code: 2)."""
    weight_decay: float = 0.0
    """Decoupled weight decay of weights, not of biases (adamw only)."""

    def __post_init__(self) -> None:
        if self.bias_rate <= 0:
            raise UserError(f"bias_rate is {self.bias_rate}; it must be above 0")
        if self.weight_decay and self.kind != "adamw":
            raise UserError(f"weight_decay is {self.weight_decay}; {self.kind} has none, adamw has")


class GravesRmsprop(Optimizer):
    """RMSProp as in Graves (2013), equations 38 to 45, with the paper's constants (§4).

    m ← 0.95 m + 0.05 g;  n ← 0.95 n + 0.05 g²;  Δ ← 0.9 Δ − lr · g / √(n − m² + 0.01);  w ← w + Δ
    """

    def __init__(
        self,
        params: Iterable[Tensor] | Iterable[dict[str, Any]],
        lr: float,
        *,
        momentum: float = 0.9,
        smoothing: float = 0.95,
        floor: float = 0.01,
    ) -> None:
        """Take parameters, momentum of the update, of the gradient's moments, and what is added inside the root."""
        super().__init__(params, {"lr": lr, "momentum": momentum, "smoothing": smoothing, "floor": floor})

    @overload
    def step(self, closure: None = None) -> None: ...
    @overload
    def step(self, closure: Callable[[], float]) -> float: ...
    @torch.no_grad()
    def step(self, closure: Callable[[], float] | None = None) -> float | None:
        """Update every parameter that has a gradient."""
        loss = None
        if closure is not None:
            with torch.enable_grad():
                loss = closure()
        for group in self.param_groups:
            self._update([weight for weight in group["params"] if weight.grad is not None], group)
        return loss

    def _update(self, weights: list[Tensor], group: dict[str, Any]) -> None:
        if not weights:
            return
        gradients = [weight.grad for weight in weights if weight.grad is not None]
        means, squares, deltas = self._moments(weights)
        keep = group["smoothing"]
        torch._foreach_lerp_(means, gradients, 1 - keep)  # m
        torch._foreach_mul_(squares, keep)  # n
        torch._foreach_addcmul_(squares, gradients, gradients, value=1 - keep)
        roots = torch._foreach_addcmul(squares, means, means, value=-1)
        torch._foreach_clamp_min_(roots, 0)  # n ≥ m² but for rounding
        torch._foreach_add_(roots, group["floor"])
        torch._foreach_sqrt_(roots)
        torch._foreach_mul_(deltas, group["momentum"])  # Δ
        torch._foreach_addcdiv_(deltas, gradients, roots, value=-group["lr"])
        torch._foreach_add_(weights, deltas)

    def _moments(self, weights: list[Tensor]) -> tuple[list[Tensor], list[Tensor], list[Tensor]]:
        names = ("mean", "square", "delta")
        for weight in weights:
            if not self.state[weight]:
                self.state[weight] = {name: torch.zeros_like(weight) for name in names}
        mean, square, delta = ([self.state[weight][name] for weight in weights] for name in names)
        return mean, square, delta


def make_optimiser(config: OptimiserConfig, network: nn.Module) -> Optimizer:
    """Return a new optimiser with a group of weights and one of biases; their rates are set at every step."""
    named = [(name, weight) for name, weight in network.named_parameters() if weight.requires_grad]
    groups: list[dict[str, Any]] = [
        {"params": [w for name, w in named if not name.endswith("bias")], "rate": 1.0},
        {"params": [w for name, w in named if name.endswith("bias")], "rate": config.bias_rate, "weight_decay": 0.0},
    ]
    if config.kind == "graves-rmsprop":
        return GravesRmsprop(groups, lr=0.0)
    if config.kind == "adam":
        return Adam(groups, lr=0.0, fused=True)
    return AdamW(groups, lr=0.0, weight_decay=config.weight_decay, fused=True)


def set_learning_rate(optimiser: Optimizer, rate: float) -> None:
    """Give every group its multiple of a learning rate."""
    for group in optimiser.param_groups:
        group["lr"] = rate * group["rate"]
