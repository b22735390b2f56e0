from pathlib import Path

import numpy as np
import pytest

from acvp.agents.dqn import Exploration, RandomExploration, Resumable, StickyRandomExploration, explore_with
from acvp.data.policies import MEAN_REPEATS
from acvp.envs import make_game

GAMES, ACTIONS = 40, 5
SEEN = np.zeros((GAMES, 4, 84, 84), np.uint8)
GREEDY = np.full(GAMES, 99)
"""No random action is this one."""


def strategies(seed: int = 1) -> list[RandomExploration | StickyRandomExploration]:
    return [RandomExploration(ACTIONS, seed), StickyRandomExploration(ACTIONS, seed, GAMES)]


def run(strategy: Exploration, epsilon: float, decisions: int) -> np.ndarray:
    return np.stack([strategy.choose(SEEN, GREEDY, epsilon) for _ in range(decisions)])


@pytest.mark.parametrize("which", [0, 1])
@pytest.mark.parametrize("epsilon", [0.0, 0.1, 0.5, 1.0])
def test_epsilon_is_the_share_of_exploring_steps(which: int, epsilon: float) -> None:
    chosen = run(strategies()[which], epsilon, 1_500)[100:]
    assert (chosen != 99).mean() == pytest.approx(epsilon, abs=0.02)
    if epsilon:
        random = chosen[chosen != 99]
        assert np.bincount(random) / len(random) == pytest.approx(np.full(ACTIONS, 1 / ACTIONS), abs=0.08)


def test_every_game_has_a_separate_coin() -> None:
    chosen = run(RandomExploration(ACTIONS, 1), 0.5, 300) != 99
    together = np.corrcoef(chosen.T)
    assert np.abs(together[~np.eye(GAMES, dtype=bool)]).max() < 0.3


def test_sticky_actions_are_kept_for_a_while() -> None:
    chosen = run(StickyRandomExploration(ACTIONS, 1, GAMES), 1.0, 1_000)
    changes = (chosen[1:] != chosen[:-1]).mean()
    assert changes == pytest.approx(0.8 / MEAN_REPEATS, rel=0.1)


@pytest.mark.parametrize("which", [0, 1])
def test_a_strategy_continues_where_it_was(which: int) -> None:
    strategy = strategies()[which]
    run(strategy, 0.5, 20)
    assert isinstance(strategy, Resumable)
    state = strategy.state()
    wanted = run(strategy, 0.5, 20)
    again = strategies()[which]
    again.restore(state)
    assert np.array_equal(run(again, 0.5, 20), wanted)
    other = strategies(seed=2)[which]
    other.restore(state)
    assert not np.array_equal(run(other, 0.5, 20), wanted)


class Noting:
    """Always takes action 2, and notes what it was asked."""

    def __init__(self) -> None:
        self.asked: list[tuple[tuple[int, ...], float]] = []

    def choose(self, observations: np.ndarray, greedy_actions: np.ndarray, epsilon: float) -> np.ndarray:
        self.asked.append((observations.shape, epsilon))
        return np.full_like(greedy_actions, 2)


def test_any_dqn_of_stable_baselines_explores_by_a_strategy(tmp_path: Path) -> None:
    sb3, vector = pytest.importorskip("stable_baselines3"), pytest.importorskip("acvp.agents.vec_env")
    env = vector.GameVecEnv([make_game("toy")], seed=1)
    dqn = sb3.DQN(
        "CnnPolicy", env, learning_starts=6, buffer_size=50, batch_size=4, train_freq=2, exploration_initial_eps=0.5,
        exploration_final_eps=0.5, policy_kwargs={"net_arch": []},
    )  # fmt: skip
    strategy = Noting()
    explore_with(dqn, strategy)
    dqn.learn(10)
    assert [epsilon for _, epsilon in strategy.asked] == [1.0] * 6 + [0.5] * 4
    assert {shape for shape, _ in strategy.asked} == {(1, 4, 84, 84)}
    assert set(dqn.replay_buffer.actions[:10].flatten().tolist()) == {2}
    dqn.save(tmp_path / "dqn.zip")
    assert "_sample_action" not in vars(sb3.DQN.load(tmp_path / "dqn.zip"))
    env.close()
