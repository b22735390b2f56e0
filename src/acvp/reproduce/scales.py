"""Scales of a reproduction: how much of everything, as options of ordinary commands, and what that costs.

Costs are estimates of one core with AVX2, or of one GPU of 2023; a plan shows them before anything runs.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from acvp.reproduce.config import ScaleName

NETWORKS = ("feedforward", "recurrent", "no-action", "mlp")
"""The paper's two networks and its two baselines."""


@dataclass(frozen=True, kw_only=True)
class Training:
    """How one predictor is trained."""

    options: tuple[str, ...]
    """Options of `acvp train`, apart from data, model and run."""
    minutes: float
    """About what it takes."""
    megabytes: float
    """About what its run folder takes."""


@dataclass(frozen=True, kw_only=True)
class Scale:
    """How much of everything."""

    unit: str
    """Whose minutes are estimated: core or GPU."""
    device: str
    """Device of the commands that have one."""
    frames: int
    """Frames of a game's training dataset."""
    test_frames: int
    """Frames of its test dataset."""
    episode_steps: int | None
    """Agent steps after which an episode is truncated when recorded or learned from; None: the game's limit."""
    training: Mapping[str, Training]
    """By predictor. `gray`: the gray feedforward network of appendix B, where the others see RGB frames."""
    direct: Mapping[str, tuple[str, ...]]
    """Feedforward networks whose training starts with several steps → options beside the curriculum's."""
    direct_games: tuple[str, ...] | None
    """Games in which they are trained; None: all."""
    agent_preset: str
    """Preset of agents that are trained."""
    agent_minutes: float
    """About what that takes."""
    train_agents: bool
    """Whether all agents are trained, or only those that do not come with acvp."""
    score_episodes: int
    horizon: int
    """Steps of figure 3."""
    windows: int
    long_horizon: int
    """Steps of the long predictions."""
    long_windows: int
    videos: int
    """Videos of the long predictions."""
    states: int
    """States of counterfactual futures and of the analysis."""
    control_horizons: tuple[int, ...]
    control_episodes: int
    control_steps: int
    """Agent steps after which an episode of predicted play is truncated."""
    explore_seeds: int
    explore_steps: int
    map_steps: int
    learning_games: tuple[str, ...] | None
    """Games in which agents learn with informed exploration; None: all."""
    learning_steps: int
    learning_seeds: int

    @property
    def gray(self) -> str:
        """The predictor that informs exploration: gray frames, as in appendix B."""
        return "gray" if "gray" in self.training else "feedforward"

    @property
    def frame_milliseconds(self) -> Mapping[str, float]:
        """About what a predicted frame takes, by predictor."""
        return GPU_MILLISECONDS if self.unit == "GPU" else CORE_MILLISECONDS


CORE_MILLISECONDS = {"feedforward": 3.0, "recurrent": 4.0, "no-action": 3.0, "mlp": 1.0, "pixel": 40.0, "gray": 3.0}
GPU_MILLISECONDS = {"feedforward": 1.0, "recurrent": 1.5, "no-action": 1.0, "mlp": 0.5, "pixel": 3.0, "gray": 0.5}
FRAMES_A_MINUTE = 20_000
"""Frames that an agent records in a core-minute."""
BYTES_A_FRAME = 300
PLAYED_STEPS = 1_000
"""Agent steps of an episode, about."""


def _gray(preset: str, minutes: float, *options: str, megabytes: float = 1_000) -> Training:
    return Training(options=("--preset", preset, "--view", "gray84", *options), minutes=minutes, megabytes=megabytes)


def _by_clock(minutes: float) -> Training:
    return _gray("cpu", minutes, *_core_minutes(minutes))


def _core_minutes(minutes: float) -> tuple[str, ...]:
    """Return the options of a training time that does not depend on how busy the machine is."""
    return "--minutes", f"{minutes:g}", "--clock", "core"


_SHORT = ("--phases.0.steps", "16")
SMOKE = Scale(
    unit="core",
    device="cpu",
    frames=1_000,
    test_frames=500,
    episode_steps=100,
    training={name: _gray("smoke", 0.2, *_SHORT, "--phases.1.steps", "4", megabytes=60) for name in NETWORKS}
    | {"pixel": Training(options=("--preset", "smoke", *_SHORT), minutes=0.3, megabytes=20)},
    direct={"direct-3": ("--phases.0.predict", "3", "--phases.0.batch-size", "4")},
    direct_games=None,
    agent_preset="smoke",
    agent_minutes=0.3,
    train_agents=False,
    score_episodes=2,
    horizon=12,
    windows=6,
    long_horizon=40,
    long_windows=2,
    videos=1,
    states=4,
    control_horizons=(1, 10),
    control_episodes=2,
    control_steps=30,
    explore_seeds=2,
    explore_steps=60,
    map_steps=30,
    learning_games=None,
    learning_steps=300,
    learning_seeds=1,
)

CPU = Scale(
    unit="core",
    device="cpu",
    frames=100_000,
    test_frames=25_000,
    episode_steps=None,
    training={
        "feedforward": _by_clock(60),
        "recurrent": _by_clock(120),
        "no-action": _by_clock(60),
        "mlp": _by_clock(30),
        "pixel": Training(options=("--preset", "cpu", *_core_minutes(60)), minutes=60, megabytes=60),
    },
    direct={
        "direct-3": ("--phases.0.predict", "3", "--phases.0.batch-size", "8"),
        "direct-5": ("--phases.0.predict", "5", "--phases.0.batch-size", "8", "--phases.1.predict", "5"),
    },
    direct_games=("freeway",),
    agent_preset="cpu",
    agent_minutes=45,
    train_agents=False,
    score_episodes=100,
    horizon=100,
    windows=500,
    long_horizon=500,
    long_windows=50,
    videos=2,
    states=200,
    control_horizons=(1, 10, 100),
    control_episodes=30,
    control_steps=4_500,
    explore_seeds=20,
    explore_steps=20_000,
    map_steps=2_500,
    learning_games=("freeway", "qbert"),
    learning_steps=150_000,
    learning_seeds=2,
)


def _on_gpu(minutes: float, view: str = "rgb", *, megabytes: float = 3_000) -> Training:
    options = ("--preset", "gpu", "--view", view, "--minutes", f"{minutes:g}")
    return Training(options=options, minutes=minutes, megabytes=megabytes)


GPU = Scale(
    unit="GPU",
    device="cuda",
    frames=200_000,
    test_frames=50_000,
    episode_steps=None,
    training={
        "feedforward": _on_gpu(45),
        "recurrent": _on_gpu(60),
        "no-action": _on_gpu(20),
        "mlp": _on_gpu(10),
        "gray": _on_gpu(10, "gray84", megabytes=1_000),
        "pixel": _on_gpu(20, megabytes=60),
    },
    direct={
        "direct-3": ("--phases.0.predict", "3", "--phases.0.batch-size", "32", "--phases.0.lr", "1e-4"),
        "direct-5": ("--phases.0.predict", "5", "--phases.0.batch-size", "32", "--phases.0.lr", "1e-4"),
    },
    direct_games=("freeway",),
    agent_preset="cpu",
    agent_minutes=45,
    train_agents=False,
    score_episodes=30,
    horizon=100,
    windows=500,
    long_horizon=500,
    long_windows=50,
    videos=2,
    states=200,
    control_horizons=(1, 3, 10, 30, 100),
    control_episodes=30,
    control_steps=4_500,
    explore_seeds=10,
    explore_steps=20_000,
    map_steps=2_500,
    learning_games=("freeway",),
    learning_steps=150_000,
    learning_seeds=2,
)


def _as_published(minutes: float, *options: str) -> Training:
    return Training(options=("--preset", "paper", "--view", "rgb", *options), minutes=minutes, megabytes=3_000)


PAPER = Scale(
    unit="GPU",
    device="auto",
    frames=500_000,
    test_frames=50_000,
    episode_steps=None,
    training={
        "feedforward": _as_published(3_300),
        "recurrent": _as_published(3_300),
        "no-action": _as_published(3_300),
        "mlp": _as_published(600),
        "gray": _gray("paper", 300),
        "pixel": Training(options=("--preset", "cpu", "--minutes", "60"), minutes=60, megabytes=60),
    },
    direct={
        "direct-3": ("--phases.0.predict", "3", "--phases.0.batch-size", "8"),
        "direct-5": ("--phases.0.predict", "5", "--phases.0.batch-size", "8"),
    },
    direct_games=("freeway",),
    agent_preset="paper",
    agent_minutes=6_000,
    train_agents=True,
    score_episodes=100,
    horizon=100,
    windows=500,
    long_horizon=500,
    long_windows=100,
    videos=2,
    states=200,
    control_horizons=(1, 2, 3, 5, 10, 20, 30, 50, 100),
    control_episodes=30,
    control_steps=4_500,
    explore_seeds=20,
    explore_steps=5_000_000,
    map_steps=2_500,
    learning_games=None,
    learning_steps=10_000_000,
    learning_seeds=5,
)

SCALES: Mapping[ScaleName, Scale] = {"smoke": SMOKE, "cpu": CPU, "gpu": GPU, "paper": PAPER}
