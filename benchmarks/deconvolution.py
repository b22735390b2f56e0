"""python -m benchmarks.deconvolution: the RGB decoder by strided deconvolution, and by upsampling and convolution.

Section 3.3 prefers the first because it is cheaper. Both map the same feature to the same frame with kernels of the
same sizes; forward and backward passes are timed in turns. Writes results/deconvolution.json.
"""

from __future__ import annotations

import time
from statistics import median

import torch
from torch import nn

from acvp.runs import machine
from benchmarks.provenance import write_results

LAYERS = ((128, 128, 4, (24, 18)), (128, 128, 6, (50, 38)), (128, 64, 6, (102, 78)), (64, 3, 8, (210, 160)))
"""Channels in and out, side of the kernel, and frame size after each layer of the RGB decoder (appendix A)."""
PADS = ((0, 0), (1, 1), (1, 1), (0, 1))
FEATURE = (128, 11, 8)
BATCH, REPETITIONS = 4, 9


def deconvolutions() -> nn.Sequential:
    """Return the paper's decoder: deconvolutions of stride 2."""
    layers = [
        nn.ConvTranspose2d(before, after, side, stride=2, padding=pad)
        for (before, after, side, _), pad in zip(LAYERS, PADS, strict=True)
    ]
    return nn.Sequential(*layers)


def upsampled_convolutions() -> nn.Sequential:
    """Return a decoder that repeats pixels first and convolves then."""
    layers: list[nn.Module] = []
    for before, after, side, size in LAYERS:
        larger = (size[0] + 1, size[1] + 1)  # an even kernel takes a pixel more than symmetric padding adds
        layers += [nn.Upsample(size=larger), nn.Conv2d(before, after, side, padding=side // 2 - 1)]
    return nn.Sequential(*layers)


def seconds(network: nn.Module, feature: torch.Tensor) -> float:
    """Return the core-seconds of a forward and a backward pass, which other programs on the machine hardly change."""
    began = time.process_time()
    network(feature).sum().backward()
    return time.process_time() - began


def main() -> None:
    """Time both decoders in turns."""
    torch.manual_seed(0)
    started, feature = time.monotonic(), torch.rand(BATCH, *FEATURE)
    networks = (deconvolutions(), upsampled_convolutions())
    shapes = [tuple(network(feature).shape) for network in networks]
    assert shapes == [(BATCH, 3, 210, 160)] * 2, shapes
    pairs = [[seconds(network, feature) for network in networks] for _ in range(REPETITIONS)]
    ratios = sorted(slow / fast for fast, slow in pairs)
    body = {
        "what": "core-seconds of a forward and backward pass of the RGB decoder: deconvolution; upsampling first",
        "batch": BATCH,
        "seconds": pairs,
        "times_faster": {"low": ratios[0], "median": median(ratios), "high": ratios[-1]},
        "compute": f"{REPETITIONS} repetitions, {torch.get_num_threads()} thread on {machine()}",
    }
    write_results("deconvolution", body, command="python -m benchmarks.deconvolution", seed=0, started=started)
    print(body["times_faster"])


if __name__ == "__main__":
    main()
