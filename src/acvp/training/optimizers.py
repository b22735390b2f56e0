"""The optimizers of training: Graves' RMSProp of the paper, Adam of the authors' code, AdamW, Muon."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any, overload

import torch
from torch import Tensor, nn
from torch.optim import Adam, AdamW, Optimizer

from acvp.training.config import OptimizerConfig


def _loss_of(closure: Callable[[], float] | None) -> float | None:
    """Return what the closure of a step, if there is one, computes."""
    if closure is None:
        return None
    with torch.enable_grad():
        return closure()


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
        """Take parameters, momentum of the update, smoothing of m and n, and the constant inside the root."""
        super().__init__(params, {"lr": lr, "momentum": momentum, "smoothing": smoothing, "floor": floor})

    @overload
    def step(self, closure: None = None) -> None: ...
    @overload
    def step(self, closure: Callable[[], float]) -> float: ...
    @torch.no_grad()
    def step(self, closure: Callable[[], float] | None = None) -> float | None:
        """Update every parameter that has a gradient."""
        loss = _loss_of(closure)
        for group in self.param_groups:
            self._update([weight for weight in group["params"] if weight.grad is not None], group)
        return loss

    def _update(self, weights: list[Tensor], group: dict[str, Any]) -> None:
        if not weights:
            return
        gradients = [weight.grad for weight in weights if weight.grad is not None]
        means, squares, deltas = self._averages(weights)
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

    def _averages(self, weights: list[Tensor]) -> tuple[list[Tensor], list[Tensor], list[Tensor]]:
        names = ("mean", "square", "delta")
        for weight in weights:
            if not self.state[weight]:
                self.state[weight] = {name: torch.zeros_like(weight) for name in names}
        mean, square, delta = ([self.state[weight][name] for weight in weights] for name in names)
        return mean, square, delta


class Muon(AdamW):
    """AdamW, but for groups marked `orthogonal` the momentum with all its singular values made about 1 (Jordan, 2024).

    A weight (out, ...) counts as a matrix of `out` rows. The result is scaled to the size of AdamW's updates (Liu et
    al., 2025), so that one learning rate suits both. A step uses up the gradients of those groups.
    """

    @overload
    def step(self, closure: None = None) -> None: ...
    @overload
    def step(self, closure: Callable[[], float]) -> float: ...
    @torch.no_grad()
    def step(self, closure: Callable[[], float] | None = None) -> float | None:
        """Update every parameter that has a gradient."""
        loss = _loss_of(closure)
        for group in self.param_groups:
            for weight in group["params"] if group.get("orthogonal") else ():
                if weight.grad is not None:
                    self._update(weight, weight.grad, group)
                    weight.grad = None  # AdamW passes over it
        super().step()
        return loss

    def _update(self, weight: Tensor, gradient: Tensor, group: dict[str, Any]) -> None:
        state = self.state[weight]
        if not state:
            state |= {"step": torch.zeros(()), "momentum": torch.zeros_like(weight)}
        state["step"] += 1  # AdamW looks for it in every state that it reads back
        state["momentum"].lerp_(gradient, 1 - MUON_MOMENTUM)
        ahead = gradient.lerp(state["momentum"], MUON_MOMENTUM).reshape(len(weight), -1)  # Nesterov's
        change = orthogonal(ahead) * (ADAMW_SIZE * max(ahead.shape) ** 0.5)
        weight.mul_(1 - group["lr"] * group["weight_decay"]).add_(change.view_as(weight), alpha=-group["lr"])


MUON_MOMENTUM = 0.95
ADAMW_SIZE = 0.2
"""Root mean square of AdamW's updates, in learning rates."""
NEWTON_SCHULZ = (3.4445, -4.7750, 2.0315)
"""Coefficients of x, x³, x⁵ that send singular values of 0..1 near 1 soonest (Jordan, 2024)."""
NEWTON_SCHULZ_STEPS = 5
LAST_LAYERS = {"head", "heads", "copy"}
SMALLEST_SIDE = 16
"""Matrices with a shorter side are left to AdamW."""


def orthogonal(matrix: Tensor) -> Tensor:
    """Return a matrix of the same singular vectors with singular values near 1, but for those that are almost 0.

    Newton–Schulz: X ← p(S) X with S = X Xᵀ, p(S) = a + b S + c S². All steps are taken on the small S first.
    """
    wide = matrix if matrix.shape[0] <= matrix.shape[1] else matrix.T
    wide = wide / (wide.norm() + 1e-7)
    square = wide @ wide.T
    a, b, c = NEWTON_SCHULZ
    product = torch.eye(len(square), dtype=square.dtype, device=square.device)
    for _ in range(NEWTON_SCHULZ_STEPS):
        factor = torch.addmm(square, square, square, beta=b, alpha=c)
        factor.diagonal().add_(a)
        product = factor @ product
        square = factor @ square @ factor
    result: Tensor = product @ wide
    return result if matrix.shape[0] <= matrix.shape[1] else result.T


def make_optimizer(config: OptimizerConfig, network: nn.Module) -> Optimizer:
    """Return a new optimizer with a group of weights and one of biases; their learning rates are set at every step.

    Muon gets a separate group of matrices, without those of the last layers (by name).
    """
    named = [(name, weight) for name, weight in network.named_parameters() if weight.requires_grad]
    groups: list[dict[str, Any]] = [
        {"params": [w for name, w in named if not name.endswith("bias")], "rate": 1.0},
        {"params": [w for name, w in named if name.endswith("bias")], "rate": config.bias_rate, "weight_decay": 0.0},
    ]
    if config.name == "graves-rmsprop":
        return GravesRmsprop(groups, lr=0.0)
    if config.name == "adam":
        return Adam(groups, lr=0.0, fused=True)
    if config.name == "muon":
        weights, biases = groups
        inner = {id(weight) for name, weight in named if _is_muons(name, weight)}
        matrices = {"params": [w for w in weights["params"] if id(w) in inner], "rate": 1.0, "orthogonal": True}
        others = {"params": [w for w in weights["params"] if id(w) not in inner], "rate": 1.0}
        return Muon([matrices, others, biases], lr=0.0, weight_decay=config.weight_decay, fused=True)
    return AdamW(groups, lr=0.0, weight_decay=config.weight_decay, fused=True)


def _is_muons(name: str, weight: Tensor) -> bool:
    *path, last = name.split(".")
    sides = (len(weight), weight.numel() // len(weight)) if weight.ndim > 1 else (1, 1)
    return last == "weight" and min(sides) >= SMALLEST_SIDE and not LAST_LAYERS & set(path)


def set_learning_rate(optimizer: Optimizer, rate: float) -> None:
    """Give every group its multiple of a learning rate."""
    for group in optimizer.param_groups:
        group["lr"] = rate * group["rate"]
