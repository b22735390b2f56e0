"""Plays of agents: `acvp agent evaluate`, and agents as policies of `acvp collect`."""

from __future__ import annotations

import io
import json
import zlib
from pathlib import Path
from typing import Any

import av
import numpy as np
import pytest
from numpy.typing import NDArray

from acvp.agents import evaluate
from acvp.agents.agent import Agent
from acvp.agents.config import AgentEvaluateConfig
from acvp.agents.evaluate import RESULT_NAME, VIDEO_NAME, evaluate_agent, median_episode, replay_frames
from acvp.agents.play import PlayedEpisode, Scores, play_episodes
from acvp.agents.policies import load_any_policy
from acvp.artifacts import ArtifactError
from acvp.cli.main import main
from acvp.data.collect import CollectConfig, collect
from acvp.data.frames import GRAY_84
from acvp.data.policies import random_policy
from acvp.envs import make_game
from acvp.errors import UserError
from tests.agents.small import SMALL_TOY, TOY_ACTIONS, tiny_agent


def games(count: int, max_steps: int = 40) -> list[Any]:
    return [make_game(SMALL_TOY, max_steps=max_steps) for _ in range(count)]


def agent() -> Agent:
    return tiny_agent(SMALL_TOY)


class EveryPixel:
    """Chooses by a hash of all that it sees: one gray level more or less and it does something else."""

    actions = len(TOY_ACTIONS)

    def act(self, frames: NDArray[np.uint8]) -> NDArray[np.int64]:
        return np.array([zlib.crc32(stack.tobytes()) % self.actions for stack in frames])


@pytest.mark.slow
def test_a_play_is_what_the_game_says() -> None:
    """Played again by its actions: the same score; its greedy actions are the agent's at the last four frames."""
    scores = play_episodes(EveryPixel(), games(2), episodes=5, epsilon=0.2, seed=3)
    assert [play.number for play in scores.episodes] == [0, 1, 2, 3, 4]
    greedy = total = 0
    for play in scores.episodes:
        [game] = games(1)
        frames = [GRAY_84.apply(game.reset(play.seed), None)[..., 0]] * 4
        score, over = 0.0, False
        for action in play.actions:
            assert not over
            greedy += EveryPixel().act(np.stack(frames[-4:])[None])[0] == action
            total += 1
            step = game.step(action)
            frames.append(GRAY_84.apply(step.frame, None)[..., 0])
            score, over = score + step.reward, step.terminated or step.truncated
        assert over
        assert score == play.score
    assert greedy / total == pytest.approx(1 - 0.2 * 4 / 5, abs=0.1)


def test_plays_depend_on_their_number_not_on_their_neighbors() -> None:
    alone, together = (play_episodes(agent(), games(n), episodes=4, epsilon=0.5, seed=1) for n in (1, 3))
    assert [play.actions for play in alone.episodes] == [play.actions for play in together.episodes]
    assert len({tuple(play.actions) for play in alone.episodes}) == 4
    other = play_episodes(agent(), games(3), episodes=4, epsilon=0.5, seed=2)
    assert [play.actions for play in other.episodes] != [play.actions for play in alone.episodes]


def scores_of(*values: float) -> Scores:
    return Scores(tuple(PlayedEpisode(number, 0, score=value) for number, value in enumerate(values)))


def test_mean_and_standard_error() -> None:
    scores = scores_of(1, 2, 3, 6)
    assert scores.mean == 3
    assert scores.standard_error == pytest.approx(np.sqrt((4 + 1 + 0 + 9) / 3) / 2)
    assert scores_of(5).standard_error is None
    assert str(scores_of(10, 20)) == "15.0 ± 5.0 (2 episodes)"
    assert str(scores_of(5)) == "5.0 (1 episode)"


def test_the_video_shows_the_play_of_middle_score() -> None:
    assert median_episode(scores_of(9, 1, 5)).score == 5
    assert median_episode(scores_of(9, 1, 5, 7)).score == 5
    [game] = games(1)
    play = play_episodes(agent(), [game], episodes=1, epsilon=0.5, seed=1).episodes[0]
    pictures = list(replay_frames(game, play))
    assert len(pictures) == len(play.actions) + 1
    frame = game.reset(play.seed)
    scale = pictures[0].shape[0] // 16
    assert scale % 2 == 0
    assert np.array_equal(pictures[0][scale // 2 :: scale, scale // 2 :: scale], frame)


def test_evaluate_writes_numbers_and_a_video(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    agent().save(tmp_path / "agent")
    arguments = ["agent", "evaluate", "--agent", str(tmp_path / "agent"), "--episodes", "3", "--max-steps", "30"]
    assert main([*arguments, "--out", str(tmp_path / "out"), "--video"]) == 0
    body = json.loads((tmp_path / "out" / RESULT_NAME).read_text())
    assert body["mean"] == pytest.approx(np.mean(body["scores"]))
    assert len(body["scores"]) == len(body["steps"]) == 3
    assert body["env_id"] == SMALL_TOY
    assert {"command", "commit", "machine", "time"} <= body["provenance"].keys()
    said = capsys.readouterr().out
    assert f"{SMALL_TOY}, 3 episodes, ε = 0.05: score" in said
    best, random = (body["references"][name] for name in ("constant", "random"))
    assert f"agent: {body['mean']:,.1f} ± {body['standard_error']:,.1f}" in said
    assert f"constant {best['action']}: {best['mean']:,.1f} ± {best['standard_error']:,.1f}" in said
    assert f"random: {random['mean']:,.1f} ± {random['standard_error']:,.1f}" in said
    assert "paper" not in said  # it did not play this game
    with av.open(io.BytesIO((tmp_path / "out" / VIDEO_NAME).read_bytes()), "r") as video:
        shown = list(video.decode(video=0))
    assert len(shown) - 1 in body["steps"]


def test_scores_are_only_printed_without_a_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    agent().save(tmp_path / "agent")
    monkeypatch.chdir(tmp_path)
    body = evaluate_agent(AgentEvaluateConfig(agent="agent", episodes=1, max_steps=5), lambda *_: None)
    assert body["steps"] == [5]
    assert [path.name for path in tmp_path.iterdir()] == ["agent"]


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"epsilon": 2}, "--epsilon 2"),
        ({"episodes": 0}, "--episodes 0: at least 1"),
        ({"at_once": 0}, "--at-once 0: at least 1"),
        ({"seed": -1}, "--seed -1"),
        ({"video": True}, "--video: say where to with --out"),
        ({"agent": "nobody"}, "unknown agent 'nobody'"),
        ({"env_id": "freeway"}, "has the actions NOOP UP DOWN LEFT RIGHT, ALE/Freeway-v5 has NOOP UP DOWN"),
    ],
)
def test_what_cannot_be_played_is_refused(tmp_path: Path, options: dict[str, Any], message: str) -> None:
    agent().save(tmp_path / "agent")
    with pytest.raises(UserError, match=message):
        evaluate_agent(AgentEvaluateConfig(**({"agent": str(tmp_path / "agent")} | options)), lambda *_: None)


def test_a_missing_encoder_is_reported_before_the_episodes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    agent().save(tmp_path / "agent")
    monkeypatch.setattr(av, "codecs_available", set())
    monkeypatch.setattr(evaluate, "play_episodes", None)
    config = AgentEvaluateConfig(agent=str(tmp_path / "agent"), video=True, out=tmp_path / "out")
    with pytest.raises(UserError, match=r"without the H\.264 encoder"):
        evaluate_agent(config, lambda *_: None)


@pytest.mark.slow
def test_an_agent_records_the_same_store_whatever_the_workers(tmp_path: Path) -> None:
    tiny_agent().save(tmp_path / "agent")
    policy = f"agent:{tmp_path / 'agent'}"
    arguments = ["collect", "--env-id", "toy", "--policy", policy, "--epsilon", "0.3", "--frames", "300"]
    assert main([*arguments, "--out", str(tmp_path / "a")]) == 0
    config = CollectConfig(
        env_id="toy", policy=(policy,), epsilon=(0.3,), frames=300, out=tmp_path / "b", workers=2, max_steps=None
    )
    store = collect(config, load=load_any_policy)
    assert store.info.policy == policy
    files = sorted(path.name for path in (tmp_path / "a").rglob("*.safetensors"))
    assert files
    for name in files:
        one, other = (next((tmp_path / folder).rglob(name)).read_bytes() for folder in ("a", "b"))
        assert one == other


def test_the_policy_sees_four_frames_of_every_episode(tmp_path: Path) -> None:
    """Against an agent that plays by itself: the greedy actions are the same, play after play."""
    tiny_agent(SMALL_TOY).save(tmp_path)
    policy = load_any_policy(f"agent:{tmp_path}")
    scores = play_episodes(agent(), games(1), episodes=2, epsilon=0.0, seed=1)
    for play in scores.episodes:
        [game] = games(1)
        player, frame, actions = policy(TOY_ACTIONS, np.random.default_rng(0)), game.reset(play.seed), []
        for _ in play.actions:
            actions.append(player(frame))
            frame = game.step(actions[-1]).frame
        assert actions == play.actions


def test_other_policies_are_still_found() -> None:
    assert load_any_policy("random") is random_policy


@pytest.mark.parametrize(
    ("policy", "message"),
    [("agent:nobody", "unknown agent 'nobody'"), ("agent:freeway-like", "has the actions NOOP UP DOWN, this game has")],
)
def test_an_agent_that_cannot_record_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], policy: str, message: str
) -> None:
    monkeypatch.chdir(tmp_path)
    tiny_agent("ALE/Freeway-v5", ("NOOP", "UP", "DOWN")).save(tmp_path / "freeway-like")
    assert main(["collect", "--env-id", "toy", "--policy", policy, "--out", "store"]) == 2
    assert message in capsys.readouterr().err


def test_agents_of_another_kind_do_not_pass_as_ours(tmp_path: Path) -> None:
    with pytest.raises(ArtifactError, match="cannot be read"):
        load_any_policy(f"agent:{tmp_path}")


def test_plays_that_begin_later_are_the_later_ones() -> None:
    options: dict[str, Any] = {"epsilon": 0.5, "seed": 3}
    whole = play_episodes(EveryPixel(), games(2), episodes=4, **options).episodes
    later = play_episodes(EveryPixel(), games(2), episodes=2, first=2, **options).episodes
    assert [(play.number, play.seed, play.actions) for play in later] == [
        (play.number, play.seed, play.actions) for play in whole[2:]
    ]
