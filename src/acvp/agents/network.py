"""The network of a DQN (Mnih et al., 2013): convolutions over the last four gray frames, one value per action.

Shapes: B batch, S frames of a stack, A actions.
"""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any

import torch
from torch import Tensor, nn

from acvp.errors import UserError

SIDE = 84
"""Height and width of a frame in pixels: the view gray84."""
STACK = 4
"""Frames that an agent sees at once, oldest first."""
WHITE = 255.0
LARGEST, MOST_LAYERS = 4096, 16
"""Most channels or units of a layer, and most convolutions, in an agent's file."""


@dataclass(frozen=True, kw_only=True)
class NetworkConfig:
    """Sizes of the layers; the defaults are those of Mnih et al., 2013."""

    channels: tuple[int, ...] = (16, 32)
    """Output channels of each convolution."""
    kernels: tuple[int, ...] = (8, 4)
    """Kernel size of each convolution, in pixels."""
    strides: tuple[int, ...] = (4, 2)
    """Stride of each convolution, in pixels."""
    hidden: int = 256
    """Units of the hidden layer between the convolutions and the values."""

    def __post_init__(self) -> None:
        layers = (*self.channels, *self.kernels, *self.strides, self.hidden)
        counts = {len(self.channels), len(self.kernels), len(self.strides)}
        if len(counts) > 1 or not 1 <= len(self.channels) <= MOST_LAYERS:
            raise UserError(f"channels {self.channels}, kernels {self.kernels}, strides {self.strides}: one per layer")
        if not all(isinstance(size, int) and 1 <= size <= LARGEST for size in layers):
            raise UserError(f"sizes of the network are whole numbers from 1 to {LARGEST}: {layers}")
        if self.side < 1:
            raise UserError(f"kernels {self.kernels} and strides {self.strides} leave no pixel of {SIDE}")

    @property
    def side(self) -> int:
        """Height and width after the last convolution."""
        side = SIDE
        for kernel, stride in zip(self.kernels, self.strides, strict=True):
            side = (side - kernel) // stride + 1
        return side

    def to_dict(self) -> dict[str, Any]:
        """Return the sizes as JSON values."""
        return {name: list(value) if isinstance(value, tuple) else value for name, value in asdict(self).items()}

    @classmethod
    def from_dict(cls, values: dict[str, Any]) -> NetworkConfig:
        """Return the sizes from `to_dict`."""
        sizes: dict[str, Any] = {n: tuple(value) if isinstance(value, list) else value for n, value in values.items()}
        return cls(**sizes)


NATURE = NetworkConfig(channels=(32, 64, 64), kernels=(8, 4, 3), strides=(4, 2, 1), hidden=512)
"""Mnih et al., 2015, and Stable-Baselines3's CnnPolicy."""


def make_features(config: NetworkConfig) -> nn.Sequential:
    """Return the layers below the values: (B, S, 84, 84) floats from 0 to 1 → (B, hidden)."""
    layers: list[nn.Module] = []
    inputs = STACK
    for channels, kernel, stride in zip(config.channels, config.kernels, config.strides, strict=True):
        layers += [nn.Conv2d(inputs, channels, kernel, stride), nn.ReLU()]
        inputs = channels
    return nn.Sequential(*layers, nn.Flatten(), nn.Linear(inputs * config.side**2, config.hidden), nn.ReLU())


class ValueNetwork(nn.Module):
    """Values of all actions: uint8 (B, 4, 84, 84) → (B, A)."""

    def __init__(self, config: NetworkConfig, actions: int) -> None:
        super().__init__()
        self.config, self.actions = config, actions
        self.features = make_features(config)
        self.head = nn.Linear(config.hidden, actions)

    def forward(self, frames: Tensor) -> Tensor:
        values: Tensor = self.head(self.features(frames.to(torch.float32) / WHITE))
        return values
