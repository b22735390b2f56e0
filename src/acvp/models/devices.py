"""Which device to compute on: the one place that turns ``--device`` into a torch.device."""

from __future__ import annotations

import re

import torch

from acvp.errors import UserError

NAMES = "auto, cpu, cuda, cuda:1 (the second GPU) or mps"


def pick_device(name: str = "auto") -> torch.device:
    """Return a device of this machine by name; auto takes the fastest there is, UserError where there is none."""
    match = re.fullmatch(r"(auto|cpu|cuda|mps)|cuda:(\d{1,3})", name)
    if match is None:
        raise UserError(f"--device {name}: no device has this name; use {NAMES}")
    available = {"cuda": torch.cuda.is_available(), "mps": torch.backends.mps.is_available(), "cpu": True}
    if name == "auto":
        return torch.device(next(kind for kind, there in available.items() if there))
    kind = name.partition(":")[0]
    if not available[kind]:
        there = ", ".join(sorted(kind for kind, there in available.items() if there))
        raise UserError(f"--device {name}: not on this machine, which has {there}; use --device auto")
    if match[2] and int(match[2]) >= torch.cuda.device_count():
        count = torch.cuda.device_count()
        raise UserError(f"--device {name}: this machine has {count} GPU(s), cuda:0 to cuda:{count - 1}")
    return torch.device(name)
