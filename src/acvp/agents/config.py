"""What `acvp agent` is asked for; imports no torch, so that the command line stays quick."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from importlib.util import find_spec
from pathlib import Path
from typing import Annotated, Literal

from tyro.conf import Positional, Suppress, arg

from acvp.errors import UserError
from acvp.options import AT_ONCE, LONGEST, MAX_MINUTES, require, require_above_zero, require_probability, require_seed

AgentPreset = Literal["paper", "cpu", "smoke"]
ExplorationName = Literal["random", "sticky-random", "informed-model", "informed-emulator"]
Device = Literal["auto", "cpu", "cuda", "mps"]
MAX_REPLAY = 10**8
"""Transitions; 700 GB."""


def require_stable_baselines3() -> None:
    """Refuse to begin where agents cannot learn."""
    if find_spec("stable_baselines3") is None:
        raise UserError("agents learn with Stable-Baselines3, which is not installed: pip install 'acvp[agents]'")


@dataclass(frozen=True, kw_only=True)
class AgentTrainConfig:
    """Train a DQN in a game; the same command again goes on after a stop."""

    env_id: str
    """Gymnasium id of the game (ALE/Freeway-v5, acvp/Toy-v0, …), or a bare Atari name (freeway)."""
    preset: AgentPreset = "cpu"
    """paper: Mnih et al., 2013, days on a CPU; cpu: 45 minutes on one core; smoke: seconds, learns nothing."""
    run: Path | None = None
    """Folder of the run; None: runs/{game}__dqn__{seed}__{time}."""
    minutes: float | None = None
    """Wall-clock minutes of playing, learning and saving; the learning curve comes on top. None: the preset's."""
    steps: int | None = None
    """Decisions of all games together; None: the preset's. With --minutes: whatever ends first."""
    exploration: ExplorationName | None = None
    """What an exploring action is: random; sticky-random: kept for a while; informed-model, informed-emulator: leads
    where the agent has been least (§4.2 of the paper). None: the preset's (paper: random, cpu: sticky-random)."""
    predictor: Path | None = None
    """Run or predictor that informed-model asks, or the name of one that comes with acvp."""
    delta: int | None = None
    """Threshold δ of the kernel of informed exploration; None: the paper's for this game. A network that is not exact
    needs some (50 forgives 7 gray levels)."""
    look_ahead: int | None = None
    """Decisions for which informed exploration tries each action; None: the paper's, 1."""
    imagined: Path | None = None
    """Learn inside this predictor, never in the game itself: a run, or the name of one that comes with acvp. The curve
    of learning is still of the real game; the finished agent is the last one."""
    data: Path | None = None
    """Recorded frames that imagined plays begin with."""
    config: Annotated[Path | None, arg(metavar="FILE", help_behavior_hint="(default: none)")] = None
    """Run folder, or its config.json, whose config is used instead of the preset's; options given beside it change
    it."""
    help_all: bool = False
    """Print every field of the DQN config as an option with its value, and exit. Such an option, --lr 1e-4 or
    --network.hidden 512, changes one field."""
    knobs: Annotated[Mapping[str, Sequence[str]], Suppress] = field(default_factory=dict)
    """Fields of the DQN config to change: name, such as network.hidden, and value in words."""
    seed: int = 1
    """Weights, plays and exploration follow from it."""
    games: int | None = None
    """Games played at the same time; None: the preset's."""
    replay: int | None = None
    """Transitions remembered, 7 kB each; None: the preset's (paper: 1,000,000, cpu: 200,000)."""
    emulator: Literal["own", "ale"] = "own"
    """own: any game, resumes in the middle of a play; ale: Atari in threads of ALE's own, for many cores."""
    max_steps: int | None = None
    """Decisions after which a play is cut off; None: the game's own limit, of imagined games 100."""
    save_replay: bool = True
    """Keep the replay in checkpoints: a resumed run is the run that was never stopped. Without it, it fills anew."""
    save_minutes: float = 5.0
    """Wall-clock minutes between checkpoints; 0: as often as possible."""
    resume: Literal["auto", "never"] = "auto"
    """auto: go on from the newest checkpoint of --run if there is one; never: refuse a run that has begun."""
    device: Device = "auto"
    """Where to compute."""
    import_module: Annotated[str | None, arg(name="import")] = None
    """Module to import first, for the ids that it registers with Gymnasium."""

    def __post_init__(self) -> None:
        require_above_zero(MAX_MINUTES, minutes=self.minutes)
        require(0, MAX_MINUTES, save_minutes=self.save_minutes)
        require(1, LONGEST, steps=self.steps, max_steps=self.max_steps)
        require(1, AT_ONCE, games=self.games)
        require(1, MAX_REPLAY, replay=self.replay)
        require(1, look_ahead=self.look_ahead)
        require(0, delta=self.delta)
        require_seed(self.seed)
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
    """Let an agent play and tell what it scores."""

    agent: str
    """Name of one in the package (freeway), folder of an agent, or of a run."""
    env_id: str | None = None
    """Game to play; None: the one it was trained in."""
    episodes: int = 30
    """Plays that the mean is of."""
    epsilon: float = 0.05
    """Probability of a random action, at each decision; 1: play at random."""
    seed: int = 1
    """Same seed, same plays."""
    max_steps: int | None = 4_500
    """Decisions after which a play is cut off: five minutes of Atari; None: the game's own limit."""
    at_once: int = 16
    """Plays at the same time; the scores do not depend on it but for rounding."""
    references: bool = True
    """Also play the best constant action (each action in turn, held throughout) and at random, in the same episodes:
    with A actions as many episodes again, A + 1 times, of the emulator alone."""
    out: Path | None = None
    """Folder for agent-evaluation.json and the video; None: only tell."""
    video: bool = False
    """Also write the play of middle score as play.mp4 into --out."""
    import_module: Annotated[str | None, arg(name="import")] = None
    """Module to import first, where the game comes from one."""

    def __post_init__(self) -> None:
        require_probability(epsilon=self.epsilon)
        require(1, episodes=self.episodes)
        require(1, AT_ONCE, at_once=self.at_once)
        require(1, LONGEST, max_steps=self.max_steps)
        require_seed(self.seed)
        if self.video and self.out is None:
            raise UserError("--video: say where to with --out")


@dataclass(frozen=True, kw_only=True)
class AgentImportConfig:
    """Turn a DQN that Stable-Baselines3 saved into an agent's folder."""

    source: Positional[Path]
    """Stable-Baselines3's zip file."""
    env_id: str
    """Game it was trained in, with its minimal action set."""
    out: Path
    """New folder."""
    trust_pickle: bool = False
    """Needed: reading such a zip runs whatever code is in it. Say so only if you trust where it comes from."""
    import_module: Annotated[str | None, arg(name="import")] = None
    """Module to import first, where the game comes from one."""


@dataclass(frozen=True, kw_only=True)
class AgentCompareConfig:
    """Draw learning curves of several runs into one figure; runs that differ in their seed only become one curve."""

    runs: tuple[Path, ...]
    """Folders of runs of one game, trained with the same --steps: strategies of exploration, several seeds each."""
    out: Path
    """Folder for learning.json and plots/."""
    references: bool = True
    """Also show the best constant action and random play; they are played where a run's folder does not have them."""

    def __post_init__(self) -> None:
        if not self.runs:
            raise UserError("--runs: name at least one run")
