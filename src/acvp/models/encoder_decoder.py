"""Encoding and decoding (§3.1, §3.3): what the feedforward, recurrent and no-action networks share.

From top to bottom: sizes of the paper's networks and of those derived for frames of other shapes (strided convolutions
that halve the frame, with pads chosen so that deconvolutions mirror them exactly, until its shorter side has at most 12
pixels); the sizes of a stack of strided convolutions that deconvolutions mirror exactly; a strided deconvolution,
computed in whichever of two equal forms is faster; the config; encoder and decoder.

Shapes: B batch, A actions, N rows, C channels, H height, W width, n hidden units, m frames of history; of a
deconvolution: I input channels, O output channels, k kernel, s stride, (h, w) input size, (H, W) output size.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import product
from typing import Any, Self

import torch
from torch import Tensor, nn
from torch.nn import functional

from acvp.models.config import ConfigError, FrameShape, PredictorConfig, require_positive, require_whole
from acvp.models.layers import Pair, convolution, fill_uniform, linear

ATARI: FrameShape = (210, 160, 3)
GRAY_84: FrameShape = (84, 84, 1)
SMALLEST = 12
"""Pixels: a side this short is not halved again."""
MOST_LAYERS = 4
DERIVED_CHANNELS, SMOKE_CHANNELS = 64, 16
"""Channels of the first convolution of a derived network."""
GPU_BATCH = 4
"""How many times as large as the paper's a batch of the preset gpu is."""


def paper_view(preset: str, frame_shape: FrameShape) -> str:
    """Return the view in which a preset trains the paper's networks: gray 84×84 where a CPU has half an hour."""
    return "gray84" if preset == "cpu" and tuple(frame_shape) == ATARI else "rgb"


def network_sizes(preset: str, frame: FrameShape) -> dict[str, Any]:
    """Return the fields of NetworkConfig for frames of a shape: the paper's two networks, or a derived one."""
    if preset == "smoke":
        return derived_sizes(frame, SMOKE_CHANNELS) | {"hidden": 128}
    if frame == ATARI:
        return {}
    if frame == GRAY_84:
        return gray_sizes()
    return derived_sizes(frame, DERIVED_CHANNELS)


def gray_sizes() -> dict[str, Any]:
    """Return the sizes for 84×84 gray frames that informed exploration uses (appendix B)."""
    return {
        "frame": GRAY_84, "channels": (64, 64, 64), "kernels": (6, 6, 6), "pads": ((0, 0), (2, 2), (2, 2)),
        "strides": (2, 2, 2), "decoder_channels": (64, 64), "hidden": 1024, "pixel_scale": 128.0,
    }  # fmt: skip


def derived_sizes(frame: FrameShape, channels: int) -> dict[str, Any]:
    """Return the sizes of a network for frames of any shape, its first convolution so many channels wide."""
    kernels, pads, strides = derived_stack(frame[:2])
    widths = (channels, *(2 * channels for _ in kernels[1:]))
    return {
        "frame": frame, "channels": widths, "kernels": kernels, "pads": pads, "strides": strides,
        "decoder_channels": widths[-2::-1], "hidden": 1024, "pixel_scale": 128.0 if frame[2] == 1 else 255.0,
    }  # fmt: skip


def derived_stack(size: Pair) -> tuple[tuple[int, ...], tuple[Pair, ...], tuple[int, ...]]:
    """Return kernels, pads and strides of convolutions for frames of (height, width), each with an exact mirror."""
    kernels: list[int] = []
    pads: list[Pair] = []
    strides: list[int] = []
    while not kernels or (min(size) > SMALLEST and len(kernels) < MOST_LAYERS):
        kernel, pad, stride, size = _layer(size)
        kernels.append(kernel)
        pads.append(pad)
        strides.append(stride)
    return tuple(kernels), tuple(pads), tuple(strides)


def _layer(size: Pair) -> tuple[int, Pair, int, Pair]:
    """Return kernel, pad, stride and result of the layer that comes closest to halving: first with a kernel of 4.

    Both sides must leave no rest. Stride 2 can do that where both are even or both odd, stride 3 always.
    """
    if min(size) < 4:
        return 1, (0, 0), 1, size
    best: tuple[tuple[float, ...], tuple[int, Pair, int, Pair]] | None = None
    for stride, kernel in product((2, 3), (4, 5, 3, 6)):
        for high, wide in product(range(kernel // 2 + 1), repeat=2):
            pad = (high, wide)
            spans = [side + 2 * p - kernel for side, p in zip(size, pad, strict=True)]
            if min(spans) < 0 or any(span % stride for span in spans):
                continue
            after = (spans[0] // stride + 1, spans[1] // stride + 1)
            odd = sum(side % 2 for side in after)  # an even size can be halved again with even kernels
            off = sum(abs(a - side / stride) for a, side in zip(after, size, strict=True))
            cost = (float(stride), float(odd), off, float(kernel != 4))
            if best is None or cost < best[0]:
                best = cost, (kernel, pad, stride, after)
    assert best is not None, f"no layer for {size}"
    return best[1]


def stack_sizes(size: Pair, kernels: Sequence[int], pads: Sequence[Pair], strides: Sequence[int]) -> tuple[Pair, ...]:
    """Return (height, width) before the stack and after each convolution, or refuse a stack without exact mirror."""
    sizes = [size]
    chain = _text(size)
    for kernel, pad, stride in zip(kernels, pads, strides, strict=True):
        low = min(kernel, stride)
        if low < 1 or min(pad) < 0:
            raise ConfigError(f"kernel {kernel}, pad {pad}, stride {stride}: kernels and strides from 1, pads from 0")
        spans = [length + 2 * p - kernel for length, p in zip(sizes[-1], pad, strict=True)]
        after = (spans[0] // stride + 1, spans[1] // stride + 1)
        chain += f" -[kernel {kernel}, pad {_text(pad)}, stride {stride}]-> {_text(after)}"
        if min(spans) < 0:
            raise ConfigError(f"frame {_text(size)} (height×width) is too small for the stack: {chain}")
        if any(span % stride for span in spans):
            back = tuple((a - 1) * stride - 2 * p + kernel for a, p in zip(after, pad, strict=True))
            raise ConfigError(
                f"the stack {chain} has no exact mirror: the deconvolution of its last layer gives "
                f"{_text((back[0], back[1]))}, not {_text(sizes[-1])}; change that layer's pad or kernel"
            )
        sizes.append(after)
    return tuple(sizes)


def _text(pair: Pair) -> str:
    return f"{pair[0]}×{pair[1]}"


SUB_PIXEL_OUTPUTS = 8
"""Up to this many output channels the sub-pixel forward is measured faster (docs/research/speed.md): a transposed
convolution leaves most vector lanes empty when it writes 3 channels; the sub-pixel form writes stride² as many."""


def sub_pixel_deconvolution(x: Tensor, weight: Tensor, bias: Tensor, stride: int, pad: Pair) -> Tensor:
    """Return conv_transpose2d(x, weight, bias, stride, pad), computed as a stride-1 convolution and a pixel shuffle.

    Output row s·q + r sums x[q - v] · weight[s·v + r] over v: each residue r is a separate convolution.
    """
    inputs, outputs, kernel, _ = weight.shape
    taps = -(-kernel // stride)  # per residue, rounded up
    spare = taps * stride - kernel
    phases = functional.pad(weight, (0, spare, 0, spare)).view(inputs, outputs, taps, stride, taps, stride)
    phases = phases.permute(1, 3, 5, 0, 2, 4).flip(4, 5).reshape(outputs * stride**2, inputs, taps, taps)
    fine = functional.conv2d(x, phases, bias.repeat_interleave(stride**2), padding=taps - 1)  # (N, O·s², h+, w+)
    full = functional.pixel_shuffle(fine, stride)  # (N, O, s·(h+), s·(w+))
    height, width = ((size - 1) * stride + kernel - 2 * p for size, p in zip(x.shape[2:], pad, strict=True))
    return full[:, :, pad[0] : pad[0] + height, pad[1] : pad[1] + width]  # (N, O, H, W)


def deconvolution(x: Tensor, weight: Tensor, bias: Tensor, stride: int, pad: Pair) -> Tensor:
    """Return conv_transpose2d(x, weight, bias, stride, pad) in its faster form."""
    if stride > 1 and weight.shape[1] <= SUB_PIXEL_OUTPUTS:
        return sub_pixel_deconvolution(x, weight, bias, stride, pad)
    return functional.conv_transpose2d(x, weight, bias, stride, pad)


class _Deconvolution(torch.autograd.Function):
    """A deconvolution whose gradients are those of the transposed form, the bias's summed apart.

    That sum takes 2 ms for the paper's second deconvolution; asked for along with the others it takes 55 ms.
    """

    @staticmethod
    def forward(ctx: Any, x: Tensor, weight: Tensor, bias: Tensor, stride: int, pad: Pair) -> Tensor:
        ctx.save_for_backward(x, weight)
        ctx.stride, ctx.pad = stride, pad
        result = deconvolution(x, weight, bias, stride, pad)
        return result.clone() if result._is_view() else result  # a view must not leave a Function

    @staticmethod
    @torch.autograd.function.once_differentiable
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor | None, ...]:
        x, weight = ctx.saved_tensors
        stride, pad, needed = [ctx.stride] * 2, list(ctx.pad), [*ctx.needs_input_grad[:2], False]
        by_bias = gradient.sum((0, 2, 3)) if ctx.needs_input_grad[2] else None
        by_x, by_weight, _ = torch.ops.aten.convolution_backward(
            gradient.to(x.dtype), x, weight.to(x.dtype), None, stride, pad, [1, 1], True, [0, 0], 1, needed
        )
        return by_x, by_weight, by_bias, None, None


class Deconvolution(nn.Module):
    """Maps each input position to a k×k patch of the output at stride s, overlaps summed (§3.3)."""

    def __init__(
        self, inputs: int, outputs: int, kernel: int, stride: int, pad: Pair, generator: torch.Generator
    ) -> None:
        super().__init__()
        self.weight = nn.Parameter(torch.empty(inputs, outputs, kernel, kernel))  # as nn.ConvTranspose2d keeps it
        self.bias = nn.Parameter(torch.zeros(outputs))
        self.stride, self.pad = stride, pad
        fill_uniform(self.weight, generator)

    def forward(self, x: Tensor) -> Tensor:
        """Return the deconvolution (N, O, H, W) of x (N, I, h, w)."""
        arguments = (x, self.weight, self.bias, self.stride, self.pad)
        if not torch.is_grad_enabled():
            return deconvolution(*arguments)
        result: Tensor = _Deconvolution.apply(*arguments)  # type: ignore[no-untyped-call]
        return result


DECODE_CHUNK = 32
"""Rows decoded at once when every action is predicted: bounds memory at about 0.5 GB for RGB 210×160."""


@dataclass(frozen=True, kw_only=True)
class NetworkConfig(PredictorConfig):
    """Sizes of an encoding-transformation-decoding network; the defaults are the paper's, RGB 210×160."""

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
    predict_rewards: bool = False
    """Whether the network has reward and termination heads (the paper's future work)."""
    predict_lives: bool = False
    """Whether these heads also predict a lost life."""

    def __post_init__(self) -> None:
        super().__post_init__()
        require_whole(hidden=self.hidden)
        layers = len(self.channels)
        lengths = (len(self.kernels), len(self.pads), len(self.strides), len(self.decoder_channels) + 1)
        if layers == 0 or any(length != layers for length in lengths):
            raise ConfigError(
                f"{layers} channels {self.channels} with kernels {self.kernels}, pads {self.pads}, strides "
                f"{self.strides}, decoder_channels {self.decoder_channels}: one each per layer, the last one less"
            )
        for size in (*self.channels, *self.decoder_channels):
            require_positive(**{f"a size in {self.channels}, {self.decoder_channels}": size})
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
        return cls(actions=actions, **(gray_sizes() | options))


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
