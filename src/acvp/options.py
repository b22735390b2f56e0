"""Types of options that several verbs share, and checks of values: a wrong one is a UserError that names the option."""

from __future__ import annotations

import re
from typing import Annotated, Any

from tyro.conf import arg

from acvp.errors import UserError

MOST = 10**6
"""Limit of what takes memory or time at once: windows, states, steps of a prediction."""
LONGEST = 10**12
"""Limit of what is done one by one and can be stopped: frames to record, agent steps."""
AT_ONCE = 1024
"""Limit of processes, threads or games at the same time."""
MAX_MINUTES = 10**7
"""19 years."""
MAX_SEED = 2**32 - 1
"""The largest seed that all libraries accept."""
Device = Annotated[str, arg(metavar="DEVICE")]
"""Name of a device, checked by `require_device`."""
Module = Annotated[str | None, arg(name="import", metavar="MODULE", help_behavior_hint="(default: none)")]
"""Name of a Python module, the option --import."""


def optional(metavar: str, default: str, **more: Any) -> Any:
    """Return how the help shows an option that can be left out: its metavar, and what happens then."""
    return arg(metavar=metavar, help_behavior_hint=f"(default: {default})", **more)


def require_device(device: str) -> None:
    """Raise UserError for a name that no device has; whether this machine has the device is checked by pick_device."""
    if not re.fullmatch(r"auto|cpu|cuda|cuda:\d{1,3}|mps", device, re.ASCII):
        names = "auto, cpu, cuda, cuda:1 (the second GPU) or mps"
        raise UserError(f"--device {device}: no device has this name; use {names}")


def require(least: float, most: float = MOST, **values: float | None) -> None:
    """Raise UserError for values below `least` or above `most`; None: not given."""
    for name, value in values.items():
        if value is None:
            continue
        if not value >= least:  # also what is not a number
            raise UserError(f"{_option(name, value)}: at least {least:g}")
        if value > most:
            raise UserError(f"{_option(name, value)}: at most {most:,}")


def require_above_zero(most: float, **values: float | None) -> None:
    """Raise UserError for values that are not above 0 or are above `most`; None: not given."""
    for name, value in values.items():
        if value is not None and not 0 < value <= most:
            raise UserError(f"{_option(name, value)}: more than 0 and at most {most:,}")


def require_seed(seed: int) -> None:
    """Raise UserError for a seed that some library does not accept."""
    require(0, MAX_SEED, seed=seed)


def require_probability(*, below_one: bool = False, **values: float | None) -> None:
    """Raise UserError for values that are not probabilities; None: not given."""
    for name, value in values.items():
        if value is not None and not (0 <= value < 1 if below_one else 0 <= value <= 1):
            raise UserError(f"{_option(name, value)}: a probability lies between 0 and 1{', below 1' * below_one}")


def require_share(**values: float | None) -> None:
    """Raise UserError for values that are not between 0 and 1; None: not given."""
    for name, value in values.items():
        if value is not None and not 0 < value < 1:
            raise UserError(f"{_option(name, value)}: more than 0 and less than 1")


def _option(name: str, value: float) -> str:
    shown = f"{value:g}" if isinstance(value, float) else str(value) if abs(value) < 10**18 else "(over 18 digits)"
    return f"--{name.replace('_', '-')} {shown}"
