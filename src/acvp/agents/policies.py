"""All policies by name: those of acvp.data, agents (`agent:freeway`) and planning (`plan:freeway`)."""

from __future__ import annotations

import torch

from acvp.agents.agent import agent_policy, load_agent
from acvp.agents.plan import load_planner
from acvp.data.policies import AGENT, PLAN, Policy, load_policy


def load_any_policy(name: str) -> Policy:
    """Return an agent's policy, a planner's, or one that acvp.data knows."""
    if not name.startswith((AGENT, PLAN)):
        return load_policy(name)
    torch.set_num_threads(1)  # workers share the cores, and a dataset does not depend on how many there are
    if name.startswith(AGENT):
        return agent_policy(load_agent(name.removeprefix(AGENT)))
    return load_planner(name).policy
