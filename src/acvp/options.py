"""Types of options that several verbs share, and how the help shows them."""

from __future__ import annotations

from typing import Annotated, Any

from tyro.conf import arg

Device = Annotated[str, arg(metavar="DEVICE")]
"""Name of a device, checked by `require_device`."""
Module = Annotated[str | None, arg(name="import", metavar="MODULE", help_behavior_hint="(default: none)")]
"""Name of a Python module, the option --import."""


def optional(metavar: str, default: str, **more: Any) -> Any:
    """Return how the help shows an option that can be left out: its metavar, and what happens then."""
    return arg(metavar=metavar, help_behavior_hint=f"(default: {default})", **more)
