"""What the networks are compared with: the MLP of §4, the last frame repeated, and the mean frame.

Shapes: N rows, C channels, H height, W width, A actions, D = C·H·W.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

import torch
from torch import Tensor
from torch.nn import functional

from acvp.models.config import ConfigError, FrameShape, PredictorConfig
from acvp.models.encoder_decoder import GRAY_84, paper_view
from acvp.models.layers import Outcome, RewardTerminationHeads, linear
from acvp.models.predictor import HistoryPredictor

GRAY_HIDDEN = (1200, 2048, 2048, 1200)
"""Hidden units for 84×84 gray frames: about as many parameters as the gray recurrent network (deviation M8)."""


@dataclass(frozen=True, kw_only=True)
class BaselineConfig(PredictorConfig):
    """A predictor that sees the last frame only."""

    context: int = 1
    """Always 1."""

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.context != 1:
            raise ConfigError(f"context is {self.context}; this baseline sees the last frame only: context must be 1")


@dataclass(frozen=True, kw_only=True)
class MlpConfig(BaselineConfig):
    """The MLP baseline; the defaults are the paper's."""

    hidden: tuple[int, int, int, int] = (400, 2048, 2048, 400)
    """Units of the four hidden layers; the action joins the second."""
    predict_rewards: bool = False
    """Whether the network has reward and termination heads (the paper's future work)."""
    predict_lives: bool = False
    """Whether these heads also predict a lost life."""

    def __post_init__(self) -> None:
        super().__post_init__()
        if len(self.hidden) != 4 or min(self.hidden) < 1:
            raise ConfigError(f"hidden is {self.hidden}; the MLP has four hidden layers of at least 1 unit")


class MlpPredictor(HistoryPredictor, kind="mlp"):
    """The MLP baseline: the last frame in, a ReLU after each hidden layer.

    ::

        x_t ── fc 400 ── fc 2048 ──(concat)── fc 2048 ── fc 400 ── fc ── x_t+1
        100800               a_t ──┘          h^dec               100800
    """

    config_class: ClassVar[type[Any]] = MlpConfig
    continuous_actions: ClassVar[bool] = True

    def __init__(self, config: MlpConfig, generator: torch.Generator) -> None:
        super().__init__(config)
        height, width, channels = config.frame
        pixels = height * width * channels
        first, second, third, fourth = config.hidden
        self.fc1 = linear(pixels, first, generator)
        self.fc2 = linear(first, second, generator)
        self.fc3 = linear(second + config.actions, third, generator)
        self.fc4 = linear(third, fourth, generator)
        self.fc5 = linear(fourth, pixels, generator)
        self.heads = (
            RewardTerminationHeads(third, generator, lives=config.predict_lives) if config.predict_rewards else None
        )

    @classmethod
    def sizes(cls, preset: str, frame: FrameShape) -> dict[str, Any]:
        """Return few hidden units for the preset smoke, more for gray frames, else the paper's."""
        if preset == "smoke":
            return {"hidden": (64,) * 4}
        return {"hidden": GRAY_HIDDEN} if frame == GRAY_84 else {}

    @classmethod
    def training_defaults(cls, preset: str, frame_shape: FrameShape) -> Mapping[str, Any]:
        """Return the view of the paper's networks."""
        return {"view": paper_view(preset, frame_shape)}

    def next_frame(self, stacked: Tensor, action: Tensor) -> tuple[Tensor, Outcome | None]:
        """Return the next frame (N, C, H, W) after the last one (N, C, H, W) under action vectors (N, A)."""
        h_dec = self._transform(self._encode(stacked), action)  # (N, 2048)
        return self._decode(h_dec, stacked), self.heads(h_dec) if self.heads else None

    def next_frames(self, stacked: Tensor) -> Tensor:
        """Return the next frame under every action, (N, A, C, H, W), after the last one (N, C, H, W)."""
        h_enc = self._encode(stacked)[:, None].expand(-1, self.actions, -1)  # (N, A, 2048)
        every = torch.eye(self.actions, dtype=h_enc.dtype, device=h_enc.device).expand(len(h_enc), -1, -1)
        h_dec = self._transform(h_enc.flatten(0, 1), every.flatten(0, 1))  # (N·A, 2048)
        return self._decode(h_dec, stacked).view(-1, self.actions, *stacked.shape[1:])

    def _encode(self, frame: Tensor) -> Tensor:
        return functional.relu_(self.fc2(functional.relu_(self.fc1(frame.flatten(1)))))  # (N, D) → 400 → 2048

    def _transform(self, h_enc: Tensor, action: Tensor) -> Tensor:
        return functional.relu_(
            self.fc3(torch.cat((h_enc, self.action_scale(action).to(h_enc.dtype)), 1))
        )  # (N, 2048 + A) → 2048

    def _decode(self, h_dec: Tensor, like: Tensor) -> Tensor:
        pixels: Tensor = self.fc5(functional.relu_(self.fc4(h_dec)))  # 400 → (N, D)
        return pixels.view(-1, *like.shape[1:])


@dataclass(frozen=True, kw_only=True)
class CopyLastFrameConfig(BaselineConfig):
    """The last frame repeated."""


class CopyLastFrame(HistoryPredictor, kind="copy-last-frame"):
    """Predicts that nothing changes; it has no parameters.

    ::

        x_t ───────── x_t+1
    """

    config_class: ClassVar[type[Any]] = CopyLastFrameConfig
    continuous_actions: ClassVar[bool] = True

    def __init__(self, config: CopyLastFrameConfig, generator: torch.Generator | None = None) -> None:
        super().__init__(config)

    def next_frame(self, stacked: Tensor, action: Tensor) -> tuple[Tensor, None]:
        """Return a copy of the last frame (N, C, H, W)."""
        return stacked.clone(), None

    def next_frames(self, stacked: Tensor) -> Tensor:
        """Return the last frame for every action, (N, A, C, H, W)."""
        return stacked[:, None].repeat(1, self.actions, 1, 1, 1)


@dataclass(frozen=True, kw_only=True)
class MeanFrameConfig(BaselineConfig):
    """The mean frame."""


class MeanFrame(HistoryPredictor, kind="mean-frame"):
    """Predicts the mean image of the training set, which is zero once normalized; it has no parameters.

    ::

        mean ───────── x_t+1
    """

    config_class: ClassVar[type[Any]] = MeanFrameConfig
    continuous_actions: ClassVar[bool] = True

    def __init__(self, config: MeanFrameConfig, generator: torch.Generator | None = None) -> None:
        super().__init__(config)

    def next_frame(self, stacked: Tensor, action: Tensor) -> tuple[Tensor, None]:
        """Return the normalized mean frame, zeros (N, C, H, W)."""
        return torch.zeros_like(stacked), None

    def next_frames(self, stacked: Tensor) -> Tensor:
        """Return the mean frame for every action, (N, A, C, H, W)."""
        return torch.zeros_like(stacked)[:, None].repeat(1, self.actions, 1, 1, 1)
