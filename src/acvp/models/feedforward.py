"""Feedforward encoding (§3.1, figure 1a) and its no-action baseline naFf (§4).

Shapes: N rows, m frames of history, C channels, H height, W width, A actions, n hidden units.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

import torch
from torch import Tensor

from acvp.models.checks import FrameShape
from acvp.models.encoder_decoder import FrameDecoder, FrameEncoder, NetworkConfig, network_sizes, paper_view
from acvp.models.heads import Outcome, RewardTerminationHeads
from acvp.models.predictor import HistoryPredictor
from acvp.models.transform import ActionConfig, NoActionTransform, Transform, action_transform, transform_sizes


@dataclass(frozen=True, kw_only=True)
class FeedforwardConfig(ActionConfig):
    """The feedforward network; the context is its m frames of input."""


@dataclass(frozen=True, kw_only=True)
class NoActionConfig(NetworkConfig):
    """The no-action feedforward network; the context is its m frames of input."""


class StackedFramesPredictor(HistoryPredictor):
    """Encodes the last m frames at once, transforms the feature, decodes the next frame."""

    def __init__(self, config: NetworkConfig, transform: Transform, generator: torch.Generator) -> None:
        super().__init__(config)
        self.encoder = FrameEncoder(config, config.context, generator)
        self.transform = transform
        self.decoder = FrameDecoder(config, generator)
        self.heads = RewardTerminationHeads(config.hidden, generator) if config.predict_rewards else None

    @classmethod
    def sizes(cls, preset: str, frame: FrameShape) -> dict[str, Any]:
        """Return the sizes of encoder and decoder."""
        return network_sizes(preset, frame)

    @classmethod
    def training_defaults(cls, preset: str, frame_shape: FrameShape) -> Mapping[str, Any]:
        """Return the view of the paper's networks."""
        return {"view": paper_view(preset, frame_shape)}

    def next_frame(self, stacked: Tensor, action: Tensor) -> tuple[Tensor, Outcome | None]:
        """Return the next frame (N, C, H, W) after stacked frames (N, m·C, H, W) under action vectors (N, A)."""
        h_enc = self.encoder(stacked)  # (N, n), equation 1
        h_dec = self.transform(h_enc, action)  # (N, n), equation 4
        return self.decoder(h_dec), self.heads(h_dec) if self.heads else None  # equation 5

    def next_frames(self, stacked: Tensor) -> Tensor:
        """Return the next frame under every action, (N, A, C, H, W), after stacked frames (N, m·C, H, W)."""
        h_dec = self.transform.every_action(self.encoder(stacked))  # (N, A, n): encoded once
        return self.decoder.every_action(h_dec)


class FeedforwardPredictor(StackedFramesPredictor, kind="feedforward"):
    """The feedforward network of figure 1a.

    ::

        x_t-3:t ── conv ×4 ── fc ── h^enc ── W^enc ──(×)── W^dec ── h^dec ── fc ── deconv ×4 ── x_t+1
        12×210×160           2048           a_t ── W^a ┘            2048   128×11×8           3×210×160
    """

    config_class: ClassVar[type[Any]] = FeedforwardConfig

    def __init__(self, config: FeedforwardConfig, generator: torch.Generator) -> None:
        super().__init__(config, action_transform(config, generator), generator)

    @classmethod
    def sizes(cls, preset: str, frame: FrameShape) -> dict[str, Any]:
        """Return the sizes of encoder, transformation and decoder."""
        return super().sizes(preset, frame) | transform_sizes(preset)


class NoActionPredictor(StackedFramesPredictor, kind="no-action"):
    """The naFf baseline: the feedforward network with one fully-connected layer as transformation, blind to actions.

    ::

        x_t-3:t ── conv ×4 ── fc ── h^enc ── fc ── h^dec ── fc ── deconv ×4 ── x_t+1
        12×210×160           2048           2048          128×11×8           3×210×160
    """

    config_class: ClassVar[type[Any]] = NoActionConfig

    def __init__(self, config: NoActionConfig, generator: torch.Generator) -> None:
        super().__init__(config, NoActionTransform(config.hidden, config.actions, generator), generator)
