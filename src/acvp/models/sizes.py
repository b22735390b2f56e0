"""Sizes of the paper's networks for frames of any shape.

A network for other frames than the paper's two is derived: strided convolutions that halve the frame, with pads chosen
so that deconvolutions mirror them exactly, until its shorter side has at most 12 pixels.
"""

from __future__ import annotations

from itertools import product
from typing import Any

from acvp.models.checks import FrameShape

ATARI: FrameShape = (210, 160, 3)
GRAY_84: FrameShape = (84, 84, 1)
SMALLEST = 12
"""Pixels: a side this short is not halved again."""
MOST_LAYERS = 4
DERIVED_CHANNELS, SMOKE_CHANNELS = 64, 16
"""Channels of the first convolution of a derived network."""

Pair = tuple[int, int]


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
