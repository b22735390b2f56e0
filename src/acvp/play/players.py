"""Who plays when you do not: the policy of each game, and how it plays up to where a session starts.

Some games show a still picture for seconds, in which keys do nothing. A game is fast-forwarded until its frames depend
on the actions, then its policy plays for a while. The start follows from the seed and the policy alone.
"""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np

from acvp.agents.agent import agent_policy, load_agent, packaged_agents
from acvp.agents.policies import load_any_policy
from acvp.data.policies import AGENT, Player, Policy, random_actions, sticky_random_policy
from acvp.envs import Game
from acvp.envs.atari import atari_games
from acvp.envs.game import Frame
from acvp.seeding import generator

PACKAGED = "agent"
"""Stands for the packaged agent of each game."""
FALLBACK = "sticky-random"
"""Plays games that no packaged agent has learned."""
HELD = 4
"""Steps for which each action is held to see whether it changes anything."""
CHECK_EVERY = 5
"""Steps between two checks."""
LONGEST_WAIT = 450
"""Steps after which a game is played whether or not it obeys: half a minute of Atari."""
PLAYED = (15, 90)
"""Fewest and most steps that the policy takes: one to six seconds of Atari."""
EPSILON = 0.1
"""Probability of a random action at each step, so that games without chance start differently."""


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
        return AGENT + agent if agent in packaged_agents() else FALLBACK

    def policy(self, env_id: str) -> Policy:
        """Return the policy that plays a game."""
        if self._every is not None:
            return self._every
        name = self.name(env_id)
        if name not in self._loaded:
            agent = name.removeprefix(AGENT)
            self._loaded[name] = sticky_random_policy if name == FALLBACK else agent_policy(load_agent(agent))
        return self._loaded[name]


@dataclass
class Opening:
    """The steps from the first frame of a game to the one where a session starts."""

    frames: list[Frame]
    """(H, W, 3) each, one more than actions."""
    actions: list[int] = field(default_factory=list)
    score: float = 0.0
    """Sum of the rewards."""

    def step(self, game: Game, action: int) -> bool:
        """Take a step; return whether the game continues."""
        step = game.step(action)
        self.frames.append(step.frame)
        self.actions.append(action)
        self.score += step.reward
        return not (step.terminated or step.truncated)


def replay_opening(game: Game, seed: int, actions: list[int]) -> Opening:
    """Return the opening that some actions lead to, at most up to the end of the game."""
    opening = Opening([game.reset(seed)])
    for action in actions:
        if not opening.step(game, action):
            break
    return opening


def fast_forward(game: Game, seed: int, policy: Policy) -> Opening:
    """Start a game and play until it is under way and obeys; a game that ends before stays at its first frame."""
    rng = generator("play-opening", seed)
    player = policy(game.action_meanings, rng)
    opening = Opening([game.reset(seed)])
    if not _wait(game, opening, player, rng):
        return Opening([game.reset(seed)])
    waited = list(opening.actions)
    for _ in range(int(rng.integers(*PLAYED, endpoint=True))):
        if not opening.step(game, _choose(game, opening, player, rng)):
            return replay_opening(game, seed, waited)
    return opening if _wait(game, opening, player, rng) else replay_opening(game, seed, waited)


def obeys(game: Game) -> bool:
    """Return whether the action makes a difference to the next frames; True where the game cannot be branched."""
    if not game.can_save:
        return True
    plans = ([action] * HELD for action in range(len(game.action_meanings)))
    last = (future[-1].frame for future in game.branch(plans))
    first = next(last)
    return any(not np.array_equal(first, frame) for frame in last)


def _wait(game: Game, opening: Opening, player: Player, rng: np.random.Generator) -> bool:
    """Play until the game obeys; return whether it continues."""
    for count in range(LONGEST_WAIT):
        if count % CHECK_EVERY == 0 and obeys(game):
            break
        if not opening.step(game, _choose(game, opening, player, rng)):
            return False
    return True


def _choose(game: Game, opening: Opening, player: Player, rng: np.random.Generator) -> int:
    action = int(player(opening.frames[-1]))  # also where it is not taken: an agent must see every frame
    return int(random_actions(rng, len(game.action_meanings), 1)[0]) if rng.random() < EPSILON else action
