"""Small agents and games that tests learn and play with."""

from __future__ import annotations

import gymnasium
import torch

from acvp.agents.agent import Agent, AgentAbout, NetworkConfig, ValueNetwork

TINY = NetworkConfig(channels=(2, 4), hidden=8)
TOY_ACTIONS = ("NOOP", "UP", "DOWN", "LEFT", "RIGHT")

SMALL_TOY = "acvp-tests/AgentToy-v0"
if SMALL_TOY not in gymnasium.registry:
    gymnasium.register(SMALL_TOY, entry_point="acvp.envs.toy:ToyGame", kwargs={"size": 16}, max_episode_steps=100)


def tiny_agent(env_id: str = "acvp/Toy-v0", action_meanings: tuple[str, ...] = TOY_ACTIONS, seed: int = 0) -> Agent:
    """An agent with random weights."""
    torch.manual_seed(seed)
    network = ValueNetwork(TINY, len(action_meanings))
    return Agent(network, AgentAbout(env_id=env_id, action_meanings=action_meanings, training="none, by chance"))
