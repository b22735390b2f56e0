"""Any Gymnasium env with uint8 image observations and discrete actions as a Game."""

from collections.abc import Sequence
from math import isfinite, nan
from typing import Any

import gymnasium
import numpy as np
import numpy.typing as npt
from gymnasium import spaces
from gymnasium.wrappers import OrderEnforcing

from acvp.envs.game import Frame, Game, Json, Step
from acvp.envs.saved import SavedState
from acvp.errors import UserError

Env = gymnasium.Env[Any, Any]


class GymGame(Game):
    """A Gymnasium env behind the uniform face.

    An env may offer more than Gymnasium asks for, and what it offers is used: `get_action_meanings() -> list[str]`,
    `save_state() -> bytes` with `restore_state(bytes) -> observation`, `controlled_position() -> (row, column)`,
    and `info["lives"]`.
    """

    def __init__(self, env: Env, *, env_id: str, settings: dict[str, Json], limit: int | None) -> None:
        self._env = env.env if isinstance(env, OrderEnforcing) else env  # Game enforces the order itself
        shape = _image_shape(env_id, env.observation_space)
        space = _action_space(env_id, env.action_space)
        self._start = int(space.start)
        self._raw_shape = env.observation_space.shape
        super().__init__(
            env_id=env_id,
            frame_shape=(shape[0], shape[1], 3),
            action_meanings=_meanings(env, int(space.n)),
            settings=settings,
            limit=limit,
        )
        self.can_save = all(callable(getattr(self._env, name, None)) for name in ("save_state", "restore_state"))

    def _begin(self, seed: int) -> Frame:
        observation, info = self._env.reset(seed=seed)
        self.lives = self._count_lives(info)
        return self._frame(observation)

    def _emulate(self, actions: Sequence[int]) -> Step:
        total = 0.0
        for action in actions:
            observation, reward, terminated, truncated, info = self._env.step(action + self._start)
            total += self._number("reward", reward)
            if terminated or truncated:
                break
        self.lives = self._count_lives(info)
        return Step(self._frame(observation), total, bool(terminated), bool(truncated))

    def _payload(self) -> bytes:
        return bytes(self._env.save_state()) if self.can_save else super()._payload()  # type: ignore[attr-defined]

    def _return_to(self, state: SavedState) -> Frame:
        if not self.can_save:
            return super()._return_to(state)
        return self._frame(self._env.restore_state(state.payload))  # type: ignore[attr-defined]

    def controlled_position(self) -> tuple[float, float] | None:
        """Return what the env says of its controlled object, None where it says nothing."""
        position = getattr(self._env, "controlled_position", None)
        return position() if callable(position) else None

    def close(self) -> None:
        """Close the env."""
        self._env.close()

    def _number(self, name: str, value: Any) -> float:
        """Return a number that the env reports, if it is one and finite."""
        try:
            number = float(value)
        except (TypeError, ValueError, OverflowError):
            number = nan
        if not isfinite(number):
            raise UserError(f"{self.env_id} returned the {name} {value!r:.80}, which is no finite number: fix the env")
        return number

    def _count_lives(self, info: dict[str, Any]) -> int:
        return int(self._number("lives", info.get("lives", -1)))

    def _frame(self, observation: npt.NDArray[np.uint8]) -> Frame:
        if not isinstance(observation, np.ndarray):
            raise UserError(f"{self.env_id} returned a {type(observation).__name__} as its frame: fix the env")
        if observation.shape != self._raw_shape or observation.dtype != np.uint8:
            raise UserError(
                f"{self.env_id} returned {observation.dtype} of shape {observation.shape} where its observation space "
                f"promises uint8 of shape {self._raw_shape}: fix the env"
            )
        gray = observation.reshape(*self.frame_shape[:2], -1)  # (H, W, 1 or 3)
        return np.broadcast_to(gray, self.frame_shape).copy()


def _image_shape(env_id: str, space: spaces.Space[Any]) -> tuple[int, ...]:
    """Return the shape of the image observations, (H, W) or (H, W, 1 or 3)."""
    if not isinstance(space, spaces.Box):
        raise UserError(
            f"the observations of {env_id} are {space}, not one uint8 image: register a version wrapped to return only "
            "the image and name its module with --import"
        )
    image = len(space.shape) == 2 or (len(space.shape) == 3 and space.shape[2] in (1, 3))
    if not image or space.dtype != np.uint8:
        raise UserError(
            f"the observations of {env_id} are not images but {space.dtype} of shape {space.shape}; frames are uint8 "
            "(H, W, 3), (H, W, 1) or (H, W): register a version wrapped in gymnasium.wrappers.AddRenderObservation and "
            "name its module with --import"
        )
    return space.shape


def _action_space(env_id: str, space: spaces.Space[Any]) -> spaces.Discrete:
    if not isinstance(space, spaces.Discrete):
        raise UserError(
            f"the actions of {env_id} are {space}, not Discrete: register a version wrapped to offer a list of actions "
            "(gymnasium.wrappers.TransformAction) and name its module with --import"
        )
    return space


def _meanings(env: Env, count: int) -> list[str]:
    meanings = env.get_wrapper_attr("get_action_meanings") if env.has_wrapper_attr("get_action_meanings") else None
    names = [str(name) for name in meanings()] if callable(meanings) else []
    return names if len(names) == count else [str(index) for index in range(count)]
