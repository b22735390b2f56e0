"""What comes from Stable-Baselines3: its zip files, and its own way of using a DQN."""

from __future__ import annotations

import re
from dataclasses import replace
from pathlib import Path
from typing import Any, Literal

import gymnasium
import numpy as np
import pytest
from gymnasium import spaces
from stable_baselines3 import DQN

from acvp.agents import config
from acvp.agents.agent import Agent, AgentAbout, AgentError, load_agent
from acvp.agents.config import require_stable_baselines3
from acvp.agents.dqn import AcvpDqn, import_agent
from acvp.agents.presets import smoke
from acvp.agents.vec_env import GameVecEnv
from acvp.cli.main import main
from acvp.data.policies import Actions
from acvp.envs import make_game
from acvp.errors import UserError
from tests.agents.small import SMALL_TOY, TOY_ACTIONS

FRAMES = np.random.default_rng(0).integers(0, 256, (3, 4, 84, 84)).astype(np.uint8)


class Pictures(gymnasium.Env[Any, Any]):
    """Frames as Atari agents see them, five actions."""

    def __init__(self, shape: tuple[int, ...] = (4, 84, 84)) -> None:
        self.observation_space = spaces.Box(0, 255, shape, np.uint8)
        self.action_space = spaces.Discrete(5)


def save_zip(path: Path, shape: tuple[int, ...] = (4, 84, 84), **options: Any) -> DQN:
    dqn = DQN("CnnPolicy", Pictures(shape), buffer_size=1, device="cpu", seed=1, **options)
    dqn.save(path)
    return dqn


def test_a_zip_becomes_an_agent_of_the_same_values(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    dqn = save_zip(tmp_path / "dqn.zip")
    arguments = ["agent", "import", str(tmp_path / "dqn.zip"), "--env-id", "toy", "--out", str(tmp_path / "agent")]
    assert main(arguments) == 2
    assert "--trust-pickle" in capsys.readouterr().err
    assert not (tmp_path / "agent").exists()
    assert main([*arguments, "--trust-pickle"]) == 0
    agent = load_agent(tmp_path / "agent")
    theirs = dqn.q_net(dqn.policy.obs_to_tensor(FRAMES)[0]).numpy(force=True)
    assert agent.values(FRAMES) == pytest.approx(theirs, abs=1e-6)
    assert agent.about.action_meanings == TOY_ACTIONS
    capsys.readouterr()
    assert main([*arguments, "--trust-pickle"]) == 2
    assert "agent exists already and is not empty; choose another" in capsys.readouterr().err


def test_a_zip_that_is_no_such_agent_is_refused(tmp_path: Path) -> None:
    save_zip(tmp_path / "deep.zip", policy_kwargs={"net_arch": [8]})
    save_zip(tmp_path / "small.zip", shape=(4, 64, 64))
    (tmp_path / "broken.zip").write_bytes(b"no zip")
    for name, game, message in (
        ("deep.zip", "toy", "not the one of CnnPolicy"),
        ("small.zip", "toy", "does not take 4 gray frames of 84×84"),
        ("broken.zip", "toy", "not a DQN of Stable-Baselines3"),
        ("absent.zip", "toy", "no such file"),
    ):
        with pytest.raises(AgentError, match=message):
            import_agent(tmp_path / name, game, trust_pickle=True)


def test_a_zip_for_another_action_set_is_refused(tmp_path: Path) -> None:
    save_zip(tmp_path / "dqn.zip")
    with pytest.raises(AgentError, match="5 values for 3 actions"):
        import_agent(tmp_path / "dqn.zip", "freeway", trust_pickle=True)


def make_dqn(**options: Any) -> AcvpDqn:
    return AcvpDqn(smoke(), GameVecEnv([make_game(SMALL_TOY) for _ in range(4)], seed=1), seed=1, **options)


@pytest.mark.parametrize(
    ("name", "values"), [("rmsprop", {"lr": 3e-3, "alpha": 0.95, "eps": 0.01}), ("adam", {"lr": 3e-3, "eps": 1e-4})]
)
def test_optimizers_are_those_of_the_agents_page(name: Literal["rmsprop", "adam"], values: dict[str, float]) -> None:
    env = GameVecEnv([make_game(SMALL_TOY)], seed=1)
    optimizer = AcvpDqn(replace(smoke(), optimizer=name, lr=3e-3, games=1), env, seed=1).policy.optimizer
    assert type(optimizer).__name__.lower() == name
    assert {key: optimizer.param_groups[0][key] for key in values} == values


class Telltale:
    """A strategy that notes what it is asked and always chooses action 3."""

    def __init__(self) -> None:
        self.asked: list[tuple[tuple[int, ...], float]] = []

    def choose(self, observations: np.ndarray, greedy_actions: Actions, epsilon: float) -> Actions:
        self.asked.append((observations.shape, epsilon))
        return np.full(len(greedy_actions), 3)


def test_a_strategy_chooses_in_predict_and_while_learning() -> None:
    strategy = Telltale()
    dqn = make_dqn(exploration=strategy)
    assert dqn.predict(FRAMES)[0].tolist() == [3, 3, 3]
    assert dqn.predict(FRAMES[0])[0] == 3
    best = Agent(dqn.network(), AgentAbout(env_id=SMALL_TOY, action_meanings=TOY_ACTIONS)).act(FRAMES)
    assert dqn.predict(FRAMES, deterministic=True)[0].tolist() == best.tolist()
    assert [shape for shape, _ in strategy.asked] == [(3, 4, 84, 84), (1, 4, 84, 84)]
    dqn.learn(total_timesteps=40)
    replay = dqn.replay_buffer
    assert (replay.actions[: replay.added] == 3).all()
    rates = [epsilon for _, epsilon in strategy.asked[2:]]
    assert rates[0] == 1.0
    assert rates[-1] < 0.2


def test_a_missing_library_is_explained(monkeypatch: pytest.MonkeyPatch) -> None:
    require_stable_baselines3()
    monkeypatch.setattr(config, "find_spec", lambda name: None)
    with pytest.raises(UserError, match=r"pip install 'acvp\[agents\]'"):
        require_stable_baselines3()


def test_the_python_of_the_agents_page_runs() -> None:
    page = Path(__file__).parent.parent.parent / "docs" / "agents.md"
    _, example = re.findall(r"```python\n(.*?)```", page.read_text(), re.DOTALL)
    names: dict[str, Any] = {}
    exec(compile(example, "agents.md", "exec"), names)  # noqa: S102
    assert names["dqn"].num_timesteps == 100
