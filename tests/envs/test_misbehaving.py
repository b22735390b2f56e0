"""A user's env or policy that misbehaves ends a command in one line that names it, with exit code 2."""

from __future__ import annotations

from pathlib import Path
from typing import ClassVar

import numpy as np
import pytest

from acvp.cli.main import main
from acvp.data.policies import load_policy, show
from acvp.envs import make_game
from acvp.errors import UserError
from tests.envs.misbehaving import MISBEHAVING, SAVING, env_id

MEANINGS = ("A", "B")
FRAME = np.zeros((6, 8, 3), np.uint8)


def collect(name: str, out: Path, *more: str) -> int:
    return main(["collect", "--env-id", env_id(name), "--frames", "20", "--out", str(out), *more])


@pytest.mark.parametrize("name", MISBEHAVING)
def test_collect_says_what_is_wrong_with_an_env(name: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert collect(name, tmp_path / "store") == 2
    (line,) = capsys.readouterr().err.splitlines()
    assert line.startswith(f"acvp: {env_id(name)}: ")
    assert MISBEHAVING[name][2] in line


@pytest.mark.parametrize("name", SAVING)
def test_what_only_some_verbs_call_is_checked_too(name: str) -> None:
    with make_game(env_id(name)) as game:
        game.reset(1)
        with pytest.raises(UserError) as caught:
            _ = game.restore(game.save()), game.controlled_position()
    assert str(caught.value).startswith(f"{env_id(name)}: ")
    assert SAVING[name][2] in str(caught.value)


@pytest.mark.parametrize("name", ["Good", "Noisy", "Saving"])
@pytest.mark.filterwarnings("ignore:.*a warning")
def test_an_env_that_behaves_is_recorded_whatever_it_prints(name: str, tmp_path: Path) -> None:
    assert collect(name, tmp_path / "store") == 0


def test_a_right_env_comes_through_unchanged() -> None:
    with make_game(env_id("Saving")) as game:
        game.reset(1)
        assert game.lives == 3
        assert game.action_meanings == ("A", "B", "C")
        state = game.save()
        step = game.step(2)
        assert (step.reward, step.terminated, step.truncated) == (1.0, False, False)
        assert (game.restore(state) == 0).all()
        assert game.controlled_position() == (1.0, 2.0)


def test_a_wrapper_with_fewer_actions_need_not_name_them() -> None:
    with make_game(env_id("FewerActions")) as game:
        assert game.action_meanings == ("0", "1")


def fails_at_once(meanings: tuple[str, ...], rng: np.random.Generator) -> object:
    raise SystemExit(3)


def gives_no_player(meanings: tuple[str, ...], rng: np.random.Generator) -> object:
    return None


def fails_later(meanings: tuple[str, ...], rng: np.random.Generator) -> object:
    return lambda frame: 1 // 0


def chooses_text(meanings: tuple[str, ...], rng: np.random.Generator) -> object:
    return lambda frame: "UP"


def chooses_a_numpy_integer(meanings: tuple[str, ...], rng: np.random.Generator) -> object:
    return lambda frame: np.int64(1)


@pytest.mark.parametrize(
    ("policy", "message"),
    [
        ("fails_at_once", r"raised SystemExit: 3 \(test_misbehaving\.py, line "),
        ("gives_no_player", "should return a function from a frame to an action, not None"),
        ("fails_later", r"raised ZeroDivisionError: .* \(test_misbehaving\.py, line "),
        ("chooses_text", "chose 'UP': an action is a whole number"),
    ],
)
def test_a_policy_that_fails_is_named(policy: str, message: str) -> None:
    with pytest.raises(UserError, match=f"policy '{__name__}:{policy}' {message}"):
        load_policy(f"{__name__}:{policy}")(MEANINGS, np.random.default_rng(0))(FRAME)


def test_a_policy_may_choose_with_numpy() -> None:
    policy = load_policy(f"{__name__}:chooses_a_numpy_integer")
    assert policy(MEANINGS, np.random.default_rng(0))(FRAME) == 1


@pytest.mark.parametrize(
    ("source", "message"),
    [
        ("raise SystemExit(0)", "SystemExit: 0"),
        ("def f(: pass", "SyntaxError: "),
        ("raise BaseException('odd\\n\\x1b[31mred')", "BaseException: odd \\x1b[31mred"),
        ("import no_such_module_at_all", "ModuleNotFoundError: "),
    ],
)
def test_a_module_that_cannot_be_imported_is_named(
    source: str, message: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "my_broken_module.py").write_text(source)
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr("sys.path", [str(tmp_path)])
    arguments = ["collect", "--env-id", "toy", "--out", "x"]
    for option in (["--import", "my_broken_module"], ["--policy", "my_broken_module:f"]):
        assert main([*arguments, *option]) == 2
        (line,) = capsys.readouterr().err.splitlines()
        assert "my_broken_module" in line
        assert message in line


class Watcher:
    """A player that keeps the actions it is shown."""

    shown: ClassVar[list[int]] = []

    def __call__(self, frame: object) -> int:
        return 0

    def observe(self, frame: object, action: int) -> None:
        Watcher.shown.append(action)


def watches(names: tuple[str, ...], rng: np.random.Generator) -> Watcher:
    return Watcher()


def test_a_player_of_ones_own_sees_the_frames_after_which_it_is_not_asked() -> None:
    show(load_policy(f"{__name__}:watches")(MEANINGS, np.random.default_rng(0)), FRAME, 3)
    assert Watcher.shown == [3]
    show(load_policy(f"{__name__}:chooses_a_numpy_integer")(MEANINGS, np.random.default_rng(0)), FRAME, 3)  # needs none
