"""Encoding and decoding (§3.1, §3.3): the parts the feedforward, recurrent and no-action networks share.

Shapes: B batch, A actions, N rows, C channels, H height, W width, n hidden units, m frames of history.
"""

from dataclasses import dataclass
from typing import ClassVar, Self

import torch
from torch import Tensor, nn
from torch.nn import functional

from acvp.models.checks import ConfigError, FrameShape, require_frame, require_positive, require_whole
from acvp.models.deconvolution import Deconvolution
from acvp.models.layers import Pair, convolution, linear
from acvp.models.stack import stack_sizes

DECODE_CHUNK = 32
"""Rows decoded at once when every action is predicted: bounds memory at about 0.5 GB for RGB 210×160."""


@dataclass(frozen=True, kw_only=True)
class NetworkConfig:
    """Sizes of an encoding-transformation-decoding network; the defaults are the paper's, RGB 210×160."""

    kind: ClassVar[str] = "network"
    actions: int
    """Number of actions, or length of a continuous action vector."""
    frame: FrameShape = (210, 160, 3)
    """(height, width, channels) of a frame."""
    context: int = 4
    """Real frames needed before the first prediction."""
    channels: tuple[int, ...] = (64, 128, 128, 128)
    """Output channels of the convolutions."""
    kernels: tuple[int, ...] = (8, 6, 6, 4)
    """Kernel sizes of the convolutions, and reversed of the deconvolutions."""
    pads: tuple[Pair, ...] = ((0, 1), (1, 1), (1, 1), (0, 0))
    """(height, width) padding of the convolutions, and reversed of the deconvolutions."""
    strides: tuple[int, ...] = (2, 2, 2, 2)
    """Strides of the convolutions, and reversed of the deconvolutions."""
    decoder_channels: tuple[int, ...] = (128, 128, 128)
    """Output channels of all deconvolutions but the last, which gives the frame."""
    hidden: int = 2048
    """Units n of the encoded and of the transformed feature vector."""
    pixel_scale: float = 255.0
    """What (pixel - mean) is divided by."""
    outcome_heads: bool = False
    """Whether reward and end-of-episode logits are predicted too (the paper's future work)."""

    def __post_init__(self) -> None:
        require_whole(actions=self.actions, context=self.context, hidden=self.hidden)
        require_positive(pixel_scale=self.pixel_scale)
        require_frame(self.frame)
        layers = len(self.channels)
        lengths = (len(self.kernels), len(self.pads), len(self.strides), len(self.decoder_channels) + 1)
        if layers == 0 or any(length != layers for length in lengths):
            raise ConfigError(
                f"{layers} channels {self.channels} with kernels {self.kernels}, pads {self.pads}, strides "
                f"{self.strides}, decoder_channels {self.decoder_channels}: one each per layer, the last one less"
            )
        for size in (*self.frame, *self.channels, *self.decoder_channels):
            require_positive(**{f"a size in {self.frame}, {self.channels}, {self.decoder_channels}": size})
        self.sizes()

    def sizes(self) -> tuple[Pair, ...]:
        """Return (height, width) of the frame and after each convolution; refuse an impossible stack."""
        return stack_sizes(self.frame[:2], self.kernels, self.pads, self.strides)

    @classmethod
    def rgb_210x160(cls, *, actions: int, **options: object) -> Self:
        """Return the paper's sizes for full-resolution Atari frames (appendix A)."""
        return cls(actions=actions, **options)  # type: ignore[arg-type]

    @classmethod
    def gray_84x84(cls, *, actions: int, **options: object) -> Self:
        """Return the smaller network for 84×84 gray frames that informed exploration uses (appendix B)."""
        gray: dict[str, object] = {
            "frame": (84, 84, 1), "channels": (64, 64, 64), "kernels": (6, 6, 6), "pads": ((0, 0), (2, 2), (2, 2)),
            "strides": (2, 2, 2), "decoder_channels": (64, 64), "hidden": 1024, "pixel_scale": 128.0,
        }  # fmt: skip
        return cls(actions=actions, **(gray | options))  # type: ignore[arg-type]


class FrameEncoder(nn.Module):
    """CNN of equations 1 and 2: strided convolutions and one fully-connected layer, each followed by a ReLU."""

    def __init__(self, config: NetworkConfig, frames: int, generator: torch.Generator) -> None:
        super().__init__()
        inputs = (frames * config.frame[2], *config.channels)
        shapes = zip(inputs, config.channels, config.kernels, config.strides, config.pads, strict=False)
        self.convolutions = nn.ModuleList(convolution(*shape, generator) for shape in shapes)
        height, width = config.sizes()[-1]
        self.fc = linear(config.channels[-1] * height * width, config.hidden, generator)

    def forward(self, x: Tensor) -> Tensor:
        """Return the feature vectors (N, n) of stacked frames (N, m·C, H, W)."""
        x = x.contiguous(memory_format=torch.channels_last)
        for layer in self.convolutions:
            x = layer(x).relu_()  # (N, 64, 102, 78) → (N, 128, 50, 38) → (N, 128, 24, 18) → (N, 128, 11, 8)
        return functional.relu_(self.fc(x.flatten(1)))  # (N, n)


class FrameDecoder(nn.Module):
    """Deconv(Reshape(h^dec)) of equation 5: a ReLU after every layer except the last deconvolution."""

    def __init__(self, config: NetworkConfig, generator: torch.Generator) -> None:
        super().__init__()
        self.shape = (config.channels[-1], *config.sizes()[-1])  # (128, 11, 8)
        self.reshape = linear(config.hidden, self.shape[0] * self.shape[1] * self.shape[2], generator)
        outputs = (*config.decoder_channels, config.frame[2])
        inputs = (self.shape[0], *config.decoder_channels)
        shapes = zip(inputs, outputs, config.kernels[::-1], config.strides[::-1], config.pads[::-1], strict=True)
        self.deconvolutions = nn.ModuleList(Deconvolution(*shape, generator) for shape in shapes)

    def forward(self, h_dec: Tensor) -> Tensor:
        """Return the frames (N, C, H, W) of transformed features (N, n)."""
        x = functional.relu_(self.reshape(h_dec)).view(-1, *self.shape)  # (N, 128, 11, 8)
        x = x.contiguous(memory_format=torch.channels_last)
        *hidden, last = self.deconvolutions
        for layer in hidden:
            x = functional.relu_(layer(x))  # (N, 128, 24, 18) → (N, 128, 50, 38) → (N, 128, 102, 78)
        frame: Tensor = last(x)
        return frame  # (N, C, 210, 160)

    def every_action(self, h_dec: Tensor) -> Tensor:
        """Return the frames (B, A, C, H, W) of features (B, A, n), decoded DECODE_CHUNK rows at a time."""
        chunks = torch.split(h_dec.flatten(0, 1), DECODE_CHUNK)
        frames = torch.cat([self(rows) for rows in chunks])
        return frames.view(*h_dec.shape[:2], *frames.shape[1:])
