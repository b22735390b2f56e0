from collections.abc import Sequence

import ale_py
import gymnasium
import numpy as np
import pytest

from acvp.envs import Game, SavedState, make_game

FIVE = ("freeway", "seaquest", "space_invaders", "qbert", "ms_pacman")


def some_actions(game: Game, count: int, seed: int = 0) -> list[int]:
    """Return random actions, each held for some decisions, so that the play gets somewhere."""
    rng = np.random.default_rng(seed)
    return [int(action) for action in np.repeat(rng.integers(len(game.action_meanings), size=count), 3)[:count]]


def trace(game: Game, actions: Sequence[int]) -> list[bytes]:
    """Play, and return all that is known after each decision, the emulator's whole state included, until the end."""
    seen = []
    for action in actions:
        frame, *rest = game.step(action)
        outside = repr((rest, game.lives, game.controlled_position())).encode()
        seen.append(frame.tobytes() + outside + game.save().payload)
        if rest[1] or rest[2]:
            break
    return seen


@pytest.mark.slow
@pytest.mark.parametrize("name", FIVE)
def test_frames_are_those_of_gymnasiums_own_env(name: str) -> None:
    gymnasium.register_envs(ale_py)
    game = make_game(name)
    env = gymnasium.make(game.env_id, repeat_action_probability=0.0, disable_env_checker=True)
    actions = some_actions(game, 150)
    game.reset(1)
    trace(game, actions[::-1])  # an earlier episode leaves no trace
    assert np.array_equal(game.reset(7), env.reset(seed=7)[0])
    for action in actions:
        frame, reward, terminated, truncated = game.step(action)
        theirs = env.step(action)
        assert np.array_equal(frame, theirs[0])
        assert (reward, terminated, truncated) == theirs[1:4]


@pytest.mark.slow
@pytest.mark.parametrize("sticky", [0.0, 0.25])
@pytest.mark.parametrize("name", [*FIVE, "assault"])
def test_an_episode_depends_on_its_seed_and_actions_alone(name: str, sticky: float) -> None:
    game = make_game(name, sticky=sticky)
    actions = some_actions(game, 80)
    game.reset(3)
    first = trace(game, actions)
    game.reset(4)
    trace(game, actions[::-1])
    game.reset(3)
    assert trace(game, actions) == first


@pytest.mark.parametrize("sticky", [0.0, 0.25])
def test_seeds_differ_only_by_their_sticky_actions(sticky: float) -> None:
    game = make_game("freeway", sticky=sticky)
    traces = []
    for seed in (1, 2):
        game.reset(seed)
        traces.append(trace(game, some_actions(game, 80)))
    assert (traces[0] != traces[1]) == (sticky > 0)


@pytest.mark.slow
@pytest.mark.parametrize("sticky", [0.0, 0.25])
@pytest.mark.parametrize("name", FIVE)
def test_a_restored_state_continues_as_if_never_branched(name: str, sticky: float) -> None:
    game = make_game(name, sticky=sticky)
    actions = some_actions(game, 130, seed=1)
    game.reset(5)
    states: dict[int, SavedState] = {}
    straight: list[bytes] = []
    for index, action in enumerate(actions):
        if index in (0, 1, 45, 90):
            states[index] = game.save()
        straight += trace(game, [action])
    other = some_actions(game, 25, seed=2)
    for index in (90, 0, 45, 1, 45):
        game.restore(states[90])
        trace(game, other)  # leave in the middle of another branch
        game.restore(SavedState.from_bytes(states[index].to_bytes()))
        assert trace(game, actions[index:]) == straight[index:]


def test_the_joystick_is_restored_too() -> None:
    game = make_game("tic_tac_toe_3d")  # reads the trigger a frame late, so that what was held before shows
    noop, fire, up = (game.action_meanings.index(name) for name in ("NOOP", "FIRE", "UP"))
    game.reset(0)
    trace(game, [action % len(game.action_meanings) for action in range(20)] + [up])
    state = game.save()
    straight = trace(game, [noop, noop])
    game.restore(state)
    game.step(fire)
    game.restore(state)
    assert trace(game, [noop, noop]) == straight
    game.restore(state)
    list(game.branch([[fire, up], [noop]]))
    assert trace(game, [noop, noop]) == straight


@pytest.mark.parametrize("name", FIVE)
def test_everything_seen_right_after_a_restore_is_of_the_restored_state(name: str) -> None:
    game = make_game(name)
    game.reset(0)
    actions = some_actions(game, 90)
    for action in actions:
        step = game.step(action)
    state, keys, lives, position = game.save(), game.color_keys(), game.lives, game.controlled_position()
    for action in actions[:40]:
        game.step(action)
    for _ in range(2):
        assert np.array_equal(game.restore(state), step.frame)
        assert np.array_equal(game.color_keys(), keys)  # type: ignore[arg-type]
        assert (game.lives, game.controlled_position()) == (lives, position)
        assert game.save() == state
        game.restore(state)[:] = 0  # the caller's own


@pytest.mark.slow
@pytest.mark.parametrize("name", FIVE)
def test_equal_keys_are_equal_colors(name: str) -> None:
    game = make_game(name)
    colors: dict[int, tuple[int, ...]] = {}
    frame = game.reset(0)
    for action in some_actions(game, 120):
        keys = game.color_keys()
        assert keys is not None
        assert keys.shape == frame.shape[:2]
        unique, where = np.unique(keys, return_index=True)
        palette = np.zeros((256, 3), np.uint8)
        palette[unique] = frame.reshape(-1, 3)[where]
        assert np.array_equal(palette[keys], frame)
        for key in unique.tolist():
            assert colors.setdefault(key, tuple(palette[key].tolist())) == tuple(palette[key].tolist())
        frame = game.step(action).frame


def test_frames_and_keys_are_the_callers_to_keep() -> None:
    game = make_game("freeway")
    frames = [game.reset(0), *(game.step(1).frame for _ in range(20))]
    keys = game.color_keys()
    assert keys is not None
    copies = [frame.copy() for frame in frames]
    for _ in range(5):
        game.step(2)
    assert all(np.array_equal(frame, copy) for frame, copy in zip(frames, copies, strict=True))
    assert len({frame.tobytes() for frame in frames}) > 10


@pytest.mark.slow
def test_lives_are_counted_where_the_game_has_them() -> None:
    lives = {name: make_game(name) for name in (*FIVE, "amidar")}
    for game in lives.values():
        game.reset(0)
        game.step(0)
    counted = {name: game.lives for name, game in lives.items()}
    assert counted == {
        "freeway": -1, "seaquest": 4, "space_invaders": 3, "qbert": 4, "ms_pacman": 3, "amidar": counted["amidar"]
    }  # fmt: skip
    assert counted["amidar"] > 0


def test_lives_run_out_with_the_episode() -> None:
    game = make_game("qbert")
    game.reset(0)
    seen = [game.lives]
    for action in some_actions(game, 1000):
        ended = game.step(action).terminated
        seen.append(game.lives)
        if ended:
            break
    assert ended
    assert seen == sorted(seen, reverse=True)
    assert (seen[0], seen[-1]) == (4, 0)


def test_frame_skip_is_counted_in_emulator_frames() -> None:
    one, four = make_game("seaquest", frame_skip=1), make_game("seaquest")
    one.reset(0)
    four.reset(0)
    for action in some_actions(four, 30):
        singles = [one.step(action) for _ in range(4)]
        step = four.step(action)
        assert np.array_equal(singles[-1].frame, step.frame)
        assert sum(single.reward for single in singles) == step.reward


def test_a_restored_end_stays_an_end() -> None:
    game = make_game("freeway", max_steps=3)
    game.reset(0)
    assert [game.step(1).truncated for _ in range(3)] == [False, False, True]
    state = game.save()
    game.reset(0)
    game.restore(state)
    with pytest.raises(RuntimeError, match="no running episode"):
        game.step(0)


@pytest.mark.parametrize(("max_steps", "length"), [(None, 3), (2, 2), (5, 5)])
def test_max_steps_replaces_the_half_hour(monkeypatch: pytest.MonkeyPatch, max_steps: int | None, length: int) -> None:
    monkeypatch.setattr("acvp.envs.atari.MAX_EMULATOR_FRAMES", 12)
    game = make_game("freeway", max_steps=max_steps)
    game.reset(0)
    assert [game.step(1).truncated for _ in range(length)] == [False] * (length - 1) + [True]
