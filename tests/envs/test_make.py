import sys
from pathlib import Path

import gymnasium
import numpy as np
import pytest
from gymnasium import spaces

from acvp.envs import Game, load_module, make_game
from acvp.envs.atari import atari_games, atari_id
from acvp.errors import UserError
from tests.envs.conftest import Register


@pytest.mark.parametrize(
    ("spelling", "canonical"),
    [
        ("freeway", "ALE/Freeway-v5"),
        ("Freeway", "ALE/Freeway-v5"),
        ("Freeway-v0", "ALE/Freeway-v5"),
        ("Freeway-v4", "ALE/Freeway-v5"),
        ("FreewayNoFrameskip-v4", "ALE/Freeway-v5"),
        ("FreewayDeterministic-v4", "ALE/Freeway-v5"),
        ("ALE/Freeway-v5", "ALE/Freeway-v5"),
        ("ms_pacman", "ALE/MsPacman-v5"),
        ("mspacman", "ALE/MsPacman-v5"),
        ("MsPacman", "ALE/MsPacman-v5"),
        ("MsPacmanNoFrameskip-v4", "ALE/MsPacman-v5"),
        ("space_invaders", "ALE/SpaceInvaders-v5"),
        ("spaceinvaders", "ALE/SpaceInvaders-v5"),
        ("qbert", "ALE/Qbert-v5"),
        ("seaquest", "ALE/Seaquest-v5"),
        ("tic_tac_toe_3d", "ALE/TicTacToe3D-v5"),
        ("pitfall2", "ALE/Pitfall2-v5"),
        ("Blackjack-v1", None),  # Gymnasium's own card game, not the Atari one
        ("CartPole-v1", None),
        ("acvp/Toy-v0", None),
        ("ALE/Freeway-ram-v5", None),
        ("Freeway-v7", None),
        ("freeways", None),
        ("", None),
    ],
)
def test_every_spelling_of_an_atari_game_is_one_game(spelling: str, canonical: str | None) -> None:
    assert atari_id(spelling) == canonical


def test_every_game_of_the_registry_answers_to_its_bare_name() -> None:
    assert len(atari_games()) > 100
    assert all(atari_id(rom) == canonical == atari_id(canonical) for canonical, rom in atari_games().items())


def test_a_third_party_id_wins_over_an_atari_spelling(register: Register) -> None:
    assert make_game(register("Tetris-v0")).frame_shape == (6, 8, 3)


def test_atari_settings_are_the_papers() -> None:
    with make_game("freeway") as game:
        assert game.env_id == "ALE/Freeway-v5"
        assert game.settings == {"sticky": 0.0, "frame_skip": 4, "max_steps": None, "import_module": None}
        assert game.frame_shape == (210, 160, 3)
        assert game.action_meanings == ("NOOP", "UP", "DOWN")
        assert set(game.versions) == {"ale-py", "gymnasium", "numpy"}
        assert "ALE/Freeway-v5 210×160, actions NOOP UP DOWN, frame_skip=4, no running episode" in repr(game)


@pytest.mark.parametrize(("name", "actions"), [("seaquest", 18), ("space_invaders", 6), ("qbert", 6), ("ms_pacman", 9)])
def test_action_sets_are_minimal(name: str, actions: int) -> None:
    assert len(make_game(name).action_meanings) == actions


def test_settings_rebuild_the_game() -> None:
    game = make_game("toy", sticky=0.5, frame_skip=2, max_steps=7)
    twin = make_game(game.env_id, **game.settings)  # type: ignore[arg-type]
    assert (twin.env_id, twin.settings) == (game.env_id, game.settings)
    assert game.env_id == "acvp/Toy-v0"


@pytest.mark.parametrize("shape", [(6, 8, 3), (6, 8, 1), (6, 8)])
def test_color_and_gray_observations_become_rgb_frames(register: Register, shape: tuple[int, ...]) -> None:
    game = make_game(register(shape=shape))
    first = game.reset(0)
    second = game.step(1).frame
    assert first.shape == second.shape == game.frame_shape == (6, 8, 3)
    assert first.dtype == second.dtype == np.uint8
    assert (first == 0).all()  # although the env reuses its buffer
    assert (second == 1).all()
    assert second.flags.writeable


def test_actions_count_from_zero_whatever_the_env_does(register: Register) -> None:
    game = make_game(register(actions=spaces.Discrete(3, start=-1)))
    game.reset(0)
    assert game.action_meanings == ("0", "1", "2")
    assert [game.step(action).reward for action in (0, 1, 2)] == [-1, 0, 1]


@pytest.mark.parametrize("by_prefix", [False, True])
def test_a_module_can_register_the_id(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, register: Register, by_prefix: bool
) -> None:
    module = f"my_games_{by_prefix}"
    source = (
        f"import gymnasium\ngymnasium.register('my/Game{by_prefix}-v0', entry_point='tests.envs.pixel_env:PixelEnv')"
    )
    (tmp_path / f"{module}.py").write_text(source)
    monkeypatch.syspath_prepend(tmp_path)
    env_id = f"my/Game{by_prefix}-v0"

    def make() -> Game:
        return make_game(f"{module}:{env_id}") if by_prefix else make_game(env_id, import_module=module)

    with pytest.raises(UserError, match=f"comes from the module '{module}'.*--import {module}"):
        make()
    assert module not in sys.modules  # it may have been named by a file
    load_module(module)
    game = make()
    assert game.env_id == env_id
    assert game.settings["import_module"] == module
    del sys.modules[module]


@pytest.mark.parametrize(
    ("env_id", "message"),
    [
        ("freewy", "unknown environment 'freewy': did you mean freeway"),
        ("ALE/Freway-v5", "did you mean ALE/Freeway-v5"),
        ("Freeway-v7", "did you mean"),
        ("no such thing at all", "--import MODULE"),
        ("CartPole-v1", r"not images but float32 of shape \(4,\).*AddRenderObservation"),
        ("Blackjack-v1", "are Tuple.*not one uint8 image"),
        ("Pendulum-v1", "not images"),
    ],
)
def test_an_env_that_does_not_fit_is_refused_in_one_line(env_id: str, message: str) -> None:
    with pytest.raises(UserError, match=message) as caught:
        make_game(env_id)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize("shape", [(3, 6, 8), (6, 8, 4), (128,)])
def test_uint8_that_is_no_image_is_refused(register: Register, shape: tuple[int, ...]) -> None:
    with pytest.raises(UserError, match="not images but uint8 of shape"):
        make_game(register(shape=shape))


@pytest.mark.parametrize("actions", [spaces.Box(-np.inf, 1, (2,)), spaces.MultiDiscrete([2, 2])])
def test_actions_that_are_not_a_list_are_refused(register: Register, actions: spaces.Space[object]) -> None:
    with pytest.raises(
        UserError, match=r"the actions of test/Pixel-v0 are (Box.*without finite|Multi.*neither Discrete)"
    ):
        make_game(register(actions=actions))


def test_a_missing_module_is_named() -> None:
    with pytest.raises(UserError, match=r"cannot import module 'no_such_module'.*PYTHONPATH"):
        load_module("no_such_module")


def test_an_env_that_cannot_be_made_says_why(register: Register) -> None:
    env_id = register()
    gymnasium.registry[env_id].entry_point = "no_such_module:Env"
    with pytest.raises(UserError, match="test/Pixel-v0 cannot be made: No module named 'no_such_module'"):
        make_game(env_id)


@pytest.mark.parametrize(
    "options", [{"sticky": 1.0}, {"sticky": -0.1}, {"frame_skip": 0}, {"max_steps": 0}, {"sticky": float("nan")}]
)
def test_options_out_of_range_are_refused_with_their_value(options: dict[str, float]) -> None:
    name, value = next(iter(options.items()))
    with pytest.raises(UserError, match=f"{name} is {value}"):
        make_game("toy", **options)  # type: ignore[arg-type]
