import filecmp
import json
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from acvp.data.collect import MAX_STEPS, CollectConfig, collect
from acvp.data.policies import MEAN_REPEATS, load_policy, share_of_episode, sticky_random_policy
from acvp.data.replay import first_difference, replay_game
from acvp.data.store import EpisodeStore, part_path
from acvp.data.verify import describe, verify
from acvp.envs import load_module
from acvp.errors import UserError


def toy(out: Path, **changes: object) -> CollectConfig:
    return CollectConfig(**({"env_id": "acvp/Toy-v0", "out": out, "frames": 600, "seed": 5} | changes))  # type: ignore[arg-type]


def same_folders(a: Path, b: Path) -> bool:
    files = sorted(p.relative_to(a) for p in a.rglob("*") if p.is_file() and not p.name.startswith("."))
    there = sorted(p.relative_to(b) for p in b.rglob("*") if p.is_file() and not p.name.startswith("."))
    return files == there and all(filecmp.cmp(a / f, b / f, shallow=False) for f in files)


@pytest.mark.slow
def test_same_seed_same_store_whatever_the_workers_and_stops(tmp_path: Path) -> None:
    once = collect(toy(tmp_path / "once"))
    collect(toy(tmp_path / "workers", workers=3))
    collect(toy(tmp_path / "extended", frames=100))
    collect(toy(tmp_path / "extended"))
    other = collect(toy(tmp_path / "other", seed=6))
    assert once.frames >= 600
    assert once.frames - once.entries[-1].frames < 600
    assert same_folders(tmp_path / "once", tmp_path / "workers")
    assert same_folders(tmp_path / "once", tmp_path / "extended")
    assert once.digest != other.digest
    assert verify(tmp_path / "workers") == []


def test_a_finished_collection_is_left_alone(tmp_path: Path) -> None:
    store = collect(toy(tmp_path))
    before = {p: p.stat().st_mtime_ns for p in tmp_path.rglob("*.safetensors")}
    again = collect(toy(tmp_path, frames=10))
    assert again.digest == store.digest
    assert before == {p: p.stat().st_mtime_ns for p in tmp_path.rglob("*.safetensors")}


@pytest.mark.slow
@pytest.mark.parametrize("env_id", ["acvp/Toy-v0", "freeway", "seaquest", "space_invaders", "qbert", "ms_pacman"])
def test_stored_actions_replayed_give_the_stored_frames(tmp_path: Path, env_id: str) -> None:
    collect(CollectConfig(env_id=env_id, out=tmp_path, frames=300, max_steps=200))
    store = EpisodeStore(tmp_path)
    with replay_game(store) as game:
        assert [first_difference(episode, game) for episode in store] == [None] * len(store)


def test_replay_sees_a_wrong_action(tmp_path: Path) -> None:
    store = collect(toy(tmp_path))
    episode = store[0]
    episode.actions[5:] = (episode.actions[5:] + 1) % store.action_count
    with replay_game(store) as game:
        difference = first_difference(episode, game)
    assert difference is not None
    assert "differs" in difference


def test_episodes_cut_off_say_so(tmp_path: Path) -> None:
    store = collect(toy(tmp_path, max_steps=9, frames=50))
    assert [len(e) for e in store] == [10] * 5
    assert all(e.header.truncated and not e.header.terminated for e in store)


ENDLESS = """
import gymnasium, numpy as np
class Endless(gymnasium.Env):
    observation_space = gymnasium.spaces.Box(0, 255, (4, 4, 3), np.uint8)
    action_space = gymnasium.spaces.Discrete(2)
    def reset(self, seed=None, options=None): return np.zeros((4, 4, 3), np.uint8), {}
    def step(self, action): return np.zeros((4, 4, 3), np.uint8), 0.0, False, False, {}
for name, limit in (("Endless", None), ("Long", 27_100)):
    gymnasium.register(f"acvp-tests/{name}-v0", entry_point=Endless, max_episode_steps=limit)
"""


@pytest.fixture
def endless(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    (tmp_path / "endless_games.py").write_text(ENDLESS)
    monkeypatch.syspath_prepend(tmp_path)
    load_module("endless_games")
    return "endless_games"


@pytest.mark.slow
@pytest.mark.parametrize(("name", "steps"), [("Endless", MAX_STEPS), ("Long", 27_100)])
def test_only_games_without_a_limit_get_one(tmp_path: Path, endless: str, name: str, steps: int) -> None:
    store = collect(toy(tmp_path / "s", env_id=f"acvp-tests/{name}-v0", import_module=endless))
    assert len(store[0]) == steps + 1
    assert store[0].header.truncated


def test_a_store_cannot_have_a_module_imported(tmp_path: Path, endless: str, monkeypatch: pytest.MonkeyPatch) -> None:
    store = collect(toy(tmp_path / "s", env_id="acvp-tests/Long-v0", import_module=endless, max_steps=9, frames=5))
    replay_game(store).close()
    monkeypatch.delitem(sys.modules, endless)
    with pytest.raises(UserError, match="importing it runs its code; if you trust it, add --import endless_games"):
        replay_game(store)
    assert endless not in sys.modules


def test_progress_counts_up(tmp_path: Path) -> None:
    told: list[tuple[int, int]] = []
    store = collect(toy(tmp_path), lambda frames, size: told.append((frames, size)))
    assert told == sorted(told)
    assert told[0] == (0, 0)
    assert told[-1] == (store.frames, store.size)


def counting_policy(action_meanings: tuple[str, ...], rng: np.random.Generator) -> object:
    actions = iter(range(10**6))
    return lambda frame: next(actions) % 3


def bad_policy(action_meanings: tuple[str, ...], rng: np.random.Generator) -> object:
    return lambda frame: 99


def failing_policy(action_meanings: tuple[str, ...], rng: np.random.Generator) -> object:
    raise ZeroDivisionError("the policy's own mistake")


def test_a_policy_of_ones_own(tmp_path: Path) -> None:
    store = collect(toy(tmp_path, policy=(f"{__name__}:counting_policy",), epsilon=(0.0,)))
    for episode in store:
        assert episode.actions.tolist() == [t % 3 for t in range(len(episode) - 1)]
    assert store.info.policy == f"{__name__}:counting_policy"


def least_policy(action_meanings: tuple[str, ...], rng: np.random.Generator) -> object:
    return lambda frame: 0


MIX = {"policy": (f"{__name__}:counting_policy", f"{__name__}:least_policy", "held"), "epsilon": (0.0, 0.25, 0.5)}


@pytest.mark.slow
def test_a_mix_is_the_same_store_whatever_the_workers_and_stops(tmp_path: Path) -> None:
    once = collect(toy(tmp_path / "once", **MIX))
    collect(toy(tmp_path / "workers", workers=3, **MIX))
    collect(toy(tmp_path / "extended", frames=100, **MIX))
    collect(toy(tmp_path / "extended", **MIX))
    assert same_folders(tmp_path / "once", tmp_path / "workers")
    assert same_folders(tmp_path / "once", tmp_path / "extended")
    assert verify(tmp_path / "once") == []
    with replay_game(once) as game:
        assert [first_difference(episode, game) for episode in once] == [None] * len(once)


def test_each_episode_of_a_mix_says_who_played_it(tmp_path: Path) -> None:
    store = collect(toy(tmp_path, frames=1500, max_steps=40, **MIX))
    players = [store.played_by(position) for position in range(len(store))]
    for player, episode in zip(players, store, strict=True):
        if player.policy.endswith("counting_policy"):
            assert episode.actions.tolist() == [t % 3 for t in range(len(episode) - 1)]
        if player.policy.endswith("least_policy"):
            assert 0.05 < (episode.actions != 0).mean() < 0.5  # ε = 0.25, and a fifth of the random actions is 0
        assert player.epsilon == MIX["epsilon"][MIX["policy"].index(player.policy)]


def test_in_a_mix_every_policy_plays_once_in_each_turn_in_random_order(tmp_path: Path) -> None:
    config = toy(tmp_path, **MIX)
    turns = [[share_of_episode(config.shares, 5, 3 * turn + place) for place in range(3)] for turn in range(50)]
    assert all(sorted(turn) == sorted(config.shares) for turn in turns)
    assert len({tuple(turn) for turn in turns}) == 6
    assert turns != [[share_of_episode(config.shares, 6, 3 * turn + place) for place in range(3)] for turn in range(50)]


def test_a_dataset_names_the_policies_of_its_mix(tmp_path: Path) -> None:
    store = collect(toy(tmp_path, **MIX))
    reopened = EpisodeStore(tmp_path)
    assert reopened.info == store.info
    assert reopened.info.mix == tuple(zip(MIX["policy"], MIX["epsilon"], strict=True))
    assert reopened.info.epsilon == 0.25
    rows = dict(describe(reopened))
    assert rows["policy"].endswith("held, ε = 0.5; seed 5")
    assert f"held, ε = 0.5: {sum(e.header.policy == 'held' for e in store)} episodes" in rows["played by"]


def test_another_mix_in_the_same_folder_is_refused(tmp_path: Path) -> None:
    collect(toy(tmp_path, **MIX))
    with pytest.raises(UserError, match="records something else: mix"):
        collect(toy(tmp_path, **(MIX | {"epsilon": (0.5, 0.25, 0.0)})))


def test_one_policy_is_recorded_as_before_mixes(tmp_path: Path) -> None:
    store = collect(toy(tmp_path))
    assert "mix" not in json.loads((tmp_path / "store.json").read_text())
    assert b'"policy' not in part_path(tmp_path, 0).read_bytes()[:4000].replace(b"\\", b"")
    assert store.played_by(0) == ("sticky-random", 0.3)


def test_one_epsilon_is_for_all_policies_and_others_need_one_each(tmp_path: Path) -> None:
    assert [share.epsilon for share in toy(tmp_path, policy=("random", "held"), epsilon=(0.1,)).shares] == [0.1, 0.1]
    with pytest.raises(UserError, match="--epsilon has 3 values for 2 policies"):
        toy(tmp_path, policy=("random", "held"), epsilon=(0.1, 0.2, 0.3))


def test_held_keeps_directions_for_ten_to_sixty_steps_and_prefers_one() -> None:
    names = ("NOOP", "FIRE", "UP", "DOWN")
    preferred = []
    for seed in range(20):
        play = load_policy("held")(names, np.random.default_rng(seed))
        actions = [play(np.zeros((1, 1, 3), np.uint8)) for _ in range(3000)]
        assert set(actions) == {2, 3}
        changes = np.flatnonzero(np.diff(actions)) + 1
        assert np.diff([0, *changes]).min() >= 10
        preferred.append(2 if np.mean(np.array(actions) == 2) > 0.5 else 3)
        assert max(np.mean(np.array(actions) == preferred[-1]), 0.6) < 0.9
    assert set(preferred) == {2, 3}


def test_held_holds_all_actions_of_a_game_without_directions() -> None:
    play = load_policy("held")(("A", "B", "C"), np.random.default_rng(0))
    assert {play(np.zeros((1, 1, 3), np.uint8)) for _ in range(3000)} == {0, 1, 2}


def test_epsilon_is_the_share_of_random_actions(tmp_path: Path) -> None:
    store = collect(toy(tmp_path, policy=(f"{__name__}:counting_policy",), epsilon=(0.5,), frames=3000))
    actions = np.concatenate([episode.actions for episode in store])
    share = (actions >= 3).mean()  # only chance gives these: 2 of 5 actions
    assert share == pytest.approx(0.5 * 2 / 5, abs=0.03)


@pytest.mark.slow
def test_an_impossible_action_names_the_policy(tmp_path: Path) -> None:
    for workers in (1, 2):
        with pytest.raises(UserError, match="bad_policy' chose action 99; the game has 0 to 4"):
            collect(toy(tmp_path / str(workers), policy=(f"{__name__}:bad_policy",), epsilon=(0.0,), workers=workers))


@pytest.mark.slow
def test_a_policys_mistake_in_a_worker_names_its_line(tmp_path: Path) -> None:
    message = r"failing_policy' raised ZeroDivisionError: the policy's own mistake \(test_collect\.py, line \d+\)"
    with pytest.raises(UserError, match=message):
        collect(toy(tmp_path, policy=(f"{__name__}:failing_policy",), workers=2))


def test_sticky_random_keeps_its_actions_for_a_while() -> None:
    player = sticky_random_policy(("a", "b", "c", "d"), np.random.default_rng(0))
    frame = np.zeros((2, 2, 3), np.uint8)
    actions = np.array([player(frame) for _ in range(20_000)])
    changes = (actions[1:] != actions[:-1]).mean()
    assert changes == pytest.approx(0.75 / MEAN_REPEATS, rel=0.15)
    assert np.bincount(actions) / len(actions) == pytest.approx(np.full(4, 0.25), abs=0.03)


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("randm", "unknown policy 'randm': choose random, sticky-random"),
        ("no_such_module:play", "cannot import 'no_such_module'"),
        ("math:nothing", "'math' has no 'nothing'"),
        ("math:pi", "is a float, not a function"),
    ],
)
def test_a_policy_that_is_none(name: str, message: str) -> None:
    with pytest.raises(UserError, match=message):
        load_policy(name)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"epsilon": (0.3, 1.5)}, "--epsilon 1.5"),
        ({"frames": 0}, "--frames 0: at least 1"),
        ({"workers": 0}, "--workers 0: at least 1"),
        ({"seed": -1}, "--seed -1"),
    ],
)
def test_impossible_settings(tmp_path: Path, changes: dict[str, object], message: str) -> None:
    with pytest.raises(UserError, match=message):
        toy(tmp_path, **changes)


@pytest.mark.parametrize("workers", ["1", "2"])
def test_the_module_before_an_id_on_the_command_line_is_imported(tmp_path: Path, workers: str) -> None:
    """The user typed it; modules of the current folder are found, in workers too."""
    (tmp_path / "endless_games.py").write_text(ENDLESS)
    named = ["--env-id", "endless_games:acvp-tests/Long-v0", "--max-steps", "9", "--frames", "25", "--out", "s"]
    command = [sys.executable, "-m", "acvp", "collect", *named, "--workers", workers]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    store = EpisodeStore(tmp_path / "s")
    assert store.info.env_id == "acvp-tests/Long-v0"
    assert store.info.settings["import_module"] == "endless_games"


def test_a_replay_compares_lives_rewards_and_the_end(tmp_path: Path) -> None:
    store = collect(CollectConfig(env_id="toy", out=tmp_path / "s", frames=50, max_steps=20))
    episode, header = store[0], store[0].header
    last = len(episode) - 1
    changed = {
        "the reward or the lives": [
            replace(episode, lives=np.where(np.arange(last + 1) == last, 7, episode.lives).astype(np.int16)),
            replace(episode, rewards=np.where(np.arange(last) == last - 1, 9, episode.rewards).astype(np.float32)),
        ],
        "does not end with its last action": [replace(episode, header=replace(header, terminated=True))],
    }
    assert not header.terminated
    with replay_game(store) as game:
        assert first_difference(episode, game) is None
        for words, episodes in changed.items():
            for each in episodes:
                assert words in (first_difference(each, game) or "nothing differs")
