"""What `acvp control` and `acvp explore` are asked for; imports no torch, for a quick command line."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Literal

from tyro.conf import arg

from acvp.control.kernel import KernelConfig, paper_kernel
from acvp.errors import UserError
from acvp.evaluation.config import Device, require_predictors
from acvp.options import AT_ONCE, LONGEST, MOST, require, require_above_zero, require_probability, require_seed

SourceName = Literal["random", "constant", "informed-model", "informed-emulator"]


@dataclass(frozen=True, kw_only=True)
class ControlConfig:
    """Let an agent play by predicted frames only: its score against the depth of the predictions (figure 5)."""

    predictors: Annotated[tuple[Path, ...], arg(metavar="PREDICTOR …", aliases=("--runs",))]
    """Folders of runs or of predictors of the agent's game, in any view."""
    agent: str
    """Agent that plays: a name of those in the package, such as freeway, or a folder."""
    out: Path | None = None
    """Folder for control.json and plots/; None: the run's own, `evaluation` for several runs."""
    horizons: tuple[int, ...] = (1, 2, 3, 5, 10, 20, 30, 50, 100)
    """Decisions n after which predictions are grounded in real frames again."""
    episodes: int = 30
    """Plays of each point; all run at once."""
    epsilon: float = 0.05
    """Probability of a random action."""
    max_steps: int | None = None
    """Decisions after which a play is cut off; None: the game's own limit."""
    seed: int = 0
    """All random actions follow from it."""
    import_module: Annotated[str | None, arg(name="import")] = None
    """Module to import first, where the game comes from one: do so only if you trust it."""
    device: Device = "auto"
    """Where to compute."""

    def __post_init__(self) -> None:
        require_predictors(self.predictors)
        require(1, AT_ONCE, episodes=self.episodes)
        require(1, LONGEST, max_steps=self.max_steps)
        require_probability(epsilon=self.epsilon)
        require_seed(self.seed)
        for horizon in self.horizons:
            require(1, horizons=horizon)
        if not self.horizons or len(set(self.horizons)) < len(self.horizons):
            raise UserError(f"--horizons {' '.join(map(str, self.horizons))}: different numbers, and at least one")


@dataclass(frozen=True, kw_only=True)
class ExploreConfig:
    """Explore a game without learning: decisions to the first reward, and where the controlled object goes."""

    env_id: str
    """Gymnasium id of the game (ALE/Freeway-v5, acvp/Toy-v0, …), or a bare Atari name (freeway)."""
    out: Path
    """Folder for explore.json and plots/; the same command again goes on after a stop, seed by seed."""
    sources: tuple[SourceName, ...] | None = None
    """Ways of exploring; constant: the one action that, held, comes to a reward first. None: random, constant,
    informed-emulator, and informed-model where --predictor is given."""
    predictor: Annotated[Path | None, arg(metavar="PREDICTOR", aliases=("--run",))] = None
    """Run or predictor that informed-model asks."""
    seeds: int = 20
    """Explorations of each source until the first reward."""
    max_steps: int = 20_000
    """Decisions after which an exploration without reward is given up; it counts with this number."""
    map_steps: int = 2_500
    """Decisions for which heat maps and coverage follow the controlled object."""
    map_seeds: int = 5
    """How many of the explorations are followed that long."""
    cell: int | None = None
    """Side of a cell in pixels, for heat maps and coverage; None: a fortieth of the frame's longer side."""
    memory: int | None = None
    """Frames of the trajectory memory; None: the paper's for this game."""
    delta: int | None = None
    """Threshold δ of the kernel; None: the paper's for this game."""
    sigma: float | None = None
    """Bandwidth σ of the kernel; None: the paper's."""
    look_ahead: int = 1
    """Decisions for which each action is tried, held; the paper's is 1."""
    noops: int = 30
    """An exploration begins with 0 to this many decisions of action 0, by its seed: Atari's games all begin alike."""
    seed: int = 0
    """First of the seeds."""
    import_module: Annotated[str | None, arg(name="import")] = None
    """Module to import first, where the game comes from one: do so only if you trust it."""
    device: Device = "auto"
    """Where to compute."""

    def __post_init__(self) -> None:
        require(1, seeds=self.seeds, look_ahead=self.look_ahead, cell=self.cell, memory=self.memory)
        require(1, LONGEST, max_steps=self.max_steps)
        require(0, LONGEST, map_steps=self.map_steps)
        require(0, map_seeds=self.map_seeds, noops=self.noops, delta=self.delta)
        require_above_zero(MOST, sigma=self.sigma)
        require_seed(self.seed)
        if not self.chosen_sources or len(set(self.chosen_sources)) < len(self.chosen_sources):
            raise UserError(f"--sources {' '.join(self.chosen_sources)}: name at least one, and each once")
        if "informed-model" in self.chosen_sources and self.predictor is None:
            raise UserError("informed-model asks a predictor: name one with --predictor, or leave it out of --sources")

    @property
    def chosen_sources(self) -> tuple[SourceName, ...]:
        """The ways of exploring."""
        if self.sources is not None:
            return self.sources
        always: tuple[SourceName, ...] = ("random", "constant", "informed-emulator")
        return always if self.predictor is None else (*always, "informed-model")

    def kernel(self, env_id: str) -> KernelConfig:
        """Return the kernel for a game: the paper's where nothing else is asked for."""
        paper = paper_kernel(env_id)
        return KernelConfig(
            memory=paper.memory if self.memory is None else self.memory,
            delta=paper.delta if self.delta is None else self.delta,
            sigma=paper.sigma if self.sigma is None else self.sigma,
        )
