"""Games by name: `freeway`, `ALE/Freeway-v5`, `acvp/Toy-v0`, `my_module:My-v0`; any Gymnasium env as a Game.

An env has uint8 image observations, and actions that are numbered (Discrete) or continuous (a Box of floats with
limits). Importing `acvp.envs` registers the ids of acvp and loads no torch. Gymnasium 1 has no plugin loader, so the
module stands before the id: `gymnasium.make("acvp.envs:acvp/Toy-v0")`.
"""

from __future__ import annotations

import difflib
import importlib
import math
import sys
from collections.abc import Sequence
from typing import Any

import gymnasium
import numpy as np
import numpy.typing as npt
from gymnasium import spaces
from gymnasium.wrappers import OrderEnforcing

from acvp.actions import Action, range_of
from acvp.envs.atari import FRAME_SKIP, AtariGame, atari_games, atari_id
from acvp.envs.game import Frame, Game, Json, SavedState, Step
from acvp.envs.toy import DRIFT_ID, DRIFT_STEPS, TOY_ID, TOY_STEPS
from acvp.errors import UserError, describe, one_line, user_code

Env = gymnasium.Env[Any, Any]
IMAGINED_ID = "acvp/Imagined-v0"
SHORT_NAMES = {"toy": TOY_ID, "drift": DRIFT_ID}
MAX_LIVES = np.iinfo(np.int16).max
MAX_REWARD = float(np.finfo(np.float32).max)


class GymGame(Game):
    """A Gymnasium env as a Game.

    An env may have more than Gymnasium requires, and what it has is used: `get_action_meanings() -> list[str]`,
    `save_state() -> bytes` with `restore_state(bytes) -> observation`, `controlled_position() -> (row, column)`,
    and `info["lives"]`. What an env raises, and what it returns that Gymnasium does not allow, is a UserError that
    names the env and the call.
    """

    def __init__(self, env: Env, *, env_id: str, settings: dict[str, Json], limit: int | None) -> None:
        self._env = env.env if isinstance(env, OrderEnforcing) else env  # Game enforces the order itself
        with user_code(f"{env_id}: observation_space or action_space"):
            observations, actions = env.observation_space, env.action_space
        shape = _image_shape(env_id, observations)
        self._actions, self._raw_shape = _checked_actions(env_id, actions), observations.shape
        box = self._actions if isinstance(self._actions, spaces.Box) else None
        super().__init__(
            env_id=env_id,
            frame_shape=(shape[0], shape[1], 3),
            action_meanings=_meanings(env_id, self._env, self._action_count),
            settings=settings,
            limit=limit,
            action_range=() if box is None else range_of(box.low, box.high),
        )
        self.can_save = all(callable(getattr(self._env, name, None)) for name in ("save_state", "restore_state"))

    def _begin(self, seed: int) -> Frame:
        with user_code(f"{self.env_id}: reset(seed={seed})"):
            returned = self._env.reset(seed=seed)
        if not isinstance(returned, tuple) or len(returned) != 2:
            raise self._nonsense("reset", "(observation, info)", returned)
        observation, info = returned
        self.lives = self._lives("reset", info)
        return self._frame("reset", observation)

    def _emulate(self, actions: Sequence[Action]) -> Step:
        total = 0.0
        for action in actions:
            own = self._own(action)
            with user_code(f"{self.env_id}: step({own})"):
                returned = self._env.step(own)
            if not isinstance(returned, tuple) or len(returned) != 5:
                raise self._nonsense("step", "(observation, reward, terminated, truncated, info)", returned)
            observation, reward, terminated, truncated, info = returned
            total += self._reward(reward)
            for name, value in (("terminated", terminated), ("truncated", truncated)):
                if not isinstance(value, bool | np.bool_):
                    raise self._nonsense("step", f"a bool as {name}", value)
            if terminated or truncated:
                break
        self.lives = self._lives("step", info)
        return Step(self._frame("step", observation), total, bool(terminated), bool(truncated))

    def _own(self, action: Action) -> Any:
        """Return an action as the env takes it: from its first number on, or in the shape of its Box."""
        if isinstance(action, int):
            return action + int(getattr(self._actions, "start", 0))
        return action.reshape(self._actions.shape).astype(self._actions.dtype)

    @property
    def _action_count(self) -> int:
        """Number of actions, or of components of a continuous action."""
        space = self._actions
        return int(space.n) if isinstance(space, spaces.Discrete) else math.prod(space.shape)

    def _payload(self) -> bytes:
        if not self.can_save:
            return super()._payload()
        with user_code(f"{self.env_id}: save_state()"):
            payload = self._env.save_state()  # type: ignore[attr-defined]
        if not isinstance(payload, bytes | bytearray):
            raise self._nonsense("save_state", "bytes", payload)
        return bytes(payload)

    def _return_to(self, state: SavedState) -> Frame:
        if not self.can_save:
            return super()._return_to(state)
        with user_code(f"{self.env_id}: restore_state()"):
            observation = self._env.restore_state(state.payload)  # type: ignore[attr-defined]
        return self._frame("restore_state", observation)

    def controlled_position(self) -> tuple[float, float] | None:
        """Return the position that the env reports, None if it reports none."""
        position = getattr(self._env, "controlled_position", None)
        if not callable(position):
            return None
        with user_code(f"{self.env_id}: controlled_position()"):
            returned = position()
        if returned is None:
            return None
        try:
            row, column = map(float, returned)
        except (TypeError, ValueError):
            row = column = math.nan
        if not (math.isfinite(row) and math.isfinite(column)):
            raise self._nonsense("controlled_position", "(row, column) or None", returned)
        return row, column

    def close(self) -> None:
        """Close the env."""
        with user_code(f"{self.env_id}: close()"):
            self._env.close()

    def _frame(self, call: str, observation: npt.NDArray[np.uint8]) -> Frame:
        if not isinstance(observation, np.ndarray):
            raise self._nonsense(call, "an array as observation", observation)
        if observation.shape != self._raw_shape or observation.dtype != np.uint8:
            raise UserError(
                f"{self.env_id}: {call} returned {observation.dtype} of shape {observation.shape} where its "
                f"observation space promises uint8 of shape {self._raw_shape}: fix the env"
            )
        gray = observation.reshape(*self.frame_shape[:2], -1)  # (H, W, 1 or 3)
        return np.broadcast_to(gray, self.frame_shape).copy()

    def _reward(self, reward: Any) -> float:
        try:
            value = math.nan if isinstance(reward, str | bytes) else float(reward)
        except Exception:  # whatever stands there
            value = math.nan
        if not abs(value) <= MAX_REWARD:
            raise self._nonsense("step", "a finite number as reward", reward)
        return value

    def _lives(self, call: str, info: Any) -> int:
        if not isinstance(info, dict):
            raise self._nonsense(call, "a dict as info", info)
        lives = info.get("lives", -1)
        if not isinstance(lives, int | np.integer) or isinstance(lives, bool) or not -1 <= lives <= MAX_LIVES:
            raise self._nonsense(call, f'a number from 0 to {MAX_LIVES} as info["lives"]', lives)
        return int(lives)

    def _nonsense(self, call: str, expected: str, got: Any) -> UserError:
        return UserError(f"{self.env_id}: {call} should return {expected}, not {_shown(got)}: fix the env")


def _image_shape(env_id: str, space: spaces.Space[Any]) -> tuple[int, ...]:
    """Return the shape of the image observations, (H, W) or (H, W, 1 or 3)."""
    if not isinstance(space, spaces.Box):
        raise UserError(
            f"the observations of {env_id} are {space}, not one uint8 image: register a version wrapped to return only "
            "the image and name its module with --import"
        )
    image = len(space.shape) == 2 or (len(space.shape) == 3 and space.shape[2] in (1, 3))
    if not image or 0 in space.shape or space.dtype != np.uint8:
        raise UserError(
            f"the observations of {env_id} are not images but {space.dtype} of shape {space.shape}; frames are uint8 "
            "(H, W, 3), (H, W, 1) or (H, W): register a version wrapped in gymnasium.wrappers.AddRenderObservation and "
            "name its module with --import"
        )
    return space.shape


def _checked_actions(env_id: str, space: spaces.Space[Any]) -> spaces.Discrete | spaces.Box:
    """Return the action space; UserError for actions that are neither numbered nor vectors of floats with limits."""
    if isinstance(space, spaces.Discrete):
        return space
    if not isinstance(space, spaces.Box) or not np.issubdtype(space.dtype, np.floating) or 0 in space.shape:
        raise UserError(
            f"the actions of {env_id} are {space}, neither Discrete nor a Box of floats: register a version wrapped to "
            "offer one of them (gymnasium.wrappers.TransformAction) and name its module with --import"
        )
    with np.errstate(over="ignore"):
        limits = np.array([space.low, space.high]).astype(np.float32)
    if not np.isfinite(limits).all():
        raise UserError(
            f"the actions of {env_id} are {space}, without finite limits: register a version wrapped in "
            "gymnasium.wrappers.TransformAction with a Box that has them and name its module with --import"
        )
    return space


def _meanings(env_id: str, env: Env, count: int) -> list[str]:
    """Return the env's names of its actions; those of an env below a wrapper only where they fit, else numbers."""
    with user_code(f"{env_id}: get_action_meanings()"):
        meanings = env.get_wrapper_attr("get_action_meanings") if env.has_wrapper_attr("get_action_meanings") else None
        names = list(meanings()) if callable(meanings) else []
    if len(names) == count and all(isinstance(name, str) for name in names):
        return names
    if hasattr(env, "get_action_meanings"):
        raise UserError(
            f"{env_id}: get_action_meanings should return {count} strings, one for each action, not {_shown(names)}: "
            "fix the env"
        )
    return [str(index) for index in range(count)]


def _shown(value: Any) -> str:
    """Return something an env returned as one short line."""
    if isinstance(value, tuple) and len(value) > 1:
        return f"a tuple of {len(value)}"
    try:
        text = one_line(repr(value))
    except Exception:  # a repr that cannot be made
        text = "something"
    return f"{text if len(text) <= 60 else text[:60] + '…'} ({type(value).__name__})"


def make_game(
    env_id: str,
    *,
    sticky: float = 0.0,
    frame_skip: int | None = None,
    max_steps: int | None = None,
    import_module: str | None = None,
) -> Game:
    """Make a game by its Gymnasium id or an Atari game's bare name.

    `frame_skip` None is 4 for Atari and 1 for other envs. `max_steps` (agent steps per episode) replaces the env's own
    limit. A third-party id needs the module that registers it: import that first. Nothing is imported here, since the
    id may come from a file; `import_module`, or a module before the id as in `my_module:My-v0`, is only recorded.
    """
    module, _, bare = env_id.rpartition(":")
    for name in (module, import_module):
        _refuse_unimported(bare, name)
    import_module = module or import_module
    canonical = None if bare in SHORT_NAMES or bare in SHORT_NAMES.values() else atari_id(bare)
    settings = _settings(sticky, frame_skip, max_steps, import_module, atari=canonical is not None)
    if canonical is not None:
        return AtariGame(canonical, settings=settings, limit=max_steps)
    return _gym_game(SHORT_NAMES.get(bare, bare), settings, max_steps)


def _settings(
    sticky: float, frame_skip: int | None, max_steps: int | None, import_module: str | None, *, atari: bool
) -> dict[str, Json]:
    skip = frame_skip if frame_skip is not None else (FRAME_SKIP if atari else 1)
    if not 0 <= sticky < 1:
        raise UserError(f"sticky is {sticky}: the probability of repeating an action is at least 0 and below 1")
    if skip < 1:
        raise UserError(f"frame_skip is {skip}: an action is held for at least 1 emulator step")
    if max_steps is not None and max_steps < 1:
        raise UserError(f"max_steps is {max_steps}: an episode has at least 1 step")
    return {"sticky": float(sticky), "frame_skip": skip, "max_steps": max_steps, "import_module": import_module}


def _gym_game(env_id: str, settings: dict[str, Json], max_steps: int | None) -> GymGame:
    spec = gymnasium.registry.get(env_id)
    if spec is None:
        raise UserError(f"unknown environment {env_id!r}: {_suggestion(env_id)}")
    with user_code(f"{env_id}: __init__"):
        try:
            env = gymnasium.make(env_id, disable_env_checker=True, max_episode_steps=-1)  # Game counts the steps itself
        except (gymnasium.error.Error, ImportError) as error:
            raise UserError(f"{env_id} cannot be made: {one_line(str(error))}") from error
    return GymGame(env, env_id=env_id, settings=settings, limit=max_steps or spec.max_episode_steps)


def _suggestion(env_id: str) -> str:
    names = [*gymnasium.registry, *atari_games().values(), *SHORT_NAMES]
    by_lower = {name.lower(): name for name in names}
    close = [by_lower[name] for name in difflib.get_close_matches(env_id.lower(), by_lower, n=3)]
    cure = "a third-party id needs the module that registers it (--import MODULE)"
    return f"did you mean {', '.join(close)}? Else {cure}" if close else cure


def _refuse_unimported(env_id: str, module: str | None) -> None:
    if module and module not in sys.modules:
        raise UserError(
            f"the game {env_id} comes from the module {module!r}, and importing it runs its code; if you trust it, "
            f"add --import {module} (in Python: import it first)"
        )


def load_module(module: str) -> None:
    """Import a module that the user has named, which may register games; never one that a file names."""
    try:
        importlib.import_module(module)
    except (KeyboardInterrupt, MemoryError):
        raise
    except BaseException as error:  # whatever the user's module raises
        raise UserError(
            f"cannot import module {module!r} ({describe(error)}): fix it, install it, or put its folder on PYTHONPATH"
        ) from error


def register_envs() -> None:
    """Register the envs of acvp unless they are registered already."""
    if TOY_ID not in gymnasium.registry:
        gymnasium.register(TOY_ID, entry_point="acvp.envs.toy:ToyGame", max_episode_steps=TOY_STEPS)
    if DRIFT_ID not in gymnasium.registry:
        gymnasium.register(DRIFT_ID, entry_point="acvp.envs.toy:DriftGame", max_episode_steps=DRIFT_STEPS)
    if IMAGINED_ID not in gymnasium.registry:
        gymnasium.register(
            IMAGINED_ID,
            entry_point="acvp.control.imagined_env:ImaginedEnv",
            vector_entry_point="acvp.control.imagined_env:ImaginedVectorEnv",
        )
