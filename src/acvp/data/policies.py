"""Who plays while frames are recorded.

A policy is a function called once per episode with the names of the actions and a random generator; it returns the
player: a function from the current frame to an action.

    def always_up(action_meanings, rng):
        up = action_meanings.index("UP")
        return lambda frame: up
"""

from __future__ import annotations

import importlib
import operator
from collections.abc import Callable
from typing import cast

import numpy as np
from numpy.typing import NDArray

from acvp.errors import UserError, describe, user_code

Player = Callable[[NDArray[np.uint8]], int]
Policy = Callable[[tuple[str, ...], np.random.Generator], Player]
LoadPolicy = Callable[[str], Policy]

MEAN_REPEATS = 10
"""Decisions for which sticky-random keeps an action, on average: two thirds of a second of play."""


def random_policy(action_meanings: tuple[str, ...], rng: np.random.Generator) -> Player:
    """A new random action at every decision: jitters around one place."""
    return lambda frame: int(rng.integers(len(action_meanings)))


def sticky_random_policy(action_meanings: tuple[str, ...], rng: np.random.Generator) -> Player:
    """A random action kept for a random while (geometric): gets much farther than white noise."""
    action = left = 0

    def play(frame: NDArray[np.uint8]) -> int:
        nonlocal action, left
        if left == 0:
            action, left = int(rng.integers(len(action_meanings))), int(rng.geometric(1 / MEAN_REPEATS))
        left -= 1
        return action

    return play


NAMED_POLICIES: dict[str, Policy] = {"random": random_policy, "sticky-random": sticky_random_policy}


def load_policy(name: str) -> Policy:
    """A policy by its name, or `module:function` for one of your own."""
    if name in NAMED_POLICIES:
        return NAMED_POLICIES[name]
    module_name, colon, attribute = name.partition(":")
    if not colon or not module_name or module_name.startswith("."):
        raise UserError(f"unknown policy {name!r}: choose {', '.join(NAMED_POLICIES)}, or module:function of your own")
    try:
        found = getattr(importlib.import_module(module_name), attribute)
    except AttributeError as error:
        raise UserError(f"policy {name!r}: {module_name!r} has no {attribute!r}") from error
    except (KeyboardInterrupt, MemoryError):
        raise
    except BaseException as error:  # whatever the user's module raises
        raise UserError(f"policy {name!r}: cannot import {module_name!r} ({describe(error)})") from error
    if not callable(found):
        raise UserError(f"policy {name!r} is a {type(found).__name__}, not a function")
    return _checked(name, cast(Policy, found))


def _checked(name: str, policy: Policy) -> Policy:
    """A user's policy, whose mistakes become errors that name it."""

    def checked(action_meanings: tuple[str, ...], rng: np.random.Generator) -> Player:
        with user_code(f"policy {name!r}"):
            player = policy(action_meanings, rng)
        if not callable(player):
            raise UserError(f"policy {name!r} should return a function from a frame to an action, not {player!r:.60}")

        def play(frame: NDArray[np.uint8]) -> int:
            with user_code(f"the player of policy {name!r}"):
                action = player(frame)
            try:
                return operator.index(action)
            except TypeError as error:
                raise UserError(f"policy {name!r} chose {action!r:.60}: an action is a whole number") from error

        return play

    return checked
