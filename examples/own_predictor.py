"""A predictor of your own: a small network that paints over the last frame; trained, checked and looked ahead with.

python examples/own_predictor.py
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar

import torch
from torch import Tensor, nn

import acvp
from acvp.models import ActionFactors, HistoryPredictor, Outcome, PredictorConfig
from acvp.testing import check_predictor


@dataclass(frozen=True, kw_only=True)
class DifferenceConfig(PredictorConfig):
    channels: int = 16
    """Features of the hidden layer; an option of `acvp train` and stored with the weights, as all fields are."""


class DifferencePredictor(HistoryPredictor, kind="difference"):
    """Paints new colors, which are bounded, over the last frame: what is fed back cannot grow without limit."""

    config_class: ClassVar[type[Any]] = DifferenceConfig

    def __init__(self, config: DifferenceConfig, generator: torch.Generator) -> None:
        super().__init__(config)
        self.colors = config.frame[2]
        self.look = nn.Conv2d(config.context * self.colors, config.channels, 5, padding=2)
        self.act = nn.Linear(config.actions, config.channels)
        self.paint = nn.Conv2d(config.channels, self.colors + 1, 5, padding=2)
        for weight in self.parameters():
            nn.init.uniform_(weight, -0.05, 0.05, generator=generator)

    def next_frame(self, stacked: Tensor, action: Tensor) -> tuple[Tensor, Outcome | None]:
        """Return the next frame (N, C, H, W) after stacked frames (N, 4·C, H, W) under action vectors (N, A)."""
        features = self.look(stacked).relu() * self.act(action)[:, :, None, None]
        opacity, colors = self.paint(features).split([1, self.colors], 1)
        return torch.lerp(stacked[:, -self.colors :], 2 * colors.tanh(), (opacity - 2).sigmoid()), None

    def action_factors(self) -> list[ActionFactors]:
        """Return where the action multiplies, for `acvp analyze`."""
        return [ActionFactors(name="features", weight=self.act.weight, bias=self.act.bias, gates=True)]


def main(folder: Path, frames: int = 20_000, preset: str = "smoke") -> Any:
    """Record a game, train the predictor, check it, and look five steps ahead."""
    dataset = acvp.collect("toy", folder / "data", frames=frames)
    predictor = acvp.train(folder / "data", folder / "run", model="difference", preset=preset)
    check_predictor(predictor)
    return acvp.rollout(predictor, dataset[0].frames(0, 4), dataset[0].actions[3:8])


if __name__ == "__main__":
    main(Path("own_predictor"))
