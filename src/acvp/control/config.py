"""What `acvp control`, `acvp explore` and `acvp agent learn` are asked for; imports no torch, for a quick start."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Literal

from tyro.conf import arg

from acvp.agents.config import AgentPreset
from acvp.console import Device, EnvId, Module, ShardText, optional
from acvp.control.kernel import KernelConfig, paper_kernel
from acvp.errors import (
    AT_ONCE,
    LONGEST,
    MAX_MINUTES,
    MOST,
    UserError,
    require,
    require_above_zero,
    require_device,
    require_probability,
    require_seed,
    require_shard,
)
from acvp.evaluation.config import require_predictors
from acvp.training.config import PresetName

StrategyName = Literal["random", "constant", "informed-model", "informed-emulator"]
ALL_STRATEGIES = "all; informed-model only with --predictor"


@dataclass(frozen=True, kw_only=True)
class ControlConfig:
    """Let an agent act on predicted frames only, and plot its score against the prediction horizon (figure 5)."""

    predictors: Annotated[tuple[Path, ...], arg(metavar="PREDICTOR …")]
    """Run folders or predictor folders of the agent's game, in any view."""
    agent: Annotated[str, arg(metavar="AGENT")]
    """Packaged agent (freeway), agent folder or run folder."""
    out: Annotated[Path | None, optional("PATH", "the run folder, or evaluation/ for several predictors")] = None
    """Folder for control.json and plots/."""
    horizons: Annotated[tuple[int, ...], arg(metavar="INT …")] = (1, 2, 3, 5, 10, 20, 30, 50, 100)
    """Agent steps between resyncs with real frames. Each horizon is one point of the curve."""
    episodes: int = 30
    """Episodes per horizon, played in parallel."""
    epsilon: float = 0.05
    """Probability of a random action at each agent step."""
    max_steps: Annotated[int | None, optional("INT", "the game's limit")] = None
    """Agent steps after which an episode is truncated."""
    seed: int = 0
    """Random seed of the games and the random actions."""
    shard: ShardText = None
    import_module: Module = None
    device: Device = "auto"

    def __post_init__(self) -> None:
        require_predictors(self.predictors)
        require(1, AT_ONCE, episodes=self.episodes)
        require(1, LONGEST, max_steps=self.max_steps)
        require_probability(epsilon=self.epsilon)
        require_seed(self.seed)
        require_shard(self.shard)
        require_device(self.device)
        for horizon in self.horizons:
            require(1, horizons=horizon)
        if not self.horizons or len(set(self.horizons)) < len(self.horizons):
            raise UserError(f"--horizons {' '.join(map(str, self.horizons))}: different numbers, and at least one")


@dataclass(frozen=True, kw_only=True)
class ExploreConfig:
    """Compare exploration strategies by first reward and coverage. If interrupted, run it again to resume."""

    env_id: EnvId
    """Gymnasium id of the game (ALE/Freeway-v5, acvp/Toy-v0, …), or a bare Atari name (freeway)."""
    out: Path
    """Folder for explore.json and plots/."""
    strategies: Annotated[tuple[StrategyName, ...] | None, optional("STRATEGY …", ALL_STRATEGIES)] = None
    """Strategies to compare: random, constant, informed-emulator, informed-model.
    constant repeats the one action that gets the first reward soonest."""
    predictor: Annotated[Path | None, optional("PREDICTOR", "none")] = None
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
    shard: ShardText = None
    import_module: Module = None
    device: Device = "auto"

    def __post_init__(self) -> None:
        require(1, seeds=self.seeds, look_ahead=self.look_ahead, cell=self.cell, memory=self.memory)
        require(1, LONGEST, max_steps=self.max_steps)
        require(0, LONGEST, map_steps=self.map_steps)
        require(0, map_seeds=self.map_seeds, noops=self.noops, delta=self.delta)
        require_above_zero(MOST, sigma=self.sigma)
        require_seed(self.seed)
        require_shard(self.shard)
        require_device(self.device)
        if not self.chosen_strategies or len(set(self.chosen_strategies)) < len(self.chosen_strategies):
            raise UserError(f"--strategies {' '.join(self.chosen_strategies)}: name at least one, and each once")
        if "informed-model" in self.chosen_strategies and self.predictor is None:
            raise UserError(
                "informed-model asks a predictor: name one with --predictor, or leave it out of --strategies"
            )

    @property
    def chosen_strategies(self) -> tuple[StrategyName, ...]:
        """The strategies to compare."""
        if self.strategies is not None:
            return self.strategies
        always: tuple[StrategyName, ...] = ("random", "constant", "informed-emulator")
        return always if self.predictor is None else (*always, "informed-model")

    def kernel(self, env_id: str) -> KernelConfig:
        """Return the kernel for a game: the paper's where nothing else is asked for."""
        paper = paper_kernel(env_id)
        return KernelConfig(
            memory=paper.memory if self.memory is None else self.memory,
            delta=paper.delta if self.delta is None else self.delta,
            sigma=paper.sigma if self.sigma is None else self.sigma,
        )


@dataclass(frozen=True, kw_only=True)
class LearnConfig:
    """Learn to play from few real agent steps: rounds of recording, training a predictor, and training an agent in it.

    If interrupted, run the same command again to resume.
    """

    env_id: EnvId
    """Gymnasium id of the game (ALE/Freeway-v5, acvp/Toy-v0, …), or a bare Atari name (freeway)."""
    run: Path
    """Run folder: data, predictors and agents of all rounds, metrics.jsonl, and the last agent."""
    budget: int = 100_000
    """Maximum number of agent steps recorded in the real game. Evaluation is extra, and nothing learns from it."""
    rounds: int = 10
    """Number of rounds. Each records an equal part of the budget."""
    policy: Annotated[tuple[str, ...], arg(metavar="POLICY …")] = ("held", "sticky-random")
    """Policies of the first round, as in acvp collect."""
    explore_rounds: int = 3
    """Number of first rounds in which informed exploration by the last predictor plays every other episode (§4.2)."""
    epsilon: float = 0.1
    """Probability of a random action at each recorded agent step."""
    model: Annotated[str, arg(metavar="NAME")] = "pixel"
    """Predictor to train, as in acvp train; it gets reward and termination heads."""
    preset: PresetName = "cpu"
    """Preset of the predictor's training."""
    minutes: Annotated[float | None, optional("FLOAT", "15")] = 15.0
    """Wall-clock minutes of the predictor's training in each round."""
    init: Annotated[Path | None, optional("PREDICTOR", "random weights")] = None
    """Predictor to start from. The real frames that it was trained on do not count toward --budget."""
    agent_preset: AgentPreset = "cpu"
    """Preset of the DQN."""
    agent_steps: int = 50_000
    """Agent steps for which the DQN trains in each round, all of them imagined."""
    horizon: int = 15
    """Length of an imagined episode in agent steps."""
    rewards: Literal["expected", "sample", "sign"] = "expected"
    """Imagined rewards, by calibrated probabilities: their expectation, a sample of them, or the most likely sign."""
    recent: float = 0.5
    """Share of the imagined episodes that start in the last fifth of the data."""
    temperature: float = 0.0
    """Sampling temperature of imagined frames, for games of chance: 0 = argmax, 1 = sample."""
    max_entropy: Annotated[float | None, optional("FLOAT", "none")] = None
    """Nats of uncertainty of rewards and terminations after which an imagined episode is truncated."""
    evaluate_episodes: int = 3
    """Real episodes that score the agent before and after its training in each round; not part of --budget."""
    references: bool = True
    """At the end, also score the best constant action and a random agent, on the episodes of the last score."""
    max_steps: Annotated[int | None, optional("INT", "the game's limit, at most a quarter of a round")] = None
    """Agent steps after which a recorded episode is truncated."""
    seed: int = 1
    """Random seed of everything."""
    device: Device = "auto"
    import_module: Module = None

    def __post_init__(self) -> None:
        require(1, LONGEST, budget=self.budget, agent_steps=self.agent_steps, max_steps=self.max_steps)
        require(1, rounds=self.rounds, horizon=self.horizon, evaluate_episodes=self.evaluate_episodes)
        require(0, explore_rounds=self.explore_rounds, temperature=self.temperature)
        require_above_zero(MAX_MINUTES, minutes=self.minutes)
        require_above_zero(MOST, max_entropy=self.max_entropy)
        require_probability(epsilon=self.epsilon, recent=self.recent)
        require_seed(self.seed)
        require_device(self.device)
        if not self.policy:
            raise UserError("--policy is empty: name at least one policy of the first round")
