"""What `acvp analyze` is asked for; imports no torch, for a quick command line."""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, NamedTuple

from tyro.conf import arg

from acvp.console import DatasetFolder, Device, Module, optional
from acvp.errors import UserError, require, require_device, require_seed, require_share


class At(NamedTuple):
    """A state of a recorded episode."""

    episode: int
    """Number of the episode."""
    frame: int
    """The last context frame."""


@dataclass(frozen=True, kw_only=True)
class AnalyzeConfig:
    """Show what a predictor has learned: which actions are similar, which objects they control, their futures."""

    predictor: Annotated[Path, arg(metavar="PREDICTOR")]
    """Run folder or predictor folder."""
    data: DatasetFolder
    """Dataset to analyze on. If it is the training dataset, only the held-out episodes are used."""
    trained_on: Annotated[Path | None, optional("DATASET", "none")] = None
    """Training dataset, if --data is another one. Fails if an episode is in both."""
    out: Annotated[Path | None, optional("PATH", "the run folder")] = None
    """Folder for analysis.json and plots/."""
    states: int = 100
    """Number of states used to split the factors and to average the contingency maps."""
    variance_share: float = 0.7
    """Fraction of the variance over actions that the high-variance factors explain together."""
    examples: int = 2
    """Number of states to draw: those where the action matters most, spread over the test episodes."""
    at: Annotated[tuple[str, ...], optional("EPISODE:FRAME …", "--examples states")] = ()
    """States to draw, such as 3:500 for frame 500 of episode 3. FRAME is the last context frame."""
    steps: int = 3
    """Agent steps for which each action is repeated in the pictures of its future."""
    seed: int = 0
    """Random seed of the states, the random factors and the permuted actions."""
    import_module: Module = None
    device: Device = "auto"

    def __post_init__(self) -> None:
        require(2, states=self.states)
        require(1, steps=self.steps, examples=self.examples)
        require_seed(self.seed)
        require_device(self.device)
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
