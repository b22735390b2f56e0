"""Who plays when you do not: the packaged agent of the game, or the policy that the user named."""

from __future__ import annotations

from acvp.agents.agent import PREFIX, agent_policy, load_agent, load_any_policy, packaged_agents
from acvp.data.policies import Policy, sticky_random_policy
from acvp.envs.atari import atari_games

PACKAGED = "agent"
"""Stands for the packaged agent of each game."""
FALLBACK = "sticky-random"
"""Plays games that no packaged agent has learned."""


class Players:
    """The policy of each game, loaded on first use and shared by all sessions."""

    def __init__(self, name: str = PACKAGED, policy: Policy | None = None) -> None:
        """``name`` is the packaged agent of each game, or a policy for every game, loaded here unless it is given."""
        self._name = name
        self._every = load_any_policy(name) if policy is None and name != PACKAGED else policy
        self._loaded: dict[str, Policy] = {}

    def name(self, env_id: str) -> str:
        """Return the name of the policy that plays a game."""
        if self._name != PACKAGED:
            return self._name
        agent = atari_games().get(env_id)
        return PREFIX + agent if agent in packaged_agents() else FALLBACK

    def policy(self, env_id: str) -> Policy:
        """Return the policy that plays a game."""
        if self._every is not None:
            return self._every
        name = self.name(env_id)
        if name not in self._loaded:
            agent = name.removeprefix(PREFIX)
            self._loaded[name] = sticky_random_policy if name == FALLBACK else agent_policy(load_agent(agent))
        return self._loaded[name]
