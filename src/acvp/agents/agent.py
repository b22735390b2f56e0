"""A trained agent: which action is best, given the last four gray frames. Needs torch alone.

    agent = load_agent("freeway")
    actions = agent.act(frames, epsilon=0.05, rng=rng)

Shapes: B plays, A actions.

What an agent tells about itself.

An agent as files: weights, configuration and card, as bytes; no file is read or written in here.

model.safetensors    weights, of 32 or 16 bits
config.json          network, what it was trained on, SHA-256 of the weights, sealed with its own checksum
README.md            card

Agents as policies of `acvp collect`: `agent:freeway`, or `agent:` and the folder of one.
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
from torch import Tensor

from acvp.agents.network import SIDE, STACK, NetworkConfig, ValueNetwork
from acvp.agents.observations import FrameStack, agent_view
from acvp.checkpoint import to_bytes, to_tensors
from acvp.compat import current_fields
from acvp.data.policies import Player, Policy, load_policy
from acvp.durable import make_folder, read_file, seal, unseal, write_atomic
from acvp.errors import UserError

VIEW = "gray84"


class AgentError(UserError):
    """An agent that is not there, is damaged, or does not fit the game."""


@dataclass(frozen=True, kw_only=True)
class AgentAbout:
    """What an agent was trained on and with, for those who use it."""

    env_id: str
    """The game."""
    action_meanings: tuple[str, ...]
    """A name per action."""
    view: str = VIEW
    """How it looks at frames: one emulator frame a decision, luminance, area interpolation to 84×84."""
    stack: int = STACK
    """Frames it sees at once; the first of a play is repeated until there are so many."""
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


def check_actions(about: AgentAbout, action_meanings: tuple[str, ...], game: str) -> None:
    """Refuse a game with other actions than the agent learned."""
    if tuple(action_meanings) != about.action_meanings:
        raise AgentError(
            f"the agent of {about.env_id} has the actions {' '.join(about.action_meanings)}, {game} has "
            f"{' '.join(action_meanings)}: choose an agent of this game, or train one with acvp agent train"
        )


WEIGHTS_NAME, CONFIG_NAME, CARD_NAME = "model.safetensors", "config.json", "README.md"
WANTED = (WEIGHTS_NAME, CONFIG_NAME)
LAST_WRITTEN = CONFIG_NAME
"""Once it is there, all is."""
FORMAT = "acvp-agent-1"
FLOATS = (torch.float32, torch.float16)
MAX_CONFIG = 2**20
"""Bytes; a configuration has about a thousand."""


def agent_files(network: ValueNetwork, about: AgentAbout, *, half: bool) -> dict[str, bytes]:
    """Return the files of an agent by name."""
    kind = torch.float16 if half else torch.float32
    weights = to_bytes({name: tensor.to(kind) for name, tensor in network.state_dict().items()})
    config = {
        "format": FORMAT,
        "network": network.config.to_dict(),
        "about": asdict(about) | {"action_meanings": list(about.action_meanings)},
        "weights_sha256": hashlib.sha256(weights).hexdigest(),
    }
    return {WEIGHTS_NAME: weights, CONFIG_NAME: seal(config), CARD_NAME: card(network, about).encode()}


def agent_from_files(files: Mapping[str, bytes]) -> tuple[ValueNetwork, AgentAbout]:
    """Return what an agent is made of from its files, or AgentError; nothing is allocated that the files lack."""
    config, weights = _config(files[CONFIG_NAME]), files[WEIGHTS_NAME]
    if hashlib.sha256(weights).hexdigest() != config["weights_sha256"]:
        raise AgentError(f"the checksum of {WEIGHTS_NAME} is not the one in {CONFIG_NAME}: a file is damaged")
    try:
        values = dict(config["about"])
        about = AgentAbout(**(values | {"action_meanings": tuple(values["action_meanings"])}))
        with torch.device("meta"):
            network = ValueNetwork(NetworkConfig.from_dict(config["network"]), len(about.action_meanings))
        network.load_state_dict(_floats(to_tensors(weights, WEIGHTS_NAME)), assign=True)
        return network, about
    except (UserError, AttributeError, LookupError, RuntimeError, TypeError, ValueError) as error:
        first = str(error).strip().replace("\n", " ")[:300]
        raise AgentError(f"{CONFIG_NAME} and {WEIGHTS_NAME} do not make an agent: {first}") from error


def _config(data: bytes) -> dict[str, Any]:
    try:
        if len(data) > MAX_CONFIG:
            raise ValueError(f"{len(data):,} bytes are too many")
        config: dict[str, Any] = current_fields(unseal(data))
    except ValueError as error:
        raise AgentError(f"{CONFIG_NAME}: {error}") from error
    if config.get("format") != FORMAT or config.keys() != {"format", "network", "about", "weights_sha256"}:
        raise AgentError(f"{CONFIG_NAME} is not an agent's: it is not of format {FORMAT}")
    return config


def _floats(tensors: dict[str, Tensor]) -> dict[str, Tensor]:
    """Return the weights as 32-bit numbers, refusing what is none."""
    for name, tensor in tensors.items():
        if tensor.dtype not in FLOATS or not torch.isfinite(tensor).all():
            raise AgentError(f"{name} is not of finite 32- or 16-bit numbers")
    return {name: tensor.to(torch.float32) for name, tensor in tensors.items()}


def card(network: ValueNetwork, about: AgentAbout) -> str:
    """Return the card: what it is, training, score, license, and how to use it."""
    sizes = network.config
    count = sum(weight.numel() for weight in network.parameters())
    layers = ", ".join(
        f"{c} of {k}×{k} by {s}" for c, k, s in zip(sizes.channels, sizes.kernels, sizes.strides, strict=True)
    )
    return f"""---
license: {about.license.lower()}
library_name: acvp
tags: [reinforcement-learning, dqn, atari]
---
# DQN agent of {about.env_id}

Sees the last {about.stack} frames (84×84 gray, a single emulator frame for each decision, no maximum over two) and
gives a value for every action. Convolutions {layers}, then {sizes.hidden} units; {count:,} weights. Method: Mnih et
al., "Playing Atari with Deep Reinforcement Learning", 2013.

- **Actions**: {", ".join(about.action_meanings)}
- **Training**: {about.training}
- **Score**: {about.score}
- **License**: {about.license}

```python
from acvp.agents.agent import load_agent

agent = load_agent("path/to/this/folder")
actions = agent.act(frames, epsilon=0.05, rng=rng)  # uint8 (B, 4, 84, 84), oldest first → (B,)
```
"""


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

    @torch.inference_mode()
    def values(self, frames: NDArray[np.uint8]) -> NDArray[np.float32]:
        """Return the discounted rewards (B, A) expected of each action; frames (B, 4, 84, 84) gray, oldest first."""
        if frames.ndim != 4 or frames.shape[1:] != (self.stack, SIDE, SIDE) or frames.dtype != np.uint8:
            wanted = f"uint8 of shape (B, {self.stack}, {SIDE}, {SIDE})"
            raise AgentError(f"an agent sees {wanted}, oldest frame first; got {frames.dtype} of shape {frames.shape}")
        device = self.network.head.weight.device
        values: NDArray[np.float32] = self.network(torch.tensor(frames, device=device)).numpy(force=True)
        return values

    def act(
        self, frames: NDArray[np.uint8], *, epsilon: float = 0.0, rng: np.random.Generator | None = None
    ) -> NDArray[np.int64]:
        """Return an action (B,) for each play: the best, or with probability ε a random one (a coin for each)."""
        best: NDArray[np.int64] = self.values(frames).argmax(1)
        if epsilon == 0.0:
            return best
        if rng is None:
            raise AgentError(f"epsilon {epsilon:g} needs a generator: give rng=np.random.default_rng(seed)")
        explores = rng.random(len(best)) < epsilon
        return np.where(explores, rng.integers(self.actions, size=len(best)), best)

    def check_actions(self, action_meanings: tuple[str, ...], game: str) -> None:
        """Refuse a game with other actions than the agent learned."""
        check_actions(self.about, action_meanings, game)

    def save(self, folder: Path, *, half: bool = False) -> None:
        """Write the agent: weights, configuration, card; `half` rounds the weights on disk to 16 bits."""
        write_files(folder, agent_files(self.network, self.about, half=half))

    def __repr__(self) -> str:
        return f"<agent of {self.about.env_id}, actions {' '.join(self.about.action_meanings)}>"


def load_agent(name_or_path: str | Path) -> Agent:
    """Return an agent of the package by its name, or the one in a folder (an agent's or a run's)."""
    folder, within = _folder(name_or_path)
    files = {}
    for name in WANTED:
        try:
            files[name] = read_file(folder / name, within)
        except OSError as error:
            raise AgentError(f"{folder} holds no whole agent: {name} cannot be read ({error.strerror})") from error
    try:
        return Agent(*agent_from_files(files))
    except AgentError as error:
        raise AgentError(f"{folder}: {error}") from error


def write_files(folder: Path, files: Mapping[str, bytes]) -> None:
    """Write the files of an agent."""
    make_folder(folder)
    for name in sorted(files, key=lambda name: name == LAST_WRITTEN):
        write_atomic(folder / name, files[name])


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


PREFIX = "agent:"


def load_any_policy(name: str) -> Policy:
    """Return an agent's policy, or one that acvp.data knows."""
    if not name.startswith(PREFIX):
        return load_policy(name)
    torch.set_num_threads(1)  # workers share the cores, and a store does not depend on how many there are
    return agent_policy(load_agent(name.removeprefix(PREFIX)))


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
