"""Continuous actions in games and datasets: recorded as they were played, and refused where they cannot have been."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import gymnasium
import numpy as np
import pytest
from gymnasium import spaces

from acvp.actions import blank_vectors, checked_range
from acvp.data.collect import CollectConfig, collect
from acvp.data.merge import merge
from acvp.data.recording import EpisodeRecorder, open_writer
from acvp.data.replay import first_difference, replay_game
from acvp.data.store import STORE_NAME, EpisodeStore, StoreError
from acvp.data.verify import describe, verify
from acvp.data.windows import Window, WindowReader, Windows, WindowStart
from acvp.durable import seal, unseal
from acvp.envs import DriftGame, SavedState, make_game
from acvp.envs.gym import GymGame
from acvp.errors import UserError


@pytest.fixture(scope="module")
def drift(tmp_path_factory: pytest.TempPathFactory) -> EpisodeStore:
    """A few plays of DriftGame."""
    return collect(CollectConfig(env_id="drift", out=tmp_path_factory.mktemp("drift") / "store", frames=400, seed=3))


def test_a_recording_has_the_vectors_that_were_played(drift: EpisodeStore) -> None:
    episode = drift[0]
    assert episode.actions.dtype == np.float32
    assert episode.actions.shape == (len(episode) - 1, 2)
    assert np.abs(episode.actions).max() <= 1
    assert len(np.unique(episode.actions[:, 0])) > 10
    with replay_game(drift) as game:
        assert [first_difference(episode, game) for episode in drift] == [None] * len(drift)
    assert verify(drift.path) == []
    assert dict(describe(drift))["actions"].startswith("down -1 to 1 (mean ")
    assert "2 action components" in repr(drift)


@pytest.mark.parametrize("policy", ["random", "sticky-random", "held"])
def test_policies_hold_vectors_as_long_as_they_say(tmp_path: Path, policy: str) -> None:
    config = CollectConfig(env_id="drift", out=tmp_path / "a", frames=300, policy=(policy,), epsilon=(0.0,))
    episode = collect(config)[0]
    changes = int((np.diff(episode.actions, axis=0) != 0).any(1).sum())
    least, most = {"random": (99, 99), "sticky-random": (2, 40), "held": (1, 9)}[policy]
    assert least <= changes <= most


def own_policy(action_meanings: tuple[str, ...], rng: np.random.Generator) -> Any:
    """Push to the right."""
    return lambda frame: [0.0, 1.0]


def mad_policy(action_meanings: tuple[str, ...], rng: np.random.Generator) -> Any:
    """Push by something that is no number."""
    return lambda frame: [float("nan"), 1.0]


def test_a_policy_of_ones_own_returns_vectors_and_is_checked(tmp_path: Path) -> None:
    config = CollectConfig(
        env_id="drift", out=tmp_path / "a", frames=50, policy=(f"{__name__}:own_policy",), epsilon=(0.0,)
    )
    assert (collect(config)[0].actions == (0, 1)).all()
    with pytest.raises(UserError, match=r"mad_policy'.*component 0 of an action is nan, outside -1 to 1"):
        collect(replace(config, out=tmp_path / "b", policy=(f"{__name__}:mad_policy",)))
    with pytest.raises(UserError, match="agent:any needs a list of actions, and these are vectors of 2 numbers"):
        collect(replace(config, out=tmp_path / "c", policy=("agent:any",)), load=lambda name: own_policy)


@pytest.mark.parametrize("action", [[np.nan, 0], [np.inf, 0], [0, -1.5], [0], 1, "up", None])
def test_games_and_recorders_refuse_what_is_no_action(action: Any) -> None:
    recorder = EpisodeRecorder(((-1.0, 1.0), (-1.0, 1.0)))
    with make_game("drift") as game:
        recorder.start(game.reset(1))
        with pytest.raises(UserError, match="action"):
            game.step(action)
        with pytest.raises(UserError, match=r"step 1: .*action"):
            recorder.step(action, 0.0, game.reset(1))


def test_numbered_games_refuse_vectors() -> None:
    with make_game("toy") as game:
        game.reset(1)
        with pytest.raises(UserError, match="out of range: acvp/Toy-v0 has 0 NOOP"):
            game.step(np.zeros(2, np.float32))


def test_sticky_vectors_survive_saving_and_branching() -> None:
    actions = np.random.default_rng(0).uniform(-1, 1, (30, 2)).astype(np.float32)
    with make_game("drift", sticky=0.5) as game:
        game.reset(7)
        for action in actions[:10]:
            game.step(action)
        state = SavedState.from_bytes(game.save().to_bytes())
        straight = [game.step(action).frame for action in actions[10:]]
        game.restore(state)
        branches = list(game.branch([list(actions[10:])]))
        again = [game.step(action).frame for action in actions[10:]]
    assert np.array_equal(straight, again)
    assert np.array_equal(straight, [step.frame for step in branches[0]])


class Tall(DriftGame):
    """Takes its action as a column."""

    def __init__(self, space: spaces.Space[Any]) -> None:
        super().__init__()
        self.action_space = space

    def step(self, action: Any) -> Any:
        """Refuse any other shape."""
        assert action.shape == (2, 1)
        assert action.dtype == np.float64
        return super().step(action[:, 0])


def game_of(space: spaces.Space[Any]) -> GymGame:
    settings: dict[str, Any] = {"sticky": 0.0, "frame_skip": 1}
    env: gymnasium.Env[Any, Any] = Tall(space)
    return GymGame(env, env_id="Tall-v0", settings=settings, limit=5)


def test_a_box_of_any_shape_is_a_vector() -> None:
    game = game_of(spaces.Box(np.array([[-1.0], [0.0]]), np.array([[1.0], [1.0]]), dtype=np.float64))
    assert game.action_range == ((-1, 1), (0, 1))
    game.reset(1)
    game.step(np.array([0.5, 0.5], np.float32))


@pytest.mark.parametrize(
    ("space", "complaint"),
    [
        (spaces.Box(-np.inf, np.inf, (2,)), "without finite limits"),
        (spaces.Box(0, 3, (2,), np.int64), "neither Discrete nor a Box of floats"),
        (spaces.MultiDiscrete([2, 2]), "neither Discrete nor a Box of floats"),
    ],
)
def test_other_action_spaces_are_refused(space: spaces.Space[Any], complaint: str) -> None:
    with pytest.raises(UserError, match=complaint):
        game_of(space)


def test_only_datasets_with_vectors_have_the_newer_format(drift: EpisodeStore, tmp_path: Path) -> None:
    toy = collect(CollectConfig(env_id="toy", out=tmp_path / "toy", frames=60))
    bodies = [json.loads((store.path / STORE_NAME).read_text()) for store in (toy, drift)]
    texts = [json.dumps(body) for body in bodies]
    assert '"store_format": 1' in texts[0]
    assert "action_range" not in texts[0]
    assert '"store_format": 2' in texts[1]
    assert EpisodeStore(drift.path).info.action_range == ((-1, 1), (-1, 1))


def change_info(path: Path, **changes: Any) -> None:
    body = unseal((path / STORE_NAME).read_bytes()) | changes
    (path / STORE_NAME).write_bytes(seal(body))


def test_verify_finds_actions_that_the_dataset_does_not_allow(tmp_path: Path) -> None:
    store = collect(CollectConfig(env_id="drift", out=tmp_path / "a", frames=50))
    change_info(store.path, action_range=[[-0.1, 0.1], [-1, 1]])
    assert any("outside -0.1 to 0.1" in problem for problem in verify(store.path))
    change_info(store.path, action_range=[[1, -1], [-1, 1]])
    with pytest.raises(StoreError, match="a finite lowest and a higher highest value"):
        EpisodeStore(store.path)
    change_info(store.path, action_range=[[-1, 1]])
    with pytest.raises(StoreError, match="1 ranges for 2 components"):
        EpisodeStore(store.path)
    change_info(store.path, action_range=[], store_format=1)
    with pytest.raises(StoreError, match="its actions are vectors"):
        EpisodeStore(store.path)[0]


def test_a_writer_refuses_vectors_out_of_range(drift: EpisodeStore, tmp_path: Path) -> None:
    info = replace(drift.info, action_range=((-0.1, 0.1), (-1.0, 1.0)))
    with open_writer(tmp_path / "a", info) as writer, pytest.raises(StoreError, match="outside"):
        writer.add(drift[0])
    discrete = replace(drift.info, action_range=())
    with open_writer(tmp_path / "b", discrete) as writer, pytest.raises(StoreError, match="a number from 0 to 1"):
        writer.add(drift[0])


def test_datasets_of_other_ranges_are_not_merged(drift: EpisodeStore, tmp_path: Path) -> None:
    other = collect(CollectConfig(env_id="drift", out=tmp_path / "a", frames=50, seed=9))
    both = merge([drift.path, other.path], tmp_path / "both")
    assert len(both) == len(drift) + len(other)
    assert np.array_equal(both[len(drift)].actions, other[0].actions)
    change_info(other.path, action_range=[[-2, 2], [-1, 1]])
    with pytest.raises(UserError, match=r"from -1 to 1, from -1 to 1, .* from -2 to 2, from -1 to 1: only datasets"):
        merge([drift.path, other.path], tmp_path / "no")


def test_windows_have_vectors_and_padding_the_values_nearest_to_zero(drift: EpisodeStore) -> None:
    batch = Windows(drift, Window(4, 2)).batch(np.array([0, 7]))
    assert batch.actions.shape == (2, 5, 2)
    assert np.array_equal(batch.actions[1], drift[0].actions[7:12])
    padded = WindowReader(drift, [WindowStart(0, -2)], _view()).actions(0, 4)
    assert np.array_equal(padded[0], [[0, 0], [0, 0], *drift[0].actions[:2].tolist()])
    assert blank_vectors(checked_range([(1, 2), (-2, -1)]), 1).tolist() == [[1, -1]]


def _view() -> Any:
    from acvp.data.frames import RGB

    return RGB
