"""What the env tests share."""

from collections.abc import Iterator
from typing import Any, Protocol

import gymnasium
import pytest
from gymnasium.envs.registration import EnvSpec


class Register(Protocol):
    """Registers PixelEnv with these arguments and returns its id."""

    def __call__(self, env_id: str = "test/Pixel-v0", *, max_steps: int | None = None, **kwargs: Any) -> str: ...


@pytest.fixture
def register() -> Iterator[Register]:
    """Register PixelEnv under an id for the length of one test."""
    before: dict[str, EnvSpec] = dict(gymnasium.registry)

    def pixel_env(env_id: str = "test/Pixel-v0", *, max_steps: int | None = None, **kwargs: Any) -> str:
        entry_point = "tests.envs.pixel_env:PixelEnv"
        gymnasium.register(env_id, entry_point=entry_point, max_episode_steps=max_steps, kwargs=kwargs)
        return env_id

    yield pixel_env
    for env_id in gymnasium.registry.keys() - before.keys():
        del gymnasium.registry[env_id]
