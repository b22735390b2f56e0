import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from acvp.envs import Game, SavedState, Step, make_game
from acvp.errors import UserError
from tests.envs.conftest import Register


def test_an_action_is_held_for_frame_skip_steps_and_rewards_add_up(register: Register) -> None:
    game = make_game(register(), frame_skip=4)
    game.reset(0)
    step = game.step(2)
    assert (step.frame == 4).all()
    assert step.reward == 8


def test_the_skip_stops_at_the_end(register: Register) -> None:
    game = make_game(register(), frame_skip=4)
    game.reset(0)
    steps = [game.step(1) for _ in range(3)]
    assert [step.terminated for step in steps] == [False, False, True]
    assert steps[-1].reward == 2
    assert (steps[-1].frame == 10).all()


@pytest.mark.parametrize(("own", "asked", "length"), [(4, None, 4), (4, 6, 6), (6, 4, 4), (None, 3, 3)])
def test_max_steps_replaces_the_envs_own_limit(
    register: Register, own: int | None, asked: int | None, length: int
) -> None:
    game = make_game(register(max_steps=own), max_steps=asked)
    game.reset(0)
    steps = [game.step(0) for _ in range(length)]
    assert [step.truncated for step in steps] == [False] * (length - 1) + [True]
    assert not steps[-1].terminated


def test_an_end_at_the_limit_is_an_end_and_not_a_cut(register: Register) -> None:
    game = make_game(register(), max_steps=10)
    game.reset(0)
    last = [game.step(0) for _ in range(10)][-1]
    assert (last.terminated, last.truncated) == (True, False)


def test_sticky_actions_repeat_at_their_rate_and_follow_the_seed(register: Register) -> None:
    game = make_game(register(), sticky=0.25)

    def repeats(seed: int) -> list[bool]:
        kept, last = [], 0.0
        for _ in range(60):
            game.reset(seed)
            seed += 1000
            for _ in range(10):
                reward = game.step(1 if last == 2 else 2).reward  # PixelEnv pays the number of the action executed
                kept.append(reward == last)
                last = reward
            last = 0.0
        return kept

    assert repeats(0) == repeats(0)
    assert repeats(0) != repeats(1)
    assert np.mean(repeats(0)) == pytest.approx(0.25, abs=0.05)


def test_no_action_of_the_episode_before_is_repeated(register: Register) -> None:
    game = make_game(register(), sticky=0.9)
    firsts = set()
    for seed in range(20):
        game.reset(seed)
        firsts.add(game.step(1).reward)  # PixelEnv pays the number of the action executed
        for _ in range(5):
            game.step(2)
    assert firsts == {0.0, 1.0}


def test_stepping_without_an_episode_is_a_loud_mistake(register: Register) -> None:
    game = make_game(register(), max_steps=1)
    with pytest.raises(RuntimeError, match="no running episode"):
        game.step(0)
    game.reset(0)
    game.step(0)
    with pytest.raises(RuntimeError, match="no running episode"):
        game.step(0)


@pytest.mark.parametrize("action", [-1, 3, 99])
def test_an_action_out_of_range_is_refused(action: int) -> None:
    game = make_game("freeway")
    game.reset(0)
    with pytest.raises(UserError, match=f"action {action} is out of range: ALE/Freeway-v5 has 0 NOOP, 1 UP, 2 DOWN"):
        game.step(action)


def test_numpy_integers_are_actions_and_floats_are_not(register: Register) -> None:
    game = make_game(register())
    game.reset(0)
    assert game.step(np.int64(2)).reward == 2  # type: ignore[arg-type]
    with pytest.raises(TypeError):
        game.step(1.0)  # type: ignore[arg-type]


def test_a_game_that_cannot_save_says_what_it_needs(register: Register) -> None:
    game = make_game(register())
    game.reset(0)
    assert not game.can_save
    assert game.lives == -1
    assert game.color_keys() is None
    assert game.controlled_position() is None
    with pytest.raises(UserError, match=r"test/Pixel-v0 cannot save its state: its env needs save_state"):
        game.save()


def test_an_env_that_breaks_its_word_about_frames_is_named(register: Register, monkeypatch: pytest.MonkeyPatch) -> None:
    game = make_game(register())
    monkeypatch.setattr("tests.envs.pixel_env.PixelEnv.reset", lambda self, seed: (np.zeros((2, 2, 3), np.uint8), {}))
    with pytest.raises(UserError, match=r"returned uint8 of shape \(2, 2, 3\) where .* \(6, 8, 3\): fix the env"):
        game.reset(0)


def test_a_state_of_another_game_is_refused() -> None:
    toy, freeway = make_game("toy"), make_game("freeway")
    toy.reset(0)
    with pytest.raises(UserError, match="the saved state is of acvp/Toy-v0, this game is ALE/Freeway-v5"):
        freeway.restore(toy.save())


def test_a_state_without_a_generator_does_not_fit_a_sticky_game() -> None:
    plain, sticky = make_game("toy"), make_game("toy", sticky=0.5)
    plain.reset(0)
    with pytest.raises(UserError, match="saved without sticky actions"):
        sticky.restore(plain.save())


def test_a_sticky_game_continues_after_restore_as_if_it_had_never_branched() -> None:
    game = make_game("toy", sticky=0.5)
    game.reset(3)
    for action in (1, 2, 3):
        game.step(action)
    state = SavedState.from_bytes(game.save().to_bytes())
    actions = [4, 1, 3, 2, 4, 4, 1] * 3
    straight = [game.step(action).frame for action in actions]
    game.restore(state)
    assert all(np.array_equal(game.step(action).frame, frame) for action, frame in zip(actions, straight, strict=True))


def test_the_limit_counts_on_after_restore() -> None:
    game = make_game("toy", max_steps=5)
    game.reset(0)
    game.step(0)
    game.step(0)
    state = game.save()
    for _ in range(3):
        game.step(0)
    game.restore(state)
    assert [game.step(0).truncated for _ in range(3)] == [False, False, True]


_states = st.builds(
    SavedState,
    env_id=st.text(),
    elapsed=st.integers(0, 10**9),
    ended=st.booleans(),
    lives=st.integers(-1, 99),
    last_action=st.integers(0, 17),
    generator=st.just(None)
    | st.integers(0, 99).map(lambda seed: dict(np.random.default_rng(seed).bit_generator.state)),
    payload=st.binary(),
)


@given(_states)
def test_a_state_survives_bytes(state: SavedState) -> None:
    assert SavedState.from_bytes(state.to_bytes()) == state
    assert f"{len(state.payload)} bytes" in repr(state)


@given(_states, st.data())
def test_a_damaged_state_is_refused(state: SavedState, data: st.DataObject) -> None:
    whole = state.to_bytes()
    cut = data.draw(st.integers(0, len(whole) - 1))
    with pytest.raises(UserError, match=r"not a saved game state|damaged"):
        SavedState.from_bytes(whole[:cut])


@pytest.mark.parametrize("can_save", [True, False])
@pytest.mark.parametrize("sticky", [0.0, 0.5])
def test_branch_yields_what_each_plan_leads_to_and_leaves_no_trace(*, sticky: float, can_save: bool) -> None:
    plans, later = [[0, 0], [1, 4], [3]], [4, 2, 1, 3] * 5

    def seen(step: Step) -> tuple[bytes, float, bool, bool]:
        return step.frame.tobytes(), step.reward, step.terminated, step.truncated

    def play(game: Game, actions: list[int]) -> list[tuple[bytes, float, bool, bool]]:
        return [seen(game.step(action)) for action in actions]

    with make_game("toy", sticky=sticky) as game, make_game("toy", sticky=sticky) as other:
        for each in (game, other):
            each.reset(5)
            if each is game:
                each.can_save = can_save  # False: it is played again from its seed
            play(each, [1, 2, 3])
        for plan, steps in zip(plans, game.branch(plans), strict=True):
            game.can_save = True
            assert game.save() == other.save()  # also between two plans
            game.can_save = can_save
            expected = other.save()
            assert [seen(step) for step in steps] == play(other, plan)
            other.restore(expected)
        assert play(game, later) == play(other, later)


def test_branch_stops_a_plan_where_the_episode_ends() -> None:
    with make_game("toy", max_steps=5) as game:
        game.reset(0)
        for _ in range(3):
            game.step(0)
        futures = list(game.branch([[1] * 4, [2]]))
        assert [[step.truncated for step in steps] for steps in futures] == [[False, True], [False]]
        assert [game.step(0).truncated for _ in range(2)] == [False, True]


def test_branch_comes_back_when_an_action_is_refused() -> None:
    with make_game("toy") as game:
        game.reset(0)
        before = game.save()
        with pytest.raises(UserError, match="action 9 is out of range"):
            list(game.branch([[1, 9]]))
        assert game.save() == before


def test_a_game_that_does_not_follow_from_its_seed_is_named(register: Register) -> None:
    game = make_game(register(), max_steps=5)
    game.reset(0)
    for _ in range(3):
        game.step(0)
    game.limit = 2  # as if it ended earlier by chance
    with pytest.raises(UserError, match=r"test/Pixel-v0 ended earlier when it was played again"):
        list(game.branch([[1]]))
