"""What `acvp control` and `acvp explore` are asked for; imports no torch, for a quick command line."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Literal

from tyro.conf import arg

from acvp.console import Device, Module, optional
from acvp.control.kernel import KernelConfig, paper_kernel
from acvp.errors import (
    AT_ONCE,
    LONGEST,
    MOST,
    UserError,
    require,
    require_above_zero,
    require_device,
    require_probability,
    require_seed,
)
from acvp.evaluation.config import require_predictors

SourceName = Literal["random", "constant", "informed-model", "informed-emulator"]
ALL_SOURCES = "all; informed-model only with --predictor"


@dataclass(frozen=True, kw_only=True)
class ControlConfig:
    """Let an agent act on predicted frames only, and plot its score against the prediction horizon (figure 5)."""

    predictors: Annotated[tuple[Path, ...], arg(metavar="PREDICTOR …", aliases=("--runs",))]
    """Run folders or predictor folders of the agent's game, in any view."""
    agent: str
    """Packaged agent (freeway), agent folder or run folder."""
    out: Annotated[Path | None, optional("PATH", "the run folder, or evaluation/ for several predictors")] = None
    """Folder for control.json and plots/."""
    horizons: tuple[int, ...] = (1, 2, 3, 5, 10, 20, 30, 50, 100)
    """Agent steps between resyncs with real frames. Each horizon is one point of the curve."""
    episodes: int = 30
    """Episodes per horizon, played in parallel."""
    epsilon: float = 0.05
    """Probability of a random action at each agent step."""
    max_steps: Annotated[int | None, optional("INT", "the game's limit")] = None
    """Agent steps after which an episode is truncated."""
    seed: int = 0
    """Random seed of the games and the random actions."""
    import_module: Module = None
    """Python module to import first: it registers the game with Gymnasium. Its code runs: name only what you trust."""
    device: Device = "auto"
    """Device to compute on: auto, cpu, cuda, cuda:1 (the second GPU), mps.
    auto: the fastest one available."""

    def __post_init__(self) -> None:
        require_predictors(self.predictors)
        require(1, AT_ONCE, episodes=self.episodes)
        require(1, LONGEST, max_steps=self.max_steps)
        require_probability(epsilon=self.epsilon)
        require_seed(self.seed)
        require_device(self.device)
        for horizon in self.horizons:
            require(1, horizons=horizon)
        if not self.horizons or len(set(self.horizons)) < len(self.horizons):
            raise UserError(f"--horizons {' '.join(map(str, self.horizons))}: different numbers, and at least one")


@dataclass(frozen=True, kw_only=True)
class ExploreConfig:
    """Compare exploration strategies by first reward and coverage. If interrupted, run it again to resume."""

    env_id: str
    """Gymnasium id of the game (ALE/Freeway-v5, acvp/Toy-v0, …), or a bare Atari name (freeway)."""
    out: Path
    """Folder for explore.json and plots/."""
    sources: Annotated[tuple[SourceName, ...] | None, optional("STRATEGY …", ALL_SOURCES)] = None
    """Strategies to compare: random, constant, informed-emulator, informed-model.
    constant repeats the one action that gets the first reward soonest."""
    predictor: Annotated[Path | None, optional("PREDICTOR", "none", aliases=("--run",))] = None
    """Run folder or predictor folder for the strategy informed-model."""
    seeds: int = 20
    """Exploration runs per strategy, each until its first reward."""
    max_steps: int = 20_000
    """Agent steps after which an exploration run without reward stops; it then counts as this many."""
    map_steps: int = 2_500
    """Agent steps over which heat maps and coverage are recorded."""
    map_seeds: int = 5
    """Exploration runs per strategy that record heat maps and coverage."""
    cell: Annotated[int | None, optional("INT", "a fortieth of the longer side of the frame")] = None
    """Cell size of heat maps and coverage, in pixels."""
    memory: Annotated[int | None, optional("INT", "the paper's for this game")] = None
    """Size of the trajectory memory, in frames."""
    delta: Annotated[int | None, optional("INT", "the paper's for this game")] = None
    """Threshold δ of the kernel."""
    sigma: Annotated[float | None, optional("FLOAT", "the paper's")] = None
    """Bandwidth σ of the kernel."""
    look_ahead: int = 1
    """Agent steps that informed exploration looks ahead for each action. The paper uses 1."""
    noops: int = 30
    """Maximum number of no-op steps at the start: each seed draws a number from 0 to this."""
    seed: int = 0
    """First random seed; the exploration runs use consecutive seeds."""
    import_module: Module = None
    """Python module to import first: it registers the game with Gymnasium. Its code runs: name only what you trust."""
    device: Device = "auto"
    """Device to compute on: auto, cpu, cuda, cuda:1 (the second GPU), mps.
    auto: the fastest one available."""

    def __post_init__(self) -> None:
        require(1, seeds=self.seeds, look_ahead=self.look_ahead, cell=self.cell, memory=self.memory)
        require(1, LONGEST, max_steps=self.max_steps)
        require(0, LONGEST, map_steps=self.map_steps)
        require(0, map_seeds=self.map_seeds, noops=self.noops, delta=self.delta)
        require_above_zero(MOST, sigma=self.sigma)
        require_seed(self.seed)
        require_device(self.device)
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
