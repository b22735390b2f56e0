"""What `acvp analyze` is asked for; imports no torch, for a quick command line."""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, NamedTuple

from tyro.conf import arg

from acvp.errors import UserError
from acvp.evaluation.config import Device
from acvp.options import require, require_seed, require_share


class At(NamedTuple):
    """A moment of a store."""

    episode: int
    """Number of the episode."""
    frame: int
    """The last frame that is given."""


@dataclass(frozen=True, kw_only=True)
class AnalyzeConfig:
    """Show what a run has learned: which actions are alike, what it takes for controlled, every action's future."""

    predictor: Annotated[Path, arg(metavar="PREDICTOR", aliases=("--run",))]
    """Folder of a run or of a predictor."""
    data: Path
    """Store to look at: the one trained on (its held-out episodes are used) or another one (all of it)."""
    trained_on: Path | None = None
    """Store the run was trained on, where --data is another one: refuses plays that are in both."""
    out: Path | None = None
    """Folder for analysis.json and plots/; None: the run's own."""
    states: int = 100
    """Moments over which halves are measured and contingency maps averaged."""
    variance_share: float = 0.7
    """The high-variance factors are the fewest that hold this share of the variance over actions."""
    examples: int = 2
    """Moments to picture: those where most is to be seen, one from each part of the test episodes."""
    at: tuple[str, ...] = ()
    """Moments to picture instead, each EPISODE:FRAME of the store, such as 3:500, FRAME being the last one given."""
    steps: int = 3
    """Decisions for which each action is held in the pictures of every action's future."""
    seed: int = 0
    """Moments, random factors and relabeled actions follow from it."""
    import_module: Annotated[str | None, arg(name="import")] = None
    """Module to import first, where the game comes from one: do so only if you trust it."""
    device: Device = "auto"
    """Where to compute."""

    def __post_init__(self) -> None:
        require(2, states=self.states)
        require(1, steps=self.steps, examples=self.examples)
        require_seed(self.seed)
        require_share(variance_share=self.variance_share)
        self.moments()

    def moments(self) -> list[At]:
        """Return the moments that --at names."""
        return [_moment(text) for text in self.at]


def _moment(text: str) -> At:
    match = re.fullmatch(r"(\d+):(\d+)", text)
    if not match:
        raise UserError(f"--at {text}: write EPISODE:FRAME, such as 3:500")
    return At(int(match[1]), int(match[2]))
