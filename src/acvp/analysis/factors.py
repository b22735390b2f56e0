"""The factors of a predictor: the one place that knows where in a network the action multiplies.

In the paper's networks they are the rows of W^a (equation 4). In the pixel-exact network every block of the U-Net has
a gain γ and a shift β for each channel; the rows of both are its factors, by scale.

Shapes: F factors, A actions.
"""

from __future__ import annotations

from collections.abc import Iterator
from copy import deepcopy
from dataclasses import dataclass
from typing import Literal

import numpy as np
import torch
from numpy.typing import NDArray
from torch import nn

from acvp.errors import UserError
from acvp.models import Predictor
from acvp.models.transform import FactoredTransform, TensorTransform
from acvp.models.unet import ActionUnet

Factors = NDArray[np.float64]  # (F, A): the value of each factor under each action, without what all have in common
POOLED = "pooled"


@dataclass(frozen=True)
class ActionLayer:
    """A linear layer from the action to factors."""

    table: str
    """What its factors are called."""
    linear: nn.Linear
    silent: Literal["zero", "mean"]
    """What a factor is set to when it is switched off: 0, bias included, as in the paper, which stops all that passes
    through it; or its mean over actions, where the rest of the network goes on without it."""

    def switch_off(self, factors: NDArray[np.bool_]) -> None:
        """Make factors (F,) the same under every action, in place."""
        weight, off = self.linear.weight.data, torch.from_numpy(factors).to(self.linear.weight.device)
        weight[off] = 0.0 if self.silent == "zero" else weight[off].mean(1, keepdim=True)
        if self.silent == "zero" and self.linear.bias is not None:
            self.linear.bias.data[off] = 0.0


def action_layers(predictor: Predictor) -> list[ActionLayer]:
    """Return the layers whose outputs are a predictor's factors; none where actions do not multiply by factors."""
    found = []
    for module in predictor.children():
        if isinstance(module, FactoredTransform):
            found.append(ActionLayer("W^a", module.action, "zero"))
        elif isinstance(module, ActionUnet):
            found += _unet_layers(module, 1)
    return found


def _unet_layers(unet: ActionUnet, scale: int) -> Iterator[ActionLayer]:
    blocks = [*unet.down, *(unet.up if unet.inner is not None else ())]
    yield from (ActionLayer(f"scale {scale}", block.action, "mean") for block in blocks)
    if unet.inner is not None:
        yield from _unet_layers(unet.inner, scale + 1)


def factor_tables(predictor: Predictor) -> dict[str, Factors]:
    """Return the factors of a predictor by name: one table, or one for each scale and all of them pooled."""
    tables: dict[str, list[Factors]] = {}
    for layer in action_layers(predictor):
        tables.setdefault(layer.table, []).append(_numbers(layer.linear.weight))
    for module in predictor.children():
        if isinstance(module, TensorTransform):  # equation 3: the entries of each action's matrix
            tables["W"] = [_numbers(module.weight.flatten(1).T)]
    if not tables:
        raise UserError(f"a {type(predictor).__name__} has no factors: actions do not multiply in it")
    joined = {name: np.concatenate(parts) for name, parts in tables.items()}
    return joined if len(joined) == 1 else joined | {POOLED: np.concatenate(list(joined.values()))}


def all_factors(predictor: Predictor) -> Factors:
    """Return the factors of all of a predictor's action layers, those that `with_only` chooses from."""
    layers = action_layers(predictor)
    if not layers:
        raise UserError(f"a {type(predictor).__name__} has no factors that could be divided")
    return np.concatenate([_numbers(layer.linear.weight) for layer in layers])


def with_only(predictor: Predictor, kept: NDArray[np.bool_]) -> Predictor:
    """Return a copy of a predictor in which all factors but the kept ones (F,), over all layers, are switched off."""
    copy = deepcopy(predictor)
    layers = action_layers(copy)
    sizes = [layer.linear.out_features for layer in layers]
    assert kept.shape == (sum(sizes),), f"{kept.shape} for {sizes} factors"
    for layer, part in zip(layers, np.split(kept, np.cumsum(sizes)[:-1]), strict=True):
        layer.switch_off(~part)
    return copy


def _numbers(weight: torch.Tensor) -> Factors:
    return weight.detach().cpu().double().numpy()
