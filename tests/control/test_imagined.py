"""The imagined environment: the rules of Gymnasium and Stable-Baselines3, and the game that the predictor knows."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import gymnasium
import numpy as np
import pytest
import torch
from gymnasium.utils.env_checker import check_env

import acvp.control
from acvp.agents.agent import agent_view
from acvp.control.imagination import Imagination, ImaginationConfig
from acvp.control.imagined_env import ImaginedEnv, ImaginedVectorEnv
from acvp.data.frames import RGB
from acvp.data.store import EpisodeStore
from acvp.errors import UserError
from acvp.loaded import LoadedModel
from acvp.models import About, Outcome
from acvp.models.layers import Calibration
from tests.control.trail import MEANINGS, TrailOracle, TrailState, draw, move, read

IMAGINED = acvp.control.IMAGINED_ID


def made(store: EpisodeStore, **options: Any) -> gymnasium.Env[Any, Any]:
    return gymnasium.make(IMAGINED, predictor=TrailOracle(), data=store, **options)


@pytest.mark.parametrize("observation", ["frame", "agent"])
def test_gymnasium_s_checker(trail: EpisodeStore, observation: str) -> None:
    check_env(made(trail, observation=observation, render_mode="rgb_array").unwrapped)


def test_stable_baselines_checker(trail: EpisodeStore) -> None:
    checker = pytest.importorskip("stable_baselines3.common.env_checker")
    checker.check_env(made(trail, observation="agent"))
    with pytest.warns(UserWarning, match="minimal resolution"):  # 12×12 is too small for its convolutions
        checker.check_env(made(trail, observation="frame"))


def test_the_predictor_is_given_the_actions_before_the_start(trail: EpisodeStore) -> None:
    class Remembering(TrailOracle):
        def observe(self, frames: Any, actions: Any = None) -> TrailState:
            self.past = actions[0].tolist()
            return super().observe(frames, actions)

    oracle = Remembering()
    env = gymnasium.make(IMAGINED, predictor=oracle, data=trail)
    past = set()
    for seed in range(8):
        _, info = env.reset(seed=seed)
        episode = next(episode for episode in trail if episode.header.number == info["episode"])
        assert oracle.past == episode.actions[info["frame"] - 2 : info["frame"]].tolist()
        past.add(tuple(oracle.past))
    assert len(past) > 2


def test_it_is_the_game_that_the_predictor_knows(trail: EpisodeStore) -> None:
    env, rng = made(trail, horizon=1000), np.random.default_rng(0)
    ended = 0
    for seed in range(6):
        observation, info = env.reset(seed=seed)
        numbers = [entry.number for entry in trail.entries]
        assert np.array_equal(observation, trail[numbers.index(info["episode"])].frames()[info["frame"]])
        place = read(observation)
        for _ in range(40):
            action = int(rng.integers(3))
            observation, reward, terminated, truncated, _ = env.step(action)
            place, wanted, over = move(place, action)
            assert np.array_equal(observation, draw(place))
            assert (reward, terminated, truncated) == (wanted, over, False)
            if over:
                ended += 1
                break
    assert ended == 6
    assert env.unwrapped.get_action_meanings() == list(MEANINGS)  # type: ignore[attr-defined]
    env.close()


def test_an_episode_is_cut_off(trail: EpisodeStore) -> None:
    env = made(trail, horizon=2)
    env.reset(seed=0)
    ends = [env.step(0)[2:4] for _ in range(2)]
    assert ends == [(False, False), (False, True)]


def test_an_agent_s_observations_begin_with_real_frames(trail: EpisodeStore) -> None:
    env = made(trail, observation="agent")
    stack, info = env.reset(seed=1)
    position = [entry.number for entry in trail.entries].index(info["episode"])
    frames = trail[position].frames(info["frame"] - 2, info["frame"] + 1)  # three given, the oldest comes twice
    assert np.array_equal(stack, agent_view(frames)[[0, 0, 1, 2]])
    after = env.step(1)[0]
    assert np.array_equal(after[:-1], stack[1:])


def test_rendered_in_rgb(trail: EpisodeStore) -> None:
    env = made(trail, render_mode="rgb_array")
    observation, _ = env.reset(seed=0)
    assert np.array_equal(env.render(), observation)  # type: ignore[arg-type]


def test_many_at_once_are_as_many_alone(trail: EpisodeStore) -> None:
    envs = gymnasium.make_vec(IMAGINED, num_envs=5, predictor=TrailOracle(), data=trail, horizon=9)
    assert isinstance(envs.unwrapped, ImaginedVectorEnv)
    assert envs.observation_space.shape == (5, 12, 12, 3)
    observations, infos = envs.reset(seed=4)
    places = [read(frame) for frame in observations]
    ages, ended, cut_off = np.zeros(5, int), 0, 0
    for step in range(60):
        actions = np.random.default_rng(step).integers(3, size=5)
        observations, rewards, terminated, truncated, infos = envs.step(actions)
        ages += 1
        for row in range(5):
            place, reward, over = move(places[row], int(actions[row]))
            cut = not over and ages[row] == 9
            assert (rewards[row], terminated[row], truncated[row]) == (reward, over, cut)
            if over or cut:
                assert np.array_equal(infos["final_obs"][row], draw(place))
                assert infos["_final_obs"][row]
                place, ages[row] = read(observations[row]), 0
            places[row] = place
            assert np.array_equal(observations[row], draw(place))
        ended, cut_off = ended + int(terminated.sum()), cut_off + int(truncated.sum())
    assert ended > 3
    assert cut_off > 3


def test_games_for_acvp_s_dqn(trail: EpisodeStore) -> None:
    """The same game as what an agent sees of it, and a DQN that learns in it."""
    games = pytest.importorskip("acvp.control.learning")
    env = games.ImaginedVecEnv(TrailOracle(), trail, games=3, seed=1, horizon=7)
    observations = env.reset()
    assert observations.shape == (3, 4, 84, 84)
    over = 0
    for step in range(30):
        before, scores = observations, [episode.score for episode in env.episodes]
        observations, rewards, dones, infos = env.step(np.random.default_rng(step).integers(3, size=3))
        for row in range(3):
            if not dones[row]:
                assert np.array_equal(observations[row, :-1], before[row, 1:])
                assert env.episodes[row].score == scores[row] + rewards[row]
                continue
            over += 1
            assert np.array_equal(infos[row]["terminal_observation"][:-1], before[row, 1:])
            assert (observations[row] == observations[row, 0]).all()  # a new play, its first frame four times
    assert over > 8
    again = games.ImaginedVecEnv(TrailOracle(), trail, games=3, seed=1, horizon=7)
    again.episodes = env.episodes  # as a run that goes on has them
    assert not np.array_equal(again.reset(), games.ImaginedVecEnv(TrailOracle(), trail, games=3, seed=1).reset())
    dqn, settings = pytest.importorskip("acvp.agents.dqn"), pytest.importorskip("acvp.agents.presets")
    small = replace(settings.smoke(), games=3, steps_per_update=3, learning_starts=9, replay=100, batch_size=4)
    agent = dqn.AcvpDqn(small, env, seed=1, device="cpu")
    agent.learn(30)
    assert agent._n_updates > 3


def test_the_same_seed_the_same_plays(trail: EpisodeStore) -> None:
    def frames(seed: int) -> list[Any]:
        envs = ImaginedVectorEnv(3, TrailOracle(), trail, horizon=5)
        seen = [envs.reset(seed=seed)[0]]
        return [*seen, *(envs.step(np.array([0, 1, 2]))[0] for _ in range(12))]

    assert np.array_equal(frames(1), frames(1))
    assert not np.array_equal(frames(1), frames(2))


@pytest.mark.parametrize("algorithm", ["DQN", "PPO"])
def test_an_agent_of_stable_baselines_trains_in_it(trail: EpisodeStore, algorithm: str) -> None:
    sb3 = pytest.importorskip("stable_baselines3")
    options: dict[str, Any] = {"buffer_size": 200, "learning_starts": 20}
    if algorithm == "PPO":
        options = {"n_steps": 40, "batch_size": 40, "n_epochs": 1}
    env = made(trail, horizon=20)
    agent = getattr(sb3, algorithm)("MlpPolicy", env, seed=0, device="cpu", **options)
    agent.learn(40)
    assert agent.num_timesteps == 40
    assert 0 <= int(agent.predict(env.reset(seed=0)[0])[0]) < 3


def test_a_predictor_without_reward_and_termination_heads(trail: EpisodeStore) -> None:
    with pytest.raises(UserError, match=r"needs rewards and terminations.*--predict-rewards"):
        ImaginedEnv(TrailOracle(heads=False), trail)


def test_a_predictor_of_another_game(trail: EpisodeStore) -> None:
    other = TrailOracle()
    other.about = About(env_id="ALE/Pong-v5", view="rgb", action_meanings=MEANINGS)
    with pytest.raises(UserError, match="predicts ALE/Pong-v5"):
        ImaginedEnv(other, trail)


@pytest.mark.parametrize(
    ("wrong", "message"), [({"horizon": 0}, "horizon is 0"), ({"observation": "sound"}, "observation is 'sound'")]
)
def test_impossible_options(trail: EpisodeStore, wrong: dict[str, Any], message: str) -> None:
    with pytest.raises(UserError, match=message):
        ImaginedEnv(TrailOracle(), trail, **wrong)


def test_folders_that_are_not_there(trail: EpisodeStore, tmp_path: Path) -> None:
    with pytest.raises(UserError, match="no such folder"):
        ImaginedEnv(tmp_path / "nothing", trail)
    with pytest.raises(UserError, match="no such folder"):
        ImaginedEnv(TrailOracle(), tmp_path / "nothing")


def outcome_of(store: EpisodeStore, config: ImaginationConfig, reward: Any, termination: Any) -> list[Any]:
    """What an imagined step with these logits is made into."""
    imagination = Imagination(LoadedModel(name="oracle", predictor=TrailOracle(), view=RGB), store, config)
    outcome = Outcome(reward=torch.tensor(reward), termination=torch.tensor(termination))
    imagination.begin(np.arange(len(reward)), np.random.default_rng(0))
    parts = imagination._outcome(TrailState(places=torch.zeros(4, 3), outcome=outcome))
    return [None if part is None else part.tolist() for part in parts]


class Mortal(TrailOracle):
    """Loses a life with action 2, says the head, surely enough for a threshold of 0.3."""

    def __init__(self) -> None:
        super().__init__()
        self.calibration = Calibration(lost_life_threshold=0.3)

    def predict(self, state: Any, action: torch.Tensor) -> tuple[torch.Tensor, TrailState]:
        frame, after = super().predict(state, action)
        assert after.outcome is not None
        lost = torch.logit(torch.where(action == 2, 0.4, 0.2))
        return frame, replace(after, outcome=after.outcome._replace(lost_life=lost))


@pytest.mark.parametrize("episodic_life", [False, True])
def test_a_lost_life_is_reported_and_may_end_an_episode(trail: EpisodeStore, episodic_life: bool) -> None:
    config = ImaginationConfig(episodic_life=episodic_life)
    env = ImaginedEnv(Mortal(), trail, imagination=config)
    env.reset(seed=2)
    assert [env.step(action)[2::2] for action in (0, 2)] == [
        (False, {"lost_life": False}),
        (episodic_life, {"lost_life": True}),
    ]
    envs = ImaginedVectorEnv(2, Mortal(), trail, imagination=config)
    envs.reset(seed=2)
    _, _, terminated, _, info = envs.step(np.array([2, 0]))
    assert info["lost_life"].tolist() == [True, False]
    assert terminated.tolist() == [episodic_life, False]
    assert ("final_obs" in info) == episodic_life


def test_agents_learn_that_a_life_was_lost(trail: EpisodeStore) -> None:
    games = pytest.importorskip("acvp.control.learning")
    env = games.ImaginedVecEnv(Mortal(), trail, games=2, seed=1, horizon=9)
    env.reset()
    told = [[info.get("life_lost", False) for info in env.step(np.array(actions))[3]] for actions in ([0, 2], [2, 2])]
    assert told == [[False, True], [True, True]]


def test_episodic_life_needs_a_predictor_of_lost_lives(trail: EpisodeStore) -> None:
    with pytest.raises(UserError, match="does not predict lost lives"):
        ImaginedEnv(TrailOracle(), trail, imagination=ImaginationConfig(episodic_life=True))


def test_stored_thresholds_decide_unless_others_are_given(trail: EpisodeStore) -> None:
    """The oracle gives an end a logit of 2, and −2 elsewhere: a threshold of 0.05 ends an episode at once."""
    oracle = TrailOracle()
    oracle.calibration = Calibration(termination_threshold=0.05, reward_thresholds=(0.9, 0.01))
    env = ImaginedEnv(oracle, trail)
    env.reset(seed=2)
    assert env.step(0)[1:3] == (1.0, True)
    env = ImaginedEnv(oracle, trail, imagination=ImaginationConfig(calibration=Calibration()))
    env.reset(seed=2)
    assert env.step(0)[1:3] == (0.0, False)


def test_an_end_is_imagined_where_it_is_likelier_than_not(trail: EpisodeStore) -> None:
    """A logit of 0 is a probability of one half."""
    reward = [[0.1, 0.0, 0.0], [0.0, 0.1, 0.0], [0.0, 0.0, 0.1], [0.0, 0.0, 0.1]]
    signs, ends, lost, unsure = outcome_of(trail, ImaginationConfig(), reward, [-0.1, 0.0, 0.1, 2.0])
    assert lost is None
    assert signs == [-1.0, 0.0, 1.0, 1.0]
    assert ends == [False, False, True, True]
    assert unsure == [False] * 4


def test_expected_rewards_are_probabilities_of_calibrated_logits(trail: EpisodeStore) -> None:
    logs = np.log([[0.1, 0.6, 0.3], [0.5, 0.25, 0.25]]).tolist()
    assert outcome_of(trail, ImaginationConfig(rewards="expected"), logs, [0.0, 0.0])[0] == pytest.approx([0.2, -0.25])
    halved = Calibration(reward_bias=(0.0, 0.0, float(np.log(0.5))), termination_bias=-1.0)
    config = ImaginationConfig(rewards="expected", calibration=halved)
    rewards, ends, *_ = outcome_of(trail, config, logs, [0.5, 1.5])
    assert rewards == pytest.approx([0.05 / 0.85, -0.375 / 0.875])
    assert ends == [False, True]


def test_sampled_rewards_come_as_often_as_predicted(trail: EpisodeStore) -> None:
    logs = np.log([[0.2, 0.3, 0.5]] * 4000).tolist()
    rewards = outcome_of(trail, ImaginationConfig(rewards="sample"), logs, [0.0] * 4000)[0]
    shares = [rewards.count(sign) / 4000 for sign in (-1.0, 0.0, 1.0)]
    assert shares == pytest.approx([0.2, 0.3, 0.5], abs=0.03)


def test_a_seed_repeats_what_is_sampled(trail: EpisodeStore) -> None:
    logs, seeds = torch.zeros(50, 3), []

    class Sampled(TrailOracle):
        def sample(self, temperature: float = 1.0, seed: int = 0) -> None:
            seeds.append(seed)

    config = ImaginationConfig(rewards="sample", temperature=1.0)
    for env in (
        ImaginedEnv(Sampled(), trail, imagination=config),
        ImaginedVectorEnv(2, Sampled(), trail, imagination=config),
    ):
        drawn = []
        for seed in (3, 3, 4):
            env.reset(seed=seed)
            drawn.append(env._episodes.imagination._rewards(Outcome(logs, logs[:, 0])).tolist())
        assert drawn[0] == drawn[1] != drawn[2]
    assert seeds == [0, 0, *[3, 3, 4] * 2]


def test_an_episode_is_truncated_where_the_predictor_has_been_unsure_for_long(trail: EpisodeStore) -> None:
    """TrailOracle's logits have the same entropy at most steps: the limit is reached after as many steps."""
    outcome = TrailOracle()._outcome([0.0], [False])
    assert outcome is not None
    per_step = float(outcome.entropy())
    both = torch.cat(
        (outcome.reward.softmax(1)[0], torch.sigmoid(outcome.termination), torch.sigmoid(-outcome.termination))
    )
    assert per_step == pytest.approx(float(-(both * both.log()).sum()))
    env = ImaginedEnv(TrailOracle(), trail, imagination=ImaginationConfig(max_entropy=2.5 * per_step))
    for seed in range(2):  # counted again from every start
        env.reset(seed=seed)
        assert [env.step(0)[3] for _ in range(3)] == [False, False, True]


def test_recent_starts_come_more_often(trail: EpisodeStore) -> None:
    def late(recent: float) -> float:
        config = ImaginationConfig(recent=recent)
        imagination = Imagination(LoadedModel(name="oracle", predictor=TrailOracle(), view=RGB), trail, config)
        episodes = imagination.begin(np.arange(1000), np.random.default_rng(1)).episodes
        return float((episodes >= trail.entries[-2].number).mean())

    assert late(1.0) > 0.95
    assert late(0.0) < 0.35
    assert 0.45 < late(0.5) < 0.75


def test_frames_are_sampled_where_asked(trail: EpisodeStore) -> None:
    asked: list[float] = []

    class Sampled(TrailOracle):
        def sample(self, temperature: float = 1.0, seed: int = 0) -> None:
            asked.append(temperature)

    ImaginedEnv(Sampled(), trail)
    ImaginedEnv(Sampled(), trail, imagination=ImaginationConfig(temperature=0.7))
    assert asked == [0.7]


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        ({"rewards": "true"}, "rewards is 'true': choose sign, expected, sample"),
        ({"recent": 1.5}, "recent is 1.5"),
        ({"temperature": -1.0}, "temperature is -1"),
        ({"max_entropy": 0.0}, "max_entropy is 0"),
    ],
)
def test_impossible_imaginations(wrong: dict[str, Any], message: str) -> None:
    with pytest.raises(UserError, match=message):
        ImaginationConfig(**wrong)


def test_an_agent_learns_from_expected_rewards_unclipped(trail: EpisodeStore) -> None:
    games = pytest.importorskip("acvp.control.learning")
    config = ImaginationConfig(rewards="expected")
    env = games.ImaginedVecEnv(TrailOracle(), trail, games=4, seed=1, horizon=7, imagination=config)
    env.reset()
    rewards = np.concatenate([env.step(np.random.default_rng(step).integers(3, size=4))[1] for step in range(20)])
    assert rewards.dtype == np.float32
    assert ((rewards > -1) & (rewards < 1)).all()
    assert len(set(np.abs(rewards[rewards != 0]).round(3).tolist())) == 1  # the oracle is equally unsure everywhere
