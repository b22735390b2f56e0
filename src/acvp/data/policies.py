"""Policies that play while frames are recorded, alone or in a mix, and the random actions of all that explores.

A policy is a function that is called once per episode with the names of the actions and a random generator. It returns
the player: a function from the current frame to an action.

    def always_up(action_meanings, rng):
        up = action_meanings.index("UP")
        return lambda frame: up

A player that needs every frame may have a method `observe(frame)`: it is shown the frames after which it is not asked,
because a random action is taken instead.

Where actions are continuous, the names are those of the components, and a player returns a vector of them.
"""

from __future__ import annotations

import importlib
import operator
from collections.abc import Callable, Sequence
from typing import Any, cast

import numpy as np
from numpy.typing import NDArray

from acvp.actions import Action, ActionRange, parse, random_vectors, require_numbered
from acvp.data.episode import PolicyShare
from acvp.errors import UserError, describe, user_code
from acvp.seeding import generator

Player = Callable[[NDArray[np.uint8]], Any]
"""Returns a number, or a vector where actions are continuous."""
Policy = Callable[[tuple[str, ...], np.random.Generator], Player]
LoadPolicy = Callable[[str], Policy]

AGENT, PLAN = "agent:", "plan:"
"""Beginnings of the names of policies that need a network: an agent's, and planning with a predictor."""

Actions = NDArray[np.int64]  # (n,)

MEAN_REPEATS = 10
"""Mean number of agent steps for which sticky-random repeats an action: two thirds of a second of Atari."""
HELD_STEPS = (10, 60)
"""Fewest and most agent steps for which `held` keeps a direction: less than a second of Atari to four."""


def random_actions(rng: np.random.Generator, actions: int, count: int) -> Actions:
    """Return uniformly random actions (count,) of the actions 0 to actions - 1."""
    return rng.integers(actions, size=count)


def sticky_random_actions(rng: np.random.Generator, actions: int, count: int) -> tuple[Actions, NDArray[np.int64]]:
    """Return uniformly random actions (count,) and for how many steps (count,) each is repeated (geometric)."""
    return random_actions(rng, actions, count), rng.geometric(1 / MEAN_REPEATS, count)


def random_policy(action_meanings: tuple[str, ...], rng: np.random.Generator) -> Player:
    """Take a new random action at every step: stays near where it starts."""
    return lambda frame: int(random_actions(rng, len(action_meanings), 1)[0])


def sticky_random_policy(action_meanings: tuple[str, ...], rng: np.random.Generator) -> Player:
    """Repeat each random action for a random number of steps: gets much farther than `random_policy`."""
    action = left = 0

    def play(frame: NDArray[np.uint8]) -> int:
        nonlocal action, left
        if left == 0:
            action, left = (int(drawn[0]) for drawn in sticky_random_actions(rng, len(action_meanings), 1))
        left -= 1
        return action

    return play


def held_policy(action_meanings: tuple[str, ...], rng: np.random.Generator) -> Player:
    """Hold one direction after another for long, half of the time the one that the episode prefers: crosses roads.

    A game whose actions are not named by directions has all of them held.
    """
    moves = [parse(name) for name in action_meanings]
    directions = [action for action, move in enumerate(moves) if move is not None and move.moves]
    actions = directions or list(range(len(action_meanings)))
    preferred = actions[rng.integers(len(actions))]
    action = left = 0

    def play(frame: NDArray[np.uint8]) -> int:
        nonlocal action, left
        if left == 0:
            action = preferred if rng.random() < 0.5 else actions[rng.integers(len(actions))]
            left = int(rng.integers(HELD_STEPS[0], HELD_STEPS[1] + 1))
        left -= 1
        return action

    return play


def continuous_policy(name: str, limits: ActionRange, own: Policy) -> Policy:
    """Return a policy of continuous actions: random vectors, held for as long as the name says, or the user's own."""
    if name.startswith((AGENT, PLAN)):
        require_numbered(limits, f"policy {name}")
    if name not in NAMED_POLICIES:
        return own

    def policy(action_meanings: tuple[str, ...], rng: np.random.Generator) -> Player:
        vector, left = random_vectors(rng, limits, 1)[0], 0

        def play(frame: NDArray[np.uint8]) -> Any:
            nonlocal vector, left
            if left == 0:
                vector, left = random_vectors(rng, limits, 1)[0], _steps(name, rng)
            left -= 1
            return vector

        return play

    return policy


def _steps(name: str, rng: np.random.Generator) -> int:
    """Return for how many steps a named policy keeps an action."""
    if name == "random":
        return 1
    if name == "sticky-random":
        return int(rng.geometric(1 / MEAN_REPEATS))
    return int(rng.integers(HELD_STEPS[0], HELD_STEPS[1] + 1))


NAMED_POLICIES: dict[str, Policy] = {
    "random": random_policy,
    "sticky-random": sticky_random_policy,
    "held": held_policy,
}


def show(player: Player, frame: NDArray[np.uint8], action: Action) -> None:
    """Show a frame to a player whose action is not taken, and the action that is, if it needs every frame."""
    observe = getattr(player, "observe", None)
    if observe is not None:
        observe(frame, action)


def policy_shares(policies: Sequence[str], epsilons: Sequence[float]) -> tuple[PolicyShare, ...]:
    """Return policies with their ε: one for each of them, or one for all."""
    if not policies or len(epsilons) not in {1, len(policies)}:
        raise UserError(f"--epsilon has {len(epsilons)} values for {len(policies)} policies: give one for each, or one")
    repeated = list(epsilons) * (len(policies) // len(epsilons))
    return tuple(PolicyShare(policy, float(epsilon)) for policy, epsilon in zip(policies, repeated, strict=True))


def share_of_episode(shares: Sequence[PolicyShare], seed: int, number: int) -> PolicyShare:
    """Return who plays an episode: of every len(shares) episodes in a row, each share plays one, in random order."""
    turn, place = divmod(number, len(shares))
    return shares[int(generator("mix", seed, turn).permutation(len(shares))[place])]


def load_policy(name: str) -> Policy:
    """Return a policy by its name, or by `module:function`."""
    if name in NAMED_POLICIES:
        return NAMED_POLICIES[name]
    module_name, colon, attribute = name.partition(":")
    if not colon or not module_name or module_name.startswith("."):
        raise UserError(f"unknown policy {name!r}: choose {', '.join(NAMED_POLICIES)}, or module:function of your own")
    try:
        policy = getattr(importlib.import_module(module_name), attribute)
    except AttributeError as error:
        raise UserError(f"policy {name!r}: {module_name!r} has no {attribute!r}") from error
    except (KeyboardInterrupt, MemoryError):
        raise
    except BaseException as error:  # whatever the user's module raises
        raise UserError(f"policy {name!r}: cannot import {module_name!r} ({describe(error)})") from error
    if not callable(policy):
        raise UserError(f"policy {name!r} is a {type(policy).__name__}, not a function")
    return _checked(name, cast(Policy, policy))


def _checked(name: str, policy: Policy) -> Policy:
    """Return a user's policy whose mistakes become UserErrors that name it."""

    def checked(action_meanings: tuple[str, ...], rng: np.random.Generator) -> Player:
        with user_code(f"policy {name!r}"):
            player = policy(action_meanings, rng)
        if not callable(player):
            raise UserError(f"policy {name!r} should return a function from a frame to an action, not {player!r:.60}")
        return _CheckedPlayer(name, player)

    return checked


class _CheckedPlayer:
    """A user's player whose mistakes become UserErrors that name it."""

    def __init__(self, name: str, player: Player) -> None:
        self._name, self._player = name, player

    def __call__(self, frame: NDArray[np.uint8]) -> Any:
        """Return the next action."""
        with user_code(f"the player of policy {self._name!r}"):
            action = self._player(frame)
        if np.ndim(action):
            return action
        try:
            return operator.index(action)
        except TypeError as error:
            raise UserError(f"policy {self._name!r} chose {action!r:.60}: an action is a whole number") from error

    def observe(self, frame: NDArray[np.uint8], action: Action) -> None:
        """Show a frame after which another action is taken, and that action, if the player needs every frame."""
        with user_code(f"the player of policy {self._name!r}"):
            show(self._player, frame, action)
