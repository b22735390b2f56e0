"""Agents from Stable-Baselines3's zip files, which hold pickled Python: reading one can run any code."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from stable_baselines3 import DQN
from stable_baselines3.common.torch_layers import NatureCNN
from torch import nn

from acvp.agents.about import AgentAbout, AgentError
from acvp.agents.agent import Agent
from acvp.agents.network import NATURE, ValueNetwork
from acvp.envs import make_game

UNNEEDED: dict[str, Any] = {
    "buffer_size": 1,
    "learning_starts": 0,
    "replay_buffer_class": None,
    "replay_buffer_kwargs": {},
}
"""Not read from the zip: replays are large, and an agent needs none."""


def import_agent(source: Path, env_id: str, *, trust_pickle: bool) -> Agent:
    """Return the agent in a zip of Stable-Baselines3's DQN with its CnnPolicy; only if it is to be trusted."""
    if not trust_pickle:
        raise AgentError(
            f"{source}: reading a file of Stable-Baselines3 runs whatever code is in it; if you trust where it comes "
            "from, say so with --trust-pickle"
        )
    if not source.is_file():
        raise AgentError(f"{source}: no such file; name the zip that Stable-Baselines3's save wrote")
    try:
        dqn = DQN.load(source, device="cpu", custom_objects=UNNEEDED)
    except Exception as error:  # whatever unpickling raises
        raise AgentError(f"{source}: not a DQN of Stable-Baselines3 ({type(error).__name__}: {error})") from error
    with make_game(env_id) as game:
        about = AgentAbout(
            env_id=game.env_id,
            action_meanings=game.action_meanings,
            training=f"imported from {source.name} of Stable-Baselines3, {dqn.num_timesteps:,} decisions",
            licence="unknown",
        )
    return Agent(_network(dqn, source), about)


def _network(dqn: DQN, source: Path) -> ValueNetwork:
    """Return the network of 2015 with the weights of the zip."""
    torso, head = dqn.q_net.features_extractor, dqn.q_net.q_net
    if not isinstance(torso, NatureCNN) or len(head) != 1:
        raise AgentError(f"{source}: its network is not the one of CnnPolicy, on 4 gray frames of 84×84")
    theirs = [*(layer for layer in torso.modules() if isinstance(layer, nn.Conv2d | nn.Linear)), head[0]]
    network = ValueNetwork(NATURE, int(dqn.action_space.n))  # type: ignore[attr-defined]
    ours = [layer for layer in network.modules() if isinstance(layer, nn.Conv2d | nn.Linear)]
    try:
        for mine, other in zip(ours, theirs, strict=True):
            mine.load_state_dict(other.state_dict())
    except (RuntimeError, ValueError) as error:
        raise AgentError(f"{source}: its network does not look at 4 gray frames of 84×84 ({error})") from error
    return network
