"""Everything that decides how a DQN learns, as presets: 2013's, one for 45 minutes on one core, one for seconds."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import asdict, dataclass, field, replace
from typing import Any, Literal

from acvp.agents.agent import NetworkConfig
from acvp.agents.config import AgentTrainConfig, ExplorationName
from acvp.errors import UserError

OptimizerName = Literal["rmsprop", "adam"]


@dataclass(frozen=True, kw_only=True)
class DqnConfig:
    """A complete configuration of learning; the defaults are the paper's (Mnih et al., 2013).

    What 2013 leaves open is taken from the table of 2015 (same authors): lr, RMSProp's constants, discount, warm-up.
    """

    name: str = "paper"
    """Of the preset."""
    network: NetworkConfig = field(default_factory=NetworkConfig)
    """Sizes of the layers."""
    optimizer: OptimizerName = "rmsprop"
    """rmsprop: squared gradients averaged with 0.95, 0.01 added to their root; adam: as usual, 1e-4 added."""
    lr: float = 2.5e-4
    """Learning rate."""
    batch_size: int = 32
    """Transitions of an update."""
    discount: float = 0.99
    """γ: what a reward one agent step later is worth."""
    return_steps: int = 1
    """Agent steps whose rewards are taken as they came, before the network's own estimate (n-step returns)."""
    replay: int = 1_000_000
    """Transitions remembered, of all games together; 7 kB each."""
    learning_starts: int = 50_000
    """Agent steps before the first update."""
    games: int = 1
    """Games played at the same time."""
    steps_per_update: int = 1
    """Agent steps, of all games together, between two updates; a multiple or a part of --games."""
    target_every: int = 1
    """Agent steps after which the target network is updated; 1: there is none apart from the network."""
    epsilon_first: float = 1.0
    """Share of exploring actions at the start."""
    epsilon_last: float = 0.1
    """Share of exploring actions after --epsilon-share of the run."""
    epsilon_share: float = 0.1
    """Share of the run in which ε falls, in a straight line."""
    exploration: ExplorationName = "random"
    """What an exploring action is: a new random one each time, one that is kept for a while, or an informed one."""
    episodic_life: bool = False
    """A lost life ends the return, although the episode continues."""
    steps: int | None = 10_000_000
    """Agent steps of the run; None: by the clock."""
    minutes: float | None = None
    """Wall-clock minutes of playing, learning and saving; the learning curve comes on top. None: by agent steps."""
    evaluations: int = 100
    """Points of the learning curve after the first, evenly over the run; the best of them is the finished agent: the
    highest mean less its standard error, of equals the latest."""
    evaluate_episodes: int = 10
    """Episodes played for each point of the learning curve."""
    evaluate_epsilon: float = 0.05
    """Share of random actions in the episodes of the learning curve."""

    def __post_init__(self) -> None:
        whole = ("batch_size", "return_steps", "replay", "games", "steps_per_update", "target_every")
        for name in (*whole, "evaluations", "evaluate_episodes"):
            if getattr(self, name) < 1:
                raise UserError(f"{name} {getattr(self, name)}: at least 1")
        if self.games % self.steps_per_update and self.steps_per_update % self.games:
            raise UserError(
                f"{self.games} games and {self.steps_per_update} agent steps per update: one must divide the other"
            )
        if (self.steps or 0) <= 0 and (self.minutes or 0) <= 0:
            raise UserError("a run ends after some steps or minutes: give one of them")

    @property
    def rounds_between_updates(self) -> int:
        """Agent steps of every game before an update."""
        return max(1, self.steps_per_update // self.games)

    @property
    def updates_of_a_round(self) -> int:
        """Updates after that."""
        return max(1, self.games // self.steps_per_update)

    def progress(self, steps: int, seconds: float) -> float:
        """Return how much of the run is done, from 0 to 1."""
        parts = [steps / self.steps] if self.steps else []
        parts += [seconds / 60 / self.minutes] if self.minutes else []
        return min(1.0, max(parts))

    def to_dict(self) -> dict[str, Any]:
        """Return the settings as JSON can hold them."""
        return asdict(self) | {"network": self.network.to_dict()}


def paper() -> DqnConfig:
    """Return the settings of 2013: days on a CPU, 7.1 GB of replay; scores over 100 episodes, as in table 1."""
    return DqnConfig(evaluations=20, evaluate_episodes=100)


def cpu() -> DqnConfig:
    """Return 45 minutes on one core: Adam, 5-step returns, a target network, an update every 4 agent steps."""
    return DqnConfig(
        name="cpu", optimizer="adam", lr=2.5e-4, return_steps=5, replay=200_000, learning_starts=4_000, games=8,
        steps_per_update=4, target_every=2_000, epsilon_last=0.05, epsilon_share=0.2, exploration="sticky-random",
        episodic_life=True, steps=None, minutes=45.0, evaluations=9, evaluate_episodes=10,
    )  # fmt: skip


def smoke() -> DqnConfig:
    """Return seconds of a small network: to see that everything works."""
    return DqnConfig(
        name="smoke", network=NetworkConfig(channels=(8, 16), hidden=64), optimizer="adam", lr=1e-3, discount=0.9,
        return_steps=3, replay=20_000, learning_starts=200, games=4, steps_per_update=4, target_every=200,
        epsilon_last=0.05, epsilon_share=0.5, steps=2_000, evaluations=2, evaluate_episodes=2,
    )  # fmt: skip


PRESETS: dict[str, Callable[[], DqnConfig]] = {"paper": paper, "cpu": cpu, "smoke": smoke}


def config_from_dict(values: dict[str, Any]) -> DqnConfig:
    """Return the config that a run's config.json holds."""
    try:
        sizes: dict[str, Any] = {
            name: tuple(value) if isinstance(value, list) else value for name, value in values["network"].items()
        }
        return DqnConfig(**values | {"network": NetworkConfig(**sizes)})
    except (KeyError, TypeError) as error:
        raise UserError(f"config.json holds no DQN config of acvp ({error}); choose another --config") from error


def make_dqn_config(config: AgentTrainConfig, base: DqnConfig | None = None) -> DqnConfig:
    """Return the config that a command line asks for: the preset's, or `base`, with what the options change."""
    chosen = {name: getattr(config, name) for name in ("exploration", "games", "replay")}
    changes = {name: value for name, value in chosen.items() if value is not None}
    if config.minutes is not None or config.steps is not None:
        changes |= {"minutes": config.minutes, "steps": config.steps}
    return replace(base or PRESETS[config.preset](), **changes)
