"""The factors of a predictor: the one place that knows where in a network the action multiplies.

In the paper's networks they are the rows of W^a (equation 4). In the pixel-exact network every block of the U-Net has
a gain γ and a shift β for each channel; the rows of both are its factors, by scale.

Shapes: F factors, A actions.
"""

from __future__ import annotations

from collections.abc import Iterator
from copy import deepcopy
from dataclasses import dataclass

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
    gates: bool
    """Whether all that the network knows passes through its factors, so that 0 stops it; else they only change it."""

    def stop(self, factors: NDArray[np.bool_]) -> None:
        """Set factors (F,) to 0, bias included, in place."""
        self.linear.weight.data[factors] = 0.0
        if self.linear.bias is not None:
            self.linear.bias.data[factors] = 0.0

    def hold(self, factors: NDArray[np.bool_]) -> None:
        """Set factors (F,) to their mean over actions, in place."""
        self.linear.weight.data[factors] = self.linear.weight.data[factors].mean(1, keepdim=True)


def action_layers(predictor: Predictor) -> list[ActionLayer]:
    """Return the layers whose outputs are a predictor's factors; none where actions do not multiply by factors."""
    found = []
    for module in predictor.children():
        if isinstance(module, FactoredTransform):
            found.append(ActionLayer("W^a", module.action, gates=True))
        elif isinstance(module, ActionUnet):
            found += _unet_layers(module, 1)
    return found


def _unet_layers(unet: ActionUnet, scale: int) -> Iterator[ActionLayer]:
    blocks = [*unet.down, *(unet.up if unet.inner is not None else ())]
    yield from (ActionLayer(f"scale {scale}", block.action, gates=False) for block in blocks)
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


def with_only(predictor: Predictor, kept: NDArray[np.bool_], *, hold: bool = False) -> Predictor:
    """Return a copy of a predictor in which all factors but the kept ones (F,), over all layers, are switched off.

    Switched off is 0 where factors are gates, as in the paper, and else, or with ``hold``, their mean over actions.
    """
    copy = deepcopy(predictor)
    layers = action_layers(copy)
    sizes = [layer.linear.out_features for layer in layers]
    assert kept.shape == (sum(sizes),), f"{kept.shape} for {sizes} factors"
    for layer, part in zip(layers, np.split(kept, np.cumsum(sizes)[:-1]), strict=True):
        if layer.gates and not hold:
            layer.stop(~part)
        else:
            layer.hold(~part)
    return copy


def _numbers(weight: torch.Tensor) -> Factors:
    return weight.detach().cpu().double().numpy()
