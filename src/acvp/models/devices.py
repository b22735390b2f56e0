"""Devices: which one ``--device`` names, and optional speed: kept memory, no denormals, compiling, bfloat16."""

from __future__ import annotations

import ctypes
import subprocess
import sys
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from functools import cache

import torch

from acvp.errors import UserError, require_device
from acvp.models.predictor import Predictor

_TRIAL = """
import torch
a = torch.ones(256, 256, dtype=torch.bfloat16)
x = torch.ones(4, 32, 16, 16, dtype=torch.bfloat16, requires_grad=True)
w = torch.ones(32, 32, 4, 4, dtype=torch.bfloat16, requires_grad=True)
torch.nn.functional.conv2d(x, w, stride=2).sum().backward()
torch.nn.functional.conv_transpose2d(x, w, stride=2).sum().backward()
assert (a @ a)[0, 0] == 256
"""
_M_TRIM_THRESHOLD, _M_MMAP_MAX = -1, -4
"""Names of glibc's malloc.h."""


def pick_device(name: str = "auto") -> torch.device:
    """Return a device of this machine by name; auto takes the fastest there is, UserError where there is none."""
    require_device(name)
    available = {"cuda": torch.cuda.is_available(), "mps": torch.backends.mps.is_available(), "cpu": True}
    if name == "auto":
        return torch.device(next(kind for kind, there in available.items() if there))
    kind, _, number = name.partition(":")
    if not available[kind]:
        there = ", ".join(sorted(kind for kind, there in available.items() if there))
        raise UserError(f"--device {name}: not on this machine, which has {there}; use --device auto")
    if number and int(number) >= torch.cuda.device_count():
        count = torch.cuda.device_count()
        raise UserError(f"--device {name}: this machine has {count} GPU(s), cuda:0 to cuda:{count - 1}")
    return torch.device(name)


def keep_freed_memory() -> bool:
    """Let malloc keep what is freed for the rest of the process, and return whether it can (glibc only).

    Otherwise each large tensor is mapped again and its pages are filled one fault at a time: 45 ms in place of 9 ms for
    one gradient of the reshape layer. Call it once at the start of a process that trains, looks ahead or measures.
    """
    mallopt = getattr(ctypes.CDLL(None), "mallopt", None) if sys.platform == "linux" else None
    return mallopt is not None and mallopt(_M_MMAP_MAX, 0) == 1 and mallopt(_M_TRIM_THRESHOLD, -1) == 1


@contextmanager
def without_denormals() -> Iterator[None]:
    """Take numbers below 1e-38 for zero in this thread, and in those it starts, where the CPU can.

    A CPU computes with them many times more slowly, and a network that is sure of nearly every pixel has gradients
    full of them.
    """
    torch.set_flush_denormal(True)
    try:
        yield
    finally:
        torch.set_flush_denormal(False)


def compile_networks(predictor: Predictor, backend: str = "inductor") -> None:
    """Compile encoder and decoder, or the U-Net, in place with torch.compile; on a CPU it needs a C++ compiler."""
    for name in ("encoder", "decoder", "unet"):
        network = getattr(predictor, name, None)
        if isinstance(network, torch.nn.Module):
            network.compile(backend=backend)


@cache
def cpu_has_bfloat16() -> bool:
    """Return whether bfloat16 runs on this CPU, tried in a separate process.

    Some virtual machines announce AMX and then kill the process that uses it, so asking for the flag is not enough.
    """
    return subprocess.run([sys.executable, "-c", _TRIAL], capture_output=True, check=False).returncode == 0


def has_bfloat16(device: torch.device) -> bool:
    """Return whether bfloat16 runs on a device."""
    if device.type == "cuda":
        return bool(torch.cuda.is_bf16_supported())
    return device.type != "cpu" or cpu_has_bfloat16()


def bfloat16(device: torch.device, *, enabled: bool = True) -> AbstractContextManager[object]:
    """Return a context in which convolutions and products run in bfloat16; refuse a device that cannot."""
    if not enabled:
        return nullcontext()
    if not has_bfloat16(device):
        raise ValueError(f"bfloat16 does not run on this {device.type}; use float32 (enabled=False)")
    return torch.autocast(device.type, dtype=torch.bfloat16)
