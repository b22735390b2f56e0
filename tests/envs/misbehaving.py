"""Envs that raise where they should not or return what Gymnasium does not allow, each with what acvp must say of it."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import gymnasium
import numpy as np
from gymnasium import spaces

SHAPE = (6, 8, 3)


class BadError(BaseException):
    """Not an Exception: `except Exception` does not see it."""


class UnprintableError(Exception):
    """An error whose text cannot be made."""

    def __str__(self) -> str:
        raise ValueError("no text")


class Good(gymnasium.Env[Any, Any]):
    """Does everything right; every misbehaving env differs from it in one method."""

    def __init__(self) -> None:
        self.observation_space = spaces.Box(0, 255, SHAPE, np.uint8)
        self.action_space = spaces.Discrete(3)
        self.steps = 0

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> Any:
        """Begin."""
        self.steps = 0
        return np.zeros(SHAPE, np.uint8), {"lives": 3}

    def step(self, action: Any) -> Any:
        """End after ten steps."""
        self.steps += 1
        return np.full(SHAPE, self.steps, np.uint8), 1.0, self.steps == 10, False, {"lives": 3}

    def get_action_meanings(self) -> Any:
        """Name the actions."""
        return ["A", "B", "C"]


def raising(error: BaseException) -> Callable[..., Any]:
    """A method that raises."""

    def method(self: Any, *arguments: Any, **options: Any) -> Any:
        raise error

    return method


def returning(value: Any) -> Callable[..., Any]:
    """A method that returns a value whatever it is given."""
    return lambda self, *arguments, **options: value


def stepping(**changes: Any) -> Callable[..., Any]:
    """A step that is right but for some of what it returns."""

    def method(self: Any, action: Any) -> Any:
        observation, reward, terminated, truncated, info = Good.step(self, action)
        right = {"frame": observation, "reward": reward, "terminated": terminated, "truncated": truncated, "info": info}
        return tuple((right | changes).values())

    return method


def without_spaces(self: Any) -> None:
    """An __init__ that forgets to declare the spaces."""


def recursing(self: Any, action: Any) -> Any:
    """A step without end."""
    return recursing(self, action)


def growing(self: Any, action: Any) -> Any:
    """Frames that change their shape within an episode."""
    observation, *rest = Good.step(self, action)
    return observation if self.steps < 5 else np.zeros((9, 9, 3), np.uint8), *rest


def before_reset(self: Any, action: Any) -> Any:
    """A step that relies on what reset never set."""
    return self.never_set


FRAME = np.zeros(SHAPE, np.uint8)
MISBEHAVING: dict[str, tuple[str, Callable[..., Any], str]] = {
    "InitRaises": ("__init__", raising(ValueError("no\ndisplay")), "__init__ raised ValueError: no display"),
    "InitExits": ("__init__", raising(SystemExit(0)), "__init__ raised SystemExit: 0"),
    "NoSpaces": ("__init__", without_spaces, "observation_space or action_space raised AttributeError"),
    "ResetRaises": ("reset", raising(RuntimeError("lost")), "raised RuntimeError: lost"),
    "ResetGivesNone": ("reset", returning(None), "reset should return (observation, info), not None (NoneType)"),
    "ResetWithoutInfo": ("reset", returning(FRAME), "reset should return (observation, info), not "),
    "ResetGivesThree": ("reset", returning((FRAME, {}, 1)), "(observation, info), not a tuple of 3"),
    "ResetInfoIsNone": ("reset", returning((FRAME, None)), "reset should return a dict as info, not None"),
    "ResetFloats": ("reset", returning((np.zeros(SHAPE), {})), "reset returned float64 of shape (6, 8, 3) where"),
    "ResetListFrame": ("reset", returning(([1, 2], {})), "reset should return an array as observation, not [1, 2]"),
    "StepRaises": ("step", raising(KeyError("x")), "raised KeyError: 'x'"),
    "StepRaisesOsError": ("step", raising(FileNotFoundError(2, "gone", "rom")), "raised FileNotFoundError: "),
    "StepRaisesBrokenPipe": ("step", raising(BrokenPipeError()), "raised BrokenPipeError"),
    "StepExits": ("step", raising(SystemExit("bye")), "raised SystemExit: bye"),
    "StepRaisesBase": ("step", raising(BadError("odd")), "raised BadError: odd"),
    "StepAsserts": ("step", raising(AssertionError()), "raised AssertionError (misbehaving.py, line "),
    "StepUnprintable": ("step", raising(UnprintableError()), "raised UnprintableError"),
    "StepRecurses": ("step", recursing, "raised RecursionError"),
    "StepRunsOut": ("step", raising(StopIteration()), "raised StopIteration"),
    "StepBeforeReset": ("step", before_reset, "raised AttributeError"),
    "StepGivesNone": ("step", returning(None), "truncated, info), not None (NoneType)"),
    "StepOldGymFour": ("step", returning((FRAME, 0.0, False, {})), "truncated, info), not a tuple of 4"),
    "StepFrameIsNone": ("step", stepping(frame=None), "step should return an array as observation, not None"),
    "StepFrameChangesShape": ("step", growing, "step returned uint8 of shape (9, 9, 3) where"),
    "StepFrameIsInt64": ("step", stepping(frame=np.zeros(SHAPE, np.int64)), "step returned int64 of shape (6, 8, 3)"),
    "RewardIsNan": ("step", stepping(reward=math.nan), "a finite number as reward, not nan (float)"),
    "RewardIsInfinite": ("step", stepping(reward=-math.inf), "a finite number as reward, not -inf (float)"),
    "RewardIsHuge": ("step", stepping(reward=1e300), "a finite number as reward, not 1e+300 (float)"),
    "RewardIsText": ("step", stepping(reward="1.0"), "a finite number as reward, not '1.0' (str)"),
    "RewardIsNone": ("step", stepping(reward=None), "a finite number as reward, not None (NoneType)"),
    "TerminatedIsText": ("step", stepping(terminated="no"), "a bool as terminated, not 'no' (str)"),
    "TruncatedIsNone": ("step", stepping(truncated=None), "a bool as truncated, not None (NoneType)"),
    "LivesAreText": ("step", stepping(info={"lives": "3"}), "as info[\"lives\"], not '3' (str)"),
    "LivesAreNegative": ("step", stepping(info={"lives": -3}), 'as info["lives"], not -3 (int)'),
    "LivesAreTooMany": ("step", stepping(info={"lives": 10**9}), 'as info["lives"], not 1000000000 (int)'),
    "InfoIsAList": ("step", stepping(info=[]), "step should return a dict as info, not [] (list)"),
    "MeaningsRaise": ("get_action_meanings", raising(ValueError("none")), "get_action_meanings() raised ValueError"),
    "MeaningsTooFew": ("get_action_meanings", returning(["A"]), "get_action_meanings should return 3 strings"),
    "MeaningsAreNumbers": ("get_action_meanings", returning([1, 2, 3]), "should return 3 strings, one for each"),
    "MeaningsAreNone": ("get_action_meanings", returning(None), "get_action_meanings() raised TypeError"),
    "CloseRaises": ("close", raising(RuntimeError("stuck")), "close() raised RuntimeError: stuck"),
}
"""Name → (the method that is wrong, how it is wrong, what the line must say)."""

SAVING: dict[str, tuple[str, Callable[..., Any], str]] = {
    "SaveRaises": ("save_state", raising(OSError("full")), "save_state() raised OSError: full"),
    "SaveGivesNumber": ("save_state", returning(5), "save_state should return bytes, not 5 (int)"),
    "RestoreRaises": ("restore_state", raising(ValueError("old")), "restore_state() raised ValueError: old"),
    "RestoreGivesNone": ("restore_state", returning(None), "restore_state should return an array as observation"),
    "PositionRaises": ("controlled_position", raising(ValueError("?")), "controlled_position() raised ValueError: ?"),
    "PositionIsText": ("controlled_position", returning("ab"), "controlled_position should return (row, column)"),
    "PositionIsNan": ("controlled_position", returning((math.nan, 1)), "(row, column) or None, not a tuple of 2"),
}
"""The same for what only some verbs call."""


class Saving(Good):
    """Can also save and restore, and knows where its player is."""

    def save_state(self) -> Any:
        """Save the number of steps."""
        return bytes([self.steps])

    def restore_state(self, data: bytes) -> Any:
        """Return to it."""
        self.steps = data[0]
        return np.full(SHAPE, self.steps, np.uint8)

    def controlled_position(self) -> Any:
        """Stay in a corner."""
        return 1.0, 2.0


class Noisy(Good):
    """Prints and warns all the time; that is not wrong."""

    def step(self, action: Any) -> Any:
        """Make noise."""
        print("a step")
        gymnasium.logger.warn("a warning")
        return super().step(action)


class FewerActions(gymnasium.Wrapper[Any, Any, Any, Any]):
    """Offers two of the three actions that the env below it names; that is not wrong."""

    def __init__(self) -> None:
        super().__init__(Good())
        self.action_space = spaces.Discrete(2)


def env_id(name: str) -> str:
    """The id under which an env is registered."""
    return f"acvp-tests/{name}-v0"


def make(base: type[Good], method: str, wrong: Callable[..., Any]) -> gymnasium.Env[Any, Any]:
    """Make an env whose one method is wrong."""
    made: gymnasium.Env[Any, Any] = type("Wrong", (base,), {method: wrong})()
    return made


for _base, _table in ((Good, MISBEHAVING), (Saving, SAVING)):
    for _name, (_method, _wrong, _) in _table.items():
        if env_id(_name) not in gymnasium.registry:
            arguments = {"base": _base, "method": _method, "wrong": _wrong}
            gymnasium.register(env_id(_name), entry_point=f"{__name__}:make", kwargs=arguments)
for _kind in (Good, Noisy, Saving, FewerActions):
    if env_id(_kind.__name__) not in gymnasium.registry:
        gymnasium.register(env_id(_kind.__name__), entry_point=f"{__name__}:{_kind.__name__}")
