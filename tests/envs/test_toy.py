import json
from typing import Any

import gymnasium
import numpy as np
import pytest
from gymnasium.utils.env_checker import check_env

from acvp.envs import Game, ToyGame, make_game
from acvp.envs.toy import LIVES, STUN
from acvp.errors import UserError

NOOP, UP, DOWN, LEFT, RIGHT = range(5)
FAR = (6, 3)  # a cell far from everything the tests do


def at(toy: ToyGame, **changes: Any) -> ToyGame:
    """Put the game into a moment of our making: nothing near the player, the ball far away."""
    toy.reset(seed=0)
    moment = {"player": [5, 2], "ball": [9, 9], "velocity": [1, 1], "goal": 0, "lives": LIVES, "stun": 0}
    toy.restore_state(json.dumps(moment | changes).encode())
    return toy


def moment(toy: ToyGame) -> dict[str, Any]:
    """Return the whole state."""
    state: dict[str, Any] = json.loads(toy.save_state())
    return state


@pytest.mark.filterwarnings("ignore:.*alternative render modes.*")
def test_it_is_a_proper_gymnasium_env() -> None:
    check_env(ToyGame())
    check_env(gymnasium.make("acvp/Toy-v0").unwrapped)


def test_it_plays_through_make_game() -> None:
    game = make_game("toy")
    frame = game.reset(0)
    assert isinstance(game, Game)
    assert frame.shape == game.frame_shape == (24, 24, 3)
    assert game.action_meanings == ("NOOP", "UP", "DOWN", "LEFT", "RIGHT")
    assert (game.lives, game.can_save) == (LIVES, True)


@pytest.mark.parametrize(
    ("action", "cell"), [(NOOP, [5, 2]), (UP, [4, 2]), (DOWN, [6, 2]), (LEFT, [5, 1]), (RIGHT, [5, 3])]
)
def test_the_player_moves_by_its_action(action: int, cell: list[int]) -> None:
    toy = at(ToyGame())
    frame, *_ = toy.step(action)
    assert moment(toy)["player"] == cell
    row, column = toy.controlled_position()
    assert (row, column) == (2 * cell[0] + 0.5, 2 * cell[1] + 0.5)
    white = np.argwhere((frame == (240, 240, 240)).all(2))
    assert white.mean(0).tolist() == [row, column]


@pytest.mark.parametrize(
    ("cell", "action"), [([1, 5], UP), ([10, 5], DOWN), ([5, 1], LEFT), ([5, 10], RIGHT), ([5, 5], RIGHT)]
)
def test_walls_stop_the_player(cell: list[int], action: int) -> None:
    toy = at(ToyGame(), player=cell, goal=1, ball=[8, 3])
    toy.step(action)
    assert moment(toy)["player"] == cell


def test_the_ball_flies_on_whatever_the_player_does() -> None:
    paths = []
    for action in (NOOP, UP, DOWN):
        toy = at(ToyGame(), stun=STUN)
        path = []
        for _ in range(STUN - 1):
            toy.step(action)
            path.append(moment(toy)["ball"])
        paths.append(path)
    assert paths[0] == paths[1] == paths[2]


@pytest.mark.parametrize(
    ("ball", "velocity", "after"),
    [
        ([9, 9], [1, 1], [10, 10]),
        ([10, 3], [1, 1], [9, 4]),  # off the floor
        ([5, 10], [1, 1], [6, 9]),  # off the right wall
        ([10, 10], [1, 1], [9, 9]),  # out of a corner
        ([5, 5], [1, 1], [6, 4]),  # off the bar in the middle
        ([2, 5], [1, 1], [1, 4]),  # head on at the bar's end
    ],
)
def test_the_ball_bounces(ball: list[int], velocity: list[int], after: list[int]) -> None:
    toy = at(ToyGame(), ball=ball, velocity=velocity, player=[8, 2])
    toy.step(NOOP)
    assert moment(toy)["ball"] == after


def test_the_ball_never_enters_a_wall_nor_rests() -> None:
    toy = ToyGame()
    for seed in range(20):
        toy.reset(seed=seed)
        now = moment(toy)
        for _ in range(60):
            before = now["ball"]
            toy.restore_state(json.dumps(now | {"player": list(FAR), "stun": 9}).encode())
            toy.step(NOOP)
            now = moment(toy)
            assert not toy._walls[tuple(now["ball"])]
            assert now["ball"] != before


def test_the_goal_pays_and_moves_clockwise() -> None:
    toy = at(ToyGame(), player=[1, 2], goal=0)
    _, reward, terminated, _, _ = toy.step(LEFT)
    assert (reward, terminated) == (1.0, False)
    assert moment(toy)["goal"] == 1
    assert toy.step(NOOP)[1] == 0.0


@pytest.mark.parametrize(
    ("player", "action"), [([5, 6], NOOP), ([4, 6], DOWN)], ids=["the ball comes", "both go to one cell"]
)
def test_a_hit_costs_a_life(player: list[int], action: int) -> None:
    toy = at(ToyGame(size=32), player=player, ball=[4, 5], velocity=[1, 1])
    _, reward, terminated, _, info = toy.step(action)
    assert (reward, terminated, info["lives"]) == (-1.0, False, LIVES - 1)


def test_after_a_hit_a_timer_that_no_pixel_shows_takes_the_controls_away() -> None:
    hit, free = at(ToyGame(), stun=STUN), at(ToyGame())
    assert np.array_equal(hit.render(), free.render())
    moved = []
    for _ in range(STUN + 2):
        before = moment(hit)["player"]
        hit.step(RIGHT if before[1] == 2 else LEFT)
        moved.append(moment(hit)["player"] != before)
    assert moved == [False] * STUN + [True] * 2


def test_a_hit_stuns_for_six_steps() -> None:
    toy = at(ToyGame(size=32), player=[5, 6], ball=[4, 5], velocity=[1, 1])
    assert toy.step(NOOP)[1] == -1.0
    moved = []
    for _ in range(8):
        before = moment(toy)["player"]
        toy.step(LEFT if before[1] == 6 else RIGHT)
        moved.append(moment(toy)["player"] != before)
    assert moved == [False] * 6 + [True] * 2


def test_a_stunned_player_is_not_hit_again() -> None:
    toy = at(ToyGame(), player=[5, 2], ball=[4, 1], velocity=[1, 1], stun=3)
    assert toy.step(NOOP)[1] == 0.0
    assert moment(toy)["lives"] == LIVES


def test_the_last_life_ends_the_game_and_lives_are_shown() -> None:
    toy = at(ToyGame(), player=[5, 2], ball=[4, 1], velocity=[1, 1], lives=1)
    assert (toy.render() == (230, 200, 40)).all(2).sum() == 4
    frame, reward, terminated, truncated, info = toy.step(NOOP)
    assert (reward, terminated, truncated, info["lives"]) == (-1.0, True, False, 0)
    assert (frame == (230, 200, 40)).all(2).sum() == 0


def episode(seed: int) -> tuple[list[bytes], list[float], bool]:
    game = make_game("toy")
    rng = np.random.default_rng(seed)
    frames, rewards = [game.reset(seed).tobytes()], []
    while True:
        frame, reward, terminated, truncated = game.step(int(rng.integers(5)))
        frames.append(frame.tobytes())
        rewards.append(reward)
        if terminated or truncated:
            return frames, rewards, terminated


def test_seed_and_actions_decide_the_episode_and_seeds_differ() -> None:
    assert episode(1) == episode(1)
    assert len({episode(seed)[0][0] for seed in range(30)}) > 25


def test_random_play_meets_everything_there_is() -> None:
    episodes = [episode(seed) for seed in range(40)]
    rewards = [reward for _, rewards, _ in episodes for reward in rewards]
    assert {-1.0, 0.0, 1.0} <= set(rewards)
    assert {terminated for *_, terminated in episodes} == {False, True}
    assert max(len(rewards) for _, rewards, _ in episodes) == 200


def test_few_colors() -> None:
    frames = np.concatenate([np.frombuffer(frame, np.uint8).reshape(-1, 3) for frame in episode(0)[0]])
    assert len(np.unique(frames, axis=0)) <= 6


def test_restore_continues_bit_for_bit_in_the_middle_of_a_stun() -> None:
    game = make_game("toy")
    game.reset(0)
    rng = np.random.default_rng(0)
    lives = game.lives
    while game.lives == lives:
        game.step(int(rng.integers(5)))
    frame_there = game.step(NOOP).frame
    state = game.save()
    actions = rng.integers(5, size=12).tolist()
    straight = [game.step(action).frame for action in actions]
    assert np.array_equal(game.restore(state), frame_there)
    assert all(np.array_equal(game.step(action).frame, frame) for action, frame in zip(actions, straight, strict=True))


@pytest.mark.parametrize("size", [16, 20, 32, 64])
def test_other_sizes_play_too(size: int) -> None:
    toy = ToyGame(size=size)
    frame, _ = toy.reset(seed=0)
    assert frame.shape == (size, size, 3)
    for action in range(5):
        toy.step(action)


@pytest.mark.parametrize("size", [0, 14, 17])
def test_sizes_that_make_no_board_are_refused(size: int) -> None:
    with pytest.raises(UserError, match=f"size is {size}"):
        ToyGame(size=size)
