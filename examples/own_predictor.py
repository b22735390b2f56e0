"""A predictor of your own: the change since the last frame, by a small network; trained, checked and looked ahead with.

python examples/own_predictor.py
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar

import torch
from torch import Tensor, nn

import acvp
from acvp.models import HistoryPredictor, Outcome, PredictorConfig
from acvp.testing import check_predictor


@dataclass(frozen=True, kw_only=True)
class DifferenceConfig(PredictorConfig):
    """Its fields can be changed from the command line, and are stored with the weights."""

    channels: int = 16
    """Features of the hidden layer."""


class DifferencePredictor(HistoryPredictor, kind="difference"):
    """Adds to the last frame what a small convolutional network makes of the last four frames and the action."""

    config_class: ClassVar[type[Any]] = DifferenceConfig

    def __init__(self, config: DifferenceConfig, generator: torch.Generator) -> None:
        super().__init__(config)
        self.colors = config.frame[2]
        self.look = nn.Conv2d(config.context * self.colors, config.channels, 5, padding=2)
        self.act = nn.Linear(config.actions, config.channels)
        self.change = nn.Conv2d(config.channels, self.colors, 5, padding=2)
        for weight in self.parameters():
            nn.init.uniform_(weight, -0.05, 0.05, generator=generator)

    def next_frame(self, stacked: Tensor, action: Tensor) -> tuple[Tensor, Outcome | None]:
        """Return the next frame (N, C, H, W) after stacked frames (N, 4·C, H, W) under action vectors (N, A)."""
        features = self.look(stacked).relu() * self.act(action)[:, :, None, None]
        return stacked[:, -self.colors :] + self.change(features), None


def main(folder: Path, frames: int = 20_000, preset: str = "smoke") -> Any:
    """Record a game, train the predictor, check it, and look five steps ahead."""
    dataset = acvp.collect("toy", folder / "data", frames=frames)
    predictor = acvp.train(folder / "data", folder / "run", model="difference", preset=preset)
    check_predictor(predictor)
    episode = dataset[0]
    return acvp.rollout(predictor, episode.frames(0, 4), episode.actions[3:8])


if __name__ == "__main__":
    main(Path("own_predictor"))
