"""Action-conditional transformation of the encoded feature (§3.2).

Shapes: B batch, A actions, n hidden units, F factors.
"""

from dataclasses import dataclass
from typing import Any, Literal

import torch
from torch import Tensor, nn

from acvp.models.checks import ConfigError, require_positive
from acvp.models.encoder_decoder import NetworkConfig, fill_uniform, linear

ENCODED_BOUND = 1.0
"""W^enc is drawn from U(-1, 1) (appendix A)."""
ACTION_BOUND = 0.1
"""W^a is drawn from U(-0.1, 0.1) (appendix A)."""


@dataclass(frozen=True, kw_only=True)
class ActionConfig(NetworkConfig):
    """A network with an action-conditional transformation."""

    transform: Literal["factored", "tensor"] = "factored"
    """Equation 4 (three matrices) or equation 3 (the full 3-way tensor)."""
    factors: int = 2048
    """Factors F of the factored transformation."""
    factor_bias: bool = True
    """Whether W^enc and W^a have biases, as in the authors' code; equation 4 has none."""
    start: Literal["paper", "shared"] = "paper"
    """Weights before training: as in appendix A, a random map for each action; or one map for all, W^a a = 1 ± 0.1."""

    def __post_init__(self) -> None:
        super().__post_init__()
        require_positive(factors=self.factors)
        if self.transform not in ("factored", "tensor"):
            raise ConfigError(f"transform is {self.transform!r}; it must be 'factored' or 'tensor'")
        if self.start not in ("paper", "shared"):
            raise ConfigError(f"start is {self.start!r}; it must be 'paper' or 'shared'")
        if self.start == "shared" and (self.transform == "tensor" or not self.factor_bias):
            raise ConfigError(
                "start 'shared' puts the 1 into W^a's bias: it needs the factored transform with factor_bias"
            )


class FactoredTransform(nn.Module):
    """Equation 4: h^dec = W^dec (W^enc h^enc ⊙ W^a a) + b, a 3-way tensor factorised into three matrices."""

    def __init__(
        self,
        hidden: int,
        actions: int,
        factors: int,
        generator: torch.Generator,
        *,
        factor_bias: bool,
        shared: bool = False,
    ) -> None:
        super().__init__()
        bound = None if shared else ENCODED_BOUND
        self.encoded = linear(hidden, factors, generator, bias=factor_bias, bound=bound)  # W^enc
        self.action = linear(actions, factors, generator, bias=factor_bias, bound=ACTION_BOUND)  # W^a
        self.decoded = linear(factors, hidden, generator)  # W^dec and b
        if shared:
            nn.init.ones_(self.action.bias)

    def forward(self, h_enc: Tensor, action: Tensor) -> Tensor:
        """Return h^dec (B, n) of features (B, n) and action vectors (B, A)."""
        h_dec: Tensor = self.decoded(self.encoded(h_enc) * self.action(action.to(h_enc.dtype)))  # equation 4
        return h_dec

    def every_action(self, h_enc: Tensor) -> Tensor:
        """Return h^dec (B, A, n) under each of the A one-hot actions."""
        every = torch.eye(self.action.in_features, dtype=h_enc.dtype, device=h_enc.device)  # (A, A)
        h_dec: Tensor = self.decoded(self.encoded(h_enc)[:, None] * self.action(every))  # (B, 1, F) ⊙ (A, F)
        return h_dec


class TensorTransform(nn.Module):
    """Equation 3: h^dec_i = sum over j, l of W_ijl h^enc_j a_l, plus b_i: one matrix for each action."""

    def __init__(self, hidden: int, actions: int, generator: torch.Generator) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.empty(actions, hidden, hidden))  # W_ijl kept as (l, i, j)
        self.bias = nn.Parameter(torch.zeros(hidden))
        for matrix in self.weight.detach():
            fill_uniform(matrix, generator)

    def forward(self, h_enc: Tensor, action: Tensor) -> Tensor:
        """Return h^dec (B, n) of features (B, n) and action vectors (B, A)."""
        return torch.einsum("bli,bl->bi", self._products(h_enc), action.to(h_enc.dtype)) + self.bias  # equation 3

    def every_action(self, h_enc: Tensor) -> Tensor:
        """Return h^dec (B, A, n) under each of the A one-hot actions."""
        return self._products(h_enc) + self.bias

    def _products(self, h_enc: Tensor) -> Tensor:
        return (h_enc @ self.weight.flatten(0, 1).T).view(-1, *self.weight.shape[:2])  # (B, A, n)


class NoActionTransform(nn.Module):
    """The naFf baseline's transformation: one fully-connected layer that does not see the action."""

    def __init__(self, hidden: int, actions: int, generator: torch.Generator) -> None:
        super().__init__()
        self.fc = linear(hidden, hidden, generator)
        self.actions = actions

    def forward(self, h_enc: Tensor, action: Tensor) -> Tensor:
        """Return h^dec (B, n) of features (B, n), whatever the action."""
        h_dec: Tensor = self.fc(h_enc)
        return h_dec

    def every_action(self, h_enc: Tensor) -> Tensor:
        """Return the same h^dec A times, (B, A, n)."""
        h_dec: Tensor = self.fc(h_enc)
        return h_dec[:, None].expand(-1, self.actions, -1)


Transform = FactoredTransform | TensorTransform | NoActionTransform


def transform_sizes(preset: str) -> dict[str, Any]:
    """Return the fields of ActionConfig that a training preset sets."""
    sizes: dict[str, dict[str, Any]] = {"smoke": {"factors": 128}, "cpu": {"start": "shared"}}
    return sizes.get(preset, {})


def action_transform(config: ActionConfig, generator: torch.Generator) -> Transform:
    """Return the action transformation that the config names."""
    if config.transform == "tensor":
        return TensorTransform(config.hidden, config.actions, generator)
    return FactoredTransform(
        config.hidden, config.actions, config.factors, generator,
        factor_bias=config.factor_bias, shared=config.start == "shared",
    )  # fmt: skip
