"""Agents as policies of `acvp collect`: `agent:freeway`, or `agent:` and the folder of one."""

from __future__ import annotations

import numpy as np
import torch
from numpy.typing import NDArray

from acvp.agents.agent import Agent, load_agent
from acvp.agents.observation import Stacks
from acvp.data.policies import Player, Policy, load_policy
from acvp.data.views import GRAY_84

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
        stacks = Stacks(1)
        begun = False

        def play(frame: NDArray[np.uint8]) -> int:
            nonlocal begun
            seen = GRAY_84.apply(frame, None)[..., 0]
            if begun:
                stacks.push(0, seen)
            else:
                stacks.begin(0, seen)
            begun = True
            return int(agent.act(stacks.frames)[0])

        return play

    return policy
