"""What `acvp agent` is asked for; imports no torch, so that the command line stays quick."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from importlib.util import find_spec
from pathlib import Path
from typing import Annotated, Literal

from tyro.conf import FlagCreatePairsOff, Positional, Suppress, arg

from acvp.console import Device, EnvId, Module, optional
from acvp.errors import (
    AT_ONCE,
    LONGEST,
    MAX_MINUTES,
    UserError,
    require,
    require_above_zero,
    require_device,
    require_probability,
    require_seed,
)

AgentPreset = Literal["paper", "cpu", "smoke"]
ExplorationName = Literal["random", "sticky-random", "informed-model", "informed-emulator"]
MAX_REPLAY = 10**8
"""Transitions; 700 GB."""


def require_stable_baselines3() -> None:
    """Refuse to begin where agents cannot learn."""
    if find_spec("stable_baselines3") is None:
        raise UserError("agents learn with Stable-Baselines3, which is not installed: pip install 'acvp[agents]'")


@dataclass(frozen=True, kw_only=True)
class AgentTrainConfig:
    """Train a DQN agent. If interrupted, run the same command again to resume."""

    env_id: EnvId
    """Gymnasium id of the game (ALE/Freeway-v5, acvp/Toy-v0, …), or a bare Atari name (freeway)."""
    preset: AgentPreset = "cpu"
    """Hyperparameters. paper: Mnih et al. (2013), days on a CPU; cpu: 45 minutes on one core;
    smoke: seconds, for a test (the agent learns nothing)."""
    run: Annotated[Path | None, optional("PATH", "runs/{game}__dqn__{seed}__{time}")] = None
    """Run folder: checkpoints, metrics and the trained agent."""
    minutes: Annotated[float | None, optional("FLOAT", "the preset's")] = None
    """Training time in wall-clock minutes, without the evaluations of the learning curve."""
    steps: Annotated[int | None, optional("INT", "the preset's")] = None
    """Training length in agent steps, over all parallel games. With --minutes, the first limit reached applies."""
    exploration: Annotated[ExplorationName | None, optional("STRATEGY", "the preset's; cpu: sticky-random")] = None
    """Exploratory actions: random; sticky-random (repeated for a while);
    informed-model, informed-emulator: toward the least visited frames (§4.2), by a predictor or the emulator."""
    predictor: Annotated[Path | None, optional("PREDICTOR", "none")] = None
    """Predictor for --exploration informed-model: a run folder, a predictor folder or a packaged name (freeway)."""
    delta: Annotated[int | None, optional("INT", "the paper's for this game")] = None
    """Threshold δ of the kernel of informed exploration. An inexact predictor needs a higher one.
    50 tolerates a difference of 7 gray levels."""
    look_ahead: Annotated[int | None, optional("INT", "1, as in the paper")] = None
    """Agent steps that informed exploration looks ahead for each action."""
    imagined: Annotated[Path | None, optional("PREDICTOR", "train in the real game")] = None
    """Train inside this predictor instead of the game: a run, a predictor folder or a packaged name.
    The learning curve is still measured in the real game; the final agent is the last one, not the best."""
    data: Annotated[Path | None, optional("DATASET", "none")] = None
    """Dataset with the frames that imagined episodes start from. Required with --imagined."""
    config: Annotated[Path | None, optional("FILE", "the preset")] = None
    """Run folder or its config.json: start from its config instead of the preset's. Other options override it."""
    help_all: Annotated[bool, FlagCreatePairsOff] = False
    """Print every field of the DQN config as an option, with its value and meaning, and exit.
    Such options change single fields: --lr 1e-4 or --network.hidden 512."""
    knobs: Annotated[Mapping[str, Sequence[str]], Suppress] = field(default_factory=dict)
    """Fields of the DQN config to change: name, such as network.hidden, and value in words."""
    seed: int = 1
    """Random seed of the initial weights, the games and the exploration."""
    games: Annotated[int | None, optional("INT", "the preset's")] = None
    """Number of games played in parallel."""
    replay: Annotated[int | None, optional("INT", "the preset's; cpu: 200,000")] = None
    """Replay buffer size in transitions, 7 kB each."""
    emulator: Literal["own", "ale"] = "own"
    """own: any game, and runs can resume in mid-episode; ale: Atari only, with ALE's threads, for many cores."""
    max_steps: Annotated[int | None, optional("INT", "the game's limit; imagined games: 100")] = None
    """Agent steps after which an episode is truncated."""
    save_replay: bool = True
    """Save the replay buffer in checkpoints, so that a resumed run equals an uninterrupted one.
    Without it, the buffer starts empty after a resume."""
    save_minutes: float = 5.0
    """Wall-clock minutes between checkpoints. 0: as often as possible."""
    resume: Literal["auto", "never"] = "auto"
    """auto: continue from the latest checkpoint in --run, if any; never: fail if --run has already started."""
    device: Device = "auto"
    import_module: Module = None

    def __post_init__(self) -> None:
        require_above_zero(MAX_MINUTES, minutes=self.minutes)
        require(0, MAX_MINUTES, save_minutes=self.save_minutes)
        require(1, LONGEST, steps=self.steps, max_steps=self.max_steps)
        require(1, AT_ONCE, games=self.games)
        require(1, MAX_REPLAY, replay=self.replay)
        require(1, look_ahead=self.look_ahead)
        require(0, delta=self.delta)
        require_seed(self.seed)
        require_device(self.device)
        if (self.exploration == "informed-model") != (self.predictor is not None):
            raise UserError("--exploration informed-model and --predictor belong together: give both or none")
        if (self.imagined is None) != (self.data is None):
            raise UserError("--imagined and --data belong together: imagined episodes begin with frames of a dataset")
        if self.imagined is not None and self.emulator == "ale":
            raise UserError("--imagined learns in no emulator: leave --emulator out")
        if self.imagined is not None and (self.exploration or "").startswith("informed"):
            raise UserError("informed exploration is one of real games: leave out --imagined or --exploration")
        if (self.delta, self.look_ahead) != (None, None) and not (self.exploration or "").startswith("informed"):
            raise UserError("--delta and --look-ahead are of informed exploration: choose --exploration informed-model")
        if self.exploration == "informed-emulator" and self.emulator == "ale":
            raise UserError("informed-emulator tries actions in the games themselves: choose --emulator own")


@dataclass(frozen=True, kw_only=True)
class AgentEvaluateConfig:
    """Evaluate an agent or another policy: play episodes and report its mean score."""

    agent: Annotated[str | None, optional("AGENT", "none")] = None
    """Packaged agent (freeway), agent folder or run folder."""
    policy: Annotated[str | None, optional("POLICY", "none")] = None
    """Instead of --agent, a policy of acvp collect: plan:PREDICTOR takes the best of imagined futures.
    Its options follow after commas: plan:freeway,horizon=48,samples=16,keep=8 (docs/imagination.md)."""
    env_id: Annotated[str | None, optional("ENV_ID", "the game it was trained on")] = None
    """Gymnasium id of the game to play. Required with --policy."""
    episodes: int = 30
    """Number of episodes to average over."""
    epsilon: float = 0.05
    """Probability of a random action at each agent step. 1: a random agent."""
    seed: int = 1
    """Random seed; the same seed gives the same episodes."""
    max_steps: Annotated[int | None, optional("INT", "4500, five minutes of Atari")] = 4_500
    """Agent steps after which an episode is truncated."""
    at_once: int = 16
    """Episodes played in parallel. Affects speed; scores can differ by rounding only."""
    references: bool = True
    """Also score a random agent and the best constant action, on the same episodes.
    With A actions, this adds A + 1 times as many episodes."""
    out: Annotated[Path | None, optional("PATH", "print only")] = None
    """Folder for agent-evaluation.json and the video."""
    video: bool = False
    """Also write the episode with the median score as play.mp4 to --out."""
    import_module: Module = None

    def __post_init__(self) -> None:
        require_probability(epsilon=self.epsilon)
        require(1, episodes=self.episodes)
        require(1, AT_ONCE, at_once=self.at_once)
        require(1, LONGEST, max_steps=self.max_steps)
        require_seed(self.seed)
        if (self.agent is None) == (self.policy is None):
            raise UserError("who is to play? give --agent NAME, or --policy such as plan:freeway with --env-id")
        if self.policy is not None and self.env_id is None:
            raise UserError(f"--policy {self.policy}: name the game to play with --env-id")
        if self.video and self.out is None:
            raise UserError("--video: say where to with --out")


@dataclass(frozen=True, kw_only=True)
class AgentImportConfig:
    """Convert a DQN saved by Stable-Baselines3 to an agent folder."""

    source: Positional[Path]
    """Zip file saved by Stable-Baselines3."""
    env_id: EnvId
    """Gymnasium id of the game that the agent was trained on, with its minimal action set."""
    out: Path
    """New agent folder."""
    trust_pickle: bool = False
    """Required: reading the zip file runs code stored in it. Use it only for files you trust."""
    import_module: Module = None


@dataclass(frozen=True, kw_only=True)
class AgentCompareConfig:
    """Plot the learning curves of several runs. Runs that differ only in their seed become one curve."""

    runs: Annotated[tuple[Path, ...], arg(metavar="RUN …")]
    """Run folders of one game, trained with the same --steps; for example two strategies with five seeds each."""
    out: Path
    """Folder for learning.json and plots/."""
    references: bool = True
    """Also show the scores of the best constant action and of a random agent.
    They are measured if the run folders do not have them."""

    def __post_init__(self) -> None:
        if not self.runs:
            raise UserError("--runs: name at least one run")
