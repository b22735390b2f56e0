"""A trained agent: what it sees of a game, the network of a DQN (Mnih et al., 2013), and which action it finds best.

    agent = load_agent("freeway")
    actions = agent.act(frames, epsilon=0.05, rng=rng)

It is kept as an artifact (acvp/artifacts.py), and is a policy of `acvp collect`: `agent:freeway`, or `agent:` and the
folder of an agent.

Shapes: B batch of episodes, R some of them, T time, S (n) frames of a stack, A actions, H height, W width, C channels.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray
from torch import Tensor, nn

from acvp.artifacts import ArtifactError, Kind, from_files, make_card, read_folder, to_files, write_folder
from acvp.checkpoint import to_bytes
from acvp.data.frames import GRAY_84, PaletteEncoder, luminance, resize_area
from acvp.data.policies import Player, Policy, random_actions
from acvp.envs import Game
from acvp.errors import UserError
from acvp.loaded import view_of
from acvp.models import Predictor

SIDE = 84
"""Height and width of a frame in pixels: the view gray84."""
STACK = 4
"""Frames that an agent sees at once, oldest first."""
Pixels = NDArray[np.uint8]
Gray = NDArray[np.uint8]  # (84, 84)
Rows = NDArray[np.int64]
AGENT_SIZE = (SIDE, SIDE)
"""Height and width of a frame as an agent sees it."""


class Preprocessor:
    """Turns the frames of games into an agent's; faster where the emulator gives color numbers."""

    def __init__(self) -> None:
        self._encoder = PaletteEncoder()

    def apply(self, game: Game, frame: Pixels) -> Gray:
        """Return the game's current frame (H, W, 3) as an agent sees it."""
        keys = game.color_keys()
        if keys is None:
            return GRAY_84.apply(frame, None)[..., 0]
        indices = self._encoder.encode(frame, keys)
        return GRAY_84.apply(indices, self._encoder.palette)[..., 0]


class FrameStack:
    """The last n frames of B games, oldest first; the first frame of an episode stands in for those before it."""

    def __init__(self, games: int, length: int, shape: tuple[int, ...] = AGENT_SIZE) -> None:
        self.frames = np.zeros((games, length, *shape), np.uint8)
        """(B, n, ...)"""

    def begin(self, given: Pixels, rows: Rows | slice = slice(None)) -> None:
        """Start an episode in some games with the frames (R, T, ...) known so far."""
        length = self.frames.shape[1]
        given = given[:, -length:]
        before = np.repeat(given[:, :1], length - given.shape[1], axis=1)
        self.frames[rows] = np.concatenate((before, given), axis=1)

    def add(self, newest: Pixels, rows: Rows | slice = slice(None)) -> None:
        """Add the newest frame (R, ...) of some games and forget their oldest."""
        self.frames[rows, :-1] = self.frames[rows, 1:]
        self.frames[rows, -1] = newest


def agent_view(frames: Pixels) -> Pixels:
    """Return frames (..., H, W, C), real or predicted, as an agent sees them: gray (..., 84, 84)."""
    if frames.shape[-1] == 3:
        return resize_area(luminance(frames), AGENT_SIZE)
    gray = frames[..., 0]
    return gray if gray.shape[-2:] == AGENT_SIZE else resize_area(gray, AGENT_SIZE)


def predictor_view(predictor: Predictor, frames: Pixels) -> Pixels:
    """Return real frames (..., H, W, 3), or an agent's (..., 84, 84, 1), as a predictor sees them."""
    view = view_of(predictor)
    if frames.shape[-1] == 3:
        return view.apply(frames, None)
    if view.name != GRAY_84.name:
        raise UserError(
            f"this predictor sees frames in view {view.name}, and an agent's observations are {GRAY_84.name}: "
            f"train one with acvp train --view {GRAY_84.name}"
        )
    return frames


WHITE = 255.0
LARGEST, MOST_LAYERS = 4096, 16
"""Most channels or units of a layer, and most convolutions, in an agent's file."""

VIEW = "gray84"


@dataclass(frozen=True, kw_only=True)
class NetworkConfig:
    """Sizes of the layers; the defaults are those of Mnih et al., 2013."""

    channels: tuple[int, ...] = (16, 32)
    """Output channels of each convolution."""
    kernels: tuple[int, ...] = (8, 4)
    """Kernel size of each convolution, in pixels."""
    strides: tuple[int, ...] = (4, 2)
    """Stride of each convolution, in pixels."""
    hidden: int = 256
    """Units of the hidden layer between the convolutions and the values."""

    def __post_init__(self) -> None:
        layers = (*self.channels, *self.kernels, *self.strides, self.hidden)
        counts = {len(self.channels), len(self.kernels), len(self.strides)}
        if len(counts) > 1 or not 1 <= len(self.channels) <= MOST_LAYERS:
            raise UserError(f"channels {self.channels}, kernels {self.kernels}, strides {self.strides}: one per layer")
        if not all(isinstance(size, int) and 1 <= size <= LARGEST for size in layers):
            raise UserError(f"sizes of the network are whole numbers from 1 to {LARGEST}: {layers}")
        if self.side < 1:
            raise UserError(f"kernels {self.kernels} and strides {self.strides} leave no pixel of {SIDE}")

    @property
    def side(self) -> int:
        """Height and width after the last convolution."""
        side = SIDE
        for kernel, stride in zip(self.kernels, self.strides, strict=True):
            side = (side - kernel) // stride + 1
        return side

    def to_dict(self) -> dict[str, Any]:
        """Return the sizes as JSON values."""
        return {name: list(value) if isinstance(value, tuple) else value for name, value in asdict(self).items()}

    @classmethod
    def from_dict(cls, values: dict[str, Any]) -> NetworkConfig:
        """Return the sizes from `to_dict`."""
        sizes: dict[str, Any] = {n: tuple(value) if isinstance(value, list) else value for n, value in values.items()}
        return cls(**sizes)


NATURE = NetworkConfig(channels=(32, 64, 64), kernels=(8, 4, 3), strides=(4, 2, 1), hidden=512)
"""Mnih et al., 2015, and Stable-Baselines3's CnnPolicy."""


def make_features(config: NetworkConfig) -> nn.Sequential:
    """Return the layers below the values: (B, S, 84, 84) floats from 0 to 1 → (B, hidden)."""
    layers: list[nn.Module] = []
    inputs = STACK
    for channels, kernel, stride in zip(config.channels, config.kernels, config.strides, strict=True):
        layers += [nn.Conv2d(inputs, channels, kernel, stride), nn.ReLU()]
        inputs = channels
    return nn.Sequential(*layers, nn.Flatten(), nn.Linear(inputs * config.side**2, config.hidden), nn.ReLU())


class ValueNetwork(nn.Module):
    """Values of all actions: uint8 (B, 4, 84, 84) → (B, A)."""

    def __init__(self, config: NetworkConfig, actions: int) -> None:
        super().__init__()
        self.config, self.actions = config, actions
        self.features = make_features(config)
        self.head = nn.Linear(config.hidden, actions)

    def forward(self, frames: Tensor) -> Tensor:
        values: Tensor = self.head(self.features(frames.to(torch.float32) / WHITE))
        return values


class AgentError(UserError):
    """An agent that is unknown, or does not fit the game."""


@dataclass(frozen=True, kw_only=True)
class AgentAbout:
    """What an agent was trained on and with, for those who use it."""

    env_id: str
    """The game."""
    action_meanings: tuple[str, ...]
    """A name per action."""
    view: str = VIEW
    """How it looks at frames: one emulator frame per agent step, luminance, area interpolation to 84×84."""
    stack: int = STACK
    """Frames it sees at once; the first frame of an episode is repeated to fill the stack."""
    training: str = "not recorded"
    """How it was trained and for how long, in a sentence."""
    score: str = "not measured"
    """What it scores, in a sentence."""
    license: str = "MIT"
    """Under which the weights may be used."""

    def __post_init__(self) -> None:
        texts = (self.env_id, self.view, self.training, self.score, self.license, *self.action_meanings)
        if not all(isinstance(text, str) for text in texts):
            raise AgentError(f"everything about an agent is text; found {texts}")
        if not self.action_meanings:
            raise AgentError("an agent has at least one action")
        if (self.view, self.stack) != (VIEW, STACK):
            raise AgentError(f"agents see {STACK} frames of view {VIEW}; found {self.stack} of view {self.view!r}")


KIND = Kind("an agent", format="acvp-agent-1", network="network")


def check_actions(about: AgentAbout, action_meanings: tuple[str, ...], game: str) -> None:
    """Refuse a game with other actions than the agent learned."""
    if tuple(action_meanings) != about.action_meanings:
        raise AgentError(
            f"the agent of {about.env_id} has the actions {' '.join(about.action_meanings)}, {game} has "
            f"{' '.join(action_meanings)}: choose an agent of this game, or train one with acvp agent train"
        )


def agent_files(network: ValueNetwork, about: AgentAbout, *, half: bool = False) -> dict[str, bytes]:
    """Return the files of an agent by name; `half` stores its weights in 16 bits."""
    return to_files(KIND, network, network.config.to_dict(), about, card(network, about), half=half)


def agent_from_files(files: Mapping[str, bytes]) -> tuple[ValueNetwork, AgentAbout]:
    """Return the network of an agent's files and what is known about it, or ArtifactError."""
    network, about = from_files(KIND, files, _build)
    for name, weight in network.state_dict().items():
        if not torch.isfinite(weight).all():
            raise ArtifactError(f"{name} holds numbers that are not finite")
    return network, about


def _build(config: dict[str, Any]) -> tuple[ValueNetwork, AgentAbout]:
    values = dict(config["about"])
    about = AgentAbout(**(values | {"action_meanings": tuple(values["action_meanings"])}))
    return ValueNetwork(NetworkConfig.from_dict(config[KIND.network]), len(about.action_meanings)), about


def card(network: ValueNetwork, about: AgentAbout) -> str:
    """Return the card: what it is, training, score, license, and how to use it."""
    sizes = network.config
    count = sum(weight.numel() for weight in network.parameters())
    layers = ", ".join(
        f"{c} of {k}×{k} by {s}" for c, k, s in zip(sizes.channels, sizes.kernels, sizes.strides, strict=True)
    )
    return make_card(
        f"DQN agent of {about.env_id}",
        tags="reinforcement-learning, dqn, atari",
        text=f"Sees the last {about.stack} frames (84×84 gray, a single emulator frame for each agent step, no maximum "
        f"over two) and\ngives a value for every action. Convolutions {layers}, then {sizes.hidden} units; {count:,} "
        'weights.\nMethod: Mnih et al., "Playing Atari with Deep Reinforcement Learning", 2013.',
        facts={"Actions": ", ".join(about.action_meanings), "Training": about.training, "Score": about.score},
        example="from acvp.agents.agent import load_agent\n\n"
        'agent = load_agent("path/to/this/folder")\n'
        "actions = agent.act(frames, epsilon=0.05, rng=rng)  # uint8 (B, 4, 84, 84), oldest first → (B,)",
        license=about.license,
    )


PRETRAINED = Path(__file__).parent / "pretrained"
"""Agents that come with the package, a folder each."""
OF_A_RUN = "agent"
"""Folder of the agent in a run's folder."""


class Agent:
    """A value network and what should be known about it."""

    def __init__(self, network: ValueNetwork, about: AgentAbout) -> None:
        if network.actions != len(about.action_meanings):
            raise AgentError(f"{network.actions} values for {len(about.action_meanings)} actions")
        self.network, self.about = network.eval(), about
        self.stack = about.stack

    @property
    def actions(self) -> int:
        """Number of actions."""
        return self.network.actions

    @property
    def digest(self) -> str:
        """Hash of its weights, by which results that are kept name it."""
        return hashlib.sha256(to_bytes(self.network.state_dict())).hexdigest()

    @torch.inference_mode()
    def values(self, frames: NDArray[np.uint8]) -> NDArray[np.float32]:
        """Return the discounted rewards (B, A) expected of each action; frames (B, 4, 84, 84) gray, oldest first."""
        if frames.ndim != 4 or frames.shape[1:] != (self.stack, SIDE, SIDE) or frames.dtype != np.uint8:
            shape = f"uint8 of shape (B, {self.stack}, {SIDE}, {SIDE})"
            raise AgentError(f"an agent sees {shape}, oldest frame first; got {frames.dtype} of shape {frames.shape}")
        device = self.network.head.weight.device
        values: NDArray[np.float32] = self.network(torch.tensor(frames, device=device)).numpy(force=True)
        return values

    def act(
        self, frames: NDArray[np.uint8], *, epsilon: float = 0.0, rng: np.random.Generator | None = None
    ) -> NDArray[np.int64]:
        """Return an action (B,) per episode: the best, or with probability ε a random one, each by its own draw."""
        best: NDArray[np.int64] = self.values(frames).argmax(1)
        if epsilon == 0.0:
            return best
        if rng is None:
            raise AgentError(f"epsilon {epsilon:g} needs a generator: give rng=np.random.default_rng(seed)")
        explores = rng.random(len(best)) < epsilon
        return np.where(explores, random_actions(rng, self.actions, len(best)), best)

    def check_actions(self, action_meanings: tuple[str, ...], game: str) -> None:
        """Refuse a game with other actions than the agent learned."""
        check_actions(self.about, action_meanings, game)

    def save(self, folder: Path, *, half: bool = False) -> None:
        """Write the agent: weights, configuration, card; `half` rounds the weights on disk to 16 bits."""
        write_folder(folder, agent_files(self.network, self.about, half=half))

    def __repr__(self) -> str:
        return f"<agent of {self.about.env_id}, actions {' '.join(self.about.action_meanings)}>"


def load_agent(name_or_path: str | Path) -> Agent:
    """Return an agent of the package by its name, or the one in a folder (an agent's or a run's)."""
    folder, within = _folder(name_or_path)
    files = read_folder(folder, within)
    try:
        return Agent(*agent_from_files(files))
    except ArtifactError as error:
        raise ArtifactError(f"{folder}: {error}") from error


def packaged_agents() -> list[str]:
    """Return the names of the agents that come with the package."""
    return sorted(path.name for path in PRETRAINED.glob("*") if path.is_dir())


def _folder(name_or_path: str | Path) -> tuple[Path, Path]:
    """Return where an agent is, and the folder that none of its files may lie outside of."""
    path, known = Path(name_or_path), packaged_agents()
    if str(name_or_path) in known:
        return PRETRAINED / str(name_or_path), PRETRAINED
    if not path.is_dir():
        names = f"the package has {', '.join(known)}" if known else "the package has none"
        raise AgentError(f"unknown agent {str(name_or_path)!r}: {names}; or give the folder of an agent or of a run")
    return (path / OF_A_RUN if (path / OF_A_RUN).is_dir() else path), path


def agent_policy(agent: Agent) -> Policy:
    """Return the greedy policy of an agent."""

    def policy(action_meanings: tuple[str, ...], rng: np.random.Generator) -> Player:
        agent.check_actions(action_meanings, "this game")
        stack = FrameStack(1, STACK)
        begun = False

        def play(frame: NDArray[np.uint8]) -> int:
            nonlocal begun
            newest = agent_view(frame[None])
            if begun:
                stack.add(newest)
            else:
                stack.begin(newest[:, None])
            begun = True
            return int(agent.act(stack.frames)[0])

        return play

    return policy
