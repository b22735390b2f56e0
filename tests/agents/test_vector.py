"""Several games at once: what an agent is told is what happened."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from acvp.agents.agent import Preprocessor
from acvp.agents.vec_env import AgentVecEnv, AleVecEnv, GameVecEnv, StepResult
from acvp.data.frames import GRAY_84
from acvp.envs import make_game
from acvp.errors import UserError
from tests.agents.small import SMALL_TOY, TOY_ACTIONS

ATARI = ["freeway", "seaquest", "space_invaders", "qbert", "ms_pacman"]


def gray(frame: np.ndarray) -> np.ndarray:
    return GRAY_84.apply(frame, None)[..., 0]


def step(env: AgentVecEnv, actions: np.ndarray) -> tuple[np.ndarray, np.ndarray, np.ndarray, list[dict[str, Any]]]:
    env.step_async(actions)
    return env.step_wait()


@pytest.mark.parametrize("name", ["toy", *ATARI])
def test_the_preprocessor_gives_the_gray_view_of_a_single_frame(name: str) -> None:
    preprocessor, rng = Preprocessor(), np.random.default_rng(0)
    with make_game(name) as game:
        assert np.array_equal(preprocessor.apply(game, frame := game.reset(0)), gray(frame))
        for _ in range(30):
            step = game.step(int(rng.integers(len(game.action_meanings))))
            assert np.array_equal(preprocessor.apply(game, step.frame), gray(step.frame))


@pytest.mark.slow
def test_observations_are_the_last_four_frames_of_each_episode() -> None:
    """Against the games themselves, played with the same actions."""
    env = GameVecEnv([make_game(SMALL_TOY, max_steps=23) for _ in range(2)], seed=5)
    rng = np.random.default_rng(1)
    observations = env.reset()
    stacks = [[observation[-1]] * 4 for observation in observations]
    ended = 0
    for _ in range(120):
        assert np.array_equal(observations, np.stack([np.stack(stack) for stack in stacks]))
        before = [game.save() for game in env.games]
        actions = rng.integers(5, size=2)
        observations, rewards, dones, infos = step(env, actions)
        with make_game(SMALL_TOY, max_steps=23) as twin:
            for number, state in enumerate(before):
                twin.restore(state)
                then = twin.step(int(actions[number]))
                stacks[number] = [*stacks[number][1:], gray(then.frame)]
                assert rewards[number] == np.sign(then.reward)
                assert dones[number] == (then.terminated or then.truncated)
                assert infos[number].get("life_lost", False) == (not dones[number] and twin.lives < state.lives)
                if dones[number]:
                    ended += 1
                    assert np.array_equal(infos[number]["terminal_observation"], np.stack(stacks[number]))
                    assert infos[number]["TimeLimit.truncated"] == (then.truncated and not then.terminated)
                    stacks[number] = [observations[number, -1]] * 4
    assert ended > 4
    env.close()


def test_every_game_and_every_episode_starts_differently() -> None:
    env = GameVecEnv([make_game(SMALL_TOY, max_steps=1) for _ in range(3)], seed=1)
    firsts = [env.reset()[:, -1]]
    firsts += [step(env, np.zeros(3, np.int64))[0][:, -1] for _ in range(2)]  # of the next plays
    assert len({frame.tobytes() for frames in firsts for frame in frames}) == 9
    env.close()


def test_only_fewer_lives_are_a_lost_life() -> None:
    """A life that is won, as at some scores in Atari, is none lost."""

    class Lives(GameVecEnv):
        def _advance(self, actions: NDArray[np.int64]) -> list[StepResult]:
            return [each._replace(lives=left.pop(0)) for each in super()._advance(actions)]

    left = [3, 4, 4, 2]
    env = Lives([make_game(SMALL_TOY)], seed=1)
    env.reset()
    assert [step(env, np.zeros(1, np.int64))[3][0].get("life_lost", False) for _ in range(4)] == [False] * 3 + [True]
    env.close()


def test_scores_are_true_and_rewards_are_signs() -> None:
    env = GameVecEnv([make_game("space_invaders", max_steps=250)], seed=1)
    env.reset()
    score, told, rewards = 0.0, 0.0, set()
    with make_game("space_invaders", max_steps=250) as twin:
        twin.reset(0)
        for t in range(250):
            _, reward, _, infos = env.step(np.array([1 if t % 2 else 4]))
            score += twin.step(1 if t % 2 else 4).reward
            rewards |= set(reward.tolist())
            told = infos[0]["episode"]["r"] if "episode" in infos[0] else told
    assert told == score > 1
    assert rewards == {0.0, 1.0}
    env.close()


class Scripted(AgentVecEnv):
    """One game in which rewards and lives follow a script, until its end."""

    script = ((-5.0, 3), (0.0, 2), (30.0, 3), (2.0, 1))

    def __init__(self) -> None:
        super().__init__(1, "test/Scripted-v0", ("NOOP",))
        self._left = list(self.script)

    def _begin_all(self) -> list[tuple[np.ndarray, int]]:
        return [(np.zeros((84, 84), np.uint8), 3)]

    def _advance(self, actions: np.ndarray) -> list[StepResult]:
        reward, lives = self._left.pop(0)
        frame, over = np.zeros((84, 84), np.uint8), not self._left
        return [StepResult(frame, reward, over, False, lives, frame if over else None)]

    def close(self) -> None:
        """Do nothing."""


def test_rewards_lives_and_scores_of_a_script() -> None:
    """A life less is lost, a life more is not; a reward keeps its sign, the score all of it."""
    env = Scripted()
    env.reset()
    steps = [step(env, np.zeros(1, np.int64))[1:] for _ in env.script]
    assert [reward[0] for reward, _, _ in steps] == [-1.0, 0.0, 1.0, 1.0]
    assert [done[0] for _, done, _ in steps] == [False, False, False, True]
    assert [infos[0].get("life_lost", False) for _, _, infos in steps] == [False, True, False, False]
    last = steps[-1][2][0]
    assert last["episode"] == {"r": 27.0, "l": 4}
    assert last["TimeLimit.truncated"] is False


def test_plays_follow_from_the_seed() -> None:
    def first_frames(seed: int) -> list[bytes]:
        env = GameVecEnv([make_game(SMALL_TOY, max_steps=5) for _ in range(3)], seed)
        frames = [env.reset().tobytes()]
        frames += [step(env, np.zeros(3, np.int64))[0].tobytes() for _ in range(12)]
        return frames

    assert first_frames(1) == first_frames(1)
    assert first_frames(1) != first_frames(2)


@pytest.mark.slow
@pytest.mark.parametrize(("name", "limit", "decisions"), [("space_invaders", 40, 60), ("seaquest", 1_000, 500)])
def test_ales_vector_env_gives_the_same(name: str, limit: int, decisions: int) -> None:
    """Frames may differ by one gray level where OpenCV's builds round a half differently; all else is equal."""
    rng = np.random.default_rng(0)
    with make_game(name, max_steps=limit) as game:
        theirs = AleVecEnv(game, 2, seed=1)
    ours = GameVecEnv([make_game(name, max_steps=limit) for _ in range(2)], seed=1)
    assert theirs.action_meanings == ours.action_meanings
    differing = near(ours.reset(), theirs.reset())
    ends: list[dict[str, Any]] = []
    for _ in range(decisions):
        actions = rng.integers(len(ours.action_meanings), size=2)
        (seen, rewards, dones, infos), (seen2, rewards2, dones2, infos2) = step(ours, actions), step(theirs, actions)
        differing += near(seen, seen2)
        assert rewards.tolist() == rewards2.tolist()
        assert dones.tolist() == dones2.tolist()
        for info, info2 in zip(infos, infos2, strict=True):
            assert info.keys() == info2.keys()
            if "episode" in info:
                ends.append(info)
                assert info["episode"] == info2["episode"]
                assert info["TimeLimit.truncated"] == info2["TimeLimit.truncated"]
                differing += near(info["terminal_observation"][:3], info2["terminal_observation"][:3])
    assert ends
    assert all(info["TimeLimit.truncated"] == (limit < decisions) for info in ends)  # cut off, or by the game's rules
    assert differing < 1e-4 * decisions * seen.size
    theirs.close()
    ours.close()


def near(ours: np.ndarray, theirs: np.ndarray) -> int:
    """How many pixels differ, each by one level at most."""
    apart = np.abs(ours.astype(int) - theirs)
    assert apart.max() <= 1
    return int((apart > 0).sum())


def test_ales_vector_env_runs_atari_only() -> None:
    with make_game("toy") as game, pytest.raises(UserError, match="--emulator ale runs Atari games only, not acvp/Toy"):
        AleVecEnv(game, 2, seed=1)


def test_the_face_is_stable_baselines3s() -> None:
    env: AgentVecEnv = GameVecEnv([make_game(SMALL_TOY)] * 2, seed=1)
    assert env.action_meanings == TOY_ACTIONS
    assert env.env_is_wrapped(object) == [False, False]
    assert env.get_attr("env_id") == [SMALL_TOY] * 2
    for call in (lambda: env.set_attr("x", 1), lambda: env.env_method("x")):
        with pytest.raises(NotImplementedError):
            call()
