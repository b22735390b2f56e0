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
    """A state of a recorded episode."""

    episode: int
    """Number of the episode."""
    frame: int
    """The last context frame."""


@dataclass(frozen=True, kw_only=True)
class AnalyzeConfig:
    """Show what a predictor has learned: similar actions, controlled objects, and the future of every action."""

    predictor: Annotated[Path, arg(metavar="PREDICTOR", aliases=("--run",))]
    """Folder of a run or of a predictor."""
    data: Path
    """Dataset to analyze on: the one trained on (its held-out episodes are used) or another one (all of it)."""
    trained_on: Path | None = None
    """Dataset the run was trained on, if --data is another one: episodes in both are refused."""
    out: Path | None = None
    """Folder for analysis.json and plots/; None: the run's own."""
    states: int = 100
    """States over which the factor split is measured and contingency maps are averaged."""
    variance_share: float = 0.7
    """The high-variance factors are the fewest that hold this share of the variance over actions."""
    examples: int = 2
    """States to draw: those where the action matters most, one from each part of the test episodes."""
    at: tuple[str, ...] = ()
    """States to draw instead, each EPISODE:FRAME of the dataset, such as 3:500; FRAME is the last context frame."""
    steps: int = 3
    """Agent steps for which each action is held in the pictures of its future."""
    seed: int = 0
    """Random seed of states, random factors and permuted actions."""
    import_module: Annotated[str | None, arg(name="import")] = None
    """Module to import first, where the game comes from one: do so only if you trust it."""
    device: Device = "auto"
    """Where to compute."""

    def __post_init__(self) -> None:
        require(2, states=self.states)
        require(1, steps=self.steps, examples=self.examples)
        require_seed(self.seed)
        require_share(variance_share=self.variance_share)
        self.named_states()

    def named_states(self) -> list[At]:
        """Return the states that --at names."""
        return [_parse_state(text) for text in self.at]


def _parse_state(text: str) -> At:
    match = re.fullmatch(r"(\d+):(\d+)", text)
    if not match:
        raise UserError(f"--at {text}: write EPISODE:FRAME, such as 3:500")
    return At(int(match[1]), int(match[2]))
