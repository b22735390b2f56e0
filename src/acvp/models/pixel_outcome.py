"""From the grids of the pixel-exact network to reward and end: two parts, whose logits add up.

One tells what stands where, as the end of the game does by what is at certain places; the other that something
happens, wherever it does, as a hit.
"""

import torch
from torch import nn

from acvp.models.layers import convolution
from acvp.models.pixel_config import PixelConfig
from acvp.models.transform import OutcomeHeads

PLACED_CHANNELS = 8
"""Channels of the smallest grid that are read place by place."""


def placed_heads(config: PixelConfig, generator: torch.Generator) -> nn.Sequential:
    """Return the layers from the smallest grid to an outcome: a weight for each place."""
    height, width = config.grid
    for _ in config.channels[1:]:
        height, width = -(-height // 2), -(-width // 2)
    return nn.Sequential(
        convolution(config.channels[-1], PLACED_CHANNELS, 1, 1, (0, 0), generator),
        nn.ReLU(),
        nn.Flatten(),
        OutcomeHeads(PLACED_CHANNELS * height * width, generator),
    )


def event_heads(config: PixelConfig, generator: torch.Generator) -> nn.Sequential:
    """Return the layers from the finest grid to an outcome: the largest value of each feature, wherever it is."""
    return nn.Sequential(
        convolution(config.channels[0], config.events, 1, 1, (0, 0), generator),
        nn.MaxPool2d(config.grid),
        nn.Flatten(),
        OutcomeHeads(config.events, generator),
    )
