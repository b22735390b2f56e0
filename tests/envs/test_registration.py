"""The Gymnasium ids of acvp in a process that has imported nothing else of it."""

from __future__ import annotations

import subprocess
import sys

import gymnasium
import pytest

from acvp.envs import ToyGame, register_envs
from acvp.envs.gym import IMAGINED_ID
from acvp.envs.toy import TOY_ID, TOY_STEPS


def child(code: str, before: str = "") -> str:
    """Run Python that has imported only Gymnasium, after some other code, and return what it prints."""
    code = f"{before}\nimport sys, gymnasium\n{code}"
    return subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout.strip()


def test_gymnasium_makes_the_toy_game_by_module_and_id_without_torch() -> None:
    made = 'env = gymnasium.make("acvp.envs:acvp/Toy-v0"); env.reset(seed=0)'
    assert child(f"{made}; print(env.spec.max_episode_steps, 'torch' in sys.modules)") == f"{TOY_STEPS} False"


def test_an_id_alone_is_not_found_because_gymnasium_asks_for_no_entry_points() -> None:
    """If it ever does again, an entry point makes the module before the id unnecessary (docs/environments.md)."""
    record = "import importlib.metadata as m\nasked = []\nm.entry_points = lambda **group: asked.append(group) or ()"
    called = 'try: gymnasium.make("acvp/Toy-v0")\nexcept gymnasium.error.NamespaceNotFound: print(asked)'
    assert child(called, before=record) == "[]"


@pytest.mark.slow
@pytest.mark.parametrize(("make", "name"), [("make", "ImaginedEnv"), ("make_vec", "ImaginedVectorEnv")])
def test_gymnasium_finds_the_imagined_env_by_module_and_id(make: str, name: str) -> None:
    called = f'try: gymnasium.{make}("acvp.envs:acvp/Imagined-v0")\nexcept TypeError as error: print(error)'
    assert f"{name}.__init__() missing" in child(called)


def test_a_changed_registration_is_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(gymnasium.registry[TOY_ID], "max_episode_steps", 7)
    imagined = gymnasium.registry[IMAGINED_ID]
    register_envs()
    assert gymnasium.registry[TOY_ID].max_episode_steps == 7
    assert gymnasium.registry[IMAGINED_ID] is imagined
    assert isinstance(gymnasium.make(TOY_ID).unwrapped, ToyGame)
