"""An agent as files: weights, configuration and card, as bytes; no file is read or written in here.

model.safetensors    weights, of 32 or 16 bits
config.json          network, what it was trained on, SHA-256 of the weights, sealed with its own checksum
README.md            card
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import asdict
from typing import Any

import torch
from torch import Tensor

from acvp.agents.about import AgentAbout, AgentError
from acvp.agents.network import NetworkConfig, ValueNetwork
from acvp.checkpoint import to_bytes, to_tensors
from acvp.durable import seal, unseal
from acvp.errors import UserError

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
        config = unseal(data)
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
    """Return the card: what it is, training, score, licence, and how to use it."""
    sizes = network.config
    count = sum(weight.numel() for weight in network.parameters())
    layers = ", ".join(
        f"{c} of {k}×{k} by {s}" for c, k, s in zip(sizes.channels, sizes.kernels, sizes.strides, strict=True)
    )
    return f"""---
license: {about.licence.lower()}
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
- **Licence**: {about.licence}

```python
from acvp.agents.agent import load_agent

agent = load_agent("path/to/this/folder")
actions = agent.act(frames, epsilon=0.05, rng=rng)  # uint8 (B, 4, 84, 84), oldest first → (B,)
```
"""
