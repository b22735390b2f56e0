"""Which device to compute on: the one place that turns ``--device`` into a torch.device."""

from __future__ import annotations

import torch

from acvp.errors import UserError
from acvp.options import require_device


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
