"""Presets of the pixel-exact predictor: fields of its config and of the training config."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from acvp.errors import UserError
from acvp.models.checks import FrameShape

CELL, SMALL_CELLS = 8, (4, 5)
"""Side of a cell in pixels, and of small frames."""
SMALL_FRAME = 128
"""Pixels: a frame with a shorter side has small cells."""

CPU: Mapping[str, Any] = {
    "view": "rgb",
    "optimizer": {"name": "muon", "weight_decay": 0.1},
    "phases": (
        {
            "predict": 4, "batch_size": 2, "teacher_forcing": True, "lr": 2e-3, "minutes": 30.0, "warmup": 50,
            "rare_share": 0.5, "event_share": 0.15, "reward_weight": 10.0, "anneal": True,
        },
    ),
    "evaluate_every": 1000,
    "windows": 8,
}  # fmt: skip
SMOKE: Mapping[str, Any] = {
    **CPU,
    "phases": ({**CPU["phases"][0], "minutes": None, "steps": 120, "lr": 5e-3, "warmup": 10},),
    "evaluate_every": 50,
}


def cell_side(frame: FrameShape) -> int:
    """Return the side of a cell: 8 pixels, or fewer for small frames."""
    if min(frame[:2]) >= SMALL_FRAME:
        return CELL
    even, odd = SMALL_CELLS
    return even if frame[0] % odd or frame[1] % odd else odd


def preset_sizes(preset: str, frame: FrameShape) -> dict[str, Any]:
    """Return the fields of PixelConfig that a preset sets for frames of a shape."""
    _refuse_paper(preset)
    sizes = {"cell": cell_side(frame), "circular_padding": True, "palette_mask": True, "events": 16}
    if preset == "smoke":
        return sizes | {"context": 8, "embedding": 16, "channels": (32, 32), "blocks": (1, 1)}
    return sizes


def training_defaults(preset: str) -> Mapping[str, Any]:
    """Return half an hour, or with smoke seconds, of one-step prediction from real frames."""
    _refuse_paper(preset)
    return SMOKE if preset == "smoke" else CPU


def _refuse_paper(preset: str) -> None:
    if preset in ("paper", "authors"):
        raise UserError("the pixel-exact predictor is not the paper's: train it with --preset cpu or smoke")
