"""Who plays when you do not, and the baseline of the game that is played."""

from __future__ import annotations

import re
from importlib.resources import files

import numpy as np

from acvp.agents.agent import agent_policy, load_agent
from acvp.envs import make_game
from acvp.envs.toy import TOY_ID
from acvp.figures import GIVEN, PREDICTED
from acvp.loaded import COPY_LAST, best_packaged, better_packaged, packaged
from acvp.play.model_pool import ModelPool, make_model_pool
from acvp.play.players import Players
from acvp.play.protocol import facts
from acvp.play.session import Session
from tests.play.sessions import StandStill, atari_pool, make_session, model_pool, network


def test_the_packaged_agent_of_the_game_plays_by_default() -> None:
    session, game = Session(atari_pool()), make_game("seaquest")
    assert facts(session)["policy"] == "agent:seaquest"
    session.change_driver()
    player = agent_policy(load_agent("seaquest"))(game.action_meanings, np.random.default_rng(0))
    frame, actions = game.reset(0), []
    for _ in range(30):
        actions.append(player(frame))
        frame = game.step(actions[-1]).frame
        session.step()
        assert session.state.action == actions[-1]
    assert session.state.real is not None
    assert np.array_equal(session.state.real, frame)
    assert len(set(actions)) > 1, "a constant action would not tell the agent from others"
    session.close()


def test_games_without_a_packaged_agent_are_played_at_random() -> None:
    assert Players().name(TOY_ID) == "sticky-random"
    assert make_session().policy_name == "sticky-random"


def test_a_named_policy_plays_every_game() -> None:
    players = Players("random")
    assert players.name("ALE/Freeway-v5") == players.name(TOY_ID) == "random"
    assert players.policy(TOY_ID) is players.policy("ALE/Freeway-v5")


def test_the_best_packaged_predictor_of_every_game_comes_first() -> None:
    pool, best = make_model_pool(()), best_packaged()
    games = {pool.game_of(name) for name in packaged()}
    better = {name: better_packaged(name) for name in packaged()}
    assert better["ms_pacman"] == "ms_pacman-objects" in best
    assert [name for name in packaged() if better[name] is None] == list(best)
    assert pool.names[: len(games)] == best
    assert {pool.game_of(name) for name in best} == games
    assert set(pool.names) == {*packaged(), COPY_LAST}
    assert make_model_pool(("qbert",)).names[:2] == ("qbert", best[0]), "what is asked for comes before"


def test_copy_last_frame_is_of_the_game_that_is_played() -> None:
    pool = ModelPool({"toy": network, "seaquest": atari_pool().get("copy").predictor.eval})
    session = Session(pool)
    session.switch("seaquest")
    session.switch("copy-last-frame")
    assert session.context.env_id == "ALE/Seaquest-v5"
    assert session.state.imagined.frame.shape == (210, 160, 3)
    session.switch("toy")
    session.switch("copy-last-frame")
    assert session.context.env_id == TOY_ID
    session.close()


def test_copy_last_frame_has_the_view_of_the_predictor_before_it() -> None:
    session = Session(model_pool())
    session.switch("gray")
    session.switch("copy-last-frame")
    assert session.state.imagined.frame.shape == (84, 84, 1)


def test_wrong_pixels_of_exact_colors_are_all_that_differ() -> None:
    class Colors(StandStill):
        names_colors = True

        def go_on(self, known: np.ndarray, action: int) -> tuple[np.ndarray, np.ndarray]:
            frame = known.copy()
            frame[0, 0] ^= 2  # by less than would count without a palette
            return frame, frame

    class Blurred(Colors):
        names_colors = False

    for kind, off_by_two in ((Colors, 1), (Blurred, 0)):
        session = Session(ModelPool({"x": kind}))
        session.step()
        session.resync()
        session.step()
        metrics, real = session.state.metrics, session.state.real
        assert metrics is not None
        assert real is not None
        far = (np.abs(real.astype(int) - session.state.imagined.frame) > 8).any(-1).sum()
        assert metrics.wrong_pixels == far + off_by_two


def test_dreams_have_one_color_on_the_page_and_in_clips_and_reports() -> None:
    style = files("acvp.play").joinpath("page/style.css").read_text()
    for name, color in (("good", GIVEN), ("dream", PREDICTED)):
        dark = re.search(rf"--{name}: light-dark\(#\w+, #(\w+)\)", style)
        assert dark is not None
        assert tuple(bytes.fromhex(dark[1])) == color
