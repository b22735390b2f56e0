"""Everything a player can do, without the web."""

from __future__ import annotations

import io

import av
import numpy as np
import pytest
import torch
from PIL import Image

from acvp.data.policies import Player
from acvp.envs import make_game
from acvp.errors import UserError
from acvp.models import About, MlpConfig, Predictor, build_predictor
from acvp.play.context import Cast
from acvp.play.session import KEPT, MOST_STEPS, Session
from acvp.play.worlds import LiveWorld
from tests.play.dreamers import (
    DOWN,
    LEFT,
    NOOP,
    RIGHT,
    UP,
    StandStill,
    cast,
    dreaming,
    network,
    play_on,
    player,
    same,
    session,
)


def test_a_predictor_watches_until_it_has_seen_its_context() -> None:
    one = Session(Cast({"slow": lambda: StandStill(context=4)}))
    states = []
    for _ in range(4):
        assert same(one.moment.real, one.moment.dream.frame), "it shows what it watches"
        states.append(one.moment.dream.state)
        one.step()
    assert [state is None for state in states] == [True, True, True, False]
    assert one.moment.dream.steps == 1


@pytest.mark.parametrize(("action", "move"), [(UP, (-1, 0)), (DOWN, (1, 0)), (LEFT, (0, -1)), (RIGHT, (0, 1))])
def test_the_same_keys_move_both_worlds(action: int, move: tuple[int, int]) -> None:
    one = dreaming(seed=4)
    before = player(one.moment.dream.frame)
    play_on(one, action)
    assert one.moment.real is not None
    assert player(one.moment.real) == player(one.moment.dream.frame) == (before[0] + move[0], before[1] + move[1])
    assert one.moment.action == action


def test_between_the_frames_that_are_kept_stand_their_actions() -> None:
    one = dreaming(seed=4)
    for count in range(2 * KEPT):
        play_on(one, RIGHT if count % 2 else LEFT)
        assert len(one.moment.actions) == len(one.moment.frames) - 1
    assert len(one.moment.frames) == max(one.context, KEPT)


def test_the_real_game_is_the_game() -> None:
    one, game = session(seed=7), make_game("toy")
    frames = [game.reset(7)]
    actions = [UP, RIGHT, RIGHT, DOWN, NOOP] * 3
    for action in actions:
        play_on(one, action)
        frames.append(game.step(action).frame)
        assert same(one.moment.real, frames[-1])


def test_a_tap_between_two_decisions_counts_once() -> None:
    one = dreaming(seed=4)
    one.hold(UP)
    one.hold(NOOP)
    one.step()
    assert one.moment.action == UP
    one.step()
    assert one.moment.action == NOOP


def test_grounding_brings_the_error_to_zero() -> None:
    one = dreaming(seed=4)
    play_on(one, UP, UP, NOOP, NOOP)
    assert one.moment.reading is not None
    assert one.moment.reading.wrong > 0, "the ball stands still in the dream"
    assert one.moment.dream.steps == 4
    one.reground()
    assert (one.moment.reading.wrong, one.moment.reading.error, one.moment.dream.steps) == (0, 0.0, 0)
    assert same(one.moment.real, one.moment.dream.frame)


def test_meters_say_what_is_wrong_and_where_the_object_is() -> None:
    one = dreaming(seed=4)
    assert one.moment.reading is not None
    assert one.moment.reading.found is True
    play_on(one, NOOP)
    real, dream = one.moment.real, one.moment.dream.frame
    assert real is not None
    apart = (np.abs(real.astype(int) - dream) > 8).any(-1)
    assert (one.moment.reading.wrong, one.moment.reading.pixels) == (apart.sum(), 24 * 24)
    one.switch("net")
    play_on(one, NOOP)
    assert one.moment.reading.found is False, "noise shows no player"


def test_rewards_are_summed_from_the_grounding_on() -> None:
    one = session(seed=4)
    one.switch("net")
    rewards, dreamed = [], []
    for action in [RIGHT] * 12 + [DOWN] * 12 + [LEFT] * 12 + [UP] * 12:
        before = one.moment.score
        play_on(one, action)
        rewards.append(one.moment.score - before)
        dreamed.append(one.moment.dream.reward)
    assert any(rewards), "the episode should have a reward in it"
    assert one.moment.earned == sum(np.sign(rewards))
    assert one.moment.dreamed == sum(reward for reward in dreamed if reward is not None)
    one.reground()
    assert (one.moment.earned, one.moment.dreamed) == (0, 0)


def test_rewinding_restores_both_worlds() -> None:
    one = dreaming(seed=4)
    past = []
    for action in (UP, LEFT, DOWN, RIGHT, UP):
        past.append(one.moment)
        play_on(one, action)
    for wanted in reversed(past):
        one.rewind()
        assert one.moment is wanted
    assert one.paused
    again = []
    for action in (UP, LEFT, DOWN, RIGHT, UP):
        again.append(one.moment)
        play_on(one, action)
    for first, second in zip(past, again, strict=True):
        assert same(first.real, second.real)
        assert same(first.dream.frame, second.dream.frame)


def test_rewinding_ends_with_what_is_kept() -> None:
    one = session()
    with pytest.raises(UserError, match="nothing earlier"):
        one.rewind()


def test_a_game_that_cannot_save_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    one = dreaming()
    assert isinstance(one.world, LiveWorld)
    monkeypatch.setattr(one.world.game, "can_save", False)
    one.reset()
    play_on(one, UP, UP)
    with pytest.raises(UserError, match="cannot save its state"):
        one.rewind()
    assert one.every_action().truths is None


@pytest.mark.parametrize("steps", [1, 3])
def test_all_actions_show_dream_and_truth_and_change_nothing(steps: int) -> None:
    one = dreaming(seed=4)
    before = one.moment
    grid = one.every_action(steps)
    assert grid.dreams.shape == (5, 24, 24, 3)
    assert grid.truths is not None
    assert one.moment is before
    for action in range(5):
        other = dreaming(seed=4)
        play_on(other, *[action] * steps)
        assert same(other.moment.dream.frame, grid.dreams[action])
        assert same(other.moment.real, grid.truths[action])
    play_on(one, RIGHT)
    assert same(one.moment.real, dreaming_then(RIGHT).moment.real), "the real game stands where it stood"


def dreaming_then(action: int) -> Session:
    one = dreaming(seed=4)
    play_on(one, action)
    return one


def test_all_actions_need_ground_and_a_number_of_steps() -> None:
    with pytest.raises(UserError, match="still watches"):
        session().every_action()
    with pytest.raises(UserError, match=f"1 to {MOST_STEPS}"):
        dreaming().every_action(0)


def test_switching_keeps_the_real_game_and_grounds_the_new_dream() -> None:
    one = dreaming(seed=4)
    play_on(one, UP, UP, UP)
    frames = one.moment.frames
    for name, shape in (
        ("net", (24, 24, 3)),
        ("gray", (84, 84, 1)),
        ("copy-last-frame", (24, 24, 3)),
        ("still", (24, 24, 3)),
    ):
        one.switch(name)
        assert one.name == name
        assert one.moment.frames is frames
        assert one.moment.dream.frame.shape == shape
        assert one.moment.dream.state is not None, "enough real frames are kept for every predictor"
        assert same(one.moment.real, one.moment.dream.frame)
        play_on(one, NOOP)
        frames = one.moment.frames
    assert one.moment.number == 8


def freeway() -> Predictor:
    """A small network for Freeway, gray 84×84, with random weights."""
    config = MlpConfig(actions=3, frame=(84, 84, 1), hidden=(6, 8, 10, 7))
    predictor = build_predictor(config, torch.Generator().manual_seed(1)).eval()
    predictor.about = About(env_id="ALE/Freeway-v5", view="gray84", action_meanings=("NOOP", "UP", "DOWN"))
    return predictor


def test_switching_to_another_game_begins_that_game() -> None:
    one = Session(Cast({"still": StandStill, "freeway": freeway}))
    play_on(one, RIGHT)
    one.hold(RIGHT)
    one.switch("freeway")
    assert one.stage.env_id == "ALE/Freeway-v5"
    assert one.moment.number == 0
    one.step()
    assert one.moment.action == 0, "a key held for the other game means nothing here"
    play_on(one, UP, UP, UP)
    frames = one.moment.frames
    one.rewind()
    one.rewind()
    play_on(one, UP, UP)
    assert all(map(np.array_equal, frames, one.moment.frames)), "Atari is rewound bit for bit"
    assert one.moment.reading is not None
    assert one.every_action().dreams.shape == (3, 84, 84, 1)
    one.switch("still")
    assert one.stage.env_id == "acvp/Toy-v0"
    play_on(one, RIGHT)


def test_copy_last_frame_stands_still() -> None:
    one = dreaming()
    one.switch("copy-last-frame")
    frame = one.moment.dream.frame
    play_on(one, UP, RIGHT, UP)
    assert same(one.moment.dream.frame, frame)


def test_a_name_that_is_not_there() -> None:
    one = dreaming()
    with pytest.raises(UserError, match="still, net, gray, copy-last-frame"):
        one.switch("nobody")
    assert one.name == "still"


def test_a_finished_game_waits_for_a_human_and_not_for_an_agent() -> None:
    one = dreaming()
    one.set_fps(60)
    while not one.moment.over:
        play_on(one, UP)
    over = one.moment
    one.step()
    assert one.moment is over
    one.change_driver()
    one.step()
    assert (one.moment.number, one.moment.over) == (0, False)
    numbers = []
    for _ in range(3):
        one.step()
        numbers.append(one.moment.number)
    assert numbers == [1, 2, 3]


def test_an_agent_of_another_game_is_refused_and_the_human_plays_on() -> None:
    def policy(meanings: tuple[str, ...], rng: np.random.Generator) -> Player:
        raise UserError("this agent plays another game")

    one = session(policy=policy)
    with pytest.raises(UserError, match="another game"):
        one.change_driver()
    assert one.driver == "human"
    play_on(one, UP)
    assert one.moment.action == UP


def test_every_reset_is_another_game_and_the_same_one_again_by_seed() -> None:
    one, other = session(seed=5), session(seed=5)
    for each in (one, other):
        each.reset()
    assert same(one.moment.real, other.moment.real)
    assert not same(one.moment.real, session(seed=5).moment.real)


def test_a_game_of_a_module_is_not_imported_for_a_predictor() -> None:
    with pytest.raises(UserError, match="--import some_module"):
        Session(Cast({"x": lambda: network(env_id="some_module:Toy-v0")}))


def test_a_predictor_of_another_version_of_the_game() -> None:
    predictor = network()
    predictor.actions = 4
    with pytest.raises(UserError, match="another version"):
        Session(Cast({"x": lambda: predictor}))


def test_a_predictor_that_says_nothing_about_itself() -> None:
    predictor = network()
    predictor.about = None
    with pytest.raises(UserError, match="acvp train"):
        Session(Cast({"x": lambda: predictor}))


def test_a_spoilt_dream_is_shown_as_it_is() -> None:
    predictor = network()
    for weight in predictor.parameters():
        weight.data.fill_(float("nan"))
    one = Session(Cast({"x": lambda: predictor}))
    play_on(one, UP, UP)
    assert one.moment.dream.frame.dtype == np.uint8


def test_a_clip_holds_what_was_played() -> None:
    one = dreaming(seed=4)
    one.record()
    play_on(one, UP, LEFT, DOWN)
    with pytest.raises(UserError, match="end it first"):
        one.switch("net")
    data = one.end_clip("mp4")
    with av.open(io.BytesIO(data), "r") as container:
        pictures = [frame.to_ndarray(format="rgb24") for frame in container.decode(video=0)]
    assert len(pictures) == 4
    assert pictures[0].shape[1] > 3 * pictures[0].shape[0] / 2, "three panels beside each other"
    one.record()
    play_on(one, UP, UP)
    gif = Image.open(io.BytesIO(one.end_clip("gif")))
    assert gif.n_frames == 3  # type: ignore[attr-defined]


def test_clips_that_cannot_be() -> None:
    one = dreaming()
    with pytest.raises(UserError, match="begin one"):
        one.end_clip("mp4")
    one.record()
    with pytest.raises(UserError, match="mp4 or gif"):
        one.end_clip("avi")


@pytest.mark.parametrize("action", [-1, 5, 10**9])
def test_actions_that_are_not_there(action: int) -> None:
    with pytest.raises(UserError, match="0 to 4"):
        session().hold(action)


@pytest.mark.parametrize("fps", [0.0, -1.0, 61.0, 1e300])
def test_speeds_that_are_not_possible(fps: float) -> None:
    with pytest.raises(UserError, match="1 to 60"):
        session().set_fps(fps)


def test_what_is_kept_for_rewinding_stays_within_its_memory() -> None:
    one = dreaming(rewind_bytes=100_000)
    one.change_driver()
    sizes = []
    for _ in range(300):
        one.step()
        sizes.append(one._timeline.size)
    assert max(sizes) <= 100_000
    assert len(one._timeline) >= 1


def test_a_cast_is_loaded_when_asked_for() -> None:
    loaded = []

    def load() -> StandStill:
        loaded.append(1)
        return StandStill()

    group = Cast({"one": load, "two": load})
    Session(group)
    Session(group)
    assert len(loaded) == 1, "shared by all sessions"


def test_an_empty_cast() -> None:
    with pytest.raises(UserError, match="--run"):
        Cast({})


def test_the_cast_ends_with_the_baseline() -> None:
    assert cast().names == ("still", "net", "gray", "copy-last-frame")
